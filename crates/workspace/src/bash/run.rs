//! Runs one command: starts it, cuts its output into events, ends it at its limit or when asked. It does not know who asks.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use openhands_protocol::bash::{BashEventKind, BashId, BashOutput};
use rustix::process::Signal;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{ChildStderr, ChildStdout},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::output::{Output, Piece, Stream};
use crate::{
    environment::ToolEnvironment,
    process::{SessionCommand, SessionProcess, exit_code},
};

/// How long a group that was asked to end may clean up before it is killed, and how long the killed may take to vanish.
const GRACE: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 64 * 1024;
/// A command that never ends is still looked at once a year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A command to run.
pub(super) struct Job {
    pub(super) id: BashId,
    pub(super) command: String,
    pub(super) directory: Option<PathBuf>,
    pub(super) timeout: i64,
    pub(super) environment: ToolEnvironment,
    pub(super) output_limit: u64,
    /// Asks the command to end.
    pub(super) stop: CancellationToken,
}

/// Where the pieces of output go.
pub(super) trait Sink: Send {
    /// Takes the next piece; the command is held up meanwhile.
    fn take(&mut self, output: BashOutput) -> impl Future<Output = ()> + Send;
}

/// Runs the job to its end. The last piece given to `sink` has the exit code.
pub(super) async fn run(job: Job, sink: &mut impl Sink) {
    let mut order = 0;
    let mut piece = |piece: Piece, exit_code: Option<i32>| {
        let output = BashOutput {
            id: BashId::random(),
            timestamp: String::new(),
            command_id: job.id,
            order,
            exit_code,
            stdout: piece.stdout,
            stderr: piece.stderr,
            kind: BashEventKind::BashOutput,
        };
        order += 1;
        output
    };
    let mut process = match start(&job) {
        Ok(process) => process,
        Err(reason) => {
            let text = format!("Error executing command: {reason}");
            return sink.take(piece(Piece { stdout: None, stderr: Some(text) }, Some(-1))).await;
        }
    };
    let Some((stdout, stderr)) = process.pipes() else {
        return sink.take(piece(Piece::default(), Some(-1))).await;
    };
    let mut pipes = Pipes { stdout: Some(stdout), stderr: Some(stderr), stdout_read: buffer(), stderr_read: buffer() };
    let mut output = Output::new(job.output_limit);
    let deadline = Instant::now() + Duration::from_secs(u64::try_from(job.timeout).unwrap_or(0)).min(LONGEST);

    let end = loop {
        tokio::select! {
            biased;
            () = job.stop.cancelled() => break End::Stopped,
            () = tokio::time::sleep_until(deadline) => break End::Limit,
            open = pipes.read(&mut output) => {
                while let Some(full) = output.full_piece() {
                    sink.take(piece(full, None)).await;
                }
                if !open {
                    break End::Silent;
                }
            }
        }
    };
    // All output is read, so nothing is lost while the shell itself is waited for.
    let end = match end {
        End::Silent => tokio::select! {
            biased;
            status = process.wait() => End::Exited(status.map_or(-1, exit_code)),
            () = job.stop.cancelled() => End::Stopped,
            () = tokio::time::sleep_until(deadline) => End::Limit,
        },
        other => other,
    };
    let code = match end {
        End::Exited(code) => {
            process.release();
            code
        }
        End::Limit => {
            terminate(&mut process, &mut pipes, &mut output).await;
            output.timed_out(job.timeout);
            -1
        }
        End::Stopped | End::Silent => terminate(&mut process, &mut pipes, &mut output).await,
    };
    while let Some(full) = output.full_piece() {
        sink.take(piece(full, None)).await;
    }
    sink.take(piece(output.rest(), Some(code))).await;
}

enum End {
    /// Nobody holds the pipes any more.
    Silent,
    Exited(i32),
    Limit,
    Stopped,
}

fn start(job: &Job) -> Result<SessionProcess, String> {
    if let Some(directory) = &job.directory {
        check_directory(directory)?;
    }
    SessionProcess::start(SessionCommand {
        program: OsStr::new("/bin/sh"),
        arguments: vec!["-c".into(), job.command.as_str().into()],
        directory: job.directory.as_deref(),
        environment: job.environment.variables(),
    })
    .map_err(|error| match error.kind() {
        std::io::ErrorKind::ArgumentListTooLong => {
            format!(
                "the command has {} bytes, more than the system takes; put it into a file and run that",
                job.command.len()
            )
        }
        _ => error.to_string(),
    })
}

fn check_directory(directory: &Path) -> Result<(), String> {
    match std::fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(format!("working directory '{}' is not a directory", directory.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("working directory '{}' does not exist", directory.display()))
        }
        Err(error) => Err(format!("working directory '{}': {error}", directory.display())),
    }
}

/// Asks the whole group to end, then kills it; the exit code of the shell.
async fn terminate(process: &mut SessionProcess, pipes: &mut Pipes, output: &mut Output) -> i32 {
    process.signal(Signal::TERM);
    let drained = async {
        while pipes.read(output).await {}
        process.wait().await
    };
    let mut status = timeout(GRACE, drained).await.ok();
    // Even after the shell has ended: its children may have ignored the request.
    process.signal(Signal::KILL);
    if status.is_none() {
        // A process that left the group may hold a pipe for ever, so this is bounded as well.
        let drained = async { while pipes.read(output).await {} };
        let _ = timeout(GRACE, drained).await;
        status = timeout(GRACE, process.wait()).await.ok();
    }
    match status {
        Some(Ok(status)) => exit_code(status),
        Some(Err(_)) | None => -1,
    }
}

struct Pipes {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    stdout_read: Vec<u8>,
    stderr_read: Vec<u8>,
}

fn buffer() -> Vec<u8> {
    vec![0; READ_BYTES]
}

impl Pipes {
    /// Reads once from whichever has something; false when both are closed. Cancelling loses nothing.
    async fn read(&mut self, output: &mut Output) -> bool {
        let Self { stdout, stderr, stdout_read, stderr_read } = self;
        tokio::select! {
            read = some(stdout, stdout_read) => output.take(Stream::Stdout, read),
            read = some(stderr, stderr_read) => output.take(Stream::Stderr, read),
            else => {}
        }
        stdout.is_some() || stderr.is_some()
    }
}

/// Reads once; at the end or on an error the pipe is closed. Pending for ever when it is closed already.
async fn some<'b>(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &'b mut [u8]) -> &'b [u8] {
    let Some(open) = pipe else { return std::future::pending().await };
    let read = open.read(buffer).await.unwrap_or(0);
    if read == 0 {
        *pipe = None;
    }
    buffer.get(..read).unwrap_or_default()
}
