//! `POST /v1/responses`: without state and whole only; what the reference refuses is refused here.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue},
    response::{IntoResponse, Response},
};
use openhands_protocol::Content;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    CONVERSATION_HEADER,
    ask::{self, Answer, Question},
    content::Said,
};
use crate::{
    error::ApiError,
    extract::{Body, Ready},
    state::AppState,
};

/// The body; members that are not here are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct ResponseRequest {
    model: String,
    input: Input,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    previous_response_id: Option<String>,
    #[serde(default)]
    store: Option<bool>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of messages")]
enum Input {
    Text(String),
    Messages(Vec<InputMessage>),
}

#[derive(Debug, Deserialize)]
struct InputMessage {
    role: String,
    content: Said,
}

/// The handler.
///
/// # Errors
/// As [`ask::ask`]; 400 for `store`, `stream`, `previous_response_id`, and for input without a message of the user.
pub(super) async fn respond(
    State(state): State<AppState>,
    Ready(app): Ready,
    headers: HeaderMap,
    Body(request): Body<ResponseRequest>,
) -> Result<Response, ApiError> {
    let question = read(&request)?;
    state.clock().touch();
    let began = now();
    let answer = ask::ask(&app, &headers, None, question).await?;
    state.clock().touch();
    let id = HeaderValue::from_str(&answer.conversation.to_string()).map_err(ApiError::internal)?;
    let mut response = Json(completed(&request, &answer, began)).into_response();
    response.headers_mut().insert(CONVERSATION_HEADER, id);
    Ok(response)
}

fn read(request: &ResponseRequest) -> Result<Question, ApiError> {
    let refused =
        |what: &str| Err(ApiError::BadRequest(format!("{what} is not supported by this gateway: leave it out")));
    if request.store == Some(true) {
        return refused("store: true");
    }
    if request.stream == Some(true) {
        return refused("stream: true");
    }
    if request.previous_response_id.is_some() {
        return refused("previous_response_id");
    }
    let mut instructions: Vec<String> =
        request.instructions.iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect();
    let content = match &request.input {
        Input::Text(text) if text.is_empty() => return Err(ApiError::BadRequest("input must not be empty".to_owned())),
        Input::Text(text) => vec![Content::text(text)],
        Input::Messages(messages) => {
            let (system, others): (Vec<_>, Vec<_>) =
                messages.iter().partition(|message| matches!(message.role.as_str(), "system" | "developer"));
            for message in system {
                let text = message.content.text()?;
                if !text.is_empty() {
                    instructions.push(text);
                }
            }
            spoken(&others)?
        }
    };
    Ok(Question { model: request.model.clone(), instructions: instructions.join("\n\n"), content })
}

/// What the user says; when others spoke as well, everything with its speaker.
fn spoken(messages: &[&InputMessage]) -> Result<Vec<Content>, ApiError> {
    if !messages.iter().any(|message| message.role == "user") {
        return Err(ApiError::BadRequest("input: at least one message of role \"user\" is needed".to_owned()));
    }
    if let [only] = messages {
        return only.content.content();
    }
    let mut content = Vec::new();
    for message in messages {
        content.push(Content::text(format!("<message role=\"{}\">", message.role.escape_debug())));
        content.extend(message.content.content()?);
        content.push(Content::text("</message>"));
    }
    Ok(content)
}

fn completed(request: &ResponseRequest, answer: &Answer, began: f64) -> Value {
    let usage = &answer.usage;
    let mut response = json!({
        "id": format!("resp_{}", Uuid::new_v4().simple()),
        "object": "response",
        "created_at": began,
        "completed_at": now(),
        "model": request.model,
        "status": "completed",
        "output": [{
            "id": format!("msg_{}", Uuid::new_v4().simple()),
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": answer.text, "annotations": []}],
        }],
        "parallel_tool_calls": false,
        "tool_choice": "none",
        "tools": [],
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
        },
    });
    if let Some(members) = response.as_object_mut() {
        members.extend(request.instructions.iter().map(|text| ("instructions".to_owned(), text.as_str().into())));
        members.extend(request.metadata.iter().map(|kept| ("metadata".to_owned(), Value::Object(kept.clone()))));
    }
    response
}

fn now() -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of this century fit into 53 bits")]
    let milliseconds = jiff::Timestamp::now().as_millisecond() as f64;
    milliseconds / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(body: Value) -> Result<Question, ApiError> {
        let mut whole = json!({"model": "openhands_p"});
        for (name, value) in body.as_object().unwrap() {
            whole[name] = value.clone();
        }
        read(&serde_json::from_value(whole).unwrap())
    }

    #[test]
    fn input_is_text_or_messages() {
        let asked = question(json!({"input": "q", "instructions": " be brief "})).unwrap();
        assert_eq!((asked.instructions.as_str(), asked.content), ("be brief", vec![Content::text("q")]));
        let asked = question(json!({"input": [
            {"role": "developer", "content": "d"}, {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"role": "assistant", "content": "b"},
        ]}))
        .unwrap();
        assert_eq!(asked.instructions, "d");
        let texts: Vec<&str> = asked.content.iter().filter_map(Content::as_text).collect();
        assert_eq!(
            texts,
            ["<message role=\"user\">", "a", "</message>", "<message role=\"assistant\">", "b", "</message>"]
        );
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (body, word) in [
            (json!({"input": "q", "store": true}), "store"),
            (json!({"input": "q", "stream": true}), "stream"),
            (json!({"input": "q", "previous_response_id": "r"}), "previous_response_id"),
            (json!({"input": ""}), "empty"),
            (json!({"input": [{"role": "assistant", "content": "b"}]}), "user"),
        ] {
            match question(body) {
                Err(ApiError::BadRequest(text)) => assert!(text.contains(word), "{text}"),
                _ => panic!("{word} was accepted"),
            }
        }
    }
}
