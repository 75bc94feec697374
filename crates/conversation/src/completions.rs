//! The log of completions of one conversation: what each call sent and got, on its way to `LLMCompletionLogEvent`s (F1-LLM-27).
//!
//! A call's task hands a log in; the conversation's task takes it out and appends it. Both bounds are per process: a log that
//! does not fit is left out, and that is said once.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use openhands_llm::{completion_log::CompletionLog, observer::CallTrace};
use openhands_protocol::{Event, Source, event::LlmCompletionLogEvent};
use openhands_secrets::SecretRegistry;
use openhands_store::StoreError;

use crate::core::{Core, draft};

/// Most logs that wait to be appended.
const MAX_WAITING: usize = 64;
/// Largest log, bytes of JSON. A frame of this size still passes to a subscriber that is not asleep.
const MAX_LOG: usize = 8 * 1024 * 1024;
/// Every log repeats the whole history, so their sum grows with the square of the calls. Bytes.
const MAX_TOTAL: u64 = 1024 * 1024 * 1024;

/// Logs that wait.
pub(crate) struct Completions {
    secrets: Arc<SecretRegistry>,
    waiting: Mutex<Vec<LlmCompletionLogEvent>>,
    total: AtomicU64,
    is_full: AtomicBool,
}

impl Completions {
    pub(crate) fn new(secrets: Arc<SecretRegistry>) -> Self {
        Self { secrets, waiting: Mutex::default(), total: AtomicU64::new(0), is_full: AtomicBool::new(false) }
    }

    /// Writes down a call, secrets hidden.
    pub(crate) fn add(&self, trace: &CallTrace<'_>) {
        let mut log = CompletionLog::of(trace);
        self.secrets.mask_json(&mut log.data);
        let Some(log_data) = log.text(MAX_LOG) else { return self.leave_out("its JSON is too large") };
        let total = self.total.fetch_add(log_data.len() as u64, Ordering::Relaxed);
        if total > MAX_TOTAL {
            return self.leave_out("the conversation has logged too much since it was loaded");
        }
        let event = LlmCompletionLogEvent {
            base: draft(Source::Environment),
            filename: log.filename,
            log_data,
            model_name: trace.config.model.clone(),
            usage_id: trace.config.usage_id.clone(),
        };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_WAITING {
            waiting.push(event);
        } else {
            drop(waiting);
            self.leave_out("too many wait to be written");
        }
    }

    /// Appends the logs that came since the last time.
    pub(crate) fn append_to(&self, core: &mut Core) -> Result<(), StoreError> {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().try_for_each(|log| core.append(Event::LlmCompletionLog(log)).map(drop))
    }

    fn leave_out(&self, why: &str) {
        if !self.is_full.swap(true, Ordering::Relaxed) {
            tracing::warn!("a completion is not logged: {why}; further ones are left out silently");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use openhands_llm::{
        LlmError, LlmRequest,
        observer::{Destination, Spoken},
    };
    use openhands_protocol::LlmConfig;
    use serde_json::json;

    use super::*;

    #[test]
    fn logs_wait_masked_and_bounded() {
        let secrets = Arc::new(SecretRegistry::default());
        secrets.update(json!({"TOKEN": "s3cret-value"}).as_object().unwrap(), None).unwrap();
        let completions = Completions::new(secrets);
        let (config, request) = (LlmConfig::default(), LlmRequest::default());
        let failure = LlmError::BadRequest("no s3cret-value here".to_owned());
        let destination = Destination { provider: "openai", spoken: Spoken::Chat, host: "h", port: None, model: "m" };
        for _ in 0..MAX_WAITING + 3 {
            completions.add(&CallTrace {
                config: &config,
                destination,
                request: &request,
                sent: br#"{"messages": [{"role": "user", "content": "use s3cret-value"}]}"#,
                streamed: false,
                result: Err(&failure),
                attempts: &[],
                began: SystemTime::now(),
                latency: Duration::ZERO,
                first_piece: None,
                context_window: 0,
            });
        }
        let waiting = completions.waiting.lock().unwrap();
        assert_eq!(waiting.len(), MAX_WAITING);
        let log = waiting.first().unwrap();
        assert!(log.filename.ends_with("-error.json"), "{}", log.filename);
        assert!(!log.log_data.contains("s3cret-value") && log.log_data.contains("use <secret-hidden>"), "{log:?}");
        assert_eq!((log.model_name.as_str(), log.usage_id.as_str()), ("gpt-5.6", "default"));
    }
}
