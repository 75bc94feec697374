//! What the agent is told of a call: turns what happened in the terminal into an observation.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use openhands_workspace::terminal::{Account, Finished, Output};
use serde_json::json;

use crate::{Observation, ToolContext, observation};

/// Bytes shown of what was written before a command.
const LONGEST_BEFORE: usize = 8000;

/// Something the agent should know.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Note {
    /// The output belongs to the command that was started earlier.
    Continued,
    Quiet(Duration),
    NeedsInput,
    StillBusy(Duration),
    Busy,
    Broken(String),
    NothingRuns,
    InputTooLate,
    InputBlocked,
    EarlierEnded(i32),
    Interrupted {
        shell_lost: bool,
    },
    ShellEnded(Option<i32>),
    ShellLost,
    Reset,
    NotRun,
    Closed,
}

/// What happened.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) output: Output,
    /// What background processes wrote before the command.
    pub(super) before: String,
    pub(super) finished: Option<Finished>,
    /// The exit code when there is no [`Finished`].
    pub(super) exit_code: Option<i32>,
    pub(super) running: bool,
    pub(super) timed_out: bool,
    pub(super) is_error: bool,
    pub(super) sent_key: Option<String>,
    pub(super) notes: Vec<Note>,
}

impl Report {
    /// Nothing ran; only notes.
    pub(super) fn note(notes: Vec<Note>, is_error: bool) -> Self {
        Self { notes, is_error, ..Self::default() }
    }

    /// The command runs on.
    pub(super) fn pause(&mut self, note: Note) {
        self.running = true;
        self.notes.push(note);
    }
}

/// Writes observations. Remembers which Python a PATH leads to.
pub(super) struct Reporter {
    account: Account,
    pythons: Mutex<HashMap<String, Option<PathBuf>>>,
}

impl Reporter {
    pub(super) fn new() -> Self {
        Self { account: Account::current(), pythons: Mutex::new(HashMap::new()) }
    }

    pub(super) fn observation(
        &self,
        kind: &str,
        command: &str,
        reset: bool,
        report: Report,
        directory: &Path,
        context: &ToolContext,
    ) -> Observation {
        let mask = |text: &str| context.secrets.mask(text);
        let exit_code = report.finished.as_ref().map(|finished| finished.exit_code).or(report.exit_code);
        let happened = exit_code.is_some() || report.running || !report.output.text.is_empty();
        let (prefix, suffix, alone) = texts(&report, directory);
        let shown = report.output.text.trim_end().to_owned();
        // Without an output the notes are the content; beside one they frame it.
        let text = if happened { shown } else { mask(&alone) };
        let python = report.finished.as_ref().and_then(|finished| self.python(&finished.path));
        let metadata = json!({
            "exit_code": exit_code.unwrap_or(-1),
            "pid": report.finished.as_ref().and_then(|finished| finished.background).unwrap_or(-1),
            "username": self.account.user,
            "hostname": self.account.host,
            "working_dir": directory.display().to_string(),
            "py_interpreter_path": python.map(|path| path.display().to_string()).unwrap_or_default(),
            "prefix": if happened { mask(&prefix) } else { String::new() },
            "suffix": if happened { mask(&suffix) } else { String::new() },
        });
        let members = json!({
            "command": if reset { format!("[RESET] {command}").trim_end().to_owned() } else { command.to_owned() },
            "exit_code": exit_code.or(report.running.then_some(-1)),
            "timeout": report.timed_out,
            "metadata": metadata,
            "full_output_save_dir": context.observations_dir.as_ref().map(|directory| directory.display().to_string()),
        });
        observation::text(kind, text, report.is_error, members)
    }

    /// The Python interpreter a PATH leads to.
    fn python(&self, path: &str) -> Option<PathBuf> {
        let mut known = self.pythons.lock().unwrap_or_else(PoisonError::into_inner);
        // A path that leads nowhere yet is looked up again: an installation may have come meanwhile.
        if let Some(Some(python)) =
            known.get(path).filter(|python| python.as_ref().is_some_and(|python| python.is_file()))
        {
            return Some(python.clone());
        }
        let found = ["python", "python3"].iter().find_map(|name| {
            std::env::split_paths(path).map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
        });
        if known.len() > 64 {
            known.clear();
        }
        known.insert(path.to_owned(), found.clone());
        found
    }
}

/// The prefix and the suffix of an output, and the text when there is none.
fn texts(report: &Report, directory: &Path) -> (String, String, String) {
    let mut before = Vec::new();
    let mut after = Vec::new();
    for note in &report.notes {
        match note {
            Note::Continued => before.push("The output goes on with that of the command started earlier.".to_owned()),
            Note::Reset => before.push("This is a new terminal; variables, jobs and the working directory of the old one are gone.".to_owned()),
            Note::ShellLost => before.push(
                "The shell of the terminal was killed since the last command, so this is a new one: variables and jobs are gone."
                    .to_owned(),
            ),
            Note::EarlierEnded(code) => before.push(format!("The command that was still running has ended with exit code {code}.")),
            note => after.push(sentence(note, directory)),
        }
    }
    let earlier = report.before.trim_end();
    if !earlier.is_empty() {
        let from = earlier.len().saturating_sub(LONGEST_BEFORE);
        let earlier = earlier.get(earlier.ceil_char_boundary(from)..).unwrap_or_default();
        before.push(format!("Written in the background since the last command:\n{earlier}\nOutput of this command:"));
    }
    // The exit code itself is in the metadata, from which both people and models read it.
    if let (Some(_), Some(key)) = (&report.finished, report.sent_key.as_ref().filter(|key| key.starts_with("C-"))) {
        after.push(format!("The command ended after {key}."));
    }
    let prefix = before.iter().map(|note| format!("[{note}]\n")).collect();
    let suffix = after.iter().map(|note| format!("\n[{note}]")).collect();
    let alone = before.iter().chain(&after).map(String::as_str).collect::<Vec<_>>().join("\n");
    (prefix, suffix, alone)
}

const WHAT_NOW: &str = "Look again with an empty command, type into it with is_input=true (C-c stops it), \
                        or give such commands a timeout from the beginning.";

fn sentence(note: &Note, directory: &Path) -> String {
    match note {
        Note::Quiet(quiet) => {
            format!("Nothing new for {} seconds; the command still runs. {WHAT_NOW}", quiet.as_secs_f64())
        }
        Note::NeedsInput => format!("The command still runs and seems to wait for input. {WHAT_NOW}"),
        Note::StillBusy(total) => format!("After {} seconds the command still runs. {WHAT_NOW}", total.as_secs_f64()),
        Note::Busy => {
            format!("Not executed: the command before still runs, and this terminal runs one at a time. {WHAT_NOW}")
        }
        Note::Broken(complaint) => format!("Not executed, the shell cannot read this command to its end:\n{complaint}"),
        Note::NothingRuns => {
            "No command is running in the terminal, so there is nothing to look at or to type into.".to_owned()
        }
        Note::InputTooLate => "The command had ended before this input; nothing was typed.".to_owned(),
        Note::InputBlocked => "The program does not read its input; a part of it may have been typed.".to_owned(),
        Note::Interrupted { shell_lost: false } => {
            "Interrupted; the command was stopped, the terminal is still the same.".to_owned()
        }
        Note::Interrupted { shell_lost: true } => {
            "Interrupted; the command could only be stopped together with its shell. The next command gets a new one."
                .to_owned()
        }
        Note::ShellEnded(code) => format!(
            "The shell itself ended{}. The next command gets a new one in {}; variables and jobs are gone.",
            code.map(|code| format!(" with exit code {code}")).unwrap_or_default(),
            directory.display()
        ),
        Note::NotRun => "Interrupted before the command was started; it was not executed.".to_owned(),
        Note::Closed => "The conversation was closed and the command killed.".to_owned(),
        Note::Continued | Note::Reset | Note::ShellLost | Note::EarlierEnded(_) => String::new(),
    }
}
