//! The task that pulls bytes from the terminal for as long as the shell lives.

use std::{io, sync::Arc, time::Duration};

use pty_process::OwnedReadPty;
use tokio::{io::AsyncReadExt as _, process::Child};

use super::state::Shared;

const BUFFER: usize = 32 * 1024;
/// How long the last words of a shell that has exited are waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Reads until the shell has exited, then says so. Output is always taken, so that no background process is held up, and
/// one read at a time, so that a fast writer is held up by the kernel and not by memory.
pub(super) async fn read(mut terminal: OwnedReadPty, mut child: Child, shared: Arc<Shared>) {
    let mut buffer = vec![0; BUFFER];
    let mut open = true;
    let status = loop {
        tokio::select! {
            got = terminal.read(&mut buffer), if open => open = take(&shared, &buffer, got),
            status = child.wait() => break status,
        }
    };
    // The shell is gone; what it wrote may still be on its way. Others may hold the terminal open for ever.
    let rest = async {
        while open {
            let got = terminal.read(&mut buffer).await;
            open = take(&shared, &buffer, got);
        }
    };
    let _ = tokio::time::timeout(LAST_WORDS, rest).await;
    let code = status.ok().map(crate::process::exit_code);
    shared.lock().end(code);
    shared.changed.notify_waiters();
}

fn take(shared: &Shared, buffer: &[u8], got: io::Result<usize>) -> bool {
    // EIO is how a terminal says that nobody holds its other end.
    let Some(bytes) = got.ok().filter(|read| *read > 0).and_then(|read| buffer.get(..read)) else { return false };
    shared.lock().feed(bytes);
    shared.changed.notify_waiters();
    true
}
