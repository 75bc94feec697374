//! Step 6: start the agent on the pod that the status names.

use openhands_client::{ClientError, Connection};
use serde_json::Value;

use super::{open::reuse, session::SessionKeys};
use crate::{machine::Answer, view::PodView};

/// What the server said.
pub(crate) enum Start {
    /// It has the conversation.
    Done(Connection),
    /// See [`Answer`].
    Answer(Answer),
    /// It will never start this agent; in its words.
    Refused(String),
}

/// Starts the agent; repeating it has no effect.
pub(crate) async fn start(pod: &PodView, keys: &SessionKeys, body: &Value, connection: Option<Connection>) -> Start {
    let mut connection = match reuse(pod, connection).await {
        Ok(connection) => connection,
        Err(answer) => return Start::Answer(answer),
    };
    match connection.start_conversation(&keys.api_key, body).await {
        Ok(_) => Start::Done(connection),
        Err(error) => sorted(pod, &error),
    }
}

fn sorted(pod: &PodView, error: &ClientError) -> Start {
    let ClientError::Refused { status, detail, .. } = error else {
        tracing::debug!(pod = %pod.key, %error, "the start is not known to have happened");
        return Start::Answer(Answer::Unclear);
    };
    match status.as_u16() {
        // Dormant, or other keys: the container was started again meanwhile.
        401 | 503 => Start::Answer(Answer::NotOpen),
        // Full for the moment, or failing for the moment.
        408 | 429 | 500..=599 => Start::Answer(Answer::Unclear),
        _ => Start::Refused(format!("the server answered {status}: {detail}")),
    }
}
