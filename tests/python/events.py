"""Events over REST and sockets: paging, filters, single and batch reads, resent history; conversations: search, count, delete."""

import json
import uuid

from harness import END, play, same, shell


def run(lab):
    client = lab.client()
    get = client.http.get
    conversation = client.converse([shell(f"echo step {n}") for n in range(5)] + [{"text": "A needle."}])
    same(client.run(conversation, "Hay"), "finished", "status")
    base = f"/api/conversations/{conversation.id}/events"
    every = client.raw_events(conversation)
    same(every["next_page_id"], None, "one page")
    ids = [e["id"] for e in every["items"]]
    same(len(set(ids)), len(ids), "distinct ids")
    same(get(f"{base}/count").json(), len(ids), "count")
    assert all(None not in e.values() for e in every["items"]), "lists leave nulls out"

    walked, page = [], None
    while page is not None or not walked:
        part = client.raw_events(conversation, limit=4, **({"page_id": page} if page else {}))
        assert 0 < len(part["items"]) <= 4
        walked += [e["id"] for e in part["items"]]
        page = part["next_page_id"]
    same(walked, ids, "pages in order")
    same([e["id"] for e in client.raw_events(conversation, sort_order="TIMESTAMP_DESC")["items"]], ids[::-1], "newest first")
    same(len(client.raw_events(conversation, kind="ActionEvent")["items"]), 5, "by kind")
    same({e["source"] for e in client.raw_events(conversation, source="agent")["items"]}, {"agent"}, "by source")
    same([e["kind"] for e in client.raw_events(conversation, body="NEEDLE")["items"]], ["MessageEvent"], "by text")
    for limit in (0, 101):
        same(get(f"{base}/search", params={"limit": limit}).status_code, 422, f"limit {limit}")
    same(get(f"{base}/{ids[0]}").json()["id"], ids[0], "one event")
    same(get(f"{base}/{uuid.uuid4()}").status_code, 404, "an unknown event")
    batch = client.http.request("GET", base, json=[ids[1], str(uuid.uuid4())]).json()
    same([e and e["id"] for e in batch], [ids[1], None], "batch")
    same(get(f"/api/conversations/{uuid.uuid4()}").status_code, 404, "an unknown conversation")

    with client.socket(f"/sockets/events/{conversation.id}?resend_mode=all") as ws:
        frames = [json.loads(ws.recv(timeout=10)) for _ in range(len(ids) + 1)]
    same(frames[0]["key"], "full_state", "first frame")
    same([f["id"] for f in frames[1:]], ids, "resent history")

    other = client.converse([{"text": "By socket."}])
    with client.socket(f"/sockets/events/{other.id}") as ws:
        ws.send(json.dumps({"role": "user", "content": [{"type": "text", "text": "Hello"}]}))
        frame = {}
        while not (frame.get("kind") == "MessageEvent" and frame["source"] == "agent"):
            frame = json.loads(ws.recv(timeout=15))
    client.reaches(other, "finished")

    found = [c["id"] for c in get("/api/conversations/search").json()["items"]]
    same(found, [str(other.id), str(conversation.id)], "search, newest first")
    same(get("/api/conversations/count").json(), 2, "count of conversations")
    again = client.http.post("/api/conversations", json={
        "conversation_id": str(other.id), "workspace": {"working_dir": client.workdir},
        "agent": client.agent("again").model_dump(mode="json", context={"expose_secrets": True})})
    same((again.status_code, again.json()["id"]), (200, str(other.id)), "creating again")
    same(client.http.delete(f"/api/conversations/{other.id}").json(), {"success": True}, "delete")
    same(get(f"/api/conversations/{other.id}").status_code, 404, "deleted")
    same(client.run(client.converse([END]), "Still there"), "finished", "a run after the delete")


play(run)
