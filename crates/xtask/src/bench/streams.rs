//! Many streaming calls at once on this machine: our model layer alone, then through the agent-server. Every stream has words
//! of its own, so that a lost, repeated or mixed-up piece shows; the model runs in its own process and is not counted.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use super::model::{self, Model};
use crate::command::Cmd;
use crate::image::rust::{self, Profile};
use crate::test::python;
use crate::{folders, say};

/// How many, and how fast.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Streams at once
    #[arg(long, default_value_t = 1000)]
    streams: u32,
    /// Pieces of each
    #[arg(long, default_value_t = 1000)]
    deltas: u32,
    /// Milliseconds between ten pieces of one stream
    #[arg(long, default_value_t = 200)]
    pause: u32,
    /// Conversations that a client watches over a socket
    #[arg(long, default_value_t = 100)]
    sockets: u32,
    /// How ours is built
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
}

/// Measures and prints both tables.
///
/// # Errors
/// A program could not be built or run, or something was lost.
pub(crate) fn run(options: &Options) -> Result<()> {
    let streamer = rust::build_example(options.profile, "openhands-testkit", "streamer")?;
    let callbench = rust::build_example(options.profile, "openhands-llm", "callbench")?;
    let server = rust::build_packages(options.profile, &["openhands-agent-server"])?.join("openhands-agent-server");
    let python = say::step("the Python reference, for its HTTP client (packages, once)", python::reference)?;
    let model = Model::start(&streamer)?;
    let [streams, deltas, pause, sockets] =
        [options.streams, options.deltas, options.pause, options.sockets.min(options.streams)].map(|n| n.to_string());

    let load = model::load();
    let library = Cmd::new(callbench).args(["streams", &model.url, &streams, &deltas, &pause]);
    let report = measured("the model layer", library)?;
    print("model layer", &report, &load);
    for member in ["lost", "wrong"] {
        if number(&report, member) != Some(0.0) {
            bail!("{member} pieces: {report}");
        }
    }

    let load = model::load();
    let script = folders::repository().join("crates/xtask/src/bench/streams.py");
    let whole = Cmd::new(python).arg(script).arg(server).args([&model.url, &streams, &deltas, &pause, &sockets]);
    let report = measured("the agent-server", whole)?;
    print("agent-server", &report, &load);
    for (member, wanted) in [("whole_answers", "conversations"), ("whole_on_sockets", "sockets")] {
        if number(&report, member) != number(&report, wanted) {
            bail!("{member} are not all: {report}");
        }
    }
    Ok(())
}

fn measured(name: &str, command: Cmd) -> Result<Value> {
    let text = say::step(&format!("measure {name}"), || command.limit(Duration::from_secs(1800)).run())?;
    let line = text.lines().last().context("no report")?;
    serde_json::from_str(line).with_context(|| line.to_owned())
}

fn number(report: &Value, member: &str) -> Option<f64> {
    report.get(member)?.as_f64()
}

fn print(name: &str, report: &Value, load: &str) {
    say::result(format!("{name} (load {load} before, {} after)", model::load()));
    for (member, value) in report.as_object().into_iter().flatten() {
        let value = value.as_f64().unwrap_or_default();
        let value = if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") };
        say::result(format!("  {member:<28} {value:>12}"));
    }
}
