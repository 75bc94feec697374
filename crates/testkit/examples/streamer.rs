//! A model in a process of its own that answers with numbered words, as many and as fast as the address says: the other side of
//! measurements, where every lost or mixed-up piece shows.
//!
//! `/{deltas}/{pause}/v1/chat/completions`: so many words, ten a write, so many milliseconds between writes. The words of the
//! model `openai/m7` are `m7:0 m7:1 ...`. Prints its address and serves until it is killed.

#![expect(clippy::print_stdout, reason = "its address is what it has to say")]

use std::{convert::Infallible, fmt::Write as _, time::Duration};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::Path,
    response::{IntoResponse as _, Response},
    routing::post,
};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

const BATCH: u64 = 10;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let router = Router::new()
        .route("/{deltas}/{pause}/v1/chat/completions", post(answer))
        .layer(axum::extract::DefaultBodyLimit::max(64 * 1024 * 1024));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

async fn answer(Path((deltas, pause)): Path<(u64, u64)>, Json(request): Json<Value>) -> Response {
    let model = request.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
    let usage = json!({"prompt_tokens": 100, "completion_tokens": deltas, "total_tokens": 100 + deltas});
    if request.get("stream") != Some(&Value::Bool(true)) {
        let mut text = String::new();
        for number in 0..deltas {
            // Writing to a string cannot fail.
            let _ = write!(text, "{model}:{number} ");
        }
        let choice = json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
        return Json(json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage,
        }))
        .into_response();
    }
    let writes = stream::iter(0..deltas.div_ceil(BATCH)).then(move |batch| {
        let mut text = String::new();
        for number in batch * BATCH..deltas.min((batch + 1) * BATCH) {
            let delta = json!({"content": format!("{model}:{number} ")});
            text.push_str(&event(&model, &json!([{"index": 0, "delta": delta, "finish_reason": null}]), None));
        }
        if (batch + 1) * BATCH >= deltas {
            text.push_str(&event(&model, &json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]), None));
            text.push_str(&event(&model, &json!([]), Some(&usage)));
            text.push_str("data: [DONE]\n\n");
        }
        async move {
            if pause > 0 {
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            Ok::<_, Infallible>(Bytes::from(text))
        }
    });
    ([("content-type", "text/event-stream")], Body::from_stream(writes)).into_response()
}

fn event(model: &str, choices: &Value, usage: Option<&Value>) -> String {
    let mut chunk = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices,
    });
    if let (Some(usage), Some(members)) = (usage, chunk.as_object_mut()) {
        members.insert("usage".to_owned(), usage.clone());
    }
    format!("data: {chunk}\n\n")
}
