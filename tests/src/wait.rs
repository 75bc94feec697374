//! Waiting for a condition with a bound; the only waiting there is in the checks.

use std::{
    fmt::Debug,
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

const STEP: Duration = Duration::from_millis(50);

/// Asks until the answer is `Some`.
///
/// # Errors
/// When that does not happen within `bound`, with the last error seen.
pub async fn until<T, F: Future<Output = Result<Option<T>>>>(
    what: &str,
    bound: Duration,
    mut ask: impl FnMut() -> F,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let last = match tokio::time::timeout(Duration::from_secs(15), ask()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => "not yet".to_owned(),
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "no answer within 15 s".to_owned(),
        };
        if start.elapsed() > bound {
            bail!("not within {bound:?}: {what} (last answer: {last})");
        }
        tokio::time::sleep(STEP).await;
    }
}

/// Checks again and again that something stays true for a while: for what must *not* happen.
///
/// # Errors
/// At the first answer that differs from `wanted`.
pub async fn stays<T: PartialEq + Debug, F: Future<Output = Result<T>>>(
    what: &str,
    span: Duration,
    wanted: &T,
    mut ask: impl FnMut() -> F,
) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < span {
        let got = ask().await?;
        if got != *wanted {
            bail!("{what}: was {got:?} after {:?}, must stay {wanted:?}", start.elapsed());
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(())
}
