//! A neutral request as the body of a Chat Completions call.

use openhands_protocol::{Content, Message};
use serde_json::{Map, Value, json};

use super::caching;
use crate::{
    LlmRequest, OfferedTool,
    adapter::{Attempt, Setup, add_extra_body, object, set},
    anthropic::{ends_in_unsigned_calls, is_signed},
    history::{Call, History, Turn, images, text},
    models::Thinking,
};

/// Members that the reader of the answer depends on; `litellm_extra_body` cannot change them.
const OURS: [&str; 3] = ["messages", "stream", "stream_options"];

/// What a body depends on beside the request.
pub(super) struct Rendering<'a> {
    pub(super) setup: &'a Setup,
    pub(super) attempt: Attempt,
}

impl Rendering<'_> {
    pub(super) fn members(&self, request: &LlmRequest) -> Map<String, Value> {
        let mut body = Map::new();
        set(&mut body, "model", self.setup.endpoint.model.as_str());
        let history = History::of(&request.messages, self.setup.endpoint.provider.call_ids);
        let thinks = self.thinks(&history);
        set(&mut body, "messages", self.messages(&history, thinks));
        if !request.tools.is_empty() {
            set(&mut body, "tools", request.tools.iter().map(tool).collect::<Value>());
        }
        for (name, value) in self.parameters(!request.tools.is_empty(), thinks) {
            set(&mut body, name, value);
        }
        if self.attempt.streamed {
            set(&mut body, "stream", true);
            set(&mut body, "stream_options", json!({"include_usage": true}));
        }
        add_extra_body(&mut body, &self.setup.config, &OURS);
        body
    }

    /// With `drop_params` off everything that is configured is sent, whatever the table says about the model.
    fn parameters(&self, with_tools: bool, thinks: bool) -> Vec<(&'static str, Value)> {
        let Setup { config, endpoint, abilities, stop } = self.setup;
        let sampling = abilities.sampling || !config.drop_params;
        let sampled = |value: Option<f64>| if sampling { json!(value) } else { Value::Null };
        let top_k = endpoint.provider.takes_top_k || !config.drop_params;
        let effort = thinks && abilities.reasoning_effort && (abilities.effort_beside_tools || !with_tools);
        let when = |condition: bool, value: Value| if condition { value } else { Value::Null };
        let mut parameters = vec![
            ("temperature", sampled(self.attempt.temperature)),
            ("top_p", sampled(config.top_p)),
            ("top_k", when(top_k, sampled(config.top_k))),
            (endpoint.provider.max_tokens_member, json!(abilities.max_output)),
            ("stop", when(abilities.stop_words && !stop.is_empty(), json!(stop))),
            ("seed", json!(config.seed)),
            ("prompt_cache_retention", when(abilities.cache_retention, json!(config.prompt_cache_retention))),
        ];
        if is_openrouter(self.setup) {
            let reasoning = config.reasoning_effort.as_ref().map(|effort| json!({"effort": effort}));
            parameters.push(("reasoning", when(effort, json!(reasoning))));
            // The price comes with the usage.
            parameters.push(("usage", json!({"include": true})));
        } else {
            parameters.push(("reasoning_effort", when(effort, json!(config.reasoning_effort))));
            parameters.push(("thinking", when(thinks, json!(abilities.thinking_budget(config)))));
        }
        parameters
    }

    /// Whether the model is asked to think. Claude cannot go on with a loop of calls that began without; OpenRouter sees to that
    /// itself.
    fn thinks(&self, history: &History<'_>) -> bool {
        let by_budget = matches!(self.setup.abilities.thinking, Thinking::Budget | Thinking::Effort);
        is_openrouter(self.setup) || !(self.is_claude() && by_budget && ends_in_unsigned_calls(history))
    }

    fn is_claude(&self) -> bool {
        self.setup.endpoint.model.to_ascii_lowercase().contains("claude")
    }

    fn messages(&self, history: &History<'_>, thinks: bool) -> Vec<Value> {
        let mut rendered = Vec::with_capacity(history.turns.len() + 1);
        if !history.system.is_empty() {
            rendered.push(object([("role", "system".into()), ("content", self.system(history))]));
        }
        for turn in &history.turns {
            match turn {
                Turn::User(message) => {
                    rendered.push(object([("role", "user".into()), ("content", self.user_content(&message.content))]));
                }
                Turn::Assistant { message, calls } => {
                    rendered.push(self.assistant(message, calls, thinks));
                    rendered.extend(calls.iter().map(|call| self.tool_result(call)));
                    self.add_images(calls, &mut rendered);
                }
            }
        }
        if self.attempt.caching {
            caching::mark_messages(&mut rendered, is_openrouter(self.setup));
        }
        rendered
    }

    /// In one string, which every server takes; in parts where the first of several will be marked.
    fn system(&self, history: &History<'_>) -> Value {
        if self.attempt.caching && history.system.len() > 1 {
            let parts = history.system.iter().filter_map(|part| part.as_text()).filter(|text| !text.is_empty());
            return parts.map(|text| json!({"type": "text", "text": text})).collect();
        }
        history.system_text().into()
    }

    fn user_content(&self, content: &[Content]) -> Value {
        let with_images = self.setup.abilities.images && images(content).next().is_some();
        if !with_images {
            return text(content).into();
        }
        content
            .iter()
            .flat_map(|part| match part {
                Content::Text { text, .. } => vec![json!({"type": "text", "text": text})],
                Content::Image { .. } => images(std::slice::from_ref(part)).map(image).collect(),
            })
            .collect()
    }

    fn assistant(&self, message: &Message, calls: &[Call<'_>], thinks: bool) -> Value {
        let mut json = Map::new();
        let text = text(&message.content);
        set(&mut json, "role", "assistant");
        let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() };
        json.insert("content".to_owned(), content);
        if !calls.is_empty() {
            set(&mut json, "tool_calls", calls.iter().map(call).collect::<Value>());
        }
        if let Some(reasoning) = message.reasoning_content.as_ref().filter(|_| self.setup.abilities.reasoning_sent_back)
        {
            set(&mut json, "reasoning_content", reasoning.as_str());
        }
        let blocks = |name: &str| {
            message
                .thinking_blocks
                .iter()
                .filter(|_| self.attempt.reasoning)
                .filter_map(|block| block.get(name))
                .collect::<Vec<_>>()
        };
        if is_openrouter(self.setup) {
            let details = blocks("openrouter");
            if !details.is_empty() {
                set(&mut json, "reasoning_details", json!(details));
            }
        } else if self.is_claude() && thinks {
            let signed: Vec<_> =
                message.thinking_blocks.iter().filter(|block| self.attempt.reasoning && is_signed(block)).collect();
            if !signed.is_empty() {
                set(&mut json, "thinking_blocks", json!(signed));
            }
        }
        json.into()
    }

    fn tool_result(&self, call: &Call<'_>) -> Value {
        object([
            ("role", "tool".into()),
            ("content", call.text(self.setup.config.max_message_chars).into()),
            ("tool_call_id", (*call.id).into()),
            ("name", (*call.name).into()),
        ])
    }

    /// Tool messages take no images, and nothing may stand between the results of one batch: images follow behind it.
    fn add_images(&self, calls: &[Call<'_>], rendered: &mut Vec<Value>) {
        let mut seen = calls.iter().flat_map(|call| images(call.content())).map(image).peekable();
        if self.setup.abilities.images && seen.peek().is_some() {
            let mut content = vec![json!({"type": "text", "text": "The images of the tool results above:"})];
            content.extend(seen);
            rendered.push(object([("role", "user".into()), ("content", content.into())]));
        }
    }
}

pub(super) fn is_openrouter(setup: &Setup) -> bool {
    setup.endpoint.provider.prefix == "openrouter"
        || setup.endpoint.url.host_str().is_some_and(|host| host == "openrouter.ai" || host.ends_with(".openrouter.ai"))
}

fn image(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn call(call: &Call<'_>) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments()}})
}

fn tool(tool: &OfferedTool) -> Value {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    })
}

#[cfg(test)]
mod tests {
    use openhands_protocol::{LlmConfig, Role, ToolCall, secret::SecretText};

    use super::*;
    use crate::{endpoint::Endpoint, models::Abilities};

    fn rendered(change: impl FnOnce(&mut LlmConfig), request: &LlmRequest, streamed: bool) -> Value {
        let mut config = LlmConfig {
            model: "openai/m".to_owned(),
            base_url: Some("http://127.0.0.1:9/v1".to_owned()),
            api_key: Some(SecretText::new("k")),
            ..LlmConfig::default()
        };
        change(&mut config);
        let endpoint = Endpoint::of(&config, &Default::default()).unwrap();
        let abilities = Abilities::of(&config);
        let attempt = Attempt {
            temperature: config.temperature,
            caching: config.caching_prompt && abilities.cache_marks,
            reasoning: true,
            streamed,
        };
        let setup = Setup { config, endpoint, abilities, stop: vec!["END".to_owned()] };
        Rendering { setup: &setup, attempt }.members(request).into()
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
                "stop": ["END"],
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
    fn claude_is_not_asked_to_think_in_loops_that_began_without() {
        let claude = |config: &mut LlmConfig| config.model = "litellm_proxy/claude-sonnet-4-5".to_owned();
        let body = rendered(claude, &conversation(), false);
        assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 63_999}), "the loop is over");
        let mut in_loop = conversation();
        in_loop.messages.truncate(5);
        in_loop.messages.push(Message::new(Role::User, vec![Content::text("hurry")]));
        let body = rendered(claude, &in_loop, false);
        assert_eq!((body.get("thinking"), body.get("reasoning_effort")), (None, None));
        in_loop.messages[2].thinking_blocks = vec![json!({"type": "thinking", "thinking": "t", "signature": "s"})];
        let body = rendered(claude, &in_loop, false);
        assert_eq!(body["reasoning_effort"], "high");
        assert_eq!(body["messages"][2]["thinking_blocks"], json!(in_loop.messages[2].thinking_blocks));
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
            members.remove("stop");
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
}
