//! How a run that failed tells its user: code, text, and what can be done about it.

use openhands_llm::LlmError;
use openhands_protocol::{
    Content, Event, Message, Role, Source,
    error::Classification,
    event::{ConversationErrorEvent, MessageEvent},
};

use openhands_store::StoreError;

use crate::core::draft;

/// A draft of the event that ends a run with an error.
pub(crate) fn conversation_error(code: &str, detail: String, classification: Classification) -> Event {
    Event::ConversationError(ConversationErrorEvent {
        base: draft(Source::Environment),
        code: code.to_owned(),
        detail,
        classification: Some(classification),
    })
}

/// A failed model call.
pub(crate) fn model_failed(error: &LlmError) -> Event {
    let classification = match error {
        LlmError::Authentication(_) => Classification::new("auth", false, "settings"),
        LlmError::RateLimit { .. } => Classification::new("rate_limit", true, "retry"),
        LlmError::ServiceUnavailable(_) | LlmError::Timeout(_) | LlmError::Internal(_) | LlmError::NoResponse(_) => {
            Classification::new("transient", true, "retry")
        }
        LlmError::BadRequest(_)
        | LlmError::NotSupported(_)
        | LlmError::ContentPolicy(_)
        | LlmError::ContextWindowTooSmall(_) => Classification::new("config", false, "settings"),
        LlmError::ContextWindowExceeded(_) | LlmError::MalformedHistory(_) => {
            Classification::new("agent_action", true, "retry")
        }
        LlmError::Cancelled => Classification::new("unknown", true, "retry"),
    };
    conversation_error(error.code(), error.to_string(), classification)
}

/// The log cannot be written, so nothing may go on.
pub(crate) fn storage_failed(error: &StoreError) -> Event {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    conversation_error(
        "StorageError",
        format!("The run was ended because the conversation cannot be stored: {error}{cause}."),
        Classification::new("transient", true, "retry"),
    )
}

/// The run had all its model calls.
pub(crate) fn max_iterations_reached(limit: u32) -> Event {
    conversation_error(
        "MaxIterationsReached",
        format!("The run was ended after {limit} model calls, the limit set by max_iterations."),
        Classification::new("agent_action", false, "none"),
    )
}

/// The conversation's money is spent.
pub(crate) fn max_budget_reached(budget: f64, spent: f64) -> Event {
    conversation_error(
        "MaxBudgetReached",
        format!("The run was ended: {}.", budget_text(budget, spent)),
        Classification::new("quota", false, "settings"),
    )
}

/// How much of a budget is gone.
pub(crate) fn budget_text(budget: f64, spent: f64) -> String {
    format!("${spent:.4} of the ${budget:.4} that max_budget_per_run allows are spent")
}

/// What the model reads after a content filter kept its answer back.
pub(crate) fn kept_back() -> Event {
    let text = "The provider's content filter kept your last answer back. Go on with the task, and say it in other words, without what \
                may have set the filter off.";
    Event::Message(MessageEvent {
        base: draft(Source::Environment),
        llm_message: Message::new(Role::User, vec![Content::text(text)]),
        llm_response_id: None,
        activated_skills: Vec::new(),
        extended_content: Vec::new(),
        sender: None,
        critic_result: None,
    })
}

/// The model answers nothing.
pub(crate) fn empty_answers() -> Event {
    conversation_error(
        "LLMNoResponseError",
        "The model answered several times in a row with neither text nor a tool call.".to_owned(),
        Classification::new("transient", true, "retry"),
    )
}
