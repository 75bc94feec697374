//! One short command whose output is an answer; bounded in time.

use std::{ffi::OsStr, path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail};
use tokio::{io::AsyncWriteExt as _, process::Command};

/// What a command answered.
#[derive(Debug)]
pub struct Answer {
    /// Whether it exited with 0.
    pub success: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs a program to its end with `input` on its standard input.
///
/// # Errors
/// When it does not start or is not done within `bound` (it is killed then).
pub async fn ask<A: AsRef<OsStr>>(
    program: &Path,
    arguments: impl IntoIterator<Item = A>,
    variables: &[(&str, &OsStr)],
    input: &str,
    bound: Duration,
) -> Result<Answer> {
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let shown = format!("{:?}", command.as_std());
    let mut child = command.spawn().with_context(|| format!("start {shown}"))?;
    let mut pipe = child.stdin.take().context("standard input")?;
    let work = async {
        let write = async {
            // A program that does not read its input may close it early.
            let _ = pipe.write_all(input.as_bytes()).await;
            drop(pipe);
        };
        tokio::join!(write, child.wait_with_output()).1
    };
    let output = match tokio::time::timeout(bound, work).await {
        Ok(output) => output.with_context(|| format!("output of {shown}"))?,
        Err(_) => bail!("not done within {bound:?}: {shown}"),
    };
    Ok(Answer {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
