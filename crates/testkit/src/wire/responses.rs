//! OpenAI's Responses.

use serde_json::{Value, json};

use super::{Figures, named_event, pieces};
use crate::turn::Turn;

pub(super) fn document(turn: &Turn, id: &str, model: &str) -> Value {
    let (status, details) = match turn.finish_reason.as_deref() {
        Some("length") => ("incomplete", json!({"reason": "max_output_tokens"})),
        Some(_) => ("completed", Value::Null),
        None => ("in_progress", Value::Null),
    };
    let mut document = json!({
        "id": id, "object": "response", "created_at": 1, "model": model, "status": status, "error": null,
        "incomplete_details": details, "output": output(turn),
    });
    if let Some(Figures { prompt, completion, cached, written, reasoning }) = Figures::of(turn) {
        document["usage"] = json!({
            "input_tokens": prompt, "output_tokens": completion, "total_tokens": prompt + completion,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "output_tokens_details": {"reasoning_tokens": reasoning},
        });
    }
    document
}

pub(super) fn stream(turn: &Turn, id: &str, model: &str) -> String {
    let whole = document(turn, id, model);
    let mut begun = whole.clone();
    (begun["status"], begun["output"], begun["usage"]) = ("in_progress".into(), json!([]), Value::Null);
    let mut body = event("response.created", json!({"response": begun}));
    for (index, item) in output(turn).into_iter().enumerate() {
        let mut added = item.clone();
        let (kind, member, text): (_, _, String) = match item["type"].as_str().unwrap_or_default() {
            "reasoning" => {
                added["summary"] = json!([]);
                ("response.reasoning_summary_text.delta", "summary_index", turn.reasoning.clone().unwrap_or_default())
            }
            "message" => {
                added["content"] = json!([]);
                ("response.output_text.delta", "content_index", turn.text.clone().unwrap_or_default())
            }
            _ => {
                added["arguments"] = "".into();
                let arguments = item["arguments"].as_str().unwrap_or_default().to_owned();
                ("response.function_call_arguments.delta", "sequence_number", arguments)
            }
        };
        body.push_str(&event("response.output_item.added", json!({"output_index": index, "item": added})));
        for piece in pieces(Some(&text)) {
            let delta = json!({"output_index": index, "item_id": item["id"], "delta": piece, member: 0});
            body.push_str(&event(kind, delta));
        }
        body.push_str(&event("response.output_item.done", json!({"output_index": index, "item": item})));
    }
    if turn.finish_reason.is_some() {
        let end = if whole["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
        body.push_str(&event(end, json!({"response": whole})));
    }
    body
}

fn event(kind: &str, mut data: Value) -> String {
    data["type"] = kind.into();
    named_event(kind, &data)
}

fn output(turn: &Turn) -> Vec<Value> {
    let mut output = Vec::new();
    if let Some(reasoning) = &turn.reasoning {
        output.push(json!({
            "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": reasoning}],
            "encrypted_content": turn.signature, "status": null,
        }));
    }
    if let Some(text) = &turn.text {
        let part = json!({"type": "output_text", "text": text, "annotations": []});
        output.push(
            json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}),
        );
    }
    for (number, call) in turn.calls.iter().enumerate() {
        output.push(json!({
            "type": "function_call", "id": format!("fc_item_{number}"), "call_id": call.id, "name": call.name,
            "arguments": call.arguments, "status": "completed",
        }));
    }
    output
}
