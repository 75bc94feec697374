//! A persistent shell on a real terminal (PTY): one command at a time, exact exit codes, interactive programs, bounded output.
//!
//! The pieces, from the shell outwards: `dialect` prepares a bash (or sh) so that it takes commands over a private
//! pipe and marks the end of each in its output; `reader` pulls bytes from the terminal; `marker` splits marks from output;
//! `screen` renders control sequences to text; `transcript` keeps a bounded part of that text and the rest in a file.
//! [`Terminal`] puts them together. Knows nothing of tools, models or conversations.

mod account;
mod dialect;
mod ending;
mod foreground;
mod keys;
mod marker;
mod reader;
mod screen;
mod session;
mod spawn;
mod start;
mod state;
mod transcript;

#[cfg(test)]
mod tests;

pub use account::Account;
pub use dialect::{Dialect, quote};
pub use keys::{key, key_names};
pub use session::{Patience, Terminal, Waited};
pub use spawn::TerminalOptions;
pub use state::Finished;
pub use transcript::{Mask, Output, OutputPolicy};

/// What can go wrong with a terminal.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// Neither bash nor sh is there.
    #[error("no shell found: neither bash nor sh is on the PATH")]
    NoShell,
    /// The shell or its terminal could not be made.
    #[error("starting the shell {shell} in {directory} failed: {source}")]
    Start {
        /// The program.
        shell: String,
        /// The working directory.
        directory: String,
        /// Why.
        source: std::io::Error,
    },
    /// The shell did not become ready for commands.
    #[error("the shell {0} did not become ready")]
    NotReady(String),
    /// A command is still running in this shell.
    #[error("a command is still running in the terminal")]
    Busy,
    /// The shell is gone.
    #[error("the shell has ended")]
    Ended,
    /// A command or an input holds a NUL character.
    #[error("a NUL character cannot be part of a command")]
    Nul,
    /// The program in the foreground does not read what was sent.
    #[error("the running process does not read its input")]
    InputBlocked,
    /// The terminal could not be written to.
    #[error("writing to the terminal failed: {0}")]
    Write(#[source] std::io::Error),
}
