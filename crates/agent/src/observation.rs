//! What a model reads of an observation's body.
//!
//! Bodies belong to their tools; common to all are `content` (parts) and `is_error`. A command's body also has `metadata`
//! whose facts a person sees beside the output; a model gets them as lines after it.

use openhands_protocol::{Content, TextContent, event::observation_content};
use serde_json::Value;

const FAILED: &str = "[The tool reports an error]\n";

/// The parts of a tool result; never empty, because providers refuse empty results.
pub(crate) fn parts(body: &Value, extended: &[TextContent]) -> Vec<Content> {
    let mut parts = observation_content(body);
    if let Some(metadata) = body.get("metadata") {
        frame(&mut parts, metadata);
    }
    if body.get("is_error").and_then(Value::as_bool) == Some(true) {
        put_before(&mut parts, FAILED);
    }
    parts
        .extend(extended.iter().map(|part| Content::Text { cache_prompt: part.cache_prompt, text: part.text.clone() }));
    let shows_something = parts.iter().any(|part| part.as_text().is_none_or(|text| !text.is_empty()));
    if !shows_something {
        return vec![Content::text("(no output)")];
    }
    parts
}

/// Puts what the metadata says around the text: prefix, suffix, directory, exit code.
fn frame(parts: &mut Vec<Content>, metadata: &Value) {
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(prefix) = text("prefix") {
        put_before(parts, prefix);
    }
    let mut after = text("suffix").unwrap_or_default().to_owned();
    if let Some(directory) = text("working_dir") {
        after.push_str(&format!("\n[Current directory: {directory}]"));
    }
    if let Some(code) = metadata.get("exit_code").and_then(Value::as_i64).filter(|code| *code != -1) {
        after.push_str(&format!("\n[Exit code: {code}]"));
    }
    match parts.iter_mut().rev().find_map(text_of) {
        Some(last) => last.push_str(&after),
        None => parts.push(Content::text(after.trim_start())),
    }
}

fn put_before(parts: &mut Vec<Content>, text: &str) {
    match parts.first_mut().and_then(text_of) {
        Some(first) => first.insert_str(0, text),
        None => parts.insert(0, Content::text(text.trim_end())),
    }
}

fn text_of(part: &mut Content) -> Option<&mut String> {
    match part {
        Content::Text { text, .. } => Some(text),
        Content::Image { .. } => None,
    }
}

/// Cuts a text part to about `max_chars` characters, keeping its beginning and its end. Zero means no limit.
pub(crate) fn shorten(part: &mut Content, max_chars: usize) {
    let Some(text) = text_of(part) else { return };
    // Bytes are an upper bound of characters, so most texts are not counted.
    if max_chars == 0 || text.len() <= max_chars {
        return;
    }
    let count = text.chars().count();
    if count <= max_chars {
        return;
    }
    let half = max_chars / 2;
    let head_end = text.char_indices().nth(half).map_or(text.len(), |(at, _)| at);
    let tail_start = text.char_indices().nth(count - half).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (text.get(..head_end).unwrap_or_default(), text.get(tail_start..).unwrap_or_default());
    *text = format!("{head}\n[... {} characters left out ...]\n{tail}", count - 2 * half);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(body: Value, expected: &str) {
        let texts: Vec<String> = parts(&body, &[]).iter().filter_map(Content::as_text).map(str::to_owned).collect();
        assert_eq!(texts.join("|"), expected);
    }

    #[test]
    fn bodies() {
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        check(json!({"content": text("hi")}), "hi");
        check(json!({"content": []}), "(no output)");
        check(json!({"content": text("")}), "(no output)");
        check(json!({"content": text("bad"), "is_error": true}), "[The tool reports an error]\nbad");
        check(json!({"content": [], "is_error": true}), "[The tool reports an error]");
        check(
            json!({"content": text("out"), "metadata": {"prefix": "<", "suffix": ">", "working_dir": "/w", "exit_code": 3}}),
            "<out>\n[Current directory: /w]\n[Exit code: 3]",
        );
        check(json!({"content": text("out"), "metadata": {"exit_code": -1}}), "out");
        check(json!({"content": [], "metadata": {"exit_code": 0}}), "[Exit code: 0]");
    }

    #[test]
    fn long_texts_keep_both_ends() {
        let mut part = Content::text("äbcdefghij");
        shorten(&mut part, 4);
        assert_eq!(part.as_text(), Some("äb\n[... 6 characters left out ...]\nij"));
        let mut short = Content::text("äbcd");
        shorten(&mut short, 4);
        assert_eq!(short.as_text(), Some("äbcd"));
    }
}
