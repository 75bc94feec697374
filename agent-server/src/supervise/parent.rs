//! The parent's loop.

use std::{
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as BlockingStream},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait};
use tokio::{
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    task::JoinHandle,
};

use super::{CHILD_FLAG, frame::Frame, hide_memory, restart::Restarts};

/// What the child has beyond its grace period before it is killed.
const BEYOND_GRACE: Duration = Duration::from_secs(3);

/// The signals that are handed on. An interrupt becomes a request to end, as the child's terminal is gone.
const FORWARDED: [(SignalKind, Signal); 6] = [
    (SignalKind::terminate(), Signal::TERM),
    (SignalKind::interrupt(), Signal::TERM),
    (SignalKind::hangup(), Signal::HUP),
    (SignalKind::quit(), Signal::QUIT),
    (SignalKind::user_defined1(), Signal::USR1),
    (SignalKind::user_defined2(), Signal::USR2),
];

/// Runs this program as a child with `arguments` until it ends by itself, is asked to end, or crashes too often. Answers with
/// the child's exit code (128 and the signal when a signal ended it).
///
/// # Errors
/// When the operating system refuses what a parent needs.
pub fn run(arguments: Vec<OsString>, grace: Duration) -> io::Result<ExitCode> {
    hide_memory();
    // Orphans of tools come to us, also when we are not the first process.
    set_child_subreaper(Some(getpid()))?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(supervise(arguments, grace))
}

async fn supervise(arguments: Vec<OsString>, grace: Duration) -> io::Result<ExitCode> {
    let mut parent = Parent::new(arguments)?;
    let mut restarts = Restarts::default();
    let mut payload = None;
    let mut has_served = false;
    loop {
        let mut child = parent.start(payload.clone())?;
        let started = Instant::now();
        let end = parent.watch(&mut child, &mut payload, grace).await?;
        has_served |= child.served;
        child.talk.abort();
        let code = end.code();
        if end.asked || code == 0 {
            return Ok(ExitCode::from(code));
        }
        // A first child that never served has a message for the user, not an accident.
        if !has_served && !end.by_signal() {
            return Ok(ExitCode::from(code));
        }
        let Some(pause) = restarts.after(started.elapsed()) else {
            tracing::error!(code, "the server crashed too often in a row, giving up");
            return Ok(ExitCode::from(code));
        };
        tracing::error!(code, wait = ?pause, initialised = payload.is_some(), "the server crashed and is started again");
        if parent.pause(pause).await? {
            return Ok(ExitCode::from(code));
        }
    }
}

struct Parent {
    arguments: Vec<OsString>,
    children: tokio::signal::unix::Signal,
    signals: mpsc::Receiver<Signal>,
}

struct Child {
    pid: Pid,
    messages: mpsc::Receiver<Message>,
    talk: JoinHandle<()>,
    served: bool,
}

/// What the child told.
enum Message {
    Serving,
    Payload(Vec<u8>),
}

/// How a child ended.
struct End {
    status: WaitStatus,
    /// Whether it was asked to.
    asked: bool,
}

impl End {
    fn by_signal(&self) -> bool {
        self.status.terminating_signal().is_some()
    }

    fn code(&self) -> u8 {
        let code = match (self.status.exit_status(), self.status.terminating_signal()) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => 1,
        };
        u8::try_from(code).unwrap_or(1)
    }
}

impl Parent {
    fn new(arguments: Vec<OsString>) -> io::Result<Self> {
        let (send, signals) = mpsc::channel(16);
        for (kind, forwarded) in FORWARDED {
            let mut stream = signal(kind)?;
            let send = send.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() {
                    // Full: as many of them wait already.
                    let _ = send.try_send(forwarded);
                }
            });
        }
        Ok(Self { arguments, children: signal(SignalKind::child())?, signals })
    }

    /// Starts a child with one end of a socket as its standard input.
    fn start(&self, payload: Option<Vec<u8>>) -> io::Result<Child> {
        let (ours, theirs) = BlockingStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = UnixStream::from_std(ours)?;
        // The file may have been replaced since our own start; the running one is what we want.
        let child = Command::new("/proc/self/exe")
            .arg(CHILD_FLAG)
            .args(&self.arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the child has no pid"))?;
        let (send, messages) = mpsc::channel(4);
        let talk = tokio::spawn(async move {
            // Ends with the child, whose end of the socket closes.
            if let Err(error) = talk(ours, payload, send).await
                && error.kind() != io::ErrorKind::UnexpectedEof
            {
                tracing::debug!(%error, "the server's socket closed");
            }
        });
        Ok(Child { pid, messages, talk, served: false })
    }

    /// Reaps, forwards and listens until the child has ended.
    async fn watch(&mut self, child: &mut Child, payload: &mut Option<Vec<u8>>, grace: Duration) -> io::Result<End> {
        let mut asked = false;
        let mut deadline: Option<tokio::time::Instant> = None;
        loop {
            if let Some(status) = reap(child.pid)? {
                // What it said last still counts.
                while let Ok(message) = child.messages.try_recv() {
                    hear(message, child, payload);
                }
                return Ok(End { status, asked });
            }
            let late = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.children.recv() => {}
                Some(message) = child.messages.recv() => hear(message, child, payload),
                Some(signal) = self.signals.recv() => {
                    let _ = kill_process(child.pid, signal);
                    if signal == Signal::TERM {
                        asked = true;
                        deadline.get_or_insert_with(|| tokio::time::Instant::now() + grace + BEYOND_GRACE);
                    }
                }
                () = late => {
                    tracing::error!("the server did not end within its grace period and is killed");
                    let _ = kill_process(child.pid, Signal::KILL);
                    deadline = None;
                }
            }
        }
    }

    /// Waits, reaping; whether the parent was asked to end meanwhile.
    async fn pause(&mut self, pause: Duration) -> io::Result<bool> {
        let until = tokio::time::Instant::now() + pause;
        loop {
            tokio::select! {
                biased;
                Some(signal) = self.signals.recv() => if signal == Signal::TERM {
                    return Ok(true);
                },
                () = tokio::time::sleep_until(until) => return Ok(false),
                _ = self.children.recv() => {
                    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
                }
            }
        }
    }
}

fn hear(message: Message, child: &mut Child, payload: &mut Option<Vec<u8>>) {
    match message {
        Message::Serving => child.served = true,
        Message::Payload(bytes) => *payload = Some(bytes),
    }
}

/// Collects everything that has ended; the child's status when it is among it.
fn reap(child: Pid) -> io::Result<Option<WaitStatus>> {
    let mut status = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, ended))) => {
                if pid == child {
                    status = Some(ended);
                }
            }
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(status),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The parent's end of the socket to one child.
async fn talk(mut stream: UnixStream, payload: Option<Vec<u8>>, heard: mpsc::Sender<Message>) -> io::Result<()> {
    match payload {
        Some(bytes) => Frame::Payload(bytes).write(&mut stream).await?,
        None => Frame::Nothing.write(&mut stream).await?,
    }
    loop {
        let message = match Frame::read(&mut stream).await? {
            Frame::Serving => Message::Serving,
            Frame::Payload(bytes) => Message::Payload(bytes),
            Frame::Nothing | Frame::Kept => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected message"));
            }
        };
        let keeps = matches!(message, Message::Payload(_));
        if heard.send(message).await.is_err() {
            return Ok(());
        }
        if keeps {
            Frame::Kept.write(&mut stream).await?;
        }
    }
}
