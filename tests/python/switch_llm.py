"""A conversation that changes its model: between turns, during a run and by the agent's own tool; the sums stay apart."""

from harness import END, play, same, shell, within


def run(lab):
    server = lab.serve()
    client = lab.client(server)

    def model(script, name, turns):
        """A model of its own: script, and the configuration as a client sends it."""
        lab.model.set_script(script, turns)
        llm = client.agent(script).llm.model_copy(update={"model": f"openai/{name}", "usage_id": name})
        return llm.model_dump(mode="json", exclude_none=True, context={"expose_secrets": True})

    def switch(conversation, path, body):
        answer = client.http.post(f"/api/conversations/{conversation.id}/{path}", json=body)
        return answer.status_code, answer.json()

    def spent(conversation):
        """The models that answered, by usage id; from the server, since state updates carry sums only."""
        stats = client.http.get(f"/api/conversations/{conversation.id}").json()["stats"]["usage_to_metrics"]
        return {usage: [use["model"] for use in metrics["token_usages"]] for usage, metrics in stats.items()}

    # between turns
    conversation = client.converse([shell("echo one"), END])
    script = lab.scripts[str(conversation.id)]
    same(client.run(conversation, "first"), "finished", "status with the first model")
    second = model("second", "second", [shell("echo two"), END, {"text": "Because of the echo."}])
    same(switch(conversation, "switch_llm", {"llm": second}), (200, {"success": True}), "switch_llm")
    conversation.state.refresh_from_server()
    same(conversation.state.agent.llm.model, "openai/second", "the model that the client sees")
    same(client.run(conversation, "second"), "finished", "status with the second model")
    asked = lab.model.requests("second")
    assert "one" in str(asked[0]["messages"]), "the history goes along"
    same(conversation.ask_agent("Why?"), "Because of the echo.", "an answer beside the work")
    sums = spent(conversation)
    same(set(sums), {"agent", "second", "ask-agent-llm"}, "usage ids")
    same(set(sums["second"]), {"openai/second"}, "models of the second usage id")
    conversation.state.refresh_from_server()
    same(conversation.conversation_stats.get_metrics_for_usage("second").model_name, "openai/second", "name of the sums")
    total = conversation.conversation_stats.get_combined_metrics().accumulated_token_usage.prompt_tokens
    parts = [m.accumulated_token_usage.prompt_tokens for m in conversation.conversation_stats.usage_to_metrics.values()]
    same(total, sum(parts), "all sums together")

    # during a run: the call that is out ends as it began
    busy = client.converse([shell("echo slow", delay=1.5), END])
    busy.send_message("go")
    busy.run(blocking=False)
    within(10, "the first call", lambda: client.asked(busy))
    third = model("third", "third", [END])
    same(switch(busy, "switch_llm", {"llm": third}), (200, {"success": True}), "switch during a run")
    client.reaches(busy, "finished")
    same((len(client.asked(busy)), len(lab.model.requests("third"))), (1, 1), "calls of the old and of the new model")

    # saved profiles, by a client and by the agent
    fast = model("fast", "fast", [END, END])
    saved = client.http.post("/api/profiles/fast", json={"llm": fast, "include_secrets": True})
    same(saved.status_code, 201, f"a profile is saved ({saved.text})")
    same(switch(busy, "switch_profile", {"profile_name": "nope"})[0], 404, "an unknown profile")
    same(switch(busy, "switch_profile", {"profile_name": "../x"})[0], 400, "a name that is none")
    same(switch(busy, "switch_profile", {"profile_name": "fast"}), (200, {"success": True}), "switch_profile")
    same(client.run(busy, "more"), "finished", "status with the profile")
    same(spent(busy)["profile:fast"], ["openai/fast"], "the profile's sums")
    lab.model.set_script("chooser", [{"calls": [["switch_llm", {"profile_name": "fast", "reason": "cheaper"}]]}])
    agent = client.agent("chooser").model_copy(update={"include_default_tools": ["FinishTool", "SwitchLLMTool"]})
    chooser = client.converse([], agent=agent)
    same(client.run(chooser, "choose"), "finished", "status after the agent's choice")
    observation = client.events(chooser, "ObservationEvent")[0].observation
    same((observation.profile_name, observation.reason, observation.active_model, observation.is_error),
         ("fast", "cheaper", "openai/fast", False), "what the agent was told")
    assert "- fast" in str(lab.model.requests("chooser")[0]["tools"]), "the tool lists the profiles"

    # a restart keeps the model and its key
    server.stop()
    again = lab.client(lab.serve())
    lab.model.set_script("second", [END])
    answer = again.http.post(f"/api/conversations/{conversation.id}/events",
                             json={"role": "user", "content": [{"type": "text", "text": "third"}], "run": True})
    same(answer.status_code, 200, f"a message after the restart ({answer.text})")
    again.reaches(conversation, "finished")
    info = again.http.get(f"/api/conversations/{conversation.id}").json()
    same(info["agent"]["llm"]["model"], "openai/second", "the model after a restart")
    assert script != "second"


play(run)
