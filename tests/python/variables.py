"""``LLM_*`` variables: the model of agents that name none, from the process and from the initialisation; their key goes to their own
address only, no tool sees it, and no log has it, nor anything that was said, however much is logged."""

import json

from harness import END, same, shell, play, within

KEY = "llm-key-of-the-process-4711"
INIT = "llm-key-of-the-init-4712"
SAID = "said-by-the-user-4713"
SECRET = "secret-of-the-conversation-4714"
OUTPUT = "said-by-the-tool-4715"


def start(client, agent, **more):
    body = {"agent": agent, "workspace": {"kind": "LocalWorkspace", "working_dir": client.workdir}, "autotitle": False,
            "initial_message": {"role": "user", "content": [{"type": "text", "text": SAID}], "run": True}, **more}
    return client.http.post("/api/conversations", json=body)


def ended(client, answer):
    assert answer.status_code == 201, answer.text
    path = f"/api/conversations/{answer.json()['id']}"
    return within(30, "the end", lambda: (lambda c: c["execution_status"] in ("finished", "error") and c)(client.http.get(path).json()))


def script(lab, turns):
    name = f"v{len(lab.scripts)}"
    lab.scripts[name] = name
    lab.model.set_script(name, turns)
    return name, f"{lab.model.url}/{name}/v1"


def run(lab):
    name, base = script(lab, [shell(f"env; echo {OUTPUT}; echo {KEY[:9]}''{KEY[9:]}"), END])
    server = lab.serve(LLM_MODEL="openai/from-variables", LLM_BASE_URL=base, LLM_API_KEY=KEY, LLM_NUM_RETRIES="1",
                       LOG_LEVEL="trace", DEBUG="1")
    client = lab.client(server)

    # an agent that names no model
    agent = {"kind": "Agent", "tools": [{"name": "terminal"}]}
    done = ended(client, start(client, agent, secrets={"TOKEN": SECRET}))
    same(done["execution_status"], "finished", "status")
    llm = done["agent"]["llm"]
    same((llm["model"], llm["base_url"], llm["num_retries"], llm["usage_id"]), ("openai/from-variables", base, 1, "agent"), "the model")
    asked = lab.model.requests(name)
    same([a["model"] for a in asked], ["from-variables"] * 2, "models asked")
    same({k for k in lab.model.keys(name)}, {KEY}, "keys sent")

    # the tool saw neither variables nor key, and what it printed of it is hidden
    events = client.http.get(f"/api/conversations/{done['id']}/events/search", params={"limit": 100}).json()["items"]
    [output] = [json.dumps(e["observation"]) for e in events if e["kind"] == "ObservationEvent" and e["tool_name"] == "terminal"]
    assert OUTPUT in output and "LLM_BASE_URL" not in output and "LLM_API_KEY" not in output and KEY not in output and "<secret-hidden>" in output, output
    # the key is not kept with the conversation
    same(done["agent"]["llm"].get("api_key"), None, "stored key")
    for path in server.folder.rglob("*"):
        if path.is_file() and path != server.log:
            assert KEY.encode() not in path.read_bytes(), path

    # another address gets no key: whoever starts a conversation must not learn it
    other, elsewhere = script(lab, [END])
    host = elsewhere.replace("127.0.0.1", "localhost")
    answer = ended(client, start(client, {"kind": "Agent", "llm": {"model": "openai/x", "base_url": host, "num_retries": 1}}))
    same(answer["execution_status"], "finished", "status elsewhere")
    same({k for k in lab.model.keys(other)}, {None}, "keys sent elsewhere")

    # a failure is logged without what was said
    busy = {"status": 503, "text": f"{SAID} is not welcome, {KEY}"}
    refused, base_of_it = script(lab, [busy, busy])
    hasty = {"num_retries": 2, "retry_min_wait": 0, "retry_max_wait": 0}
    ended(client, start(client, {"kind": "Agent", "llm": {"model": "openai/x", "base_url": base_of_it, **hasty}}))
    same(len(lab.model.requests(refused)), 2, "attempts")
    assert "model call failed, trying again" in server.log.read_text()

    # what initialisation brings wins
    first, base_of_init = script(lab, [END])
    late = lab.serve("late", OH_DEFERRED_INIT="true", LLM_MODEL="openai/boot", LLM_API_KEY=KEY, LOG_LEVEL="trace")
    brought = lab.client(late)
    body = {"env": {"LLM_MODEL": "openai/brought", "LLM_BASE_URL": base_of_init, "LLM_API_KEY": INIT}}
    answer = brought.http.post("/api/init", json=body, headers={"X-Init-API-Key": "scenario-secret"})
    assert answer.status_code == 200, answer.text
    same(ended(brought, start(brought, {"kind": "Agent"}))["agent"]["llm"]["model"], "openai/brought", "the model")
    same({k for k in lab.model.keys(first)}, {INIT}, "keys sent")

    # a value that cannot be used is named
    wrong = lab.serve("wrong", OH_DEFERRED_INIT="true")
    answer = lab.client(wrong).http.post("/api/init", json={"env": {"LLM_NUM_RETRIES": "many"}}, headers={"X-Init-API-Key": "scenario-secret"})
    assert answer.status_code == 500 and "LLM_NUM_RETRIES" in answer.text and "many" not in answer.text, answer.text

    # no log has keys, secrets, or anything that was said, at the loudest level
    for one in (server, late):
        log = one.log.read_text()
        for word in (KEY, INIT, SECRET, SAID, OUTPUT):
            assert word not in log, (word, [line for line in log.splitlines() if word in line][:3])


play(run)
