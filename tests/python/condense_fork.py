"""A history that grows too long, one that is condensed on demand, and copies of conversations."""

import httpx
from harness import END, play, same, shell

from openhands.sdk.context.condenser import LLMSummarizingCondenser

SUMMARY = "A scripted title"  # what the scripted model answers to every request without tools


def run(lab):
    client = lab.client()

    def agent(script, **limits):
        agent = client.agent(script)
        condenser = LLMSummarizingCondenser(llm=agent.llm.model_copy(update={"usage_id": "condenser"}), **limits)
        return agent.model_copy(update={"condenser": condenser})

    def conversation(script, turns, **limits):
        lab.model.set_script(script, turns)
        made = client.converse([], agent=agent(script, **limits))
        lab.scripts[str(made.id)] = script
        return made

    long = conversation("long", [shell(f"echo step-{n}") for n in range(5)] + [END], max_size=8, keep_first=2)
    same(client.run(long, "take five steps"), "finished", "status of the long run")
    forgotten = client.events(long, "Condensation")
    same([c.summary for c in forgotten], [SUMMARY], "summaries")
    last = str([r for r in client.asked(long) if r.get("tools")][-1]["messages"])
    assert SUMMARY in last and "step-0" not in last and "take five steps" in last, last
    stats = long.conversation_stats.usage_to_metrics
    same(len(stats["condenser"].token_usages), 1, "calls of the condenser")

    short = conversation("short", [shell("echo kept"), END, shell("echo copied"), END], max_size=100, keep_first=1)
    same(client.run(short, "take a step"), "finished", "status of the short run")
    short.condense()
    same([c.summary for c in client.events(short, "Condensation")], [SUMMARY], "summary on demand")
    same(client.status(short), "finished", "status after condensing")

    copy = short.fork(title="The copy", tags={"team": "red"})
    info = client.http.get(f"/api/conversations/{copy.id}").json()
    same((info["title"], info["tags"], info["execution_status"]), ("The copy", {"team": "red"}, "idle"), "the copy")
    same(info["forked_from_conversation_id"], str(short.id), "where it comes from")
    kinds = ("MessageEvent", "ActionEvent", "ObservationEvent")
    ids = {k: [e.id for e in client.events(short, k)] for k in kinds}
    same({k: [e.id for e in client.events(copy, k)] for k in kinds}, ids, "events of the copy")
    lab.scripts[str(copy.id)] = "short"
    same(client.run(copy, "go on"), "finished", "status of the copy")
    assert "copied" in client.outputs(copy)[-2], client.outputs(copy)
    same({k: [e.id for e in client.events(short, k)] for k in kinds}, ids, "the source is untouched")

    taken = client.http.post(f"/api/conversations/{short.id}/fork", json={"id": str(copy.id)})
    same(taken.status_code, 409, "an id in use")
    lost = client.http.post(f"/api/conversations/{short.id}/fork", json={"from_event_id": "nowhere"})
    same(lost.status_code, 404, "an unknown event")
    plain = client.converse([END])
    try:
        plain.condense()
        raise AssertionError("condensed without a condenser")
    except httpx.HTTPStatusError as error:
        same(error.response.status_code, 409, "condense without a condenser")


play(run)
