//! Starts a shell on a terminal of its own.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use pty_process::{Command, Pts, Pty, Size};
use rustix::{
    fs::{Mode, OFlags},
    termios::{InputModes, OptionalActions, Termios},
};
use tokio::{net::unix::pipe, process::Child};

use super::{
    Dialect, TerminalError,
    dialect::{BashWiring, bash_bootstrap},
    screen::{COLUMNS, ROWS},
};

/// Descriptors below this number belong to the users of the shell.
const LOWEST_DESCRIPTOR: i32 = 30;

/// What a terminal is started with.
#[derive(Clone, Debug)]
pub struct TerminalOptions {
    /// Where the shell starts.
    pub directory: PathBuf,
    /// The whole environment of the shell.
    pub environment: BTreeMap<OsString, OsString>,
    /// The shell's program; the first of bash and sh on the PATH when `None`.
    pub shell: Option<PathBuf>,
    /// Whether bash reads the system's and the user's start files (`~/.bashrc`).
    pub start_files: bool,
}

/// A shell that was started.
pub(super) struct Spawned {
    pub(super) child: Child,
    pub(super) pty: Pty,
    /// The modes the terminal starts with.
    pub(super) modes: Option<Termios>,
    /// Commands for a bash.
    pub(super) control: Option<(pipe::Sender, BashWiring)>,
}

/// The shell to use and how it is spoken to.
pub(super) fn choose(options: &TerminalOptions) -> Result<(PathBuf, Dialect), TerminalError> {
    let found = options.shell.clone().or_else(|| {
        let path = options.environment.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        ["bash", "sh"].iter().find_map(|name| look_up(name, &path))
    });
    let shell = found.ok_or(TerminalError::NoShell)?;
    let dialect = if shell.file_name() == Some(OsStr::new("bash")) { Dialect::Bash } else { Dialect::Posix };
    Ok((shell, dialect))
}

/// Finds a program on a search path, and then where systems keep shells.
fn look_up(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .chain(["/bin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

/// Starts the shell: own session, the terminal as its only descriptors but for the private ones of bash, first to be killed
/// when memory is short.
pub(super) fn spawn(
    options: &TerminalOptions,
    shell: &Path,
    dialect: Dialect,
    prompt_token: &str,
) -> Result<Spawned, TerminalError> {
    let failed = |source: io::Error| TerminalError::Start {
        shell: shell.display().to_string(),
        directory: options.directory.display().to_string(),
        source,
    };
    crate::process::seal_inherited_descriptors();
    let (pty, pts) = pty_process::open().map_err(|error| failed(into_io(error)))?;
    pty.resize(Size::new(ROWS, COLUMNS)).map_err(|error| failed(into_io(error)))?;
    let modes = without_flow_control(&pts);
    let mut command = Command::new(shell)
        .env_clear()
        .envs(&options.environment)
        .env("TERM", "xterm-256color")
        .current_dir(&options.directory)
        .kill_on_drop(true);
    for (name, value) in [("PAGER", "cat"), ("GIT_PAGER", "cat"), ("MANPAGER", "cat")] {
        if !options.environment.contains_key(OsStr::new(name)) {
            command = command.env(name, value);
        }
    }
    let control = match dialect {
        Dialect::Posix => {
            command = prepared(command.arg("-i").env_remove("ENV").env("PS1", "").env("PS2", ""), Vec::new());
            None
        }
        Dialect::Bash => {
            let (sender, receiver) = pipe::pipe().map_err(failed)?;
            let control = moved_up(receiver.into_blocking_fd().map_err(failed)?).map_err(failed)?;
            let report = moved_up(&pts).map_err(failed)?;
            let wiring = BashWiring {
                control: control.as_raw_fd(),
                report: report.as_raw_fd(),
                prompt_token: prompt_token.to_owned(),
                sync: super::start::token(),
                start_files: options.start_files,
            };
            command = command
                .args(["--noprofile", "--norc", "--noediting", "-i"])
                .env("PROMPT_COMMAND", bash_bootstrap(wiring.control))
                .env("PS1", "");
            command = prepared(command, vec![control, report]);
            Some((sender, wiring))
        }
    };
    let child = command.spawn(pts).map_err(|error| failed(into_io(error)))?;
    Ok(Spawned { child, pty, modes, control })
}

/// C-s must not stop the terminal for ever. Gives the modes that are set.
fn without_flow_control(pts: &Pts) -> Option<Termios> {
    let mut modes = rustix::termios::tcgetattr(pts).ok()?;
    modes.input_modes.remove(InputModes::IXON | InputModes::IXOFF);
    modes.input_modes.insert(InputModes::IUTF8);
    rustix::termios::tcsetattr(pts, OptionalActions::Now, &modes).ok()?;
    Some(modes)
}

/// A duplicate with a high number, closed on exec.
fn moved_up(descriptor: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, LOWEST_DESCRIPTOR)?)
}

/// Adds what the child does between fork and exec: keeps `kept` open and volunteers for the out-of-memory killer.
#[expect(unsafe_code, reason = "descriptors can only be handed over between fork and exec")]
fn prepared(command: Command, kept: Vec<OwnedFd>) -> Command {
    let prepare = move || {
        for descriptor in &kept {
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?;
        }
        // Best effort: without it the server may be killed in the place of a greedy command.
        if let Ok(file) = rustix::fs::open(c"/proc/self/oom_score_adj", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        {
            let _ = rustix::io::write(&file, b"1000");
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls on values made before the fork; it neither allocates nor locks.
    unsafe { command.pre_exec(prepare) }
}

fn into_io(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
        other => io::Error::other(other.to_string()),
    }
}
