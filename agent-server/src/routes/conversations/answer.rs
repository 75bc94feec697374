//! How a conversation is shown, and how its failures become answers.

use openhands_conversation::{CreateError, ForkError, LoadError, RunError, SendError, SwitchError, UpdateError};
use openhands_protocol::ConversationId;
use openhands_store::{LeaseError, StoreError};
use serde_json::{Value, json};

use crate::{
    error::ApiError,
    service::{Live, ServiceError},
    validation::Problem,
};

/// `ConversationInfo`; without `include_skills` the agent's skills are an empty list, as they can be large.
pub fn info(conversation: &Live, include_skills: bool) -> Value {
    let mut info = conversation.info();
    if !include_skills && let Some(skills) = info.pointer_mut("/agent/agent_context/skills") {
        *skills = json!([]);
    }
    if let Some(runtime) = info.pointer_mut("/runtime_info") {
        *runtime = runtime_info();
    }
    info
}

/// The runtime of a conversation: this process, always there.
pub fn runtime_info() -> Value {
    json!({ "runtime_status": "available", "can_resume": true, "runtime_error": null })
}

/// An unknown conversation as the event routes answer it.
pub fn missing_named(id: ConversationId) -> impl FnOnce(ServiceError) -> ApiError {
    move |error| match error {
        ServiceError::Unknown | ServiceError::Load(LoadError::Missing) => {
            ApiError::Missing(format!("Conversation not found: {id}"))
        }
        other => other.into(),
    }
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Unknown | ServiceError::Load(LoadError::Missing) => Self::NotFound,
            ServiceError::Closing => closing(),
            ServiceError::Load(LoadError::Lease(error)) => lease(error),
            ServiceError::Load(LoadError::Store(error)) => store(error),
            ServiceError::Load(error @ LoadError::Damaged(_)) => Self::internal(error),
            ServiceError::Create(error) => error.into(),
            ServiceError::Fork(error) => match error {
                ForkError::Invalid { member, reason } => invalid(&member, reason),
                ForkError::UnknownEvent(_) => Self::Missing(error.to_string()),
                ForkError::Closed => closing(),
                ForkError::Create(error) => error.into(),
                ForkError::Store(error) => store(error),
            },
            ServiceError::Deliver(error) => match error {
                SwitchError::Profile(problem) => Self::Unprocessable(problem.to_string()),
                SwitchError::Invalid { member, reason } => invalid(&format!("agent.{member}"), reason),
                SwitchError::Closed => closing(),
                SwitchError::Store(error) => store(error),
            },
        }
    }
}

impl From<CreateError> for ApiError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Invalid { member, reason } => invalid(&member, reason),
            CreateError::Exists => Self::Conflict("the conversation exists already".to_owned()),
            CreateError::CapacityFull => full(),
            CreateError::Lease(error) => lease(error),
            CreateError::Store(error) => store(error),
        }
    }
}

impl From<RunError> for ApiError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::AlreadyRunning => {
                Self::Conflict("the conversation is running already: wait for its end or pause it".to_owned())
            }
            RunError::CapacityFull => full(),
            RunError::Closed => closing(),
            RunError::Store(error) => store(error),
        }
    }
}

impl From<SendError> for ApiError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NotAUserMessage => invalid("role", "only \"user\" messages can be sent".to_owned()),
            SendError::CapacityFull => Self::TooManyRequests(
                "the message was not taken, as this server runs as many conversations as it may: send it again later"
                    .to_owned(),
            ),
            SendError::Closed => closing(),
            SendError::Store(error) => store(error),
        }
    }
}

impl From<UpdateError> for ApiError {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Invalid { member, reason } => invalid(&member, reason),
            UpdateError::Closed => closing(),
            UpdateError::Store(error) => store(error),
        }
    }
}

pub(super) fn invalid(member: &str, reason: String) -> ApiError {
    let loc = std::iter::once("body").chain(member.split('.'));
    ApiError::invalid(Problem::new("value_error", loc, reason))
}

fn full() -> ApiError {
    ApiError::TooManyRequests("this server runs as many conversations as it may: try again later".to_owned())
}

pub(super) fn closing() -> ApiError {
    ApiError::Unavailable("the conversation or the server is being closed".to_owned())
}

fn lease(error: LeaseError) -> ApiError {
    match error {
        LeaseError::Held { .. } => ApiError::Conflict("another agent-server owns this conversation".to_owned()),
        LeaseError::Store(error) => store(error),
    }
}

pub(super) fn store(error: StoreError) -> ApiError {
    match error {
        StoreError::OwnershipLost { .. } => {
            ApiError::Conflict("another agent-server owns this conversation now; nothing was written".to_owned())
        }
        other => ApiError::internal(other),
    }
}
