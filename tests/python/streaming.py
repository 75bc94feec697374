"""Answers while they are given: the SDK's token callbacks, the items of the session socket, secrets, and an interrupt."""

import json
import threading

from harness import END, play, same, within

TEXT = "A long answer with s3cret-value-4711 in the middle of it, told piece by piece."
SHOWN = TEXT.replace("s3cret-value-4711", "<secret-hidden>")


def listen(socket, frames):
    """Gathers the frames of a socket until it ends."""
    try:
        for text in socket:
            frames.append(json.loads(text))
    except Exception:  # noqa: BLE001  (the socket ends with the scenario)
        pass


def of(frames, kind):
    return [f for f in frames if f["type"] == kind]


def run(lab):
    client = lab.client()
    tokens, frames = [], []
    conversation = client.converse([
        {"text": TEXT, "reasoning": "Thinking first, then acting.", "calls": [["terminal", {"command": "echo one"}]]},
        {"text": "The end of it."},
    ], stream=True, secrets={"TOKEN": "s3cret-value-4711"}, token_callbacks=[tokens.append])
    socket = client.socket(f"/sockets/session/{conversation.id}")
    threading.Thread(target=listen, args=(socket, frames), daemon=True).start()
    same(client.run(conversation, "Stream it"), "finished", "status")

    # what the SDK hands to its callbacks
    deltas = [t.choices[0].delta for t in tokens]
    same("".join(d.content or "" for d in deltas), SHOWN + "The end of it.", "text by token callbacks")
    same("".join(getattr(d, "reasoning_content", None) or "" for d in deltas), "Thinking first, then acting.", "reasoning")

    # the items: a start, pieces without a gap, and the event that has the item's id
    stored = client.raw_events(conversation)["items"]
    answers = [e for e in stored if e["source"] == "agent" and e["kind"] in ("ActionEvent", "MessageEvent")]
    within(10, "the last event on the session socket",
           lambda: any(f["event"]["id"] == answers[-1]["id"] for f in of(frames, "durable")))
    starts = of(frames, "item_started")
    same([s["item_id"] for s in starts], [a["id"] for a in answers], "ids of items and events")
    same([s["attempt"] for s in starts], [1, 1], "attempts")
    for start in starts:
        pieces = [f for f in of(frames, "delta") if f["item_id"] == start["item_id"]]
        same([f["order"] for f in pieces], list(range(len(pieces))), "order")
        assert stored[start["anchor_seq"]]["id"] != start["item_id"], start
        end = next(i for i, f in enumerate(frames) if f.get("event", {}).get("id") == start["item_id"])
        assert all(frames.index(f) < end for f in pieces), "pieces come before their event"
    same("".join(f["content"] for f in of(frames, "delta") if f["kind"] == "text"), SHOWN + "The end of it.", "pieces")
    assert not any(e["kind"] == "StreamingDeltaEvent" for e in stored), "pieces are not stored"
    assert "s3cret-value-4711" not in json.dumps(stored + frames), "the secret is nowhere"

    # an interrupt in the middle takes the item back; the next run goes on
    frames.clear()
    slow = client.converse([{"text": "never to its end " * 40, "pause": 0.05}, END], stream=True)
    slow_socket = client.socket(f"/sockets/session/{slow.id}")
    threading.Thread(target=listen, args=(slow_socket, frames), daemon=True).start()
    slow.send_message("Begin")
    slow.run(blocking=False)
    within(20, "a first piece", lambda: of(frames, "delta"))
    slow.interrupt()
    client.reaches(slow, "paused")
    within(10, "the abort", lambda: of(frames, "item_aborted"))
    aborted = of(frames, "item_aborted")
    same([(a["item_id"], a["attempt"], a["reason"]) for a in aborted],
         [(of(frames, "item_started")[0]["item_id"], 1, "cancelled")], "aborts")
    same(client.run(slow, "Go on"), "finished", "status after the interrupt")


play(run)
