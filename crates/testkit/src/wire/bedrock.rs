//! Converse of AWS Bedrock.

use serde_json::{Value, json};

use super::{Figures, aws_message, input, pieces};
use crate::turn::Turn;

pub(super) fn document(turn: &Turn) -> String {
    let mut content = Vec::new();
    if let Some(reasoning) = &turn.reasoning {
        let text = json!({"text": reasoning, "signature": turn.signature});
        content.push(json!({"reasoningContent": {"reasoningText": text}}));
    }
    if let Some(data) = &turn.redacted {
        content.push(json!({"reasoningContent": {"redactedContent": data}}));
    }
    content.extend(turn.text.iter().map(|text| json!({"text": text})));
    content.extend(
        turn.calls
            .iter()
            .map(|call| json!({"toolUse": {"toolUseId": call.id, "name": call.name, "input": input(&call.arguments)}})),
    );
    let message = json!({"role": "assistant", "content": content});
    let mut document =
        json!({"output": {"message": message}, "stopReason": stop_reason(turn), "metrics": {"latencyMs": 1}});
    if let Some(more) = more(turn) {
        document["additionalModelResponseFields"] = more;
    }
    if let Some(usage) = usage(turn) {
        document["usage"] = usage;
    }
    document.to_string()
}

pub(super) fn stream(turn: &Turn) -> Vec<u8> {
    let mut events = vec![("messageStart", json!({"role": "assistant"}))];
    let mut index = 0;
    let mut block = |start: Option<Value>, deltas: Vec<Value>| {
        let start = start.map(|start| ("contentBlockStart", json!({"contentBlockIndex": index, "start": start})));
        events.extend(start);
        let deltas = deltas.into_iter();
        events.extend(deltas.map(|delta| ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}))));
        events.push(("contentBlockStop", json!({"contentBlockIndex": index})));
        index += 1;
    };
    if turn.reasoning.is_some() {
        let texts = pieces(turn.reasoning.as_deref()).into_iter().map(|piece| json!({"text": piece}));
        let signature = turn.signature.iter().map(|signature| json!({"signature": signature}));
        block(None, texts.chain(signature).map(|delta| json!({"reasoningContent": delta})).collect());
    }
    if let Some(data) = &turn.redacted {
        block(None, vec![json!({"reasoningContent": {"redactedContent": data}})]);
    }
    if turn.text.is_some() {
        block(None, pieces(turn.text.as_deref()).iter().map(|piece| json!({"text": piece})).collect());
    }
    for call in &turn.calls {
        let deltas = pieces(Some(&call.arguments)).iter().map(|piece| json!({"toolUse": {"input": piece}})).collect();
        block(Some(json!({"toolUse": {"toolUseId": call.id, "name": call.name}})), deltas);
    }
    if turn.finish_reason.is_some() {
        let stop = json!({"stopReason": stop_reason(turn), "additionalModelResponseFields": more(turn)});
        events.push(("messageStop", stop));
    }
    if let Some(usage) = usage(turn) {
        events.push(("metadata", json!({"usage": usage, "metrics": {"latencyMs": 1}})));
    }
    let message = |(name, payload): &(&str, Value)| {
        let headers = [(":event-type", *name), (":content-type", "application/json"), (":message-type", "event")];
        aws_message(&headers, &payload.to_string())
    };
    events.iter().flat_map(message).collect()
}

fn stop_reason(turn: &Turn) -> Option<&str> {
    Some(match turn.finish_reason.as_deref()? {
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        other => other,
    })
}

/// Reasoning, which the usage does not tell apart.
fn more(turn: &Turn) -> Option<Value> {
    let reasoning = Figures::of(turn)?.reasoning;
    Some(json!({"usage": {"output_tokens_details": {"thinking_tokens": reasoning}}}))
}

fn usage(turn: &Turn) -> Option<Value> {
    let Figures { prompt, completion, cached, written, .. } = Figures::of(turn)?;
    Some(json!({
        "inputTokens": prompt.saturating_sub(cached + written), "outputTokens": completion,
        "totalTokens": prompt + completion, "cacheReadInputTokens": cached, "cacheWriteInputTokens": written,
    }))
}
