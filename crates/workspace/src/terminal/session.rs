//! One shell that runs: give it a command, wait, send keys. Its beginning is in `start`, its end in `ending`.

use std::{
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
    time::{Duration, Instant},
};

use pty_process::OwnedWritePty;
use rustix::{process::Pid, termios::Termios};
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::pipe,
    sync::Mutex,
    task::JoinHandle,
    time::{sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Dialect, Finished, Output, OutputPolicy, TerminalError,
    dialect::{self, bash_record, bash_token},
    foreground,
    start::token,
    state::{Needs, Phase, Shared},
};

/// How long bash may take to read a command of any length.
const CONTROL: Duration = Duration::from_secs(10);
/// How long a process may take to read what was sent to it.
const WRITE: Duration = Duration::from_secs(5);
/// After this much silence, and again each time, it is looked whether the process waits for input.
const INPUT_CHECK: Duration = Duration::from_secs(1);

/// Tokens given for one command beyond the first.
const MOST_RENEWALS: u32 = 32;

/// How long to wait for a command.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Without new output for this long, stop waiting.
    pub quiet: Option<Duration>,
    /// Stop waiting after this long in any case.
    pub total: Duration,
    /// Stop waiting when the program in the foreground waits for input and has been silent for a second.
    pub until_input: bool,
}

/// Why the waiting is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The command ended.
    Finished(Finished),
    /// No output for [`Patience::quiet`]; it runs on.
    Quiet,
    /// It waits for input.
    NeedsInput,
    /// [`Patience::total`] is over; it runs on.
    TimedOut,
    /// The token fired; it runs on.
    Cancelled,
    /// The shell itself ended, with its exit code (minus the signal for a killed one).
    Ended(Option<i32>),
}

/// A shell on a terminal. Dropping it kills everything that runs in it.
pub struct Terminal {
    pub(super) shared: Arc<Shared>,
    pub(super) dialect: Dialect,
    pub(super) leader: Pid,
    /// A duplicate of our end, to ask who is in the foreground.
    pub(super) terminal: OwnedFd,
    /// The modes the terminal started with.
    pub(super) modes: Option<Termios>,
    pub(super) input: Mutex<OwnedWritePty>,
    pub(super) control: Mutex<Option<pipe::Sender>>,
    /// The word that begins commands and tokens for a bash.
    pub(super) sync: String,
    /// Where commands for a POSIX shell are written, and the token of its prompt.
    pub(super) posix: Option<(tempfile::TempDir, String)>,
    pub(super) reader: JoinHandle<()>,
    pub(super) closed: AtomicBool,
}

impl Terminal {
    /// How the shell is spoken to.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether a command was given whose end has not been seen.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.shared.lock().phase, Phase::Starting | Phase::Running)
    }

    /// How the last command ended, if nobody has waited for its end.
    #[must_use]
    pub fn unseen_end(&self) -> Option<Finished> {
        match &self.shared.lock().phase {
            Phase::Done(finished) => Some(finished.clone()),
            _ => None,
        }
    }

    /// Whether the shell is gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.closed.load(Ordering::Acquire) || matches!(self.shared.lock().phase, Phase::Ended(_))
    }

    /// Gives the shell a command, of any length and number of lines, after exporting `exports` (which stay set). Returns
    /// what background processes wrote since the last command. `policy` holds for the output from here on.
    ///
    /// # Errors
    /// [`TerminalError::Busy`] while a command runs; see the other variants.
    pub async fn submit(
        &self,
        exports: &[(String, String)],
        command: &str,
        policy: OutputPolicy,
    ) -> Result<Output, TerminalError> {
        self.give(exports, command, Some(policy)).await
    }

    pub(super) async fn give(
        &self,
        exports: &[(String, String)],
        command: &str,
        policy: Option<OutputPolicy>,
    ) -> Result<Output, TerminalError> {
        if command.contains('\0') {
            return Err(TerminalError::Nul);
        }
        let token = self.posix.as_ref().map_or_else(token, |(_, token)| token.clone());
        let (before, needs) = {
            let mut inner = self.shared.lock();
            match inner.phase {
                Phase::Ended(_) => return Err(TerminalError::Ended),
                Phase::Starting | Phase::Running => return Err(TerminalError::Busy),
                Phase::Idle | Phase::Done(_) => {}
            }
            let before = inner.take_output();
            inner.begin(policy);
            inner.phase = if self.posix.is_some() { Phase::Starting } else { Phase::Running };
            inner.scanner.expect(token.clone());
            (before, std::mem::take(&mut inner.needs))
        };
        foreground::refresh(&self.terminal, self.modes.as_ref());
        let given = async {
            if self.posix.is_some() {
                return self.write_posix(|token| dialect::posix_file(exports, command, token)).await;
            }
            if needs.line {
                self.write(b"\n").await?;
            }
            self.write_control(&bash_record(&self.sync, exports, command, &token)).await
        };
        match given.await {
            Ok(()) => Ok(before),
            // Nobody knows how much of the command arrived.
            Err(error) => {
                self.kill();
                Err(error)
            }
        }
    }

    /// Waits for the end of the command. Finding it makes the terminal ready for the next one.
    pub async fn wait(&self, patience: &Patience, cancel: &CancellationToken) -> Waited {
        let begin = Instant::now();
        self.shared.lock().last_output = begin;
        loop {
            // Registered before the state is looked at, so that no change is missed.
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (last_output, needs) = {
                let mut inner = self.shared.lock();
                match &inner.phase {
                    Phase::Done(finished) => {
                        let finished = finished.clone();
                        inner.phase = Phase::Idle;
                        return Waited::Finished(finished);
                    }
                    Phase::Ended(code) => return Waited::Ended(*code),
                    Phase::Idle => return Waited::Ended(None),
                    Phase::Starting | Phase::Running => {}
                }
                (inner.last_output, std::mem::take(&mut inner.needs))
            };
            if needs != Needs::default() {
                // It fails only when the shell is gone, which the reader will say.
                let _ = self.bring_back(needs).await;
            }
            let now = Instant::now();
            let end = begin + patience.total;
            let quiet_end = patience.quiet.map(|quiet| last_output + quiet);
            if now >= end {
                return Waited::TimedOut;
            }
            if quiet_end.is_some_and(|quiet_end| now >= quiet_end) {
                return Waited::Quiet;
            }
            let mut next = quiet_end.map_or(end, |quiet_end| quiet_end.min(end));
            if patience.until_input {
                let silent = now - last_output;
                if silent >= INPUT_CHECK && self.waits_for_input() {
                    return Waited::NeedsInput;
                }
                let checks = u32::try_from(silent.as_millis() / INPUT_CHECK.as_millis()).unwrap_or(0);
                next = next.min(last_output + INPUT_CHECK * (checks + 1));
            }
            tokio::select! {
                () = &mut changed => {}
                () = sleep_until(next.into()) => {}
                () = cancel.cancelled() => return Waited::Cancelled,
            }
        }
    }

    /// What was written since the last time it was taken.
    #[must_use]
    pub fn take_output(&self) -> Output {
        self.shared.lock().take_output()
    }

    /// Sends bytes to the program in the foreground, as if typed.
    ///
    /// # Errors
    /// [`TerminalError::InputBlocked`] when nobody reads them, [`TerminalError::Ended`] without a shell.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), TerminalError> {
        if self.has_ended() {
            return Err(TerminalError::Ended);
        }
        self.write(bytes).await
    }

    /// Gives a bash that was thrown out of its loop what it needs to report the end of the command.
    async fn bring_back(&self, needs: Needs) -> Result<(), TerminalError> {
        if self.posix.is_some() {
            return Ok(());
        }
        if needs.line {
            // At its prompt bash takes typed text for commands.
            foreground::refresh(&self.terminal, None);
            self.write(b"\n").await?;
        }
        let token = token();
        {
            let mut inner = self.shared.lock();
            inner.renewals += 1;
            // Output that looks like damaged marks must not fill the pipe.
            if inner.renewals > MOST_RENEWALS {
                return Ok(());
            }
            inner.scanner.expect_also(token.clone());
        }
        self.write_control(&bash_token(&self.sync, &token)).await
    }

    fn waits_for_input(&self) -> bool {
        foreground::group(&self.terminal).is_some_and(foreground::waits_for_input)
    }

    async fn write(&self, bytes: &[u8]) -> Result<(), TerminalError> {
        let write = async { self.input.lock().await.write_all(bytes).await };
        match timeout(WRITE, write).await {
            Ok(result) => result.map_err(TerminalError::Write),
            Err(_) => Err(TerminalError::InputBlocked),
        }
    }

    pub(super) async fn write_control(&self, record: &[u8]) -> Result<(), TerminalError> {
        let write = async {
            match self.control.lock().await.as_mut() {
                Some(control) => control.write_all(record).await,
                None => Ok(()),
            }
        };
        match timeout(CONTROL, write).await {
            Ok(Ok(())) => Ok(()),
            // Nobody reads any more: half a command must not stay in the pipe.
            Ok(Err(_)) | Err(_) => {
                self.kill();
                Err(TerminalError::Ended)
            }
        }
    }

    /// Writes what a POSIX shell is to do into its file and makes it read that.
    pub(super) async fn write_posix(&self, script: impl FnOnce(&str) -> String) -> Result<(), TerminalError> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let Some((directory, token)) = &self.posix else { return Ok(()) };
        self.shared.lock().scanner.expect(token.clone());
        let path: PathBuf = directory.path().join("command");
        let text = script(token);
        let mut options = std::fs::File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&path).map_err(TerminalError::Write)?;
        std::io::Write::write_all(&mut &file, text.as_bytes()).map_err(TerminalError::Write)?;
        self.write(format!(". {}\n", dialect::quote(&path.display().to_string())).as_bytes()).await
    }
}
