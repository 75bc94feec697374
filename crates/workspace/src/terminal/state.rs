//! What is known of a shell, shared between the task that reads its terminal and those who wait for it.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use encoding_rs::{CoderResult, Decoder, UTF_8};
use tokio::sync::Notify;

use super::{
    marker::{Piece, Scanner},
    screen::Screen,
    transcript::{Output, OutputPolicy, Transcript},
};

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The exit code, as the shell's `$?`.
    pub exit_code: i32,
    /// The last background process of the shell, if there was one.
    pub background: Option<i32>,
    /// The shell's working directory afterwards.
    pub directory: PathBuf,
    /// The shell's `PATH` afterwards.
    pub path: String,
}

/// What the shell is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits for a command.
    Idle,
    /// Was given a command; what comes before the mark of its beginning is no output.
    Starting,
    /// Runs a command.
    Running,
    /// The command ended and nobody has asked yet.
    Done(Finished),
    /// The shell is gone, with its exit code where it has one.
    Ended(Option<i32>),
}

/// What a bash needs after something came in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// It shows its prompt: an empty line on the terminal brings it back.
    pub(super) line: bool,
    /// The token it had may be lost.
    pub(super) token: bool,
}

pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// Woken at each change.
    pub(super) changed: Notify,
}

pub(super) struct Inner {
    pub(super) phase: Phase,
    /// What a bash needs to come back.
    pub(super) needs: Needs,
    /// How many tokens were given for the command beyond the first.
    pub(super) renewals: u32,
    pub(super) last_output: Instant,
    pub(super) scanner: Scanner,
    decoder: Decoder,
    screen: Screen,
    transcript: Transcript,
}

impl Shared {
    pub(super) fn new(prompt_token: String) -> Self {
        Self {
            inner: Mutex::new(Inner {
                phase: Phase::Idle,
                needs: Needs::default(),
                renewals: 0,
                last_output: Instant::now(),
                scanner: Scanner::new(prompt_token),
                decoder: UTF_8.new_decoder_without_bom_handling(),
                screen: Screen::default(),
                transcript: Transcript::default(),
            }),
            changed: Notify::new(),
        }
    }

    /// The state. Nothing that runs under the lock can panic half way, so a poisoned one is as good as any.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Takes what the shell wrote.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.last_output = Instant::now();
        for piece in self.scanner.feed(bytes) {
            match piece {
                Piece::Output(bytes) => {
                    if self.phase != Phase::Starting {
                        self.output(&bytes);
                    }
                }
                Piece::Mark(mark) => {
                    self.phase = Phase::Done(Finished {
                        exit_code: mark.exit_code,
                        background: mark.background,
                        directory: PathBuf::from(mark.directory),
                        path: mark.path,
                    });
                    self.needs = Needs::default();
                }
                Piece::Prompt if self.phase == Phase::Starting => self.phase = Phase::Running,
                Piece::Prompt => self.needs = Needs { line: true, token: true },
                Piece::Again => self.needs.token = true,
            }
        }
    }

    /// The shell is gone.
    pub(super) fn end(&mut self, exit_code: Option<i32>) {
        let rest = self.scanner.finish();
        self.output(&rest);
        if !matches!(self.phase, Phase::Ended(_)) {
            self.phase = Phase::Ended(exit_code);
        }
    }

    /// What was written since the last time.
    pub(super) fn take_output(&mut self) -> Output {
        let mut text = String::new();
        self.screen.take(&mut text);
        self.transcript.push(&text);
        self.transcript.take()
    }

    /// Prepares for the output of a command, under the policy before if there is none: whatever mode a program left the
    /// screen in is gone.
    pub(super) fn begin(&mut self, policy: Option<OutputPolicy>) {
        if let Some(policy) = policy {
            self.transcript.set_policy(policy);
        }
        self.screen = Screen::default();
        self.renewals = 0;
    }

    fn output(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        let mut text = String::new();
        // A character cut by the end of a read is finished by the next one.
        let mut decoded = String::with_capacity(bytes.len() + 16);
        loop {
            let (result, read, _) = self.decoder.decode_to_string(rest, &mut decoded, false);
            rest = rest.get(read..).unwrap_or_default();
            match result {
                CoderResult::InputEmpty => break,
                CoderResult::OutputFull => decoded.reserve(rest.len().max(16) * 3),
            }
        }
        self.screen.feed(&decoded, &mut text);
        if !text.is_empty() {
            self.transcript.push(&text);
        }
    }
}
