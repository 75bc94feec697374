//! What an observer is told, against a scripted model on real sockets.

use std::sync::Mutex;

use openhands_protocol::{Content, Message, Role};
use openhands_testkit::{ScriptedModel, Turn, llm_config};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{LlmClient, client_with};

/// Writes down what it is told.
#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl CallObserver for Diary {
    fn wants_body(&self, _: &LlmConfig) -> bool {
        true
    }

    fn started(&self, call: &CallStart<'_>) {
        let Destination { provider, spoken, host, model, .. } = call.destination;
        self.0.lock().unwrap().push(format!("started {provider} {spoken:?} {host} {model}"));
    }

    fn retrying(&self, notice: &RetryNotice<'_>) {
        let RetryNotice { attempt, max, error, wait, .. } = notice;
        let code = error.map(LlmError::code);
        self.0.lock().unwrap().push(format!("retrying {attempt}/{max} {code:?} after {wait:?}"));
    }

    fn finished(&self, trace: &CallTrace<'_>) {
        let sent: Value = serde_json::from_slice(trace.sent).unwrap_or_default();
        let said = trace.result.map(|response| response.message.joined_text()).map_err(LlmError::code);
        let failures: Vec<_> = trace.attempts.iter().map(|attempt| attempt.failure).collect();
        let first = trace.first_piece.is_some();
        let streamed = trace.streamed;
        self.0.lock().unwrap().push(format!(
            "finished {said:?} {failures:?} model={} streamed={streamed} first={first}",
            sent.get("model").unwrap_or(&Value::Null)
        ));
        assert!(trace.first_piece.is_none_or(|first| first <= trace.latency));
    }
}

fn request() -> LlmRequest {
    LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: Vec::new() }
}

fn client(model: &ScriptedModel, diary: &Arc<Diary>) -> Arc<dyn LlmClient> {
    let config = LlmConfig { num_retries: 3, retry_min_wait: 0, retry_max_wait: 0, ..llm_config(model) };
    let observer: Arc<dyn CallObserver> = Arc::<Diary>::clone(diary);
    client_with(&config, &Default::default(), &ClientOptions { observer: Some(observer), ..Default::default() })
        .unwrap()
}

const STARTED: &str = "started openai Chat 127.0.0.1 scripted";

#[tokio::test]
async fn retries_are_told_before_their_waits_and_the_end_once() {
    let model = ScriptedModel::start([
        Turn::error(429, "rate_limit", "slow down"),
        Turn::error(503, "overloaded", "later"),
        Turn::text("hello"),
    ])
    .await;
    let diary = Arc::new(Diary::default());
    client(&model, &diary).complete(&request(), None, &CancellationToken::new()).await.unwrap();
    assert_eq!(
        *diary.0.lock().unwrap(),
        [
            STARTED,
            "retrying 1/3 Some(\"LLMRateLimitError\") after 0ns",
            "retrying 2/3 Some(\"LLMServiceUnavailableError\") after 0ns",
            "finished Ok(\"hello\") [Some(\"LLMRateLimitError\"), Some(\"LLMServiceUnavailableError\"), None] \
             model=\"scripted\" streamed=false first=false",
        ]
    );
}

#[tokio::test]
async fn streams_tell_when_their_first_piece_came() {
    let model = ScriptedModel::start([Turn::text("hello")]).await;
    let diary = Arc::new(Diary::default());
    let mut text = String::new();
    let mut sink = |delta| {
        if let Delta::Text(piece) = delta {
            text.push_str(&piece);
        }
    };
    client(&model, &diary).complete(&request(), Some(&mut sink), &CancellationToken::new()).await.unwrap();
    assert_eq!(text, "hello");
    let finished = "finished Ok(\"hello\") [None] model=\"scripted\" streamed=true first=true";
    assert_eq!(*diary.0.lock().unwrap(), [STARTED, finished]);
}

#[tokio::test]
async fn failed_cancelled_and_dropped_calls_end_too() {
    let model = ScriptedModel::start([
        Turn::error(401, "invalid_api_key", "no"),
        Turn::text("late").delay(Duration::from_secs(60)),
        Turn::text("late").delay(Duration::from_secs(60)),
    ])
    .await;
    let diary = Arc::new(Diary::default());
    let client = client(&model, &diary);
    client.complete(&request(), None, &CancellationToken::new()).await.unwrap_err();
    let cancel = CancellationToken::new();
    let asked = request();
    let (result, ()) = tokio::join!(client.complete(&asked, None, &cancel), async {
        model.answering().await;
        cancel.cancel();
    });
    assert_eq!(result.unwrap_err().code(), "UserCancelledError");
    let token = CancellationToken::new();
    tokio::select! {
        _ = client.complete(&asked, None, &token) => unreachable!("the model takes a minute"),
        () = tokio::time::sleep(Duration::from_millis(100)) => {}
    }
    let diary = diary.0.lock().unwrap();
    let ends: Vec<_> = diary.iter().filter(|line| line.starts_with("finished")).collect();
    let [refused, cancelled, dropped] = &ends[..] else { panic!("{diary:?}") };
    assert!(
        refused.starts_with("finished Err(\"LLMAuthenticationError\") [Some(\"LLMAuthenticationError\")]"),
        "{refused}"
    );
    assert!(cancelled.starts_with("finished Err(\"UserCancelledError\") []"), "{cancelled}");
    assert!(dropped.starts_with("finished Err(\"UserCancelledError\") []"), "{dropped}");
}
