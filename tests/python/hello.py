"""The shortest whole run: a command, a file made and changed, the end; seen by REST, by the socket and by the model."""

from harness import END, play, same


def run(lab):
    client = lab.client()
    path = f"{client.workdir}/note.txt"
    seen = []
    conversation = client.converse([
        {"text": "Looking around.", **{"calls": [["terminal", {"command": "pwd; echo sum=$((19+23))"}]]}},
        {"calls": [["file_editor", {"command": "create", "path": path, "file_text": "alpha\nbeta\n"}]]},
        {"calls": [["file_editor", {"command": "str_replace", "path": path, "old_str": "beta", "new_str": "gamma"}]]},
        {"calls": [["finish", {"message": "The note is written."}]]},
    ], callbacks=[seen.append])
    same(client.run(conversation, "Write the note"), "finished", "status")

    kinds = [type(e).__name__ for e in client.events(conversation)]
    same(kinds.count("SystemPromptEvent"), 1, "system prompts")
    actions = client.events(conversation, "ActionEvent")
    observations = client.events(conversation, "ObservationEvent")
    same([a.tool_name for a in actions], ["terminal", "file_editor", "file_editor", "finish"], "tools of the actions")
    same([(o.action_id, o.tool_call_id) for o in observations], [(a.id, a.tool_call_id) for a in actions], "pairs")
    same(actions[0].thought[0].text, "Looking around.", "thought")
    outputs = client.outputs(conversation)
    assert "sum=42" in outputs[0] and client.workdir in outputs[0], outputs[0]
    same(observations[0].observation.metadata.exit_code, 0, "exit code")

    # the effect is real
    result = conversation.workspace.execute_command(f"cat {path}")
    same((result.exit_code, result.stdout), (0, "alpha\ngamma\n"), "the file")

    # the model was shown its tools and their results
    asked = client.asked(conversation)
    same(len(asked), 4, "model calls")
    offered = {tool["function"]["name"] for tool in asked[0]["tools"]}
    assert {"terminal", "file_editor", "finish", "think"} <= offered, offered
    same(asked[0]["messages"][0]["role"], "system", "first role")
    same(asked[1]["messages"][-1]["role"], "tool", "last role")
    same(asked[1]["messages"][-1]["tool_call_id"], actions[0].tool_call_id, "tool call id")
    assert "sum=42" in str(asked[1]["messages"][-1]["content"])

    # the socket brought every action and observation exactly once, in order
    steps = ("ActionEvent", "ObservationEvent")
    same([e.id for e in seen if type(e).__name__ in steps],
         [e.id for e in client.events(conversation) if type(e).__name__ in steps], "events over the socket")
    answer = client.http.get(f"/api/conversations/{conversation.id}/agent_final_response").json()
    same(answer, {"response": "The note is written."}, "final response")

    # bad calls are the model's to mend: unknown tool, arguments that are no JSON, arguments of a wrong shape
    clumsy = client.converse([{"calls": [["no_such_tool", {}]]}, {"calls": [["terminal", "{broken"]]},
                              {"calls": [["terminal", {"command": 7}]]}, END])
    same(client.run(clumsy, "Stumble"), "finished", "status after bad calls")
    same(len(client.events(clumsy, "AgentErrorEvent")), 3, "agent errors")

    # plain words end the turn
    talk = client.converse([{"text": "Only words."}])
    same(client.run(talk, "Speak"), "finished", "status after words")
    words = [e for e in client.events(talk, "MessageEvent") if e.source == "agent"]
    same([m.llm_message.content[0].text for m in words], ["Only words."], "the agent's words")


play(run)
