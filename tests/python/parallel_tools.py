"""Several calls in one model turn: one batch of actions, results in the order of the calls, one next request."""

from harness import END, play, same


def run(lab):
    client = lab.client()
    path = f"{client.workdir}/batch.txt"
    conversation = client.converse([
        {"text": "All at once.", "calls": [["terminal", {"command": "sleep 0.3; echo slow"}],
                                           ["file_editor", {"command": "create", "path": path, "file_text": "q\n"}],
                                           ["terminal", {"command": "echo quick"}]]},
        END,
    ])
    same(client.run(conversation, "Go"), "finished", "status")
    batch = client.events(conversation, "ActionEvent")[:3]
    same([a.tool_name for a in batch], ["terminal", "file_editor", "terminal"], "tools")
    same(len({a.llm_response_id for a in batch}), 1, "responses behind the batch")
    same([len(a.thought) for a in batch], [1, 0, 0], "only the first action carries the thought")
    results = client.events(conversation, "ObservationEvent")[:3]
    same([o.action_id for o in results], [a.id for a in batch], "order of the results")
    outputs = client.outputs(conversation)
    assert "slow" in outputs[0] and "quick" in outputs[2], outputs
    tail = client.asked(conversation)[1]["messages"][-4:]
    same([m["role"] for m in tail], ["assistant", "tool", "tool", "tool"], "roles of the next request")
    same([c["id"] for c in tail[0]["tool_calls"]], [m["tool_call_id"] for m in tail[1:]], "call ids")
    same(conversation.workspace.execute_command(f"cat {path}").stdout, "q\n", "the file")


play(run)
