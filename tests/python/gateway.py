"""The OpenAI client against our gateway: models, a chat that goes on, a stream, a response, and what is refused."""

import openai
from harness import END, play, same, shell


def run(lab):
    server = lab.serve(OH_SESSION_API_KEYS='["gateway-key"]')
    client = lab.client(server, key="gateway-key")

    def profile(name, turns):
        lab.model.set_script(name, turns)
        llm = {"model": "openai/scripted", "api_key": "scenario-key", "base_url": f"{lab.model.url}/{name}/v1"}
        same(client.http.post(f"/api/profiles/{name}", json={"llm": llm, "include_secrets": True}).status_code, 201, name)
        return f"openhands_{name}"

    def refused(call, status):
        try:
            call()
        except openai.APIStatusError as error:
            return same(error.status_code, status, str(error))
        raise AssertionError(f"nothing was refused with {status}")

    door = openai.OpenAI(base_url=f"{server.url}/v1", api_key="gateway-key", max_retries=0)
    chatty = profile("chatty", [shell("echo seen"), {"text": "First answer."}, {"text": "Second answer."}])
    fluent = profile("fluent", [{"text": "Streamed answer."}, {"text": "Response answer."}])
    broken = profile("broken", [{"status": 400}])
    same([m.id for m in door.models.list()], sorted([broken, chatty, fluent]), "models")

    said = [{"role": "system", "content": "Answer like a pirate."}, {"role": "user", "content": "Look around"}]
    raw = door.chat.completions.with_raw_response.create(model=chatty, messages=said)
    conversation = raw.headers["X-OpenHands-ServerConversation-ID"]
    answer = raw.parse()
    same((answer.choices[0].message.content, answer.choices[0].finish_reason), ("First answer.", "stop"), "answer")
    assert answer.usage.total_tokens > 0
    asked = lab.model.requests("chatty")
    assert "like a pirate" in str(asked[0]["messages"]), "instructions"
    assert "seen" in str(asked[1]["messages"]), "the agent used its tools"
    more = door.chat.completions.create(
        model=chatty, messages=[*said, {"role": "assistant", "content": "x"}, {"role": "user", "content": "And now?"}],
        extra_headers={"X-OpenHands-ServerConversation-ID": conversation})
    same(more.choices[0].message.content, "Second answer.", "second answer")
    assert "Look around" in str(lab.model.requests("chatty")[2]["messages"]), "the conversation goes on"
    assert more.usage.total_tokens < answer.usage.total_tokens, "usage is of one answer"
    same(client.http.get(f"/api/conversations/{conversation}").json()["title"], None, "no title is made")

    stream = door.chat.completions.create(model=fluent, messages=said, stream=True,
                                          stream_options={"include_usage": True})
    chunks = list(stream)
    same("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), "Streamed answer.", "stream")
    assert chunks[-1].usage.total_tokens > 0, "usage chunk"
    response = door.responses.create(model=fluent, input="A question", store=False)
    same((response.output_text, response.status), ("Response answer.", "completed"), "response")

    refused(lambda: door.responses.create(model=fluent, input="A question", store=True), 400)
    refused(lambda: door.chat.completions.create(model="gpt-5", messages=said), 404)
    refused(lambda: door.chat.completions.create(model="openhands_absent", messages=said), 404)
    refused(lambda: door.chat.completions.create(model=chatty, messages=[{"role": "system", "content": "x"}]), 400)
    refused(lambda: door.chat.completions.create(model=broken, messages=said), 500)
    stranger = openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0)
    refused(lambda: list(stranger.models.list()), 401)


play(run)
