//! What a model call costs beside the Python SDK: the same requests to the same model over HTTP, in turns, the cheapest run of
//! each counts. Processor time, so that a busy machine distorts less.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

use super::model::{self, Model};
use crate::command::Cmd;
use crate::image::rust::{self, Profile};
use crate::test::python;
use crate::{folders, say};

/// How much is measured.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Runs of each side, in turns
    #[arg(long, default_value_t = 5)]
    pairs: u32,
    /// Calls of a run of ours, many because they are short beside the clock's tick of 10 ms; the SDK makes one in 200 of them
    #[arg(long, default_value_t = 8000)]
    calls: u32,
    /// How ours is built
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
}

const ROWS: [(&str, &str, &str); 4] = [
    ("a small call", "/small/cpu_ms", "ms"),
    ("a call with 200 messages of history", "/history/cpu_ms", "ms"),
    ("a stream of 1,000 deltas", "/stream/cpu_ms", "ms"),
    ("memory of the process at most", "/rss_peak_kib", "KiB"),
];

/// Measures both and prints the table.
///
/// # Errors
/// A program could not be built or run.
pub(crate) fn run(options: &Options) -> Result<()> {
    let streamer = rust::build_example(options.profile, "openhands-testkit", "streamer")?;
    let callbench = rust::build_example(options.profile, "openhands-llm", "callbench")?;
    let python = say::step("the Python reference (packages, once)", python::reference)?;
    let script = folders::repository().join("crates/xtask/src/bench/calls.py");
    let model = Model::start(&streamer)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let before = model::load();
    for pair in 1..=options.pairs {
        let mine = Cmd::new(&callbench).args(["calls", &model.url, &options.calls.to_string()]);
        let other = Cmd::new(&python).arg(&script).args([&model.url, &(options.calls / 200).max(4).to_string()]);
        for (side, command, reports) in [("ours", mine, &mut ours), ("the SDK", other, &mut theirs)] {
            let name = format!("{side}, run {pair} of {}", options.pairs);
            let text = say::step(&name, || command.limit(Duration::from_secs(600)).run())?;
            let line = text.lines().last().context("no report")?;
            reports.push(serde_json::from_str(line).with_context(|| line.to_owned())?);
        }
    }
    say::result(table(&ours, &theirs).trim_end());
    say::result(format!(
        "processor time, the least of {} runs each; load {before} to {}",
        options.pairs,
        model::load()
    ));
    Ok(())
}

fn table(ours: &[Value], theirs: &[Value]) -> String {
    let least = |reports: &[Value], place: &str| {
        reports.iter().filter_map(|report| report.pointer(place)?.as_f64()).fold(f64::INFINITY, f64::min)
    };
    let mut text = format!("{:<38} {:>14} {:>14} {:>8}\n", "", "ours", "Python SDK", "ratio");
    for (name, place, unit) in ROWS {
        let (mine, other) = (least(ours, place), least(theirs, place));
        let shown = |value: f64| format!("{value:.2} {unit}");
        text.push_str(&format!("{name:<38} {:>14} {:>14} {:>8}\n", shown(mine), shown(other), ratio(mine, other)));
    }
    text
}

fn ratio(mine: f64, other: f64) -> String {
    if mine > 0.0 && mine.is_finite() && other.is_finite() { format!("1/{:.0}", other / mine) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cheapest_run_of_each_side_counts() {
        let report = |small: f64| json!({"small": {"cpu_ms": small}, "rss_peak_kib": 1000});
        let text = table(&[report(0.3), report(0.2)], &[report(20.0), report(10.0)]);
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[1].ends_with("0.20 ms       10.00 ms     1/50"), "{text}");
        assert!(rows[2].ends_with("-"), "{text}");
        assert!(rows[4].ends_with("1/1"), "{text}");
    }
}
