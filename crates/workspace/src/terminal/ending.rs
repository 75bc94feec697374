//! Ends what runs in a terminal: one command, or everything.

use std::{sync::atomic::Ordering, time::Duration};

use rustix::process::Signal;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Finished, Output, Patience, Terminal, Waited, foreground, state::Phase};

/// How long an interrupted command may take to end before it is killed, and again before the shell is given up.
const GRACE: Duration = Duration::from_millis(1500);

impl Terminal {
    /// Ends the running command: interrupt first, then kill. Gives its end and what it wrote. No end: the shell did not come
    /// back and has to be closed.
    pub async fn interrupt(&self) -> (Option<Finished>, Output) {
        let patience = Patience { quiet: None, total: GRACE, until_input: false };
        for signal in [Signal::INT, Signal::KILL, Signal::KILL] {
            let group = foreground::group(&self.terminal).unwrap_or(self.leader);
            if group != self.leader {
                foreground::signal_group(group, signal);
            }
            // The shell itself, too: it may be in a loop, or about to start the next command of a list.
            let _ = rustix::process::kill_process(self.leader, Signal::INT);
            match self.wait(&patience, &CancellationToken::new()).await {
                Waited::Finished(finished) => {
                    let output = self.take_output();
                    return (self.settle(&patience).await.then_some(finished), output);
                }
                Waited::Ended(_) => break,
                _ => {}
            }
        }
        (None, self.take_output())
    }

    /// Makes sure that no interrupt is left that would hit the next command: one that does nothing has to pass unharmed.
    async fn settle(&self, patience: &Patience) -> bool {
        for _ in 0..5 {
            if self.give(&[], ":", None).await.is_err() {
                return false;
            }
            match self.wait(patience, &CancellationToken::new()).await {
                Waited::Finished(finished) if finished.exit_code == 0 => return true,
                Waited::Finished(_) => {}
                _ => return false,
            }
        }
        true
    }

    /// Kills everything that runs in the terminal and waits, bounded, until the shell is gone. Harmless when repeated.
    pub async fn close(&self) {
        self.kill();
        let ended = async {
            loop {
                let changed = self.shared.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if matches!(self.shared.lock().phase, Phase::Ended(_)) {
                    return;
                }
                changed.await;
            }
        };
        let _ = timeout(GRACE, ended).await;
    }

    pub(super) fn kill(&self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            foreground::kill_session(self.leader);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.kill();
        self.reader.abort();
    }
}
