//! One form for requests that mean the same, whatever the provider's format: texts that each server words for itself become
//! marks, and spellings that every provider takes for the same become one.

use openhands_testkit::SeenRequest;
use serde_json::{Map, Value, json};

/// Headers that say nothing of the model call.
const IGNORED: &[&str] = &[
    "host",
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "user-agent",
    "x-amz-date",
    "amz-sdk-invocation-id",
    "amz-sdk-request",
];
/// The Python client library's own telling of itself.
const IGNORED_PREFIX: &str = "x-stainless-";
/// Stands where the prompt, which each server words for itself, was.
const PROMPT: &str = "(prompt)";

/// The request: path, query, headers, body.
#[must_use]
pub fn normal(seen: &SeenRequest) -> Value {
    let mut body = seen.body.clone();
    if seen.path.contains(":generateContent") || seen.path.contains(":streamGenerateContent") {
        body = camel_case(body);
    }
    if let Value::Object(members) = &mut body {
        for name in ["system", "instructions", "systemInstruction"] {
            if let Some(prompt) = members.get_mut(name) {
                *prompt = marked(parts(prompt.take()), PROMPT);
            }
        }
        for name in ["messages", "input", "contents"] {
            for message in members.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
                normal_message(message);
            }
        }
        for name in ["tools", "toolConfig"] {
            if let Some(tools) = members.get_mut(name) {
                normal_tools(tools);
            }
        }
    }
    let mut request = json!({"path": seen.path, "query": query(&seen.query), "headers": headers(seen), "body": body});
    without_ids(&mut request);
    request
}

fn query(text: &str) -> Map<String, Value> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect()
}

fn headers(seen: &SeenRequest) -> Map<String, Value> {
    let mut kept = Map::new();
    for (name, value) in &seen.headers {
        let name = name.as_str();
        if IGNORED.contains(&name) || name.starts_with(IGNORED_PREFIX) {
            continue;
        }
        let mut value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        if value.starts_with("AWS4-HMAC-SHA256 ") {
            // The rest is time and signature.
            value.truncate("AWS4-HMAC-SHA256".len());
        }
        kept.insert(name.to_owned(), value.into());
    }
    kept
}

/// Ids that a server makes up.
fn without_ids(value: &mut Value) {
    match value {
        Value::String(text) if is_uuid(text) => *text = "(uuid)".to_owned(),
        Value::Array(items) => items.iter_mut().for_each(without_ids),
        Value::Object(members) => members.values_mut().for_each(without_ids),
        _ => {}
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if [8, 13, 18, 23].contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() })
}

fn normal_message(message: &mut Value) {
    let Value::Object(members) = message else { return };
    let role = members.get("role").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(content) = members.get_mut("content") {
        *content = match role.as_str() {
            "system" | "developer" => marked(parts(content.take()), PROMPT),
            "tool" => results(parts(content.take())),
            "user" => told_results(parts(content.take())),
            _ => parts(content.take()),
        };
    }
    for name in ["content", "parts"] {
        for part in members.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
            for (outer, inner) in [("", "content"), ("toolResult", "content"), ("functionResponse", "response")] {
                let part = if outer.is_empty() { Some(&mut *part) } else { part.get_mut(outer) };
                let is_result = |part: &&mut Value| !outer.is_empty() || part["type"] == "tool_result";
                if let Some(content) = part.filter(is_result).and_then(|part| part.get_mut(inner)) {
                    *content = results(parts(content.take()));
                    // Google leaves the name of this member to its users.
                    let said = content.get("content").or_else(|| content.get("result")).cloned();
                    if let (Some(said), "functionResponse") = (said, outer) {
                        *content = said;
                    }
                }
            }
        }
    }
    if let Some(output) = members.get_mut("output") {
        *output = results(parts(output.take()));
    }
    // What a call was given is JSON whose spaces mean nothing.
    if let Some(arguments) = members.get_mut("arguments") {
        parse(arguments);
    }
    for call in members.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(arguments) = call.pointer_mut("/function/arguments") {
            parse(arguments);
        }
    }
}

fn parse(text: &mut Value) {
    if let Some(value) = text.as_str().and_then(|text| serde_json::from_str(text).ok()) {
        *text = value;
    }
}

/// A text alone is a list of one text.
fn parts(content: Value) -> Value {
    match content {
        Value::String(text) => json!([{"type": "text", "text": text}]),
        other => other,
    }
}

/// Texts replaced by `mark`; how many there are, and what is set beside them, stays.
fn marked(mut content: Value, mark: &str) -> Value {
    each_text(&mut content, &|_| mark.to_owned());
    content
}

/// Texts of results are worded by each server; the outputs in them, words that end in `-output`, are not.
fn results(mut content: Value) -> Value {
    each_text(&mut content, &|text| {
        let outputs: Vec<&str> =
            text.split(|c: char| !c.is_alphanumeric() && c != '-').filter(|word| word.ends_with("-output")).collect();
        format!("(result: {})", outputs.join(" "))
    });
    content
}

/// Where a model is told of its tools by prompt, results are texts of the user.
fn told_results(mut content: Value) -> Value {
    for part in content.as_array_mut().into_iter().flatten() {
        if part["text"].as_str().is_some_and(|text| text.contains("-output\n")) {
            *part = results(part.take());
        }
    }
    content
}

fn each_text(value: &mut Value, change: &dyn Fn(&str) -> String) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if ["text", "content", "output", "result"].contains(&name.as_str()) => {
                        *text = change(text);
                    }
                    Value::Array(_) | Value::Object(_) => each_text(member, change),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Tools by name, without the words that describe them.
fn normal_tools(tools: &mut Value) {
    without_descriptions(tools, false);
    if let Some(list) = tools.as_array_mut() {
        list.sort_by_key(|tool| tool.pointer("/function/name").or_else(|| tool.get("name")).map(Value::to_string));
    }
    if let Some(declarations) = tools.pointer_mut("/0/functionDeclarations") {
        one_name_for_schemas(declarations);
    }
    for place in ["/tools", "/0/functionDeclarations"] {
        if let Some(list) = tools.pointer_mut(place).and_then(Value::as_array_mut) {
            list.sort_by_key(|tool| tool.pointer("/toolSpec/name").or_else(|| tool.get("name")).map(Value::to_string));
        }
    }
}

/// Google takes a schema under two names.
fn one_name_for_schemas(declarations: &mut Value) {
    for declaration in declarations.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(schema) = declaration.remove("parametersJsonSchema") {
            declaration.insert("parameters".to_owned(), schema);
        }
    }
}

/// Inside `properties` a description is a parameter's name.
fn without_descriptions(value: &mut Value, are_names: bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| without_descriptions(item, false)),
        Value::Object(members) => {
            if !are_names {
                members.remove("description");
            }
            for (name, member) in members {
                without_descriptions(member, name == "properties" && !are_names);
            }
        }
        _ => {}
    }
}

/// Google takes both spellings of its own members. What tools and their schemas are named is left alone.
fn camel_case(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| {
                let is_foreign = ["args", "properties", "response"].contains(&name.as_str());
                (camel(&name), if is_foreign { value } else { camel_case(value) })
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.into_iter().map(camel_case).collect(),
        other => other,
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(path: &str, body: Value) -> SeenRequest {
        let headers = [("host", "h"), ("x-stainless-os", "Linux"), ("x-api-key", "k")];
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        SeenRequest { path: path.into(), query: "a=1&b".into(), headers, bytes: Default::default(), body }
    }

    #[test]
    fn words_of_a_server_become_marks_and_the_rest_stays() {
        let body = json!({
            "messages": [
                {"role": "system", "content": [{"type": "text", "text": "You are", "cache_control": {"type": "ephemeral"}}]},
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "function": {"name": "t", "arguments": "{ \"a\": 1}"}}]},
                {"role": "tool", "content": "said one-output, in 3 s"},
                {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "two-output"}]}]},
            ],
            "tools": [
                {"type": "function", "function": {"name": "b", "description": "B", "parameters": {"properties": {"description": {"description": "d"}}}}},
                {"type": "function", "function": {"name": "a"}},
            ],
        });
        let wanted = json!({
            "path": "/v1/chat/completions", "query": {"a": "1", "b": ""}, "headers": {"x-api-key": "k"},
            "body": {
                "messages": [
                    {"role": "system", "content": [{"type": "text", "text": "(prompt)", "cache_control": {"type": "ephemeral"}}]},
                    {"role": "user", "content": [{"type": "text", "text": "hello"}]},
                    {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "function": {"name": "t", "arguments": {"a": 1}}}]},
                    {"role": "tool", "content": [{"type": "text", "text": "(result: one-output)"}]},
                    {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "(result: two-output)"}]}]},
                ],
                "tools": [
                    {"type": "function", "function": {"name": "a"}},
                    {"type": "function", "function": {"name": "b", "parameters": {"properties": {"description": {}}}}},
                ],
            },
        });
        assert_eq!(normal(&seen("/v1/chat/completions", body)), wanted);
    }

    #[test]
    fn both_spellings_of_google_are_one() {
        let body = json!({"system_instruction": {"parts": [{"text": "You"}]}, "contents": [{"parts": [{"function_response": {"response": {"a_b": "x"}}}]}], "tools": [{"function_declarations": [{"name": "t", "parameters_json_schema": {}}]}]});
        let wanted = json!({"systemInstruction": {"parts": [{"text": "(prompt)"}]}, "contents": [{"parts": [{"functionResponse": {"response": {"a_b": "x"}}}]}], "tools": [{"functionDeclarations": [{"name": "t", "parameters": {}}]}]});
        assert_eq!(normal(&seen("/models/m:generateContent", body))["body"], wanted);
    }
}
