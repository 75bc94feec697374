//! The stage: a scripted model, tools that can be held, and events in short form.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex, atomic::AtomicUsize, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use openhands_llm::{Delta, DeltaSink, LlmClient, LlmError, LlmRequest, LlmResponse};
use openhands_prompts::SUMMARY_INSTRUCTIONS;
use openhands_protocol::{
    AgentSpec, Content, ConversationId, Event, ExecutionStatus, Message, Role, Source, ToolCall,
    content::CallOrigin,
    metrics::TokenUsage,
    secret::SecretText,
    tool::{ToolAnnotations, ToolSpec},
};
use openhands_secrets::Cipher;
use openhands_store::LeaseOwner;
use openhands_tools::{
    FinishTool, InvalidArguments, Observation, SwitchLlmTool, ThinkTool, Tool, ToolContext, ToolError,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    Conversation, Environment, LeaseSettings, NewConversation, Published, SendMessage, Subscription, ToolRequest,
    Toolbox,
};

/// Nothing in these tests takes longer.
const LIMIT: Duration = Duration::from_secs(20);

/// One answer of the model.
pub(super) enum Turn {
    Say(&'static str),
    Calls(Vec<(&'static str, Value)>),
    /// Reasoning only.
    Muse(&'static str),
    Fail(LlmError),
    /// Waits for [`Stage::release_model`], or for the cancellation.
    Held(Box<Turn>),
}

pub(super) fn call(tool: &'static str, arguments: Value) -> Turn {
    Turn::Calls(vec![(tool, arguments)])
}

pub(super) fn echo(text: &str) -> Turn {
    call("echo", json!({"text": text}))
}

pub(super) fn finish(message: &str) -> Turn {
    call("finish", json!({"message": message}))
}

pub(super) struct Model {
    turns: Mutex<VecDeque<Turn>>,
    requests: Mutex<Vec<LlmRequest>>,
    gate: Semaphore,
    title: Mutex<Result<&'static str, ()>>,
    numbers: AtomicUsize,
}

#[async_trait]
impl LlmClient for Model {
    async fn complete(
        &self,
        request: &LlmRequest,
        mut deltas: Option<DeltaSink<'_>>,
        cancel: &CancellationToken,
    ) -> Result<LlmResponse, LlmError> {
        let number = self.numbers.fetch_add(1, Ordering::SeqCst);
        let is_summary = request.messages.first().is_some_and(|first| first.joined_text() == SUMMARY_INSTRUCTIONS);
        if request.tools.is_empty() && !is_summary {
            let title = *self.title.lock().unwrap();
            return match title {
                Ok(title) => Ok(respond(number, Message::new(Role::Assistant, vec![Content::text(title)]))),
                Err(()) => Err(LlmError::BadRequest("no titles".to_owned())),
            };
        }
        self.requests.lock().unwrap().push(request.clone());
        let turn = self.turns.lock().unwrap().pop_front().unwrap_or(Turn::Say("out of turns"));
        let turn = match turn {
            Turn::Held(inner) => {
                tokio::select! {
                    permit = self.gate.acquire() => permit.unwrap().forget(),
                    () = cancel.cancelled() => return Err(LlmError::Cancelled),
                }
                *inner
            }
            other => other,
        };
        let mut message = Message::new(Role::Assistant, Vec::new());
        match turn {
            Turn::Say(text) => {
                if let Some(deltas) = &mut deltas {
                    let (head, tail) = text.split_at(text.len() / 2);
                    deltas(Delta::Text(head.to_owned()));
                    deltas(Delta::Text(tail.to_owned()));
                }
                message.content = vec![Content::text(text)];
            }
            Turn::Muse(text) => message.reasoning_content = Some(text.to_owned()),
            Turn::Calls(calls) => {
                let call = |(index, (name, arguments)): (usize, (&str, Value))| ToolCall {
                    id: format!("call-{number}-{index}"),
                    responses_item_id: None,
                    name: name.to_owned(),
                    arguments: match arguments {
                        Value::String(raw) => raw,
                        other => other.to_string(),
                    },
                    origin: CallOrigin::Completion,
                };
                message.tool_calls = Some(calls.into_iter().enumerate().map(call).collect());
            }
            Turn::Fail(error) => return Err(error),
            Turn::Held(_) => unreachable!("held turns are not nested"),
        }
        Ok(respond(number, message))
    }
}

fn respond(number: usize, message: Message) -> LlmResponse {
    LlmResponse {
        id: format!("resp-{number}"),
        message,
        usage: TokenUsage { prompt_tokens: 10, completion_tokens: 1, ..TokenUsage::default() },
        cost: 0.5,
        finish_reason: None,
        usage_id: None,
    }
}

/// `echo` gives its text back, `hold` does so when it is released, `read` like `hold` but read-only, `fail` fails, `crash`
/// panics.
struct Simple {
    spec: ToolSpec,
    tools: Arc<Props>,
}

/// What the tools of a stage share with the test.
#[derive(Default)]
pub(super) struct Props {
    /// Texts of started actions, in order.
    started: Mutex<Vec<String>>,
    /// Texts of actions that may end.
    released: Mutex<Vec<String>>,
    changed: tokio::sync::Notify,
    closed: AtomicUsize,
}

#[async_trait]
impl Tool for Simple {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn action(&self, arguments: Value) -> Result<Value, InvalidArguments> {
        let text = arguments["text"].as_str().ok_or_else(|| InvalidArguments("text: is missing".to_owned()))?;
        Ok(json!({"text": text, "kind": self.spec.action_kind}))
    }

    async fn run(&self, action: &Value, context: &ToolContext) -> Result<Observation, ToolError> {
        let text = action["text"].as_str().unwrap_or_default().to_owned();
        self.tools.started.lock().unwrap().push(text.clone());
        self.tools.changed.notify_waiters();
        match self.spec.name.as_str() {
            "fail" => return Err(ToolError(format!("cannot {text}"))),
            "crash" => panic!("the tool is broken"),
            "hold" | "read" => {
                let released = async {
                    loop {
                        let changed = self.tools.changed.notified();
                        if self.tools.released.lock().unwrap().contains(&text) {
                            return;
                        }
                        changed.await;
                    }
                };
                tokio::select! {
                    () = released => {}
                    () = context.cancel.cancelled() => return Err(ToolError("cancelled".to_owned())),
                }
            }
            _ => {}
        }
        let shown = match context.secrets.mentioned(&text).first() {
            Some((_, value)) => format!("{text}={value}"),
            None => text,
        };
        let body = json!({"content": [{"cache_prompt": false, "type": "text", "text": shown}], "is_error": false,
            "kind": self.spec.observation_kind});
        Ok(Observation { body, finishes: false })
    }

    async fn close(&self) {
        self.tools.closed.fetch_add(1, Ordering::SeqCst);
    }
}

struct Box_(Arc<Props>);

impl Toolbox for Box_ {
    fn build(&self, request: &ToolRequest<'_>) -> Result<Vec<Arc<dyn Tool>>, String> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for tool in request.tools {
            if !["echo", "hold", "read", "fail", "crash"].contains(&tool.name.as_str()) {
                return Err(format!("no tool is called {:?}", tool.name));
            }
            let spec = ToolSpec {
                name: tool.name.clone(),
                kind: "SimpleTool".to_owned(),
                action_kind: "SimpleAction".to_owned(),
                observation_kind: "SimpleObservation".to_owned(),
                description: "for tests".to_owned(),
                parameters: json!({"type": "object", "properties": {"text": {"type": "string"}}}),
                annotations: Some(ToolAnnotations {
                    read_only_hint: tool.name == "read",
                    ..ToolAnnotations::default()
                }),
            };
            tools.push(Arc::new(Simple { spec, tools: Arc::clone(&self.0) }));
        }
        for name in request.include_default_tools {
            tools.push(match name.as_str() {
                "FinishTool" => Arc::new(FinishTool::new()),
                "SwitchLLMTool" => {
                    Arc::new(SwitchLlmTool::new(&request.profiles.map(|saved| saved.names()).unwrap_or_default()))
                }
                _ => Arc::new(ThinkTool::new()),
            });
        }
        Ok(tools)
    }
}

/// A server without a server.
pub(super) struct Stage {
    pub(super) root: tempfile::TempDir,
    pub(super) model: Arc<Model>,
    pub(super) props: Arc<Props>,
    pub(super) env: Arc<Environment>,
    pub(super) id: ConversationId,
}

impl Stage {
    pub(super) fn new(turns: Vec<Turn>) -> Self {
        Self::with_permits(turns, 8)
    }

    pub(super) fn with_permits(turns: Vec<Turn>, permits: usize) -> Self {
        let model = Arc::new(Model {
            turns: Mutex::new(turns.into()),
            requests: Mutex::default(),
            gate: Semaphore::new(0),
            title: Mutex::new(Ok("Mock title")),
            numbers: AtomicUsize::new(0),
        });
        let props = Arc::new(Props::default());
        let scripted: Arc<dyn LlmClient> = model.clone();
        let env = Arc::new(Environment {
            llm: Arc::new(move |_, _| Ok(Arc::clone(&scripted))),
            telemetry: None,
            tools: Arc::new(Box_(Arc::clone(&props))),
            cipher: Some(Arc::new(Cipher::new(&SecretText::new("test key"), &[]))),
            variables: BTreeMap::new(),
            lease: Some(LeaseSettings {
                owner: LeaseOwner::new("test", "host", std::process::id()),
                ttl: Duration::from_secs(60),
            }),
            lookups: None,
            profiles: None,
            own_keys: Vec::new(),
            run_permits: Arc::new(Semaphore::new(permits)),
        });
        Self { root: tempfile::tempdir().unwrap(), model, props, env, id: ConversationId::random() }
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.root.path().join("conversations").join(self.id.hex())
    }

    /// A request for a conversation with all simple tools.
    pub(super) fn request(&self) -> NewConversation {
        self.request_with(json!({}))
    }

    /// The same with other members of the agent.
    pub(super) fn request_with(&self, members: Value) -> NewConversation {
        let mut agent = json!({
            "llm": {"model": "openai/mock", "api_key": "model-key-1", "usage_id": "agent"},
            "tools": [{"name": "echo"}, {"name": "hold"}, {"name": "read"}, {"name": "fail"}, {"name": "crash"}],
        });
        for (name, value) in members.as_object().unwrap() {
            agent[name] = value.clone();
        }
        let workspace = json!({"kind": "LocalWorkspace", "working_dir": self.root.path().join("work")});
        NewConversation {
            autotitle: false,
            ..NewConversation::new(self.id, AgentSpec::from_json(agent).unwrap(), workspace)
        }
    }

    pub(super) async fn create(&self, request: NewConversation) -> Conversation {
        Conversation::create(Arc::clone(&self.env), &self.dir(), request).await.unwrap()
    }

    pub(super) async fn load(&self) -> Conversation {
        Conversation::load(Arc::clone(&self.env), &self.dir()).await.unwrap()
    }

    pub(super) fn add_turns(&self, turns: Vec<Turn>) {
        self.model.turns.lock().unwrap().extend(turns);
    }

    pub(super) fn no_titles(&self) {
        *self.model.title.lock().unwrap() = Err(());
    }

    /// Lets one held turn answer.
    pub(super) fn release_model(&self) {
        self.model.gate.add_permits(1);
    }

    pub(super) fn requests(&self) -> Vec<LlmRequest> {
        self.model.requests.lock().unwrap().clone()
    }

    /// The last message of the latest request.
    pub(super) fn last_read(&self) -> String {
        self.requests().last().unwrap().messages.last().unwrap().joined_text()
    }

    pub(super) async fn asked(&self, times: usize) {
        eventually("model calls", || self.model.requests.lock().unwrap().len() >= times).await;
    }

    pub(super) fn started(&self) -> Vec<String> {
        self.props.started.lock().unwrap().clone()
    }

    pub(super) async fn acting(&self, times: usize) {
        eventually("started actions", || self.started().len() >= times).await;
    }

    /// Lets an action of `hold` or `read` end.
    pub(super) fn release(&self, text: &str) {
        self.props.released.lock().unwrap().push(text.to_owned());
        self.props.changed.notify_waiters();
    }

    pub(super) fn closed_tools(&self) -> usize {
        self.props.closed.load(Ordering::SeqCst)
    }
}

/// Waits for a condition, bounded.
pub(super) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let met = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, met).await.is_ok(), "waited in vain for {what}");
}

pub(super) async fn status(conversation: &Conversation, wanted: ExecutionStatus) {
    let mut reports = conversation.report_watch();
    let reached = reports.wait_for(|report| report.execution_status == wanted);
    let reached = tokio::time::timeout(LIMIT, reached).await;
    assert!(matches!(reached, Ok(Ok(_))), "waited in vain for {wanted}: {:#?}", story(conversation));
}

/// Sends a text that starts a run.
pub(super) async fn send(conversation: &Conversation, text: &str) {
    conversation.send_message(SendMessage { run: true, ..SendMessage::text(text) }).await.unwrap();
}

/// Sends a text and runs to the end.
pub(super) async fn turn(conversation: &Conversation, text: &str) {
    conversation.send_message(SendMessage { run: true, ..SendMessage::text(text) }).await.unwrap();
    status(conversation, ExecutionStatus::Finished).await;
}

pub(super) fn events(conversation: &Conversation) -> Vec<Event> {
    let log = conversation.events();
    log.range(0, log.len()).iter().map(|stored| stored.parse().unwrap()).collect()
}

/// The log in short form, without sums and `last_user_message_id`.
pub(super) fn story(conversation: &Conversation) -> Vec<String> {
    events(conversation).iter().filter_map(short).collect()
}

fn short(event: &Event) -> Option<String> {
    Some(match event {
        Event::SystemPrompt(_) => "system".to_owned(),
        Event::Message(message) => {
            let who = match message.base.source {
                Source::User => "user",
                Source::Agent => "agent",
                _ => "nudge",
            };
            if who == "nudge" { who.to_owned() } else { format!("{who}: {}", message.llm_message.joined_text()) }
        }
        Event::Action(action) if action.action.is_none() => format!("call {}", action.tool_name),
        Event::Action(action) => format!("action {}", action.tool_name),
        Event::Observation(result) => {
            format!("result {}", openhands_protocol::event::observation_text(&result.observation))
        }
        Event::UserReject(reject) => format!("rejected: {}", reject.rejection_reason),
        Event::AgentError(error) => format!("error {}", error.tool_name),
        Event::StateUpdate(update) if update.key == "execution_status" => update.value.as_str().unwrap().to_owned(),
        Event::StateUpdate(update) if matches!(update.key.as_str(), "stats" | "last_user_message_id") => return None,
        Event::StateUpdate(update) => format!("{} changed", update.key),
        Event::ConversationError(error) => format!("failed: {}", error.code),
        other => other.kind().to_owned(),
    })
}

/// Frames until the first `full_state` whose status is not running, in short form; deltas show their text.
pub(super) async fn frames(subscription: &mut Subscription) -> Vec<String> {
    let mut shown = Vec::new();
    loop {
        let frame: Published = tokio::time::timeout(LIMIT, subscription.recv()).await.unwrap().unwrap();
        let event = Event::from_slice(&frame.bytes).unwrap();
        assert_eq!(event.kind(), &*frame.kind);
        match &event {
            Event::StateUpdate(update) if update.key == "full_state" => {
                assert_eq!(frame.seq, None);
                shown.push(format!("full_state {}", update.value["execution_status"].as_str().unwrap()));
                return shown;
            }
            Event::StateUpdate(update) if update.key == "stats" => shown.push("stats".to_owned()),
            Event::StateUpdate(update) if update.key == "last_user_message_id" => shown.push("last user".to_owned()),
            Event::StreamingDelta(delta) => {
                assert_eq!(frame.seq, None);
                shown.push(format!("delta {}", delta.content.as_deref().unwrap_or_default()));
            }
            event => shown.extend(short(event)),
        }
    }
}
