//! `POST /v1/chat/completions`.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use openhands_protocol::metrics::TokenUsage;
use serde::Deserialize;
use serde_json::{Value, json};
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

/// The body; members that are not here are ignored (F1-GW-10).
#[derive(Debug, Deserialize)]
pub(super) struct ChatRequest {
    model: String,
    messages: Vec<ChatMessage>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Debug, Deserialize)]
struct ChatMessage {
    role: String,
    #[serde(default)]
    content: Option<Said>,
}

#[derive(Debug, Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// The handler. Of the messages only the newest of the user counts, and those of the system in a new conversation. With `stream`
/// the answer is told in chunks when the run has ended.
///
/// # Errors
/// As [`ask::ask`]; 400 without a message of the user.
pub(super) async fn complete(
    State(state): State<AppState>,
    Ready(app): Ready,
    headers: HeaderMap,
    Body(request): Body<ChatRequest>,
) -> Result<Response, ApiError> {
    let wanted = ask::wanted(&headers)?;
    let question = read(&request)?;
    state.clock().touch();
    let answer = ask::ask(&app, &headers, wanted, question).await?;
    state.clock().touch();
    let id = HeaderValue::from_str(&answer.conversation.to_string()).map_err(ApiError::internal)?;
    let mut response = if request.stream.unwrap_or_default() {
        let with_usage = request.stream_options.unwrap_or_default().include_usage;
        let body = stream(&request.model, &answer, with_usage);
        (StatusCode::OK, [(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
    } else {
        Json(completion(&request.model, &answer)).into_response()
    };
    response.headers_mut().insert(CONVERSATION_HEADER, id);
    Ok(response)
}

fn read(request: &ChatRequest) -> Result<Question, ApiError> {
    let user = request.messages.iter().rev().find(|message| message.role == "user");
    let user =
        user.ok_or_else(|| ApiError::BadRequest("messages: at least one of role \"user\" is needed".to_owned()))?;
    let content = user.content.as_ref().map(Said::content).transpose()?.unwrap_or_default();
    if content.is_empty() {
        return Err(ApiError::BadRequest("messages: the newest one of the user is empty".to_owned()));
    }
    let mut instructions = Vec::new();
    for message in request.messages.iter().filter(|message| matches!(message.role.as_str(), "system" | "developer")) {
        let text = message.content.as_ref().map(Said::text).transpose()?.unwrap_or_default();
        if !text.is_empty() {
            instructions.push(text);
        }
    }
    Ok(Question { model: request.model.clone(), instructions: instructions.join("\n\n"), content })
}

fn completion(model: &str, answer: &Answer) -> Value {
    json!({
        "id": format!("chatcmpl-{}", Uuid::new_v4().simple()),
        "object": "chat.completion",
        "created": now(),
        "model": model,
        "choices": [{
            "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer.text},
        }],
        "usage": usage(&answer.usage),
    })
}

/// The events of a stream: role, text, end, perhaps usage.
fn stream(model: &str, answer: &Answer, with_usage: bool) -> String {
    let (id, created) = (format!("chatcmpl-{}", Uuid::new_v4().simple()), now());
    let chunk = |choices: Value| json!({"id": id, "object": "chat.completion.chunk", "created": created, "model": model, "choices": choices});
    let choice = |delta: Value, end: Option<&str>| match end {
        Some(reason) => json!([{"index": 0, "delta": delta, "finish_reason": reason}]),
        None => json!([{"index": 0, "delta": delta}]),
    };
    let mut chunks = vec![
        chunk(choice(json!({"role": "assistant", "content": ""}), None)),
        chunk(choice(json!({"content": answer.text}), None)),
        chunk(choice(json!({}), Some("stop"))),
    ];
    if with_usage {
        let mut last = chunk(json!([]));
        if let Some(members) = last.as_object_mut() {
            members.insert("usage".to_owned(), usage(&answer.usage));
        }
        chunks.push(last);
    }
    let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    events + "data: [DONE]\n\n"
}

fn usage(usage: &TokenUsage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    })
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

#[cfg(test)]
mod tests {
    use openhands_protocol::{Content, ConversationId};

    use super::*;

    fn question(messages: Value) -> Result<Question, ApiError> {
        read(&serde_json::from_value(json!({"model": "openhands_p", "messages": messages})).unwrap())
    }

    #[test]
    fn the_newest_message_of_the_user_counts() {
        let asked = question(json!([
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": "old"},
            {"role": "assistant", "content": null}, {"role": "user", "content": [{"type": "text", "text": "new"}]},
            {"role": "developer", "content": "In verse."},
        ]));
        let asked = asked.unwrap();
        assert_eq!(
            (asked.instructions.as_str(), asked.content),
            ("Be brief.\n\nIn verse.", vec![Content::text("new")])
        );
        for wrong in [json!([]), json!([{"role": "system", "content": "s"}]), json!([{"role": "user", "content": ""}])]
        {
            assert!(matches!(question(wrong), Err(ApiError::BadRequest(_))));
        }
    }

    #[test]
    fn a_stream_says_what_the_whole_answer_says() {
        let usage = TokenUsage { prompt_tokens: 3, completion_tokens: 2, ..TokenUsage::default() };
        let answer = Answer { conversation: ConversationId::random(), text: "hello".to_owned(), usage };
        let text = stream("m", &answer, true);
        let events: Vec<&str> =
            text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap()).collect();
        assert_eq!(events.last(), Some(&"[DONE]"));
        let chunks: Vec<Value> =
            events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        let said: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(said, "hello");
        assert_eq!(chunks[2]["choices"][0]["finish_reason"], "stop");
        assert_eq!((&chunks[3]["choices"], &chunks[3]["usage"]["total_tokens"]), (&json!([]), &json!(5)));
        assert!(!stream("m", &answer, false).contains("usage"));
        assert_eq!(completion("m", &answer)["choices"][0]["message"], json!({"role": "assistant", "content": "hello"}));
    }
}
