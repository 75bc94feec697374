//! How a shell is told to run a command and to say that it is done.
//!
//! bash never reads commands from the terminal: `PROMPT_COMMAND` is a loop that takes them from a private pipe and evaluates
//! them, so there is no echo, no line limit, no history, and input left over from a program is never taken for a command.
//! After each command the loop takes a token from the same pipe and prints it as part of a mark. The token is unknown to
//! everybody while the command runs and the pipe is closed for it, so that no output can pretend to be the end.
//! An interrupt throws bash out of the loop and into it again; after a stopped job it shows its prompt, which is a mark too, and
//! one empty line on the terminal brings the loop back. Either may hit while the loop reads from the pipe. So every command
//! begins with a word that only both ends know, and tokens begin with it, too; the loop skips what is neither, and asks for a
//! new token whenever it begins or skips. A token whose command was lost is answered like any other.
//!
//! Other shells (`sh`) have no such hook: they read the command from a file that is sourced by a typed line, and their prompt
//! is the mark. That is weaker (the token lives as long as the session) but needs POSIX only.

use std::{fmt::Write as _, os::fd::RawFd};

use super::marker::{AGAIN, FIELD, MARK_END, MARK_START, PROMPT_START};

/// The family of a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// bash 4 or newer.
    Bash,
    /// Any POSIX shell with parameter expansion in its prompt (dash, busybox ash).
    Posix,
}

/// The descriptors and token a prepared bash works with.
#[derive(Clone, Debug)]
pub(super) struct BashWiring {
    /// Commands and tokens come from here.
    pub(super) control: RawFd,
    /// Marks go here: the terminal, whatever the session's own output is redirected to.
    pub(super) report: RawFd,
    /// Marks bash's own prompt.
    pub(super) prompt_token: String,
    /// Begins every command and every token on the pipe.
    pub(super) sync: String,
    /// Whether the user's start files are read.
    pub(super) start_files: bool,
}

/// The value of `PROMPT_COMMAND` a bash is started with: takes the preparation from the pipe.
pub(super) fn bash_bootstrap(control: RawFd) -> String {
    format!("IFS= read -r -d '' -u {control} __oh_setup && eval \"$__oh_setup\"")
}

/// The preparation: start files first, so that they cannot undo ours, then the loop. Sent as the first record on the pipe.
///
/// The loop is not a function: in one, `declare` would make local variables. Everything of ours runs with errors redirected
/// away, which also hides it from `set -x`. `__oh_back && :` restores `$?` without setting off `set -e` or an ERR trap.
pub(super) fn bash_preparation(wiring: &BashWiring) -> String {
    let BashWiring { control, report, prompt_token, sync, start_files } = wiring;
    let mut script = String::from("export -n PROMPT_COMMAND PS1 PS2\n");
    if *start_files {
        script.push_str(
            "for __oh_setup in /etc/bash.bashrc /etc/bashrc ~/.bashrc; do [ -r \"$__oh_setup\" ] && . \"$__oh_setup\"; done\n",
        );
    }
    let mark = mark_format();
    let read = format!("IFS= read -r -d '' -u {control}");
    let serve = format!(
        "{{ __oh_status=$?; printf %s \"$__oh_again\" >&{report}; __oh_back && :; }} 2>/dev/null; \
         while {{ __oh_status=$?; \
           PROMPT_COMMAND=$__oh_serve PS1=$__oh_prompt PS2=; \
           while {read} __oh_word || exit; [[ $__oh_word != \"$__oh_sync\" ]]; do \
             if [[ $__oh_word == \"$__oh_sync\"* ]]; then \
               __oh_word=${{__oh_word#\"$__oh_sync\"}}; \
               printf '{mark}' \"$__oh_word\" \"$__oh_status\" \"${{!:-}}\" \"$PWD\" \"$PATH\" \"$__oh_word\" >&{report}; \
             else printf %s \"$__oh_again\" >&{report}; \
             fi; \
           done; \
           {read} __oh_word || exit; eval \"$__oh_word\"; __oh_word=; \
           {read} __oh_command || exit; \
         }} 2>/dev/null; do \
           {{ __oh_back && :; }} 2>/dev/null; \
           eval \"$__oh_command\" {control}<&- {report}>&-; \
         done"
    );
    let prompt = format!("\\[{PROMPT_START}{prompt_token}{MARK_END}\\]");
    let _ = writeln!(
        script,
        "shopt -s execfail\nset +o history\nunset HISTFILE MAILCHECK\n__oh_back() {{ return \"$__oh_status\"; }}"
    );
    let _ = writeln!(script, "__oh_serve={}", quote(&serve));
    let _ = writeln!(script, "__oh_prompt={}", quote(&prompt));
    let _ = writeln!(script, "__oh_sync={}", quote(sync));
    let _ = writeln!(script, "__oh_again={}", quote(&format!("{PROMPT_START}{prompt_token}{AGAIN}{MARK_END}")));
    // The mark for the first token says that the shell is ready.
    script.push_str("PROMPT_COMMAND=$__oh_serve PS1=$__oh_prompt PS2= __oh_word=\n(exit 0)\neval \"$__oh_serve\"\n");
    script
}

/// One command for a bash: what to export first, the command, and the token of its mark.
pub(super) fn bash_record(sync: &str, exports: &[(String, String)], command: &str, token: &str) -> Vec<u8> {
    format!("{sync}\0{}\0{command}\0{sync}{token}\0", export_lines(exports)).into_bytes()
}

/// Another token for a bash that lost the one it had.
pub(super) fn bash_token(sync: &str, token: &str) -> Vec<u8> {
    format!("{sync}{token}\0").into_bytes()
}

/// The file that prepares a POSIX shell. Its prompt is a mark with a token that stays the same.
pub(super) fn posix_preparation(token: &str) -> String {
    let start = format!("{MARK_START}{token}{FIELD}");
    let prompt = format!("{start}${{?}}{FIELD}${{!}}{FIELD}${{PWD}}{FIELD}${{PATH}}{FIELD}{token}{MARK_END}");
    format!("{}PS2=\nPS1={}\n", posix_start(token), quote(&prompt))
}

/// The file that a POSIX shell sources to run a command.
pub(super) fn posix_file(exports: &[(String, String)], command: &str, token: &str) -> String {
    format!("{}{}{command}\n", posix_start(token), export_lines(exports))
}

/// Prints the mark behind which output begins, so that the echo of the typed line is left out.
fn posix_start(token: &str) -> String {
    format!("printf '\\033]7771;%s\\007' {}\n", quote(token))
}

fn mark_format() -> String {
    // ESC ] 7770 ; token US status US pid US directory US path US token BEL
    "\\033]7770;%s\\037%s\\037%s\\037%s\\037%s\\037%s\\007".to_owned()
}

fn export_lines(exports: &[(String, String)]) -> String {
    exports.iter().filter(|(name, _)| is_name(name)).fold(String::new(), |mut lines, (name, value)| {
        let _ = writeln!(lines, "export {name}={}", quote(&value.replace('\0', "")));
        lines
    })
}

fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
        && characters.all(|character| character == '_' || character.is_ascii_alphanumeric())
}

/// `text` as one literal shell word.
#[must_use]
pub fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_refuses_odd_names() {
        assert_eq!(quote("it's"), r"'it'\''s'");
        let exports = [("A_1".to_owned(), "x'y".to_owned()), ("no-name".to_owned(), "z".to_owned())];
        assert_eq!(bash_record("S", &exports, "ls", "tok"), b"S\0export A_1='x'\\''y'\n\0ls\0Stok\0");
    }
}
