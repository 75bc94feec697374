//! A title for a conversation: one model call beside the run after the first user message, or the message's beginning.

use std::{sync::Arc, time::Duration};

use openhands_llm::{LlmClient, LlmRequest, LlmResponse};
use openhands_protocol::{Content, LlmConfig, Message, Role};
use tokio_util::sync::CancellationToken;

use crate::{calls::CallRecord, model};

/// Longest title, characters.
const MAX_TITLE: usize = 50;
/// How much of the message the model reads, characters.
const MAX_MESSAGE: usize = 1000;
/// How long the call may take in all.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A title, and the call that it cost.
pub(crate) struct Titled {
    pub(crate) title: String,
    pub(crate) call: Option<CallRecord>,
}

/// Makes a title for a conversation that begins with `message`. Never fails: without a model's title the message's beginning
/// is one.
pub(crate) async fn make(
    model: Option<(Arc<dyn LlmClient>, LlmConfig)>,
    message: String,
    cancel: CancellationToken,
) -> Titled {
    let (answer, call) = match model {
        Some((client, config)) => ask(&*client, &config, &message, &cancel).await,
        None => (None, None),
    };
    let title = answer.and_then(|text| tidy(&text)).or_else(|| tidy(&message));
    Titled { title: title.unwrap_or_else(|| "Conversation".to_owned()), call }
}

async fn ask(
    client: &dyn LlmClient,
    config: &LlmConfig,
    message: &str,
    cancel: &CancellationToken,
) -> (Option<String>, Option<CallRecord>) {
    let beginning: String = message.chars().take(MAX_MESSAGE).collect();
    let request = LlmRequest {
        messages: vec![
            Message::new(
                Role::System,
                vec![Content::text(
                    "You name conversations. Answer with a title only: a few words, no quotation marks, no full stop, in \
                     the language of the message.",
                )],
            ),
            Message::new(
                Role::User,
                vec![Content::text(format!(
                    "Write a title of at most {MAX_TITLE} characters for a conversation that begins with this \
                     message:\n\n<message>\n{beginning}\n</message>"
                ))],
            ),
        ],
        tools: Vec::new(),
    };
    let started = std::time::Instant::now();
    let answered = tokio::time::timeout(TIME_LIMIT, client.complete(&request, None, cancel)).await;
    match answered {
        Ok(Ok(response)) => {
            let call = model::record(config, &response, started.elapsed());
            let LlmResponse { message, .. } = response;
            (Some(message.joined_text()), Some(call))
        }
        Ok(Err(error)) => {
            tracing::debug!(code = error.code(), "no title from the model, the message's beginning serves");
            (None, None)
        }
        Err(_) => (None, None),
    }
}

/// One line without quotation marks, of at most [`MAX_TITLE`] characters; `None` when nothing is left.
fn tidy(text: &str) -> Option<String> {
    // Some models think aloud in the answer itself.
    let text = text.rsplit("</think>").next().unwrap_or(text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line = line.trim_matches(['"', '\'', '`', '*', '#', ' ']);
    if line.is_empty() {
        return None;
    }
    if line.chars().count() <= MAX_TITLE {
        return Some(line.to_owned());
    }
    let cut: String = line.chars().take(MAX_TITLE - 1).collect();
    Some(format!("{}…", cut.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_tidied() {
        assert_eq!(tidy("\"Fix the build\"\nbecause"), Some("Fix the build".to_owned()));
        assert_eq!(tidy("<think>hm\nhm</think>\n# Title"), Some("Title".to_owned()));
        assert_eq!(tidy(" \n"), None);
        assert_eq!(tidy("\"\""), None);
        let long = tidy(&"ä".repeat(80)).unwrap();
        assert_eq!(long.chars().count(), MAX_TITLE);
        assert!(long.ends_with('…'));
    }
}
