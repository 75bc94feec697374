"""What a user keeps on a server, through the SDK: model, secrets, profiles; files that the SDK's own stores read and write."""

import json

from harness import END, play, same, shell
from openhands.sdk import LLM
from openhands.sdk.llm import LLMProfileStore
from openhands.sdk.llm.provider_connection_store import ProviderConnectionStore
from openhands.sdk.utils.cipher import Cipher
from pydantic import SecretStr


def run(lab):
    server = lab.serve()
    client = lab.client(server)
    kept = server.folder / "home" / ".openhands"
    cipher = Cipher("scenario-secret")

    def model(script, turns, **more):
        lab.model.set_script(script, turns)
        return LLM(model="openai/scripted", base_url=f"{lab.model.url}/{script}/v1", usage_id=script, num_retries=1, **more)

    def plain(llm):
        return llm.model_dump(mode="json", exclude_none=True, context={"expose_secrets": True})

    # the settings' model and the secrets, as the workspace gives them to a program
    stored = model("stored", [shell("echo $MINE"), END], api_key=SecretStr("sk-stored"), temperature=0.5)
    answer = client.http.patch("/api/settings", json={"agent_settings_diff": {"llm": plain(stored)}})
    same(answer.status_code, 200, f"settings are changed ({answer.text[:300]})")
    answer = client.http.put("/api/settings/secrets", json={"name": "MINE", "value": "my-secret-value"})
    same(answer.status_code, 200, f"a secret is stored ({answer.text})")
    workspace = client.workspace()
    llm = workspace.get_llm()
    same((llm.model, llm.api_key.get_secret_value(), llm.base_url, llm.temperature, llm.usage_id),
         ("openai/scripted", "sk-stored", stored.base_url, 0.5, "stored"), "get_llm()")
    secrets = workspace.get_secrets()
    same(list(secrets), ["MINE"], "get_secrets()")
    same(secrets["MINE"].get_value(), "my-secret-value", "the value, looked up by the client")
    text = "".join(path.read_text() for path in kept.glob("*.json"))
    assert "sk-stored" not in text and "my-secret-value" not in text, "nothing is stored in clear"

    # a profile saved over REST is one of the SDK's own, and the other way round
    ours = model("ours", [END, END], api_key=SecretStr("sk-ours"), max_output_tokens=1000)
    answer = client.http.post("/api/profiles/ours", json={"llm": plain(ours), "include_secrets": True})
    same(answer.status_code, 201, f"a profile is saved ({answer.text})")
    assert "sk-ours" not in (kept / "profiles" / "ours.json").read_text(), "the key is encrypted"
    store = LLMProfileStore(kept / "profiles")
    same(store.list(), ["ours.json"], "the SDK lists it")
    same(plain(store.load("ours", cipher=cipher)), plain(ours), "the SDK reads it")
    theirs = model("theirs", [END, END], api_key=SecretStr("sk-theirs"), seed=7)
    store.save("theirs", theirs, include_secrets=True, cipher=cipher)
    store.save("masked", theirs)
    listed = {p["name"]: p["api_key_set"] for p in client.http.get("/api/profiles").json()["profiles"]}
    same(listed, {"ours": True, "theirs": True, "masked": False}, "all are listed")
    answer = client.http.get("/api/profiles/theirs", headers={"X-Expose-Secrets": "plaintext"}).json()
    same(plain(LLM.model_validate(answer["config"])), plain(theirs), "the SDK's profile is read")

    # by name, and as the active one
    same(plain(workspace.get_llm("theirs")), {**plain(theirs), "usage_id": "profile:theirs"}, "get_llm of a profile")
    same(client.http.post("/api/profiles/ours/activate").status_code, 200, "a profile is activated")
    same(plain(workspace.get_llm()), {**plain(ours), "usage_id": "profile:ours"}, "get_llm of the active profile")
    same(client.http.patch("/api/settings", json={"active_profile": None}).status_code, 200, "none is active")

    # the same for provider connections
    answer = client.http.post("/api/llm/provider-connections",
                              json={"display_name": "shared", "api_key": "sk-shared", "base_url": theirs.base_url}).json()
    connections = ProviderConnectionStore(kept / "provider-connections")
    same(connections.get(answer["id"], cipher=cipher).api_key_value(), "sk-shared", "the SDK reads the connection")
    linked = theirs.model_copy(update={"provider_connection_id": answer["id"]})
    store.save("linked", linked, include_secrets=True, cipher=cipher)
    same(store.load("linked", cipher=cipher).api_key.get_secret_value(), "sk-shared", "the SDK resolves it")
    shown = client.http.get("/api/profiles/linked", headers={"X-Expose-Secrets": "plaintext"}).json()
    same((shown["config"]["api_key"], shown["config"]["base_url"]), ("sk-shared", theirs.base_url), "the server resolves it")

    # a live conversation goes through both, and secrets of the store reach its commands
    agent = client.agent("stored").model_copy(update={"llm": llm})
    conversation = client.converse([], agent=agent)
    conversation.update_secrets(secrets)
    same(client.run(conversation, "print it"), "finished", "status with the settings' model")
    assert "<secret-hidden>" in client.outputs(conversation)[0], "the command had the secret, and what it printed is hidden"
    for name in ("ours", "theirs", "linked"):
        answer = client.http.post(f"/api/conversations/{conversation.id}/switch_profile", json={"profile_name": name})
        same((answer.status_code, answer.json()), (200, {"success": True}), f"switch to {name}")
        same(client.run(conversation, name), "finished", f"status with {name}")
    conversation.state.refresh_from_server()
    spent = conversation.conversation_stats.usage_to_metrics
    assert {"stored", "profile:ours", "profile:theirs", "profile:linked"} <= set(spent), list(spent)

    # a file that points elsewhere loses its key
    path = kept / "profiles" / "ours.json"
    profile = json.loads(path.read_text())
    path.write_text(json.dumps({**profile, "base_url": "http://127.0.0.1:9/v1"}))
    shown = client.http.get("/api/profiles/ours", headers={"X-Expose-Secrets": "encrypted"}).json()
    same((shown["config"]["api_key"], shown["api_key_set"]), (None, False), "the key stays with its address")
    answer = client.http.get("/api/profiles/ours", headers={"X-Expose-Secrets": "plaintext"})
    same(answer.status_code, 422, "and the profile is not used without it")
    answer = client.http.post(f"/api/conversations/{conversation.id}/switch_profile", json={"profile_name": "ours"})
    same(answer.status_code, 400, "not by a conversation either")


play(run)
