//! Prints a conversation's events as they happen, as any client would read them: through a port-forward, with the key from
//! the conversation's Secret.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::port::PortForward;
use super::{get, http, objects, refuse_failed, text};
use crate::cluster::target::Target;
use crate::command::Cmd;
use crate::{say, wait};

/// Longest run that the demo waits for.
const LIMIT: Duration = Duration::from_secs(600);

/// Follows the conversation until its run has ended.
///
/// # Errors
/// The server cannot be reached, or the run does not end in time.
pub(crate) fn follow(target: &Target, conversation: &Value, pod: &str) -> Result<()> {
    let secret = get(target, &["secret", text(conversation, "/status/sessionKeySecretRef/name")?])?;
    let key = decoded(text(&secret, "/data/session-api-key")?)?;
    let forward = PortForward::open(target, pod)?;
    let id = match text(conversation, "/status/conversationId") {
        Ok(id) => id,
        Err(_) => text(conversation, "/metadata/uid")?,
    };
    say::line(format!("  the conversation's events, through kubectl port-forward to {pod}:"));
    let mut seen = 0;
    wait::until(LIMIT, "the end of the run", || {
        let Some(page) = events(forward.port, id, &key)? else { return Ok(None) };
        for event in page.iter().skip(seen) {
            if let Some(line) = describe(event) {
                say::line(format!("    {line}"));
            }
        }
        seen = seen.max(page.len());
        let now = get(target, &["conv", objects::CONVERSATION])?;
        refuse_failed(&now)?;
        let status = text(&now, "/status/executionStatus").unwrap_or_default().to_owned();
        Ok(matches!(status.as_str(), "finished" | "error" | "stuck").then_some(()))
    })?;
    // What was written between the last look and the end.
    for event in events(forward.port, id, &key)?.unwrap_or_default().iter().skip(seen) {
        if let Some(line) = describe(event) {
            say::line(format!("    {line}"));
        }
    }
    Ok(())
}

/// All events so far; nothing while the conversation is not there yet.
fn events(port: u16, id: &str, key: &str) -> Result<Option<Vec<Value>>> {
    let mut all = Vec::new();
    let mut page_id = String::new();
    loop {
        let path = format!("/api/conversations/{id}/events/search?limit=100&sort_order=TIMESTAMP{page_id}");
        let (status, body) = http::get(port, &path, key)?;
        match status {
            200 => {}
            404 => return Ok(None),
            other => bail!("the server answered {other}: {body}"),
        }
        let page: Value = serde_json::from_str(&body).context("a page of events")?;
        all.extend(page.get("items").and_then(Value::as_array).into_iter().flatten().cloned());
        match page.get("next_page_id").and_then(Value::as_str) {
            Some(next) if all.len() < 10_000 => page_id = format!("&page_id={next}"),
            _ => return Ok(Some(all)),
        }
    }
}

/// One line for an event that tells a person something.
fn describe(event: &Value) -> Option<String> {
    let kind = event.get("kind").and_then(Value::as_str)?;
    let line = match kind {
        "MessageEvent" => {
            let role = event.pointer("/llm_message/role").and_then(Value::as_str).unwrap_or("message");
            format!("{role:<12} {}", first_text(event.pointer("/llm_message/content")?))
        }
        "ActionEvent" => {
            let tool = event.get("tool_name").and_then(Value::as_str).unwrap_or("action");
            let action = event.get("action").cloned().unwrap_or_default();
            let detail = ["command", "message", "thought", "path"]
                .iter()
                .find_map(|name| action.get(*name).and_then(Value::as_str));
            format!("{:<12} {}", format!("-> {tool}"), short(detail.unwrap_or_default()))
        }
        "ObservationEvent" => {
            let tool = event.get("tool_name").and_then(Value::as_str).unwrap_or("observation");
            let text = event.pointer("/observation/content").map(first_text).unwrap_or_default();
            format!("{:<12} {text}", format!("<- {tool}"))
        }
        "AgentErrorEvent" | "ConversationErrorEvent" => {
            let detail = ["error", "detail"].iter().find_map(|name| event.get(*name).and_then(Value::as_str));
            format!("{:<12} {}", "error", short(detail.unwrap_or_default()))
        }
        _ => return None,
    };
    Some(line)
}

fn first_text(content: &Value) -> String {
    let text = content.as_array().into_iter().flatten().find_map(|part| part.get("text").and_then(Value::as_str));
    short(text.or_else(|| content.as_str()).unwrap_or_default())
}

fn short(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if one_line.chars().count() <= 110 { one_line } else { one_line.chars().take(107).chain("...".chars()).collect() }
}

/// A value of a Secret's `data`.
fn decoded(value: &str) -> Result<String> {
    Cmd::new("base64").arg("--decode").input(value).run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_in_one_line() {
        let message = json!({"kind": "MessageEvent", "llm_message": {"role": "user", "content": [{"type": "text", "text": "do\nit"}]}});
        assert_eq!(describe(&message).unwrap(), "user         do it");
        let action = json!({"kind": "ActionEvent", "tool_name": "terminal", "action": {"kind": "TerminalAction", "command": "ls"}});
        assert_eq!(describe(&action).unwrap(), "-> terminal  ls");
        let observation = json!({"kind": "ObservationEvent", "tool_name": "terminal", "observation": {"content": [{"type": "text", "text": "a b"}]}});
        assert_eq!(describe(&observation).unwrap(), "<- terminal  a b");
        assert_eq!(describe(&json!({"kind": "ConversationStateUpdateEvent"})), None);
    }
}
