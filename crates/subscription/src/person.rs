//! The person who signs in, and how we talk with them.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    process::{Command, Stdio},
};

use url::Url;

/// Whom we ask and tell.
pub trait Person: Send + Sync {
    /// Shows a text.
    fn tell(&self, text: &str);

    /// Whether somebody is there to answer.
    fn is_present(&self) -> bool;

    /// Asks for a yes; anything else is a no. Blocks.
    fn agrees(&self, question: &str) -> bool;

    /// Opens an address in a browser; `false` when that cannot be done.
    fn open(&self, address: &Url) -> bool;
}

/// Somebody at the terminal of this process. Texts go to standard error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terminal;

impl Person for Terminal {
    fn tell(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }

    fn is_present(&self) -> bool {
        io::stdin().is_terminal()
    }

    fn agrees(&self, question: &str) -> bool {
        let mut error = io::stderr();
        let mut line = String::new();
        let is_asked = write!(error, "{question} [y/N]: ").and_then(|()| error.flush()).is_ok();
        is_asked
            && io::stdin().lock().read_line(&mut line).is_ok()
            && matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
    }

    fn open(&self, address: &Url) -> bool {
        let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let quiet = Command::new(program)
            .arg(address.as_str())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // It ends by itself; nobody waits, as some of them stay as long as the browser.
        quiet.is_ok()
    }
}
