"""Pause between steps, interrupt a model call, messages during a run, and a message that starts a run."""

from harness import END, play, same, shell, within


def run(lab):
    client = lab.client()
    slow = client.converse([shell("echo a", delay=1), shell("echo b", delay=1), shell("echo c", delay=1), END])
    slow.send_message("Take your time")
    slow.run(blocking=False)
    client.reaches(slow, "running")
    same(client.http.post(f"/api/conversations/{slow.id}/run").status_code, 409, "a second run")
    slow.pause()
    client.reaches(slow, "paused")
    within(10, "a PauseEvent", lambda: client.events(slow, "PauseEvent"))
    assert len(client.asked(slow)) < 4, "the run went on to its end"
    same(client.run(slow), "finished", "status after the resume")
    same(sum("echo" in str(a.action) for a in client.events(slow, "ActionEvent")), 3, "each command once")

    late = client.converse([shell("sleep 1"), shell("echo heard"), END])
    late.send_message("First words")
    late.run(blocking=False)
    within(10, "the first model call", lambda: client.asked(late))
    late.send_message("Words during the run")
    client.reaches(late, "finished")
    assert "Words during the run" in str(client.asked(late)[-1]["messages"]), "the model never saw the second message"

    words = client.converse([{"text": "Started by a message."}])
    answer = client.http.post(f"/api/conversations/{words.id}/events",
                              json={"role": "user", "content": [{"type": "text", "text": "Go"}], "run": True})
    same((answer.status_code, answer.json()), (200, {"success": True}), "a message that runs")
    client.reaches(words, "finished")

    held = client.converse([{"text": "never heard", "delay": 30}, END])
    held.send_message("Wait for it")
    held.run(blocking=False)
    within(10, "the model call", lambda: client.asked(held))
    held.interrupt()
    within(5, "status paused at once", lambda: client.status(held) == "paused")
    within(10, "an InterruptEvent", lambda: client.events(held, "InterruptEvent"))
    same(client.run(held), "finished", "status after the interrupt")
    assert not any("never heard" in str(e) for e in client.events(held)), "the cut answer was kept"


play(run)
