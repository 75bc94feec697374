"""Confirmation: nothing runs unasked; a rejection reaches the model; a batch is one decision; risk decides when asked to."""

from harness import END, play, same, shell
from openhands.sdk.security.confirmation_policy import AlwaysConfirm, ConfirmRisky, NeverConfirm
from openhands.sdk.security.llm_analyzer import LLMSecurityAnalyzer


def run(lab):
    client = lab.client()
    conversation = client.converse([shell("touch refused"), shell("touch allowed"), END])
    conversation.set_confirmation_policy(AlwaysConfirm())
    info = client.http.get(f"/api/conversations/{conversation.id}").json()
    same(info["confirmation_policy"], {"kind": "AlwaysConfirm"}, "policy")
    same(client.run(conversation, "Ask me first"), "waiting_for_confirmation", "status")
    same(len(client.events(conversation, "ActionEvent")), 1, "waiting actions")
    same(client.events(conversation, "ObservationEvent"), [], "nothing ran")

    conversation.reject_pending_actions("not in my house")
    client.reaches(conversation, "idle")
    (refusal,) = client.events(conversation, "UserRejectObservation")
    same((refusal.rejection_reason, refusal.rejection_source), ("not in my house", "user"), "refusal")
    same(client.run(conversation), "waiting_for_confirmation", "status of the second action")
    last = client.asked(conversation)[-1]["messages"][-1]
    assert last["role"] == "tool" and "not in my house" in str(last["content"]), last
    same(client.run(conversation), "finished", "running again is a yes")
    listing = conversation.workspace.execute_command("ls", cwd=client.workdir).stdout.split()
    same(listing, ["allowed"], "files")

    batch = client.converse([{"calls": [["terminal", {"command": "echo 1"}], ["terminal", {"command": "echo 2"}]]}, END])
    batch.set_confirmation_policy(AlwaysConfirm())
    same(client.run(batch, "Two"), "waiting_for_confirmation", "status of the batch")
    answer = client.http.post(f"/api/conversations/{batch.id}/events/respond_to_confirmation", json={"accept": True})
    same((answer.status_code, answer.json()), (200, {"success": True}), "the yes")
    client.reaches(batch, "finished")
    same(len(client.events(batch, "ObservationEvent")), 3, "both ran, and the end")

    risky = client.converse([{"calls": [["terminal", {"command": "echo calm", "security_risk": "LOW"}]]},
                             {"calls": [["terminal", {"command": "echo wild", "security_risk": "HIGH"}]]}, END])
    risky.set_security_analyzer(LLMSecurityAnalyzer())
    risky.set_confirmation_policy(ConfirmRisky())
    same(client.run(risky, "Dare"), "waiting_for_confirmation", "status at the risky action")
    same([a.security_risk.value for a in client.events(risky, "ActionEvent")], ["LOW", "HIGH"], "risks")
    same(len(client.events(risky, "ObservationEvent")), 1, "only the calm one ran")
    risky.set_confirmation_policy(NeverConfirm())
    same(client.run(risky), "finished", "status once nothing asks")


play(run)
