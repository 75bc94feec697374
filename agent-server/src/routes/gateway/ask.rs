//! One question to an agent: in a new conversation or in one that goes on, answered when its run has ended.

use std::{sync::Arc, time::Duration};

use axum::http::HeaderMap;
use openhands_conversation::SendMessage;
use openhands_protocol::{
    Content, ConversationId, ExecutionStatus, Role,
    metrics::{MetricsSnapshot, TokenUsage},
};
use openhands_settings::{SettingsError, agent::AgentSettings};
use serde_json::{Value, json};

use super::{CONVERSATION_HEADER, MODEL_PREFIX};
use crate::{
    app::App,
    auth::header_text,
    error::ApiError,
    routes::conversations::create,
    service::{Live, ServiceError},
    stored::{stored, stored_or},
    validation::Problem,
};

/// How long a call waits for the end of the run, which goes on after it (F1-GW-12).
const PATIENCE: Duration = Duration::from_secs(120);

/// A call, in neither interface's words.
pub(super) struct Question {
    /// The model's name, with its prefix.
    pub(super) model: String,
    /// What the client tells the agent beside its own instructions; counts for new conversations only.
    pub(super) instructions: String,
    /// What the user says.
    pub(super) content: Vec<Content>,
}

/// What came of it.
pub(super) struct Answer {
    pub(super) conversation: ConversationId,
    /// What the agent said at the end.
    pub(super) text: String,
    /// Tokens of all model calls that the answer took.
    pub(super) usage: TokenUsage,
}

/// Asks, and waits for the answer.
///
/// # Errors
/// 404 for a model that is no profile, 400, 409 when the agent waits for its user, 422, 429, 500 for a run that failed, 504.
pub(super) async fn ask(
    app: &Arc<App>,
    headers: &HeaderMap,
    wanted: Option<ConversationId>,
    question: Question,
) -> Result<Answer, ApiError> {
    let profile = profile_of(&question.model)?.to_owned();
    let existing = match wanted {
        Some(id) => match app.conversations.get(id).await {
            Ok(conversation) => Some(conversation),
            Err(ServiceError::Unknown) => None,
            Err(error) => return Err(error.into()),
        },
        None => None,
    };
    let (conversation, is_new) = match existing {
        Some(conversation) => {
            check_profile(app, &profile).await?;
            (conversation, false)
        }
        // Another call with the same id may have been quicker.
        None => begin(app, headers, wanted, &profile, &question).await?,
    };
    let mut before = MetricsSnapshot::default();
    if !is_new {
        before = spent(&conversation);
        let message = SendMessage { role: Role::User, content: question.content, sender: None, run: true };
        conversation.send_message(message).await?;
    }
    let text = tokio::time::timeout(PATIENCE, ended(&conversation)).await.map_err(|_| {
        let id = conversation.id();
        ApiError::GatewayTimeout(format!(
            "the agent still works after {} s; ask again later with {CONVERSATION_HEADER}: {id}",
            PATIENCE.as_secs()
        ))
    })??;
    let usage = spent(&conversation).since(&before).accumulated_token_usage.unwrap_or_default();
    Ok(Answer { conversation: conversation.id(), text, usage })
}

/// The conversation that a client wants to go on with (F1-GW-05).
///
/// # Errors
/// 422 for a header that is no UUID.
pub(super) fn wanted(headers: &HeaderMap) -> Result<Option<ConversationId>, ApiError> {
    let Some(text) = header_text(headers, CONVERSATION_HEADER).filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    text.trim().parse().map(Some).map_err(|_| {
        let problem = Problem::new("uuid_parsing", ["header", CONVERSATION_HEADER], "Input should be a valid UUID");
        ApiError::invalid(problem.input(text))
    })
}

fn profile_of(model: &str) -> Result<&str, ApiError> {
    model
        .strip_prefix(MODEL_PREFIX)
        .filter(|name| !name.is_empty())
        .ok_or_else(|| ApiError::Missing(format!("there is no model {model:?}; GET /v1/models lists them")))
}

async fn check_profile(app: &Arc<App>, name: &str) -> Result<(), ApiError> {
    let name = name.to_owned();
    stored(app, move |stores| stores.load_profile(&name)).await.map(drop)
}

/// Starts a conversation from the stored settings with the profile's model (F1-GW-17); `false` when its id was in use, and then
/// nothing was asked.
async fn begin(
    app: &Arc<App>,
    headers: &HeaderMap,
    wanted: Option<ConversationId>,
    profile: &str,
    question: &Question,
) -> Result<(Live, bool), ApiError> {
    let name = profile.to_owned();
    let settled = move |stores: &openhands_settings::Stores| {
        let llm = stores.load_profile(&name)?;
        let mut settings = stores.settings.load(stores.cipher())?;
        if !settings.agent.set_llm(&llm) {
            settings.agent = AgentSettings::default();
            settings.agent.set_llm(&llm);
        }
        let agent = settings.agent.agent();
        let agent = agent.ok_or_else(|| SettingsError::NotSupported("agents of the stored kind".to_owned()))?;
        Ok((agent, settings.conversation))
    };
    let (mut agent, conversation) = stored_or(app, settled, ApiError::from).await?;
    instruct(&mut agent, &question.instructions);
    let policy = if conversation.confirmation_mode { "AlwaysConfirm" } else { "NeverConfirm" };
    let body = json!({
        "agent": agent,
        "workspace": {"kind": "LocalWorkspace", "working_dir": app.config.workspace_path},
        "conversation_id": wanted,
        "max_iterations": conversation.max_iterations,
        "confirmation_policy": {"kind": policy},
        "initial_message": {"role": "user", "content": question.content, "run": true},
        "autotitle": false,
    });
    create::begin(app, headers, body).await
}

/// Puts the client's instructions behind the agent's own.
fn instruct(agent: &mut Value, instructions: &str) {
    if instructions.is_empty() {
        return;
    }
    let Some(members) = agent.as_object_mut() else { return };
    let context = members.entry("agent_context").or_insert(Value::Null);
    if !context.is_object() {
        *context = json!({});
    }
    let Some(context) = context.as_object_mut() else { return };
    let suffix = context.get("system_message_suffix").and_then(Value::as_str).unwrap_or_default();
    let whole = if suffix.is_empty() { instructions.to_owned() } else { format!("{suffix}\n\n{instructions}") };
    context.insert("system_message_suffix".to_owned(), whole.into());
}

fn spent(conversation: &Live) -> MetricsSnapshot {
    conversation.combined_metrics().snapshot().clone()
}

/// Waits until the run that was asked for has ended. It had begun when the request for it was answered.
async fn ended(conversation: &Live) -> Result<String, ApiError> {
    let mut reports = conversation.report_watch();
    loop {
        let (status, error) = {
            let report = reports.borrow_and_update();
            (report.execution_status, report.error.clone())
        };
        match status {
            ExecutionStatus::Finished => return Ok(conversation.agent_final_response()),
            ExecutionStatus::Error | ExecutionStatus::Stuck => {
                let why = error.map(|error| format!(": {error}")).unwrap_or_default();
                return Err(ApiError::Failed(format!("the agent ended with status {status}{why}")));
            }
            ExecutionStatus::Paused | ExecutionStatus::WaitingForConfirmation => {
                return Err(ApiError::Conflict(format!(
                    "the agent stopped with status {status} and waits for its user"
                )));
            }
            _ => {}
        }
        if reports.changed().await.is_err() {
            return Err(ApiError::Conflict("the conversation was closed".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_come_behind_the_agents_own() {
        let mut agent = json!({"agent_context": {"system_message_suffix": "own"}});
        instruct(&mut agent, "more");
        assert_eq!(agent, json!({"agent_context": {"system_message_suffix": "own\n\nmore"}}));
        let mut agent = json!({"agent_context": null});
        instruct(&mut agent, "");
        assert_eq!(agent, json!({"agent_context": null}));
        instruct(&mut agent, "more");
        assert_eq!(agent, json!({"agent_context": {"system_message_suffix": "more"}}));
    }

    #[test]
    fn models_are_profiles_with_a_prefix() {
        assert_eq!(profile_of("openhands_fast").unwrap(), "fast");
        for model in ["gpt-5", "openhands_", ""] {
            assert!(matches!(profile_of(model), Err(ApiError::Missing(_))), "{model}");
        }
    }
}
