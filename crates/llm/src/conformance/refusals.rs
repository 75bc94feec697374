//! Error bodies as the providers document them, with our own texts where theirs do not matter, and what they are called here.

use openhands_testkit::Turn;
use serde_json::{Value, json};

use super::{
    answers::{ask, asked},
    cases::{self, Case},
};

const AUTH: &str = "LLMAuthenticationError";
const BAD: &str = "LLMBadRequestError";
const DOWN: &str = "LLMServiceUnavailableError";
const LATE: &str = "LLMTimeoutError";
const LONG: &str = "LLMContextWindowExceedError";
const POLICY: &str = "LLMContentPolicyViolationError";
const SLOW: &str = "LLMRateLimitError";

/// Status, body, name here, attempts of two.
type Row = (u16, Value, &'static str, usize);

async fn named(case: &Case, rows: impl IntoIterator<Item = Row>) {
    for (status, body, code, attempts) in rows {
        refused(case, Turn::raw(status, &body.to_string()), code, attempts).await;
    }
}

async fn refused(case: &Case, turn: Turn, code: &str, attempts: usize) {
    for streamed in [false, true] {
        let (response, _, seen) = ask(case, &asked(), [turn.clone(), turn.clone()], streamed).await;
        let error = response.unwrap_err();
        assert_eq!((error.code(), seen.len()), (code, attempts), "{}: {error}\n{turn:?}", case.model);
    }
}

fn openai(message: &str, kind: &str, code: Value) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

#[tokio::test]
async fn of_openai_and_what_speaks_like_it() {
    let rows = || {
        [
            (401, openai("Incorrect API key provided", "invalid_request_error", json!("invalid_api_key")), AUTH, 1),
            (
                403,
                openai("Country not supported", "request_forbidden", json!("unsupported_country_region_territory")),
                AUTH,
                1,
            ),
            (404, openai("The model does not exist", "invalid_request_error", json!("model_not_found")), BAD, 1),
            (400, openai("too many tokens", "invalid_request_error", json!("context_length_exceeded")), LONG, 1),
            (400, openai("flagged", "invalid_request_error", json!("content_policy_violation")), POLICY, 1),
            (429, openai("Rate limit reached", "requests", json!("rate_limit_exceeded")), SLOW, 2),
            (
                429,
                openai("You exceeded your current quota", "insufficient_quota", json!("insufficient_quota")),
                SLOW,
                1,
            ),
            (500, openai("The server had an error", "server_error", Value::Null), DOWN, 2),
            (503, openai("The engine is overloaded", "server_error", Value::Null), DOWN, 2),
        ]
    };
    named(&cases::chat(), rows()).await;
    named(&cases::responses(), rows()).await;
}

#[tokio::test]
async fn of_a_litellm_proxy_and_open_router() {
    let proxy = |message: &str, kind: &str, code: &str| json!({"error": {"message": message, "type": kind, "param": "None", "code": code}});
    let rows = [
        (401, proxy("Authentication Error, invalid proxy key", "auth_error", "401"), AUTH, 1),
        (400, proxy("litellm.ContextWindowExceededError: too long", "None", "400"), LONG, 1),
        (400, proxy("Budget has been exceeded! Current cost: 1, Max budget: 1", "budget_exceeded", "400"), BAD, 1),
        (429, proxy("litellm.RateLimitError: slow", "throttling_error", "429"), SLOW, 2),
        (408, proxy("litellm.Timeout: APITimeoutError", "None", "408"), LATE, 2),
        (500, proxy("litellm.InternalServerError: oops", "None", "500"), DOWN, 2),
        (402, json!({"error": {"code": 402, "message": "Insufficient credits"}}), BAD, 1),
        (403, json!({"error": {"code": 403, "message": "Flagged", "metadata": {"reasons": ["violence"]}}}), AUTH, 1),
        (502, json!({"error": {"code": 502, "message": "Provider returned error"}}), DOWN, 2),
    ];
    named(&cases::proxied_claude(), rows).await;
}

#[tokio::test]
async fn of_azure() {
    let azure = |code: &str, message: &str| json!({"error": {"code": code, "message": message}});
    let filtered = json!({"error": {
        "message": "The response was filtered", "type": null, "param": "prompt", "code": "content_filter", "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation"},
    }});
    let rows = [
        (401, azure("401", "Access denied due to invalid subscription key or wrong API endpoint."), AUTH, 1),
        (401, json!({"statusCode": 401, "message": "Unauthorized. Access token is missing or expired."}), AUTH, 1),
        (404, azure("DeploymentNotFound", "The API deployment for this resource does not exist."), BAD, 1),
        (400, filtered, POLICY, 1),
        (429, azure("429", "Requests have exceeded the call rate limit. Please retry after 0 seconds."), SLOW, 2),
        (503, azure("ServiceUnavailable", "busy"), DOWN, 2),
    ];
    named(&cases::azure(), rows).await;
}

#[tokio::test]
async fn of_anthropic() {
    let anthropic = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"});
    for case in [cases::anthropic(), cases::vertex_claude(), cases::foundry_claude()] {
        let rows = [
            (400, anthropic("invalid_request_error", "max_tokens: wrong"), BAD, 1),
            (400, anthropic("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), LONG, 1),
            (401, anthropic("authentication_error", "invalid x-api-key"), AUTH, 1),
            (402, anthropic("billing_error", "pay"), BAD, 1),
            (403, anthropic("permission_error", "not for you"), AUTH, 1),
            (404, anthropic("not_found_error", "model: x"), BAD, 1),
            (413, anthropic("request_too_large", "Request exceeds the maximum size"), BAD, 1),
            (429, anthropic("rate_limit_error", "slow"), SLOW, 2),
            (500, anthropic("api_error", "oops"), DOWN, 2),
            (504, anthropic("timeout_error", "late"), LATE, 2),
            (529, anthropic("overloaded_error", "Overloaded"), DOWN, 2),
        ];
        named(&case, rows).await;
    }
}

#[tokio::test]
async fn of_google() {
    let google =
        |code: u16, status: &str, message: &str| json!({"error": {"code": code, "message": message, "status": status}});
    let wrong_key = json!({"error": {
        "code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
    }});
    let too_long = "The input token count (9) exceeds the maximum number of tokens allowed (8).";
    for case in [cases::gemini(), cases::vertex_gemini()] {
        let rows = [
            (400, wrong_key.clone(), AUTH, 1),
            (400, google(400, "INVALID_ARGUMENT", "wrong"), BAD, 1),
            (400, google(400, "INVALID_ARGUMENT", too_long), LONG, 1),
            (401, google(401, "UNAUTHENTICATED", "who are you"), AUTH, 1),
            (403, google(403, "PERMISSION_DENIED", "not for you"), AUTH, 1),
            (404, google(404, "NOT_FOUND", "models/x is not found"), BAD, 1),
            (429, google(429, "RESOURCE_EXHAUSTED", "slow"), SLOW, 2),
            (500, google(500, "INTERNAL", "oops"), DOWN, 2),
            (503, google(503, "UNAVAILABLE", "The model is overloaded."), DOWN, 2),
            (504, google(504, "DEADLINE_EXCEEDED", "late"), LATE, 2),
            // A refused stream is a list of one.
            (429, json!([google(429, "RESOURCE_EXHAUSTED", "slow")]), SLOW, 2),
        ];
        named(&case, rows).await;
    }
}

#[tokio::test]
async fn of_bedrock() {
    let case = cases::bedrock();
    for (status, kind, message, code, attempts) in [
        (400, "ValidationException", "The provided model identifier is invalid.", BAD, 1),
        (400, "ValidationException", "Input is too long for requested model.", LONG, 1),
        (403, "AccessDeniedException", "You don't have access to the model.", AUTH, 1),
        (403, "ExpiredTokenException", "The security token included in the request is expired", AUTH, 1),
        (403, "UnrecognizedClientException", "The security token included in the request is invalid.", AUTH, 1),
        (404, "ResourceNotFoundException", "no such model", BAD, 1),
        (408, "ModelTimeoutException", "late", LATE, 2),
        (424, "ModelErrorException", "the model failed", DOWN, 2),
        (429, "ThrottlingException", "Too many requests, please wait before trying again.", SLOW, 2),
        (429, "ModelNotReadyException", "not ready", SLOW, 2),
        (500, "InternalServerException", "oops", DOWN, 2),
        (503, "ServiceUnavailableException", "busy", DOWN, 2),
    ] {
        let turn = Turn::raw(status, &json!({ "message": message }).to_string());
        refused(&case, turn.header("x-amzn-errortype", &format!("{kind}:http://internal/")), code, attempts).await;
    }
}

#[tokio::test]
async fn of_whatever_stands_between() {
    for case in cases::all() {
        let rows = [
            (502, "<html><head><title>502 Bad Gateway</title></head></html>", DOWN, 2),
            (503, "", DOWN, 2),
            (504, "upstream request timeout", LATE, 2),
            (401, "", AUTH, 1),
            (407, "proxy authentication required", BAD, 1),
            (404, "page not found", BAD, 1),
        ];
        for (status, body, code, attempts) in rows {
            refused(&case, Turn::raw(status, body), code, attempts).await;
        }
        let moved = Turn::raw(308, "").header("location", "https://elsewhere.example/v1");
        let (response, _, seen) = ask(&case, &asked(), [moved], false).await;
        let error = response.unwrap_err();
        assert!(error.to_string().contains("set llm.base_url to https://elsewhere.example/v1"), "{error}");
        assert_eq!((error.code(), seen.len()), (BAD, 1), "keys do not travel");
    }
}
