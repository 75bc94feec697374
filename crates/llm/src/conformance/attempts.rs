//! One call and its attempts: what is tried again and when, what time-outs and cancellation do, seen from the server's side.

use std::time::{Duration, Instant};

use openhands_protocol::LlmConfig;
use openhands_testkit::{ScriptedModel, Turn};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{answers::asked, cases::Case};
use crate::{Delta, DeltaSink, LlmClient, LlmError, LlmResponse, client_for};

/// Longer than anything here takes; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(30);

/// A client of a scripted model.
struct Stage {
    model: ScriptedModel,
    client: std::sync::Arc<dyn LlmClient>,
}

impl Stage {
    async fn of(case: &Case, turns: impl IntoIterator<Item = Turn>, change: impl FnOnce(&mut LlmConfig)) -> Self {
        let model = ScriptedModel::start(turns).await;
        let mut config = case.config(&model);
        change(&mut config);
        Self { client: client_for(&config, &Default::default()).unwrap(), model }
    }

    async fn ask(&self, streamed: bool, cancel: &CancellationToken) -> Result<LlmResponse, LlmError> {
        let mut sink = |_: Delta| {};
        let sink: Option<DeltaSink<'_>> = if streamed { Some(&mut sink) } else { None };
        let request = asked();
        timeout(LONG, self.client.complete(&request, sink, cancel)).await.expect("an end within the time")
    }

    fn asked(&self) -> usize {
        self.model.requests().len()
    }
}

fn busy(case: &Case) -> Turn {
    case.error(503, "overloaded_error", "busy")
}

pub(super) async fn bounded(case: &Case) {
    for streamed in [false, true] {
        let stage = Stage::of(case, (0..9).map(|_| busy(case)), |config| config.num_retries = 3).await;
        let error = stage.ask(streamed, &CancellationToken::new()).await.unwrap_err();
        assert_eq!((error.code(), stage.asked()), ("LLMServiceUnavailableError", 3), "{error}");
    }
}

/// The wait that a refusal asks for, in every spelling.
pub(super) async fn asked_for(case: &Case) {
    let slow = || case.error(429, "rate_limit_error", "slow down");
    let spelled = [
        (slow().header("retry-after", "7"), 7000),
        (slow().header("retry-after", "0.25"), 250),
        (slow().header("retry-after-ms", "1500"), 1500),
        (slow().header("retry-after", "Fri, 02 Jan 2026 03:04:15 GMT"), 0),
        (case.error(429, "rate_limit_error", "Please try again in 1m2s."), 62_000),
    ];
    for (turn, milliseconds) in spelled {
        let stage = Stage::of(case, [turn], |config| config.num_retries = 1).await;
        let error = stage.ask(false, &CancellationToken::new()).await.unwrap_err();
        let LlmError::RateLimit { retry_after, .. } = error else { panic!("a rate limit: {error}") };
        assert_eq!(retry_after, Some(Duration::from_millis(milliseconds)));
    }
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3600);
    let date = later.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let stage = Stage::of(case, [slow().header("retry-after", &date)], |config| config.num_retries = 1).await;
    let error = stage.ask(false, &CancellationToken::new()).await.unwrap_err();
    let LlmError::RateLimit { retry_after: Some(wait), .. } = error else { panic!("a rate limit: {error}") };
    assert!((3590..=3600).contains(&wait.as_secs()), "{wait:?}");
}

pub(super) async fn obeyed(case: &Case) {
    // Also for an outage, and never longer than the configuration allows.
    for (turn, least) in [
        (case.error(429, "rate_limit_error", "slow").header("retry-after-ms", "200"), 200),
        (busy(case).header("retry-after-ms", "200"), 200),
        (busy(case).header("retry-after", "3600"), 1000),
    ] {
        let stage = Stage::of(case, [turn, Turn::text("after")], |config| config.retry_max_wait = 1).await;
        let began = Instant::now();
        let response = stage.ask(false, &CancellationToken::new()).await.unwrap();
        assert_eq!(response.message.joined_text(), "after");
        assert!(began.elapsed() >= Duration::from_millis(least), "{:?}", began.elapsed());
    }
    let turns = [busy(case).header("x-should-retry", "false"), Turn::text("never")];
    let stage = Stage::of(case, turns, |_| {}).await;
    stage.ask(false, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(stage.asked(), 1, "the provider says that it is of no use");
}

pub(super) async fn cancelled(case: &Case) {
    let long = || Turn::text(&"a long text ".repeat(50));
    for (turn, streamed) in [
        (long().stall_after(0), true),
        (long().stall_after(400), true),
        (long().stall_after(40), false),
        (long().delay(Duration::from_secs(600)), true),
        (long().delay(Duration::from_secs(600)), false),
    ] {
        let stage = Stage::of(case, [turn], |_| {}).await;
        let cancel = CancellationToken::new();
        let stop = async {
            stage.model.answering().await;
            cancel.cancel();
        };
        let (result, ()) = tokio::join!(stage.ask(streamed, &cancel), stop);
        assert_eq!(result.unwrap_err().code(), "UserCancelledError");
        timeout(LONG, stage.model.idle()).await.expect("the server sees the connection close");
        assert_eq!(stage.asked(), 1);
    }
}

/// A caller that goes away closes the connection as well; one that cancels while a retry is waited for is not kept.
pub(super) async fn left(case: &Case) {
    let stage = Stage::of(case, [Turn::text(&"x".repeat(900)).stall_after(300)], |_| {}).await;
    let never = CancellationToken::new();
    tokio::select! {
        _ = stage.ask(true, &never) => panic!("the answer stalls"),
        () = stage.model.answering() => {}
    }
    timeout(LONG, stage.model.idle()).await.expect("the server sees the connection close");

    let patient = |config: &mut LlmConfig| (config.retry_min_wait, config.retry_max_wait) = (3600, 3600);
    let stage = Stage::of(case, [busy(case), Turn::text("never")], patient).await;
    let cancel = CancellationToken::new();
    let stop = async {
        while stage.asked() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(stage.ask(false, &cancel), stop);
    assert_eq!((result.unwrap_err().code(), stage.asked()), ("UserCancelledError", 1));
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    assert_eq!(stage.ask(true, &cancelled).await.unwrap_err().code(), "UserCancelledError");
    assert_eq!(stage.asked(), 1, "nothing is sent for a call that was cancelled before");
}

/// Silence: in the middle of a stream, before its first piece, before and within a whole answer.
pub(super) async fn stalled(case: &Case) {
    let long = || Turn::text(&"a long text ".repeat(200));
    for (turn, streamed, setting) in [
        (long().stall_after(1500), true, "llm.stream_idle_timeout"),
        (long().stall_after(0), true, "llm.timeout"),
        (long().delay(Duration::from_secs(600)), true, "llm.timeout"),
        (long().stall_after(20), false, "llm.timeout"),
    ] {
        let short = |attempts: u32| {
            move |config: &mut LlmConfig| {
                (config.num_retries, config.timeout, config.stream_idle_timeout) = (attempts, Some(1), Some(0.2));
            }
        };
        let stage = Stage::of(case, [turn.clone()], short(1)).await;
        let error = stage.ask(streamed, &CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.code(), "LLMTimeoutError");
        assert!(error.to_string().contains(setting), "{error}");
        timeout(LONG, stage.model.idle()).await.expect("the server sees the connection close");
        let stage = Stage::of(case, [turn, Turn::text("after")], short(2)).await;
        let response = stage.ask(streamed, &CancellationToken::new()).await.unwrap();
        assert_eq!(response.message.joined_text(), "after");
    }
}

macro_rules! interfaces {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            use crate::conformance::{attempts, cases};

            #[tokio::test]
            async fn attempts_are_bounded() {
                attempts::bounded(&cases::$name()).await;
            }

            #[tokio::test]
            async fn waits_are_read_in_every_spelling() {
                attempts::asked_for(&cases::$name()).await;
            }

            #[tokio::test]
            async fn waits_are_obeyed() {
                attempts::obeyed(&cases::$name()).await;
            }

            #[tokio::test]
            async fn cancelling_closes_the_connection() {
                attempts::cancelled(&cases::$name()).await;
            }

            #[tokio::test]
            async fn leaving_closes_the_connection() {
                attempts::left(&cases::$name()).await;
            }

            #[tokio::test]
            async fn silence_times_out() {
                attempts::stalled(&cases::$name()).await;
            }
        })*
    };
}

on_every_interface!(interfaces);
