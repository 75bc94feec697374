//! A neutral request as the body of a Chat Completions call.

use openhands_protocol::{Content, LlmConfig, Message, Role, ToolCall};
use serde_json::{Map, Value, json};

use crate::{LlmError, LlmRequest, OfferedTool, models::Abilities, providers::Endpoint};

/// Members that the reader of the answer depends on; `litellm_extra_body` cannot change them.
const OURS: [&str; 3] = ["messages", "stream", "stream_options"];

/// What a body depends on beside the request.
pub(super) struct Rendering<'a> {
    pub(super) config: &'a LlmConfig,
    pub(super) endpoint: &'a Endpoint,
    pub(super) abilities: Abilities,
    /// May differ from the configuration's in a later attempt.
    pub(super) temperature: Option<f64>,
}

impl Rendering<'_> {
    pub(super) fn body(&self, request: &LlmRequest, streamed: bool) -> Result<Vec<u8>, LlmError> {
        serde_json::to_vec(&self.members(request, streamed))
            .map_err(|error| LlmError::BadRequest(format!("the request cannot be written as JSON: {error}")))
    }

    fn members(&self, request: &LlmRequest, streamed: bool) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("model".to_owned(), self.endpoint.model.as_str().into());
        body.insert("messages".to_owned(), self.messages(&request.messages).into());
        if !request.tools.is_empty() {
            body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
        }
        for (name, value) in self.parameters(!request.tools.is_empty()) {
            if !value.is_null() {
                body.insert(name.to_owned(), value);
            }
        }
        if streamed {
            body.insert("stream".to_owned(), true.into());
            body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
        for (name, value) in &self.config.litellm_extra_body {
            if !OURS.contains(&name.as_str()) {
                body.insert(name.clone(), value.clone());
            }
        }
        body
    }

    /// With `drop_params` off everything that is configured is sent, whatever the table says about the model.
    fn parameters(&self, with_tools: bool) -> Vec<(&'static str, Value)> {
        let (config, abilities) = (self.config, self.abilities);
        let sampling = abilities.sampling || !config.drop_params;
        let sampled = |value: Option<f64>| if sampling { json!(value) } else { Value::Null };
        let top_k = self.endpoint.provider.takes_top_k || !config.drop_params;
        let effort = abilities.reasoning_effort && (abilities.effort_beside_tools || !with_tools);
        let when = |condition: bool, value: Value| if condition { value } else { Value::Null };
        vec![
            ("temperature", sampled(self.temperature)),
            ("top_p", sampled(config.top_p)),
            ("top_k", when(top_k, sampled(config.top_k))),
            (self.endpoint.provider.max_tokens_member, json!(config.max_output_tokens)),
            ("seed", json!(config.seed)),
            ("reasoning_effort", when(effort, json!(config.reasoning_effort))),
            ("prompt_cache_retention", when(abilities.cache_retention, json!(config.prompt_cache_retention))),
        ]
    }

    fn messages(&self, messages: &[Message]) -> Vec<Value> {
        let mut rendered = Vec::with_capacity(messages.len());
        // Tool messages take no images, and nothing may stand between the results of one batch: images follow behind it.
        let mut from_tools: Vec<Value> = Vec::new();
        for message in messages {
            if message.role != Role::Tool {
                flush(&mut from_tools, &mut rendered);
            }
            match message.role {
                Role::System => rendered.push(json!({"role": "system", "content": text(&message.content)})),
                Role::User => rendered.push(json!({"role": "user", "content": self.user_content(&message.content)})),
                Role::Assistant => rendered.push(self.assistant(message)),
                Role::Tool => {
                    rendered.push(self.tool_result(message));
                    if self.abilities.images {
                        from_tools.extend(message.content.iter().flat_map(images));
                    }
                }
            }
        }
        flush(&mut from_tools, &mut rendered);
        rendered
    }

    fn user_content(&self, content: &[Content]) -> Value {
        let with_images = self.abilities.images && content.iter().any(|part| matches!(part, Content::Image { .. }));
        if !with_images {
            return text(content).into();
        }
        content
            .iter()
            .flat_map(|part| match part {
                Content::Text { text, .. } => vec![json!({"type": "text", "text": text})],
                Content::Image { .. } => images(part),
            })
            .collect()
    }

    fn assistant(&self, message: &Message) -> Value {
        let mut json = Map::new();
        let (text, calls) = (text(&message.content), message.tool_calls.as_deref().unwrap_or_default());
        json.insert("role".to_owned(), "assistant".into());
        json.insert("content".to_owned(), if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() });
        if !calls.is_empty() {
            json.insert("tool_calls".to_owned(), calls.iter().map(call).collect());
        }
        if let Some(reasoning) = message.reasoning_content.as_ref().filter(|_| self.abilities.reasoning_sent_back) {
            json.insert("reasoning_content".to_owned(), reasoning.as_str().into());
        }
        json.into()
    }

    fn tool_result(&self, message: &Message) -> Value {
        let mut json = Map::new();
        json.insert("role".to_owned(), "tool".into());
        json.insert("content".to_owned(), shortened(&text(&message.content), self.config.max_message_chars).into());
        json.insert("tool_call_id".to_owned(), json!(message.tool_call_id));
        if let Some(name) = &message.name {
            json.insert("name".to_owned(), name.as_str().into());
        }
        json.into()
    }
}

fn flush(from_tools: &mut Vec<Value>, rendered: &mut Vec<Value>) {
    if !from_tools.is_empty() {
        let mut content = vec![json!({"type": "text", "text": "The images of the tool results above:"})];
        content.append(from_tools);
        rendered.push(json!({"role": "user", "content": content}));
    }
}

/// Text parts in one string: every server takes it, while lists are refused by some.
fn text(content: &[Content]) -> String {
    content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
}

fn images(part: &Content) -> Vec<Value> {
    match part {
        Content::Image { image_urls, .. } => {
            image_urls.iter().map(|url| json!({"type": "image_url", "image_url": {"url": url}})).collect()
        }
        Content::Text { .. } => Vec::new(),
    }
}

fn call(call: &ToolCall) -> Value {
    // A history with arguments that are no JSON is refused by some providers for ever after.
    let valid = serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
    let arguments = if valid { call.arguments.as_str() } else { "{}" };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

fn tool(tool: &OfferedTool) -> Value {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    })
}

/// A long text loses its middle: the beginning tells what it is and the end how it went (F1-LLM-13).
fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit || text.chars().count() <= limit {
        return text.to_owned();
    }
    let count = text.chars().count();
    let (head, tail) = (limit - limit / 2, limit / 2);
    let at = |character: usize| text.char_indices().nth(character).map_or(text.len(), |(at, _)| at);
    let (first, last) = (text.get(..at(head)).unwrap_or_default(), text.get(at(count - tail)..).unwrap_or_default());
    format!("{first}\n[{} characters left out]\n{last}", count - head - tail)
}

#[cfg(test)]
mod tests {
    use openhands_protocol::secret::SecretText;

    use super::*;

    fn rendered(change: impl FnOnce(&mut LlmConfig), request: &LlmRequest, streamed: bool) -> Value {
        let mut config = LlmConfig {
            model: "openai/m".to_owned(),
            base_url: Some("http://127.0.0.1:9/v1".to_owned()),
            api_key: Some(SecretText::new("k")),
            ..LlmConfig::default()
        };
        change(&mut config);
        let endpoint = Endpoint::of(&config, &Default::default()).unwrap();
        let rendering = Rendering {
            config: &config,
            endpoint: &endpoint,
            abilities: Abilities::of(&config),
            temperature: config.temperature,
        };
        serde_json::from_slice(&rendering.body(request, streamed).unwrap()).unwrap()
    }

    fn conversation() -> LlmRequest {
        let call = |id: &str, arguments: &str| ToolCall {
            id: id.to_owned(),
            responses_item_id: None,
            name: "terminal".to_owned(),
            arguments: arguments.to_owned(),
            origin: Default::default(),
        };
        let image = |url: &str| Content::Image { cache_prompt: false, image_urls: vec![url.to_owned()] };
        let result = |id: &str, content: Vec<Content>| Message {
            tool_call_id: Some(id.to_owned()),
            name: Some("terminal".to_owned()),
            ..Message::new(Role::Tool, content)
        };
        LlmRequest {
            messages: vec![
                Message::new(Role::System, vec![Content::text("static"), Content::text("dynamic")]),
                Message::new(Role::User, vec![Content::text("look"), image("data:image/png;base64,AA==")]),
                Message {
                    tool_calls: Some(vec![call("a", r#"{"command":"ls"}"#), call("b", "{broken")]),
                    reasoning_content: Some("hm".to_owned()),
                    ..Message::new(Role::Assistant, vec![])
                },
                result("a", vec![Content::text("files"), image("https://h/x.png")]),
                result("b", vec![Content::text("invalid arguments")]),
                Message::new(Role::Assistant, vec![Content::text("done")]),
                Message::new(Role::User, vec![Content::text("thanks")]),
            ],
            tools: vec![OfferedTool {
                name: "terminal".to_owned(),
                description: "runs".to_owned(),
                parameters: json!({"type": "object", "properties": {}}),
            }],
        }
    }

    #[test]
    fn a_conversation_with_parallel_calls_and_images() {
        let body = rendered(|_| {}, &conversation(), false);
        let function = |arguments: &str| json!({"name": "terminal", "arguments": arguments});
        assert_eq!(
            body,
            json!({
                "model": "m",
                "messages": [
                    {"role": "system", "content": "static\ndynamic"},
                    {"role": "user", "content": [
                        {"type": "text", "text": "look"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                    ]},
                    {"role": "assistant", "content": null, "tool_calls": [
                        {"id": "a", "type": "function", "function": function(r#"{"command":"ls"}"#)},
                        {"id": "b", "type": "function", "function": function("{}")},
                    ]},
                    {"role": "tool", "content": "files", "tool_call_id": "a", "name": "terminal"},
                    {"role": "tool", "content": "invalid arguments", "tool_call_id": "b", "name": "terminal"},
                    {"role": "user", "content": [
                        {"type": "text", "text": "The images of the tool results above:"},
                        {"type": "image_url", "image_url": {"url": "https://h/x.png"}},
                    ]},
                    {"role": "assistant", "content": "done"},
                    {"role": "user", "content": "thanks"},
                ],
                "tools": [{"type": "function", "function": {
                    "name": "terminal", "description": "runs", "parameters": {"type": "object", "properties": {}},
                }}],
            })
        );
        let blind = rendered(|config| config.disable_vision = Some(true), &conversation(), false);
        assert!(!blind.to_string().contains("image_url"));
        assert_eq!(blind["messages"][1]["content"], "look");
        let kimi = rendered(|config| config.model = "kimi-k2-thinking".to_owned(), &conversation(), false);
        assert_eq!(kimi["messages"][2]["reasoning_content"], "hm");
    }

    #[test]
    fn parameters_go_to_models_that_take_them() {
        let set = |model: &'static str| {
            move |config: &mut LlmConfig| {
                config.model = model.to_owned();
                (config.temperature, config.top_p, config.top_k) = (Some(0.5), Some(0.25), Some(40.0));
                (config.max_output_tokens, config.seed) = (Some(1000), Some(7));
            }
        };
        let members = |body: Value| {
            let mut members = body.as_object().unwrap().clone();
            members.remove("messages");
            Value::from(members)
        };
        let none = LlmRequest::default();
        let sampled =
            json!({"model": "m", "temperature": 0.5, "top_p": 0.25, "max_completion_tokens": 1000, "seed": 7});
        assert_eq!(members(rendered(set("openai/m"), &none, false)), sampled);
        assert_eq!(
            members(rendered(set("hosted_vllm/m"), &none, false)),
            json!({"model": "m", "temperature": 0.5, "top_p": 0.25, "top_k": 40.0, "max_tokens": 1000, "seed": 7})
        );
        assert_eq!(
            members(rendered(set("openai/gpt-5"), &none, true)),
            json!({"model": "gpt-5", "max_completion_tokens": 1000, "seed": 7, "reasoning_effort": "high",
                "prompt_cache_retention": "24h", "stream": true, "stream_options": {"include_usage": true}})
        );
        let extra = |config: &mut LlmConfig| {
            config.litellm_extra_body = json!({"seed": 8, "stream": true, "user": "u"}).as_object().unwrap().clone();
        };
        assert_eq!(members(rendered(extra, &none, false)), json!({"model": "m", "seed": 8, "user": "u"}));
    }

    #[test]
    fn long_results_lose_their_middle() {
        assert_eq!(shortened("äbcdef", 6), "äbcdef");
        assert_eq!(shortened("äbcdefgü", 4), "äb\n[4 characters left out]\ngü");
        assert_eq!(shortened("abc", 0), "\n[3 characters left out]\n");
    }
}
