//! The unmodified Python SDK as the client of the agent-server: each scenario of `tests/python` in a process of its own.
//!
//! `OPENHANDS_SDK_PYTHON` is a Python that has openhands-sdk, openhands-tools and openhands-workspace. With
//! `OPENHANDS_CONFORMANCE_DIR` the scenarios of that folder run as well, through its `run.py`.

use std::{env, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};
use openhands_tests::{command, needs, tier};
use tokio::sync::Semaphore;

/// The client needs seconds of processor time for its imports: more than two at once only slow each other down.
static PLACES: Semaphore = Semaphore::const_new(2);
const BOUND: Duration = Duration::from_secs(240);

fn python() -> Result<PathBuf> {
    let given = env::var_os("OPENHANDS_SDK_PYTHON")
        .context("OPENHANDS_SDK_PYTHON is not set: `cargo xtask test` makes the Python environment and sets it")?;
    Ok(PathBuf::from(given))
}

fn server() -> Result<PathBuf> {
    tier::built("openhands-agent-server", "OPENHANDS_AGENT_SERVER_BIN")
}

async fn scenario(name: &str) -> Result<()> {
    let script = tier::repository().join("tests/python").join(format!("{name}.py"));
    let arguments = [script.into_os_string(), server()?.into_os_string()];
    let place = PLACES.acquire().await?;
    let variables = [("PYTHONDONTWRITEBYTECODE", "1".as_ref())];
    let answer = command::ask(&python()?, &arguments, &variables, "", BOUND).await?;
    drop(place);
    if !answer.success {
        bail!("{name}:\n{}{}", answer.stdout, answer.stderr);
    }
    Ok(())
}

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $name() -> Result<()> {
            needs!(Sdk);
            scenario(stringify!($name)).await
        }
    )*

        /// A scenario nobody lists would never run.
        #[test]
        fn every_scenario_is_listed() -> Result<()> {
            let mut files = Vec::new();
            for entry in std::fs::read_dir(tier::repository().join("tests/python"))? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                files.extend(name.strip_suffix(".py").filter(|stem| *stem != "harness").map(str::to_owned));
            }
            files.sort();
            let mut listed = vec![$(stringify!($name)),*];
            listed.sort_unstable();
            assert_eq!(files, listed);
            Ok(())
        }
    };
}

scenarios!(
    hello,
    parallel_tools,
    confirmation,
    pause_resume,
    deferred_init,
    workspace,
    profiles,
    condense_fork,
    gateway,
    events,
    restart,
    streaming,
    switch_llm,
    completion_logs,
    traces,
    variables
);

#[tokio::test]
async fn conformance() -> Result<()> {
    needs!(Sdk);
    let Some(folder) = env::var_os("OPENHANDS_CONFORMANCE_DIR").map(PathBuf::from) else {
        return Ok(());
    };
    let _all = PLACES.acquire_many(2).await?;
    let start = format!("{} --host 127.0.0.1 --port {{port}}", server()?.display());
    let mut arguments = vec![folder.join("run.py").display().to_string(), "--server-cmd".into(), start];
    // What this server promises today; `OPENHANDS_CONFORMANCE_SCENARIOS` asks for others.
    let chosen = env::var("OPENHANDS_CONFORMANCE_SCENARIOS").unwrap_or_else(|_| {
        "a_hello b_parallel_tools c_confirmation d_pause_resume e_side_calls f_errors h_deferred_init i_workspace j_events_persistence j_restart k_openai_gateway m_streaming".into()
    });
    arguments.extend(chosen.split_whitespace().map(str::to_owned));
    let variables = [("PYTHONDONTWRITEBYTECODE", "1".as_ref())];
    let answer = command::ask(&python()?, &arguments, &variables, "", Duration::from_secs(600)).await?;
    if !answer.success {
        bail!("{}{}", answer.stdout, answer.stderr);
    }
    Ok(())
}
