//! An answer being put together out of output items; whole answers and streams end in the same items.

use openhands_protocol::content::CallOrigin;
use serde_json::{Map, Value, json};

use crate::{
    adapter::{Pieces, Reading, count, string},
    answer::{Answer, AnsweredCall, Billing, Service, Tokens},
};

/// What is there of an answer.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    pub(super) id: Option<String>,
    /// By their numbers.
    pub(super) items: Vec<(u64, Item)>,
    pub(super) finish_reason: Option<String>,
    pub(super) usage: Option<Value>,
    service: Option<Service>,
    pub(super) over: bool,
}

/// One output item, and what its pieces brought so far.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) value: Value,
    pub(super) text: String,
    /// Whether `value` is the item as it ended.
    pub(super) whole: bool,
}

impl Item {
    pub(super) fn kind(&self) -> &str {
        self.value.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    /// The item; one that never ended is made from its pieces.
    fn finish(mut self) -> Value {
        if !self.whole
            && !self.text.is_empty()
            && let Some(item) = self.value.as_object_mut()
        {
            let text = std::mem::take(&mut self.text);
            match item.get("type").and_then(Value::as_str) {
                Some("function_call") => drop(item.insert("arguments".to_owned(), text.into())),
                Some("reasoning") => drop(item.insert("summary".to_owned(), json!([{"text": text}]))),
                _ => drop(item.insert("content".to_owned(), json!([{"type": "output_text", "text": text}]))),
            }
        }
        self.value
    }
}

impl Assembly {
    /// What a whole answer, or the end of a stream, says.
    pub(super) fn note(&mut self, response: &Value) {
        if let Some(id) = string(response.get("id")) {
            self.id = Some(id);
        }
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(usage.clone());
        }
        self.service = Service::of(response).or(self.service);
        let output = response.get("output").and_then(Value::as_array).filter(|output| !output.is_empty());
        if let Some(output) = output {
            let whole = |item: &Value| Item { value: item.clone(), text: String::new(), whole: true };
            self.items = (0..).zip(output.iter().map(whole)).collect();
        }
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        self.finish_reason = match (response.get("status").and_then(Value::as_str), reason) {
            (Some("incomplete"), Some("content_filter")) => Some("content_filter".to_owned()),
            (Some("incomplete"), _) => Some("length".to_owned()),
            (Some("in_progress" | "queued"), _) => None,
            _ => {
                let calls = self.items.iter().any(|(_, item)| item.kind() == "function_call");
                Some(if calls { "tool_calls" } else { "stop" }.to_owned())
            }
        };
    }
}

impl Reading for Assembly {
    fn of_document(document: &Value) -> Option<Self> {
        document.get("output")?.as_array()?;
        let mut assembly = Self::default();
        assembly.note(document);
        (!assembly.is_empty() || assembly.is_finished()).then_some(assembly)
    }

    fn take(&mut self, event: &Value, pieces: &mut Pieces<'_>) {
        self.take_event(event, pieces);
    }

    fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn finish(self) -> Answer {
        let usage = self.usage.unwrap_or_default();
        let mut answer = Answer {
            id: self.id,
            finish_reason: self.finish_reason,
            tokens: tokens(&usage),
            cost: usage.get("cost").and_then(Value::as_f64),
            billing: Billing { service: self.service.unwrap_or_default(), ..Billing::default() },
            ..Answer::default()
        };
        let (mut said, mut thought, mut reasoning) = (Vec::new(), Vec::new(), Vec::new());
        for (_, item) in self.items {
            let item = item.finish();
            match item.get("type").and_then(Value::as_str) {
                Some("message") => said.push(texts(item.get("content")).concat()),
                Some("reasoning") => {
                    thought.extend(texts(item.get("summary")));
                    reasoning.push(stored_reasoning(&item));
                }
                Some("function_call") => answer.calls.push(AnsweredCall {
                    id: string(item.get("call_id")).or_else(|| string(item.get("id"))),
                    item_id: string(item.get("id")),
                    origin: CallOrigin::Responses,
                    name: string(item.get("name")).unwrap_or_default(),
                    arguments: string(item.get("arguments")).unwrap_or_default(),
                }),
                _ => {}
            }
        }
        answer.text = said.join("\n");
        answer.reasoning = thought.join("\n");
        answer.reasoning_item = reasoning.pop().map(|mut last| {
            if !reasoning.is_empty() {
                last.insert("earlier".to_owned(), reasoning.into_iter().map(Value::from).collect());
            }
            last.into()
        });
        answer
    }
}

/// As the history keeps it: texts in plain lists. Of several items the last is the one that readers know.
fn stored_reasoning(item: &Value) -> Map<String, Value> {
    let mut stored = Map::new();
    stored.insert("id".to_owned(), item.get("id").cloned().unwrap_or_default());
    stored.insert("summary".to_owned(), json!(texts(item.get("summary"))));
    let content = texts(item.get("content"));
    stored.insert("content".to_owned(), if content.is_empty() { Value::Null } else { json!(content) });
    for member in ["encrypted_content", "status"] {
        stored.insert(member.to_owned(), item.get(member).cloned().unwrap_or_default());
    }
    stored
}

/// The texts of a list of parts.
fn texts(parts: Option<&Value>) -> Vec<String> {
    let parts = parts.and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(|part| string(part.get("text")).or_else(|| string(part.get("refusal")))).collect()
}

fn tokens(usage: &Value) -> Tokens {
    Tokens {
        prompt: count(usage, &["/input_tokens", "/prompt_tokens"]),
        completion: count(usage, &["/output_tokens", "/completion_tokens"]),
        cache_read: count(usage, &["/input_tokens_details/cached_tokens"]),
        cache_write: count(usage, &["/input_tokens_details/cache_write_tokens"]),
        reasoning: count(usage, &["/output_tokens_details/reasoning_tokens"]),
    }
}
