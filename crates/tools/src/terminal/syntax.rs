//! Finds commands that the shell could not read to their end, before a part of them has run.
//!
//! A parser in this process passes nearly all commands in microseconds. What it does not understand is shown to the real
//! shell, which alone decides: `bash -n` reads without running.

use std::{process::Stdio, time::Duration};

use openhands_workspace::{environment::ToolEnvironment, terminal::Dialect};
use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};

use crate::ToolContext;

/// bash reads a large script in milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Larger commands go straight to the shell.
const LARGEST: usize = 256 * 1024;

/// What the shell would not understand about a command, in its own words.
pub(super) async fn complaint(dialect: Dialect, command: &str, context: &ToolContext) -> Option<String> {
    if dialect != Dialect::Bash || command.len() > LARGEST || understood(command) {
        return None;
    }
    timeout(PATIENCE, ask_bash(command, context)).await.ok().flatten()
}

fn understood(command: &str) -> bool {
    let mut parser = tree_sitter::Parser::new();
    if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_err() {
        return false;
    }
    parser.parse(command, None).is_some_and(|tree| !tree.root_node().has_error())
}

async fn ask_bash(command: &str, context: &ToolContext) -> Option<String> {
    let environment = ToolEnvironment::new(context.environment.clone()).variables();
    let mut child = Command::new("bash")
        // Patterns of the session may be extended ones.
        .args(["--norc", "-O", "extglob", "-n"])
        .env_clear()
        .envs(environment)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut input = child.stdin.take()?;
    let text = command.to_owned();
    let write = tokio::spawn(async move {
        let _ = input.write_all(text.as_bytes()).await;
        let _ = input.write_all(b"\n").await;
    });
    let output = child.wait_with_output().await.ok()?;
    let _ = write.await;
    // Warnings (a here-document without its end) are no refusal.
    if output.status.success() {
        return None;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = said.lines().take(6).map(|line| line.strip_prefix("bash: ").unwrap_or(line)).collect();
    (!said.is_empty()).then(|| said.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, sync::Arc};

    use tokio_util::sync::CancellationToken;

    use super::*;

    fn context() -> ToolContext {
        ToolContext {
            working_dir: PathBuf::from("/"),
            observations_dir: None,
            environment: std::collections::BTreeMap::default(),
            cancel: CancellationToken::new(),
            secrets: Arc::new(crate::NoSecrets),
            models: None,
        }
    }

    #[tokio::test]
    async fn whole_commands_pass() {
        let commands = [
            "ls -la | grep x && echo \"$(date)\" > /tmp/x",
            "cat <<EOF\nit's \"fine\"\nEOF",
            "cat <<EOF\nno end",
            "for i in 1 2; do echo $i; done; case $x in a) ;; *) b ;; esac",
            "ls !(a|b); [[ $x =~ ^a(b|c)$ ]]; f() { :; }; echo ${x//a/b} $((1 + 2))",
            "python3 - <<'E'\nprint('it')\nE\necho done",
        ];
        for command in commands {
            assert_eq!(complaint(Dialect::Bash, command, &context()).await, None, "{command}");
        }
    }

    #[tokio::test]
    async fn broken_commands_are_refused() {
        for command in ["echo 'open", "if true; then echo x", "for i in 1; do", "echo $(ls", "echo x )", "cat \"x"] {
            let said = complaint(Dialect::Bash, command, &context()).await.unwrap();
            assert!(said.contains("line 1") || said.contains("line 2"), "{command}: {said}");
        }
    }
}
