"""A server that comes back in the same folder: after a clean stop, and after SIGKILL in the middle of a command."""

import signal

from harness import END, play, same, shell, within


def run(lab):
    turns = [shell("echo one"), END, shell("echo secret=$KEPT"), END, shell("echo x >> started; sleep 120"), END]
    first = lab.serve()
    client = lab.client(first)
    conversation = client.converse(turns, tags={"colour": "blue"})
    script = lab.scripts[str(conversation.id)]
    conversation.update_secrets({"KEPT": "kept-over-restart"})
    same(client.run(conversation, "one"), "finished", "status")
    before = client.raw_events(conversation)["items"]
    first.stop()

    second = lab.serve()
    client = lab.client(second)
    same(client.raw_events(conversation)["items"], before, "events after a restart, byte for meaning")
    info = client.http.get(f"/api/conversations/{conversation.id}").json()
    same((info["execution_status"], info["tags"]), ("finished", {"colour": "blue"}), "state")

    def attach(to):
        attached = to.converse(turns, agent=to.agent(script), conversation_id=conversation.id)
        lab.scripts[str(conversation.id)] = script
        return attached

    conversation = attach(client)
    same(client.run(conversation, "two"), "finished", "the model key survived")
    shown = client.outputs(conversation)
    assert any("<secret-hidden>" in text for text in shown) and not any("kept-over" in text for text in shown), shown

    conversation.send_message("three")
    conversation.run(blocking=False)
    started = f"{client.workdir}/started"
    within(30, "the long command runs", lambda: conversation.workspace.execute_command(f"cat {started}").stdout == "x\n")
    second.stop(signal.SIGKILL)

    third = lab.serve()
    client = lab.client(third)
    same(client.status(conversation), "error", "status after SIGKILL")
    conversation = attach(client)
    same(len(client.events(conversation, "AgentErrorEvent")), 1, "the cut command has an error for a result")
    same(client.run(conversation, "four"), "finished", "it goes on")
    same(conversation.workspace.execute_command(f"cat {started}").stdout, "x\n", "the cut command did not run again")
    said = [m.llm_message.content[0].text for m in client.events(conversation, "MessageEvent") if m.source == "user"]
    same(said, ["one", "two", "three", "four"], "all messages")


play(run)
