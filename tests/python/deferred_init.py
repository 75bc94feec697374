"""A dormant server: closed until initialised, initialised once, by the right key; then its keys, paths and environment hold.

Also ours, not the SDK's: the boot key may be given as a digest only, and the server proves that it knows it."""

import hashlib
import hmac
import json
import socket
import time

import httpx
from harness import END, play, same, shell
from websockets.exceptions import ConnectionClosed


def outlives_a_refusal(server, path):
    """A refusal comes before the body was sent; the connection must serve the next request all the same."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as line:
        line.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n".encode())
        time.sleep(0.2)
        line.sendall(b"{}")
        first = line.recv(65536)
        line.sendall(b"GET /alive HTTP/1.1\r\nHost: x\r\n\r\n")
        second = line.recv(65536)
    same((first[9:12], second[9:12]), (b"503", b"200"), f"two requests on one connection, {path} refused")


def run(lab):
    warm = lab.serve("warm", OH_DEFERRED_INIT="1", OH_SECRET_KEY="boot-key")
    http = httpx.Client(base_url=warm.url, timeout=30)
    same(http.get("/api/init").json(), {"state": "dormant", "error": None}, "state")
    for method, path in [("GET", "/api/conversations/search"), ("POST", "/api/bash/start_bash_command"), ("GET", "/v1/models")]:
        same(http.request(method, path, json={}).status_code, 503, f"{path} while dormant")
    outlives_a_refusal(warm, "/api/conversations")
    for key in ({}, {"X-Init-API-Key": "guess"}):
        same(http.post("/api/init", json={}, headers=key).status_code, 401, "init without the key")
    boot = {"X-Init-API-Key": "boot-key"}
    same(http.post("/api/init", json={"surprise": 1}, headers=boot).status_code, 422, "unknown members")
    same(http.get("/api/init").json()["state"], "dormant", "state after refusals")

    body = {"session_api_keys": ["first-key", "second-key"], "secret_key": "users-secret", "max_concurrent_runs": 4,
            "conversations_path": str(lab.folder / "stored"), "env": {"COLOUR": "teal-by-init"}}
    answer = http.post("/api/init", json=body, headers=boot)
    same((answer.status_code, answer.json()), (200, {"state": "ready", "error": None}), "init")
    same(http.post("/api/init", json=body, headers=boot).status_code, 401, "the boot key afterwards")
    same(http.post("/api/init", json=body, headers={"X-Init-API-Key": "users-secret"}).status_code, 400, "a second init")
    same(http.get("/api/conversations/count").status_code, 401, "no key")
    same(http.get("/api/conversations/count", headers={"X-Session-API-Key": "boot-key"}).status_code, 401, "a wrong key")

    client = lab.client(warm, "second-key")
    conversation = client.converse([shell("echo colour=$COLOUR keys=[$OH_SECRET_KEY$SESSION_API_KEY]"), END])
    same(client.run(conversation, "Show"), "finished", "status")
    assert "colour=teal-by-init keys=[]" in client.outputs(conversation)[0], client.outputs(conversation)[0]
    assert (lab.folder / "stored" / conversation.id.hex).is_dir(), "stored elsewhere than init said"
    address = f"/sockets/events/{conversation.id}"
    with client.socket(address) as ws:
        same(json.loads(ws.recv(timeout=10))["key"], "full_state", "first frame")
    with client.socket(address, auth=False) as ws:
        ws.send(json.dumps({"type": "auth", "session_api_key": "wrong"}))
        try:
            ws.recv(timeout=10)
            raise AssertionError("a wrong key kept the socket open")
        except ConnectionClosed as closed:
            same(closed.rcvd.code, 4001, "close code")

    digest = hashlib.sha256(b"hidden-key").hexdigest()
    proven = lab.serve("proven", OH_DEFERRED_INIT="1", OH_SECRET_KEY="", OH_INIT_KEY_SHA256=digest, OPENHANDS_POD_UID="pod-7")
    http = httpx.Client(base_url=proven.url, timeout=30)
    told = http.get("/api/init", params={"nonce": "n-1"}).json()
    wanted = hmac.new(bytes.fromhex(digest), b"pod-7\nn-1", hashlib.sha256).hexdigest()
    same((told["state"], told["pod_uid"], told["proof"]), ("dormant", "pod-7", wanted), "proof")
    same(http.post("/api/init", json={}).status_code, 401, "a digest closes init")
    same(http.post("/api/init", json={}, headers={"X-Init-API-Key": digest}).status_code, 401, "the digest is not the key")
    same(http.post("/api/init", json={"session_api_keys": ["k"]}, headers={"X-Init-API-Key": "hidden-key"}).status_code, 200, "init")
    same(http.get("/api/conversations/count", headers={"X-Session-API-Key": "k"}).json(), 0, "open with the key")


play(run)
