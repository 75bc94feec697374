//! Running another program with a time limit and an error that tells what went wrong. Knows no program by name.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

/// Lines of output that an error repeats.
const TAIL: usize = 25;

/// A program to run: captured by default, at most ten minutes.
#[derive(Debug)]
pub(crate) struct Cmd {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    removed: Vec<OsString>,
    folder: Option<PathBuf>,
    input: Option<Vec<u8>>,
    limit: Duration,
    log: Option<PathBuf>,
    shown: bool,
}

/// What a finished program left.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// Standard output, whole.
    pub(crate) stdout: String,
    /// The last lines of both outputs in the order they came.
    pub(crate) tail: String,
}

impl Cmd {
    /// A program, found on PATH unless it is a path.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            removed: Vec::new(),
            folder: None,
            input: None,
            limit: Duration::from_secs(600),
            log: None,
            shown: false,
        }
    }

    /// One more argument.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// More arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets a variable for the program.
    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Takes a variable away from the program.
    pub(crate) fn without_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.removed.push(name.as_ref().to_owned());
        self
    }

    /// The folder to run in.
    pub(crate) fn dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.folder = Some(folder.as_ref().to_owned());
        self
    }

    /// What the program reads from standard input (nothing by default).
    pub(crate) fn input(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.input = Some(text.into());
        self
    }

    /// When the program is stopped for taking too long.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// A file that gets both outputs.
    pub(crate) fn log(mut self, file: impl AsRef<Path>) -> Self {
        self.log = Some(file.as_ref().to_owned());
        self
    }

    /// Repeats both outputs on the terminal while they come.
    pub(crate) fn shown(mut self) -> Self {
        self.shown = true;
        self
    }

    /// Runs to the end and gives what it left, also when it failed.
    ///
    /// # Errors
    /// The program could not be started, or took longer than its limit.
    pub(crate) fn outcome(self) -> Result<Outcome> {
        let name = self.to_string();
        let limit = self.limit;
        let mut child = self.spawn()?;
        if let (Some(text), Some(mut pipe)) = (self.input.clone(), child.stdin.take()) {
            // A program may end without reading; what it says is in its outcome.
            std::thread::spawn(move || drop(pipe.write_all(&text)));
        }
        let log = self.log.as_deref().map(File::create).transpose().with_context(|| format!("log file of {name}"))?;
        let out = Reader::start(child.stdout.take(), log.as_ref().map(File::try_clone).transpose()?, self.shown);
        let err = Reader::start(child.stderr.take(), log, self.shown);
        let status = wait_for(&mut child, limit).with_context(|| name.clone())?;
        let (stdout, mut tail) = out.finish();
        let (_, err_tail) = err.finish();
        tail.extend(err_tail);
        let skip = tail.len().saturating_sub(TAIL);
        let tail = tail.into_iter().skip(skip).collect::<Vec<_>>().join("\n");
        Ok(Outcome { status, stdout, tail })
    }

    /// Runs to the end; anything but success is an error that repeats the last lines.
    ///
    /// # Errors
    /// As [`Cmd::outcome`], or an exit code other than 0.
    pub(crate) fn run(self) -> Result<String> {
        let name = self.to_string();
        let shown = self.shown;
        let outcome = self.outcome()?;
        if outcome.status.success() {
            return Ok(outcome.stdout);
        }
        if shown {
            bail!("{name}: {}", outcome.status);
        }
        bail!("{name}: {}\n{}", outcome.status, outcome.tail)
    }

    /// Whether it could be run and succeeded.
    pub(crate) fn succeeds(self) -> bool {
        self.outcome().is_ok_and(|outcome| outcome.status.success())
    }

    /// Starts it with captured outputs and leaves the rest to the caller.
    ///
    /// # Errors
    /// The program could not be started.
    pub(crate) fn spawn(&self) -> Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().map(|(k, v)| (k, v)));
        for name in &self.removed {
            command.env_remove(name);
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                anyhow!("{}: not found; install it and put it on PATH", self.program.display())
            }
            _ => anyhow!(error).context(self.to_string()),
        })
    }
}

impl std::fmt::Display for Cmd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let program = Path::new(&self.program).file_name().unwrap_or(&self.program);
        write!(f, "{}", program.display())?;
        for argument in self.arguments.iter().take(12) {
            let text = argument.to_string_lossy();
            let short: String = text.chars().take(80).collect();
            write!(f, " {}", short.lines().next().unwrap_or_default())?;
        }
        if self.arguments.len() > 12 {
            write!(f, " ...")?;
        }
        Ok(())
    }
}

/// Waits for the end of `child`, and ends it when it takes longer than `limit`.
fn wait_for(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            bail!("stopped after {} s without an end", limit.as_secs());
        }
        crate::wait::nap(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// A thread that reads one output to its end.
struct Reader(Option<JoinHandle<(String, VecDeque<String>)>>);

impl Reader {
    fn start(pipe: Option<impl Read + Send + 'static>, mut log: Option<File>, shown: bool) -> Self {
        let Some(pipe) = pipe else { return Self(None) };
        Self(Some(std::thread::spawn(move || {
            let mut whole = String::new();
            let mut tail = VecDeque::new();
            let mut reader = BufReader::new(pipe);
            let mut raw = Vec::new();
            while reader.read_until(b'\n', &mut raw).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&raw);
                if let Some(file) = &mut log {
                    // The outcome does not depend on the log.
                    let _ = file.write_all(&raw);
                }
                crate::say::heard(&text);
                if shown {
                    crate::say::line(text.trim_end_matches('\n'));
                }
                if tail.len() == TAIL {
                    tail.pop_front();
                }
                tail.push_back(text.trim_end().to_owned());
                whole.push_str(&text);
                raw.clear();
            }
            (whole, tail)
        })))
    }

    fn finish(self) -> (String, VecDeque<String>) {
        self.0.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// Where a program lies on PATH, when it does.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|dir| dir.join(program))
        .find(|p| p.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_failure_and_time_limit() {
        assert_eq!(Cmd::new("cat").input("hello").run().unwrap(), "hello");
        let error = Cmd::new("sh").args(["-c", "echo first; echo second >&2; exit 3"]).run().unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("first") && error.contains("second"), "{error}");
        let error = Cmd::new("sleep").arg("60").limit(Duration::from_millis(50)).run().unwrap_err();
        assert!(format!("{error:#}").contains("stopped after"), "{error:#}");
        let error = Cmd::new("no-such-program").run().unwrap_err().to_string();
        assert_eq!(error, "no-such-program: not found; install it and put it on PATH");
    }
}
