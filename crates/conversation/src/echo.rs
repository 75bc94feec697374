//! Repeats the snapshot at the end of a very short run.
//!
//! The reference's client takes a `full_state` frame for the end of its run only when it arrives after the answer of the
//! request that started the run; it waits 30 seconds when it misses that. Against a fast model a run may be over before the
//! answer has reached the client. So the frame is repeated, until anything else is asked of the conversation.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Only runs that were shorter are repeated.
pub(crate) const SHORT_RUN: Duration = Duration::from_secs(1);
/// When, counted from the end of the run.
const DELAYS: [Duration; 3] = [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1500)];

/// The repetitions that are still to come.
#[derive(Debug, Default)]
pub(crate) struct Echo(VecDeque<Instant>);

impl Echo {
    pub(crate) fn start(&mut self) {
        let now = Instant::now();
        self.0 = DELAYS.iter().map(|delay| now + *delay).collect();
    }

    pub(crate) fn stop(&mut self) {
        self.0.clear();
    }

    /// Ends when a repetition is due; never when there is none.
    pub(crate) async fn due(&mut self) {
        match self.0.front() {
            Some(at) => tokio::time::sleep_until((*at).into()).await,
            None => std::future::pending().await,
        }
        self.0.pop_front();
    }
}
