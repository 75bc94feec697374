"""``log_completions``: what each call sent and got comes to the client as an event, and the SDK writes it to its own disk."""

import json
import os

from harness import END, play, same, shell, within
from openhands.sdk import LLM, Agent, Tool
from pydantic import SecretStr

KEY = "scenario-key-of-the-model"


def run(lab):
    server = lab.serve()
    client = lab.client(server)
    folder = lab.folder / "completions"

    def agent(script, **more):
        llm = LLM(model="openai/scripted", base_url=f"{lab.model.url}/{script}/v1", api_key=SecretStr(KEY), usage_id="agent",
                  num_retries=1, retry_min_wait=0, retry_max_wait=1, timeout=60, log_completions=True,
                  log_completions_folder=str(folder), input_cost_per_token=0.001, output_cost_per_token=0.001)
        return Agent(llm=llm, tools=[Tool(name="terminal")], **more)

    seen = []
    lab.model.set_script("logged", [shell("echo token is $TOKEN"), END])
    conversation = client.converse([], agent=agent("logged"), callbacks=[seen.append], secrets={"TOKEN": "s3cret-of-the-user"})
    lab.scripts[str(conversation.id)] = "logged"
    same(client.run(conversation, f"My key is {KEY}, use $TOKEN"), "finished", "status")

    # the client wrote one file a call, named and shaped as if it had made the call itself
    def files():
        return sorted(folder.glob("*.json")) if folder.is_dir() else []

    def agents_own():
        return [f for f in files() if json.loads(f.read_text()).get("tools")]

    own = within(10, "two logs of the agent", lambda: len(agents_own()) >= 2 and agents_own())
    same(len(own), 2, "logs of the agent")
    first, last = (json.loads(path.read_text()) for path in own)
    assert own[0].name.startswith("openai__scripted-"), own[0].name
    for log in (first, last):
        for member in ("messages", "tools", "kwargs", "response", "cost", "timestamp", "latency_sec", "usage_summary", "context_window"):
            assert member in log, (member, list(log))
    same(first["messages"][0]["role"], "system", "first role")
    assert any(tool["function"]["name"] == "terminal" for tool in first["tools"]), first["tools"]
    call = first["response"]["choices"][0]["message"]["tool_calls"][0]["function"]
    same((call["name"], json.loads(call["arguments"])["command"]), ("terminal", "echo token is $TOKEN"), "the call")
    same(len(last["messages"]), len(first["messages"]) + 2, "the history grew")

    # neither the model's key nor the user's secret is in any of it, on either side
    texts = [path.read_text() for path in files()]
    for secret in (KEY, "s3cret-of-the-user"):
        assert not any(secret in text for text in texts), secret

    # the events are stored, as the reference stores them, and come again to whoever reads later
    events = [e for e in client.raw_events(conversation)["items"] if e["kind"] == "LLMCompletionLogEvent"]
    same({e["filename"] for e in events}, {path.name for path in files()}, "stored logs")
    same({(e["model_name"], e["usage_id"], e["source"]) for e in events}, {("openai/scripted", "agent", "environment")}, "labels")
    decoded = [e for e in seen if type(e).__name__ == "LLMCompletionLogEvent"]
    same({e.id for e in decoded}, {e["id"] for e in events}, "events over the socket")
    # the sandbox got no file
    assert not list((server.folder).rglob("openai__scripted-*.json"))

    # a call that fails is logged too
    lab.model.set_script("broken", [{"status": 400, "text": f"no to {KEY}"}])
    broken = client.converse([], agent=agent("broken"))
    lab.scripts[str(broken.id)] = "broken"
    before = set(files())
    broken.send_message("Fail")
    try:
        broken.run(poll_interval=0.2, timeout=60)
    except Exception:
        pass
    failed = within(10, "an error log", lambda: [f for f in set(files()) - before if f.name.endswith("-error.json")])
    log = json.loads(failed[0].read_text())
    same(log["error"]["type"], "LLMBadRequestError", "type of the error")
    assert KEY not in failed[0].read_text()
    assert os.environ.get("LLM_API_KEY") is None


play(run)
