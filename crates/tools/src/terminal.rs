//! The tool by which an agent runs commands: one shell that lives as long as the conversation.

mod report;
mod settings;
mod spec;
mod syntax;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use openhands_protocol::tool::ToolSpec;
use openhands_workspace::{
    environment::ToolEnvironment,
    terminal::{Mask, OutputPolicy, Patience, Terminal, TerminalError, TerminalOptions, Waited, key},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{InvalidArguments, Observation, Tool, ToolContext, ToolError, arguments};
use report::{Note, Report, Reporter};
pub use settings::TerminalSettings;

/// However busy a command without a time limit is, the agent gets a look at it after this long.
const LONGEST_LOOK: Duration = Duration::from_secs(600);
/// The longest time limit an agent can set.
const LONGEST_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// After keys were sent, silence for this long is enough.
const QUIET_AFTER_INPUT: Duration = Duration::from_secs(5);
/// Commands are not data: a larger text belongs into a file.
const LONGEST_COMMAND: usize = 1024 * 1024;

/// Runs commands in a persistent shell (F1-TOOL-16..18).
pub struct TerminalTool {
    spec: ToolSpec,
    settings: TerminalSettings,
    working_dir: PathBuf,
    reporter: Reporter,
    slot: Mutex<Slot>,
    /// Calls take turns: there is one shell.
    turn: tokio::sync::Mutex<()>,
    closed: AtomicBool,
}

struct Slot {
    terminal: Option<Arc<Terminal>>,
    /// Where the next shell starts.
    directory: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TerminalAction {
    command: String,
    #[serde(default)]
    is_input: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<f64>,
    #[serde(default)]
    reset: bool,
}

impl TerminalTool {
    /// A terminal whose shell starts in `working_dir` at the first command.
    #[must_use]
    pub fn new(settings: TerminalSettings, working_dir: PathBuf) -> Self {
        Self {
            spec: spec::spec(settings.quiet),
            slot: Mutex::new(Slot { terminal: None, directory: working_dir.clone() }),
            reporter: Reporter::new(),
            settings,
            working_dir,
            turn: tokio::sync::Mutex::new(()),
            closed: AtomicBool::new(false),
        }
    }

    async fn perform(&self, action: &TerminalAction, context: &ToolContext) -> Result<Report, ToolError> {
        let mut notes = Vec::new();
        if action.reset {
            self.drop_shell().await;
            self.slot().directory.clone_from(&self.working_dir);
            notes.push(Note::Reset);
            if action.command.trim().is_empty() {
                return Ok(Report::note(notes, false));
            }
        }
        if self.current().is_some_and(|terminal| terminal.has_ended()) {
            // It ended between two commands, by a signal or because memory was short.
            notes.push(Note::ShellLost);
            self.drop_shell().await;
        }
        if action.is_input {
            self.input(action, context).await
        } else if action.command.trim().is_empty() {
            self.look(action, context).await
        } else {
            self.command(action, context, notes).await
        }
    }

    /// Sends keys or a line to what is running.
    async fn input(&self, action: &TerminalAction, context: &ToolContext) -> Result<Report, ToolError> {
        let Some(terminal) = self.current().filter(|terminal| terminal.is_running()) else {
            return match self.current().filter(|terminal| terminal.unseen_end().is_some()) {
                // It ended before the input came: the agent learns what it wrote and how it ended.
                Some(terminal) => Ok(self.wait(&terminal, action, context, vec![Note::InputTooLate]).await),
                None => Ok(Report::note(vec![Note::NothingRuns], true)),
            };
        };
        let text = action.command.trim_end_matches('\n');
        let bytes = match key(text.trim()) {
            Some(bytes) => bytes,
            // No text at all: only a look.
            None if text.is_empty() && action.command.is_empty() => Vec::new(),
            None => format!("{text}\n").into_bytes(),
        };
        match terminal.send(&bytes).await {
            Ok(()) => Ok(self.wait(&terminal, action, context, vec![Note::Continued]).await),
            Err(TerminalError::InputBlocked) => Ok(Report {
                output: terminal.take_output(),
                running: true,
                notes: vec![Note::InputBlocked],
                is_error: true,
                ..Report::default()
            }),
            Err(error) => Err(ToolError(error.to_string())),
        }
    }

    /// Reads more of what is running, or has run to its end since.
    async fn look(&self, action: &TerminalAction, context: &ToolContext) -> Result<Report, ToolError> {
        match self.current().filter(|terminal| terminal.is_running() || terminal.unseen_end().is_some()) {
            Some(terminal) => Ok(self.wait(&terminal, action, context, vec![Note::Continued]).await),
            None => Ok(Report::note(vec![Note::NothingRuns], true)),
        }
    }

    async fn command(
        &self,
        action: &TerminalAction,
        context: &ToolContext,
        mut notes: Vec<Note>,
    ) -> Result<Report, ToolError> {
        if let Some(terminal) = self.current().filter(|terminal| terminal.is_running()) {
            if action.command.trim().starts_with("C-") && key(action.command.trim()).is_some() {
                // Nobody means a program called `C-c` here.
                return self.input(&TerminalAction { is_input: true, ..action.clone() }, context).await;
            }
            notes.push(Note::Busy);
            return Ok(Report {
                output: terminal.take_output(),
                running: true,
                notes,
                is_error: true,
                ..Report::default()
            });
        }
        let terminal = self.shell(context).await?;
        if let Some(complaint) = syntax::complaint(terminal.dialect(), &action.command, context).await {
            notes.push(Note::Broken(complaint));
            return Ok(Report { exit_code: Some(2), notes, is_error: true, ..Report::default() });
        }
        if let Some(finished) = terminal.unseen_end() {
            notes.push(Note::EarlierEnded(finished.exit_code));
        }
        let exports = context.secrets.mentioned(&action.command);
        let before = terminal
            .submit(&exports, &action.command, self.policy(context))
            .await
            .map_err(|error| ToolError(error.to_string()))?;
        let mut report = self.wait(&terminal, action, context, notes).await;
        report.before = before.text;
        Ok(report)
    }

    async fn wait(
        &self,
        terminal: &Terminal,
        action: &TerminalAction,
        context: &ToolContext,
        notes: Vec<Note>,
    ) -> Report {
        let mut report =
            Report { notes, sent_key: action.is_input.then(|| action.command.trim().to_owned()), ..Report::default() };
        let patience = match action.timeout {
            Some(seconds) => Patience {
                quiet: None,
                total: Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_LIMIT).min(LONGEST_LIMIT),
                until_input: false,
            },
            None => Patience { quiet: Some(self.quiet(action)), total: LONGEST_LOOK, until_input: true },
        };
        match terminal.wait(&patience, &context.cancel).await {
            Waited::Finished(finished) => {
                self.slot().directory.clone_from(&finished.directory);
                report.finished = Some(finished);
            }
            Waited::Quiet => report.pause(Note::Quiet(self.quiet(action))),
            Waited::NeedsInput => report.pause(Note::NeedsInput),
            Waited::TimedOut => {
                report.timed_out = action.timeout.is_some();
                report.pause(Note::StillBusy(patience.total));
            }
            Waited::Cancelled => {
                report.exit_code = Some(130);
                let (end, output) = terminal.interrupt().await;
                report.output = output;
                report.notes.push(Note::Interrupted { shell_lost: end.is_none() });
                match end {
                    Some(finished) => self.slot().directory.clone_from(&finished.directory),
                    None => self.drop_shell().await,
                }
                return report;
            }
            Waited::Ended(code) => {
                report.exit_code = code;
                report.notes.push(if self.closed.load(Ordering::Acquire) {
                    Note::Closed
                } else {
                    Note::ShellEnded(code)
                });
            }
        }
        report.output = terminal.take_output();
        if terminal.has_ended() {
            self.drop_shell().await;
        }
        report
    }

    fn quiet(&self, action: &TerminalAction) -> Duration {
        if action.is_input { self.settings.quiet.min(QUIET_AFTER_INPUT) } else { self.settings.quiet }
    }

    fn policy(&self, context: &ToolContext) -> OutputPolicy {
        let secrets = Arc::clone(&context.secrets);
        let mask: Mask = Arc::new(move |text| secrets.mask(text));
        OutputPolicy { shown: 0, directory: context.observations_dir.clone(), mask: Some(mask) }
    }

    /// The shell, started when there is none.
    async fn shell(&self, context: &ToolContext) -> Result<Arc<Terminal>, ToolError> {
        if let Some(terminal) = self.current() {
            return Ok(terminal);
        }
        let mut directory = self.slot().directory.clone();
        if !directory.is_dir() {
            directory.clone_from(&self.working_dir);
            std::fs::create_dir_all(&directory).map_err(|error| {
                ToolError(format!("the working directory {} cannot be made: {error}", directory.display()))
            })?;
        }
        let named = context.environment.iter().chain(&self.settings.environment);
        let environment = ToolEnvironment::new(named.map(|(name, value)| (name.clone(), value.clone()))).variables();
        let options = TerminalOptions { directory, environment, shell: self.settings.shell.clone(), start_files: true };
        let started = tokio::select! {
            started = Terminal::start(&options) => started,
            // Start files of users can take their time.
            () = context.cancel.cancelled() => return Err(ToolError("interrupted while the shell was starting".to_owned())),
        };
        let terminal = Arc::new(started.map_err(|error| ToolError(error.to_string()))?);
        self.slot().terminal = Some(Arc::clone(&terminal));
        if self.closed.load(Ordering::Acquire) {
            // Closed while the shell was starting: nobody else will end it.
            self.drop_shell().await;
            return Err(closed());
        }
        Ok(terminal)
    }

    fn current(&self) -> Option<Arc<Terminal>> {
        self.slot().terminal.clone()
    }

    async fn drop_shell(&self) {
        let terminal = self.slot().terminal.take();
        if let Some(terminal) = terminal {
            terminal.close().await;
        }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> ToolError {
    ToolError("the terminal is closed".to_owned())
}

#[async_trait]
impl Tool for TerminalTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn action(&self, arguments: Value) -> Result<Value, InvalidArguments> {
        let action: TerminalAction = arguments::read(&self.spec, arguments)?;
        let wrong = |text: String| Err(InvalidArguments(format!("terminal: {text}")));
        if action.reset && action.is_input {
            return wrong(
                "`reset` and `is_input` exclude each other: a new shell has nothing running that takes input"
                    .to_owned(),
            );
        }
        if let Some(timeout) = action.timeout.filter(|timeout| !timeout.is_finite() || *timeout < 0.0) {
            return wrong(format!("`timeout` is {timeout}, it must be 0 or more seconds"));
        }
        if action.command.contains('\0') {
            return wrong("`command` holds a NUL character".to_owned());
        }
        if action.command.len() > LONGEST_COMMAND {
            return wrong(format!(
                "`command` is longer than {LONGEST_COMMAND} bytes; write the text to a file with file_editor"
            ));
        }
        if let (Some(timeout), Some(most), false) = (action.timeout, self.settings.foreground_limit, action.is_input)
            && timeout > most.as_secs_f64()
            && !action.command.trim().is_empty()
        {
            return wrong(format!(
                "`timeout` may be {} seconds at most, because this environment is stopped when it looks idle for longer; \
                 take a shorter one, leave it out and look again with an empty command, or run the command in the \
                 background with its output in a file",
                most.as_secs()
            ));
        }
        arguments::tagged(&self.spec.action_kind, &action)
    }

    async fn run(&self, action: &Value, context: &ToolContext) -> Result<Observation, ToolError> {
        let action: TerminalAction = arguments::stored(action)?;
        let report = tokio::select! {
            biased;
            () = context.cancel.cancelled() => Report::note(vec![Note::NotRun], true),
            turn = self.turn.lock() => {
                let _turn = turn;
                if self.closed.load(Ordering::Acquire) {
                    return Err(closed());
                }
                // Reacts to the token by itself.
                self.perform(&action, context).await?
            }
        };
        let directory: &Path = &self.slot().directory.clone();
        Ok(self.reporter.observation(
            &self.spec.observation_kind,
            &action.command,
            action.reset,
            report,
            directory,
            context,
        ))
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Not in turn: a command that runs now is to end now.
        self.drop_shell().await;
    }
}
