//! Runs git for reading, so that neither the repository's configuration nor a huge answer can hurt: no hooks, no file-system
//! monitor, no external diff or text conversion, no filters the repository brings, no network, no prompt, bounded in time and
//! size. It does not know what the answers mean.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::GitError;
use crate::{
    environment::ToolEnvironment,
    process::{SessionCommand, SessionProcess, exit_code},
};

/// Time for one quick question.
const QUICK: Duration = Duration::from_secs(30);
/// Time for a command that walks the whole tree.
pub(super) const SLOW: Duration = Duration::from_secs(300);
/// Most bytes of a listing.
pub(super) const LISTING_BYTES: usize = 64 * 1024 * 1024;
/// Most bytes of standard error that are kept.
const ERROR_BYTES: usize = 16 * 1024;

/// Given to every command before anything the repository says.
const SETTINGS: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.quotePath=false",
    "color.ui=false",
    "diff.ignoreSubmodules=dirty",
    "diff.mnemonicPrefix=false",
    "diff.noprefix=false",
    "diff.relative=false",
    "log.showSignature=false",
    "protocol.allow=never",
    // The volume may belong to another user; with the settings above reading it is harmless.
    "safe.directory=*",
    "submodule.recurse=false",
];

/// A place to ask git from.
#[derive(Clone, Debug)]
pub(super) struct Git {
    directory: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    settings: Vec<String>,
}

impl Git {
    /// Git in `directory`, which should be canonical.
    pub(super) fn at(directory: &Path, tools: &ToolEnvironment) -> Self {
        let mut environment = tools.variables();
        environment.retain(|name, _| !name.to_string_lossy().starts_with("GIT_"));
        for (name, value) in [
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_PAGER", "cat"),
            ("GIT_ALLOW_PROTOCOL", ""),
            ("LC_ALL", "C"),
        ] {
            environment.insert(name.into(), value.into());
        }
        let settings = SETTINGS.iter().map(|setting| (*setting).to_owned()).collect();
        Self { directory: directory.to_owned(), environment, settings }
    }

    /// Adds a variable.
    pub(super) fn variable(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.environment.insert(name.into(), value.as_ref().to_owned());
    }

    /// Turns the clean and smudge filters off that the repository itself configures: they are programs of its choice that run
    /// when the working tree is compared. Those of the user (such as for large files) stay.
    ///
    /// # Errors
    /// When git cannot be run.
    pub(super) async fn without_own_filters(mut self) -> Result<Self, GitError> {
        let question = [
            "config",
            "--show-scope",
            "-z",
            "--name-only",
            "--get-regexp",
            r"^filter\..*\.(clean|smudge|process|required)$",
        ];
        // Exit code 1: there are none.
        let listing = match self.run(question).await {
            Ok(listing) => listing,
            Err(GitError::Command { code: 1, .. }) => return Ok(self),
            Err(error) => return Err(error),
        };
        let mut fields = listing.split(|byte| *byte == 0);
        while let (Some(scope), Some(name)) = (fields.next(), fields.next()) {
            if scope == b"system" || scope == b"global" || scope == b"command" {
                continue;
            }
            let name = String::from_utf8_lossy(name);
            let value = if name.ends_with(".required") { "false" } else { "" };
            self.settings.push(format!("{name}={value}"));
        }
        Ok(self)
    }

    /// Standard output of a quick command.
    ///
    /// # Errors
    /// When it fails, takes too long or answers too much.
    pub(super) async fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Vec<u8>, GitError> {
        self.run_within(arguments, QUICK, LISTING_BYTES).await
    }

    /// Standard output as trimmed text.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(super) async fn line<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<String, GitError> {
        Ok(String::from_utf8_lossy(&self.run(arguments).await?).trim().to_owned())
    }

    /// Trimmed text of a question that may have no answer: `None` when git fails or says nothing.
    ///
    /// # Errors
    /// When git cannot be run or takes too long.
    pub(super) async fn ask<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Option<String>, GitError> {
        match self.line(arguments).await {
            Ok(line) => Ok((!line.is_empty()).then_some(line)),
            Err(GitError::Command { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Standard output within own bounds.
    ///
    /// # Errors
    /// When it fails, takes longer than `time` or answers more than `bytes`.
    pub(super) async fn run_within<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        time: Duration,
        bytes: usize,
    ) -> Result<Vec<u8>, GitError> {
        let mut answer = Vec::new();
        self.stream(arguments, time, bytes as u64, &mut answer).await?;
        Ok(answer)
    }

    /// Writes standard output to `to` as it comes.
    ///
    /// # Errors
    /// When the command fails, takes longer than `time` or answers more than `bytes`, or when `to` cannot be written.
    pub(super) async fn stream<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        time: Duration,
        bytes: u64,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Result<u64, GitError> {
        let arguments: Vec<OsString> = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        let name = arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut process = self.start(arguments)?;
        let Some((stdout, stderr)) = process.pipes() else { return Err(GitError::Broken { command: name }) };
        let work = async {
            let (copied, said) = tokio::join!(copy(stdout, to, bytes, &name), keep(stderr));
            let copied = copied?;
            let status = process.wait().await.map_err(|source| GitError::Run { command: name.clone(), source })?;
            match exit_code(status) {
                0 => Ok(copied),
                code => Err(GitError::Command { command: name.clone(), code, stderr: said }),
            }
        };
        // Dropping the process on any error kills whatever it started.
        tokio::time::timeout(time, work)
            .await
            .unwrap_or(Err(GitError::Timeout { command: name, seconds: time.as_secs() }))
    }

    fn start(&self, arguments: Vec<OsString>) -> Result<SessionProcess, GitError> {
        let settings = self.settings.iter().flat_map(|setting| [OsString::from("-c"), setting.into()]);
        let all = ["--no-pager".into()].into_iter().chain(settings).chain(arguments).collect();
        SessionProcess::start(SessionCommand {
            program: OsStr::new("git"),
            arguments: all,
            directory: Some(&self.directory),
            environment: self.environment.clone(),
        })
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => GitError::NotInstalled,
            _ => GitError::Run { command: "git".to_owned(), source },
        })
    }
}

async fn copy(
    from: impl AsyncRead + Unpin,
    to: &mut (impl AsyncWrite + Unpin),
    most: u64,
    name: &str,
) -> Result<u64, GitError> {
    let failed = |source| GitError::Run { command: name.to_owned(), source };
    // A byte more than allowed tells an answer that fits from one that was cut.
    let copied = tokio::io::copy(&mut from.take(most.saturating_add(1)), to).await.map_err(failed)?;
    if copied > most {
        return Err(GitError::TooLarge { command: name.to_owned(), limit: most });
    }
    to.flush().await.map_err(failed)?;
    Ok(copied)
}

/// The beginning of standard error; the rest is read and forgotten so that the process does not wait.
async fn keep(mut from: impl AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 {
            break;
        }
        let room = ERROR_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(buffer.get(..read.min(room)).unwrap_or_default());
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}
