//! A conversation changes its provider half-way: what is dropped is what only the old one could read.

use openhands_testkit::{ScriptedModel, Turn};
use tokio_util::sync::CancellationToken;

use super::{
    answers::{SIGNATURE, ask, asked, result, two_calls},
    cases::{self, Wire},
    validity,
};
use crate::client_for;

#[tokio::test]
async fn any_provider_goes_on_where_any_other_stopped() {
    for from in cases::all() {
        let mut request = asked();
        let answer = ask(&from, &request, [two_calls()], false).await.0.unwrap();
        request.messages.extend([answer.message, result("call_1"), result("call_2")]);
        for to in cases::all() {
            let (response, _, seen) = ask(&to, &request, [Turn::text("going on")], false).await;
            assert_eq!(response.unwrap().message.joined_text(), "going on");
            let body = &seen[0].body;
            let faults = validity::faults(&to, body);
            assert!(faults.is_empty(), "{} to {}: {faults:?}", from.model, to.model);
            let text = body.to_string();
            // Whatever the model is called, blocks that come through a proxy are Claude's.
            let signed_by = if from.wire == Wire::Chat { "claude" } else { from.signs };
            let keeps = signed_by == to.signs;
            assert_eq!(text.contains(SIGNATURE), keeps, "{} to {}: {text}", from.model, to.model);
            assert!(text.contains("Ich führe es aus.") && text.contains("echo größe") && text.contains("done"));
        }
    }
}

#[tokio::test]
async fn refused_reasoning_is_left_out_at_once() {
    for case in cases::all().into_iter().filter(|case| !case.signs.is_empty()) {
        let refusal = match case.wire {
            Wire::Responses => "The encrypted content for item rs_1 could not be verified.",
            Wire::Gemini => "Thought signature is not valid.",
            Wire::Chat | Wire::Anthropic | Wire::Bedrock => {
                "messages.1.content.0: Invalid `signature` in `thinking` block"
            }
        };
        let mut request = asked();
        let answer = ask(&case, &request, [two_calls()], false).await.0.unwrap();
        request.messages.extend([answer.message, result("call_1"), result("call_2")]);
        let model = ScriptedModel::start([case.error(400, "invalid_request_error", refusal), Turn::text("on")]).await;
        let mut config = case.config(&model);
        config.num_retries = 1;
        let client = client_for(&config, &Default::default()).unwrap();
        let response = client.complete(&request, None, &CancellationToken::new()).await.unwrap();
        assert_eq!(response.message.joined_text(), "on", "{}", case.model);
        let seen = model.requests();
        assert!(seen[0].body.to_string().contains(SIGNATURE));
        assert!(!seen[1].body.to_string().contains(SIGNATURE), "{}", case.model);
    }
}
