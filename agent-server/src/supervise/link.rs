//! The child's end of the socket to its parent. The parent hands it over as standard input, which keeps it out of every
//! process that tools start.

use std::{io, os::unix::net::UnixStream as BlockingStream, time::Duration};

use openhands_protocol::init::InitRequest;
use rustix::{
    fs::{Mode, OFlags, open},
    io::fcntl_dupfd_cloexec,
    process::{Pid, Signal, getppid, set_parent_process_death_signal},
    stdio::{dup2_stdin, stdin},
};
use tokio::{net::UnixStream, sync::Mutex};

use super::frame::Frame;

/// How long the parent may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The way to the parent.
pub struct Link {
    stream: Mutex<UnixStream>,
}

impl Link {
    /// Takes the socket from standard input and puts nothing in its place. Must be called first, before anything else reads
    /// standard input, and inside a runtime.
    ///
    /// # Errors
    /// When standard input is no such socket.
    pub fn take() -> io::Result<Self> {
        let socket = fcntl_dupfd_cloexec(stdin(), 3)?;
        let nothing = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        dup2_stdin(&nothing)?;
        let stream = BlockingStream::from(socket);
        // Fails for anything but a socket.
        stream.local_addr()?;
        stream.set_nonblocking(true)?;
        let stream = UnixStream::from_std(stream)?;
        follow_parent_into_death(stream.peer_cred()?.pid())?;
        Ok(Self { stream: Mutex::new(stream) })
    }

    /// What the predecessor was initialised with; to be asked once, first.
    ///
    /// # Errors
    /// When the parent does not answer in time or in another way than agreed.
    pub async fn inherited(&self) -> io::Result<Option<InitRequest>> {
        let mut stream = self.stream.lock().await;
        match tokio::time::timeout(PATIENCE, Frame::read(&mut *stream)).await?? {
            Frame::Nothing => Ok(None),
            Frame::Payload(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Frame::Serving | Frame::Kept => Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected message")),
        }
    }

    /// Tells the parent that requests are served.
    ///
    /// # Errors
    /// When the parent does not take it in time.
    pub async fn serving(&self) -> io::Result<()> {
        let mut stream = self.stream.lock().await;
        tokio::time::timeout(PATIENCE, Frame::Serving.write(&mut *stream)).await?
    }

    /// Gives the parent a payload to keep; returns when it is kept.
    ///
    /// # Errors
    /// When the parent does not keep it in time.
    pub async fn keep(&self, request: &InitRequest) -> io::Result<()> {
        let payload = serde_json::to_vec(request)?;
        let mut stream = self.stream.lock().await;
        let exchange = async {
            Frame::Payload(payload).write(&mut *stream).await?;
            match Frame::read(&mut *stream).await? {
                Frame::Kept => Ok(()),
                other => {
                    Err(io::Error::new(io::ErrorKind::InvalidData, format!("unexpected {} message", tag_name(&other))))
                }
            }
        };
        tokio::time::timeout(PATIENCE, exchange).await?
    }
}

const fn tag_name(frame: &Frame) -> &'static str {
    match frame {
        Frame::Serving => "serving",
        Frame::Payload(_) => "payload",
        Frame::Nothing => "nothing",
        Frame::Kept => "kept",
    }
}

/// A server without its parent would be out of everybody's control. `maker` is the process that made the socket: the parent.
fn follow_parent_into_death(maker: Option<i32>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may have died before the line above; whoever adopted this process did not make the socket.
    if getppid().map(Pid::as_raw_pid) != maker {
        return Err(io::Error::new(io::ErrorKind::NotConnected, "the parent process is gone"));
    }
    Ok(())
}
