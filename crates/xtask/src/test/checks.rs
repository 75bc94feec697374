//! The quick checks: format, lints, edges, generated files, unit tests, examples in the documentation, dependencies.

use std::time::Duration;

use anyhow::Result;

use super::report::Report;
use super::tools;
use crate::command::Cmd;
use crate::image::rust::{cargo, locked};
use crate::{edges, folders, generate, packages, say};

/// Whole-system checks have their own parts.
const SYSTEM: &str = "openhands-tests";

/// Runs them all.
pub(crate) fn run(report: &mut Report) {
    report.check("set-up: packages for tests", || packages::ensure(packages::TESTS));
    report.check("format", || cargo().args(["fmt", "--all", "--check"]).run().map(|_| ()));
    report.check("edges between crates", edges::check);
    report.check("lints", || {
        let clippy =
            cargo().args(["clippy", "--workspace", "--all-targets"]).args(locked()).args(["--", "-D", "warnings"]);
        logged(clippy, "lints").map(|_| ())
    });
    report.check("generated files", || generate::run(true));
    if report.wants("unit tests") {
        let nextest = report.prepare("set-up: test runner", || Ok(tools::nextest().ok())).flatten();
        unit(report, nextest.as_deref());
    }
    report.tests("examples in the documentation", cargo().args(["test", "--doc", "--workspace"]).args(locked()));
    report.check("documentation", || {
        let doc = cargo().args(["doc", "--workspace", "--no-deps"]).args(locked()).env("RUSTDOCFLAGS", "-D warnings");
        logged(doc, "documentation").map(|_| ())
    });
    report.check("dependencies: licences, sources, bans", dependencies);
}

fn unit(report: &mut Report, nextest: Option<&std::path::Path>) {
    let command = match nextest {
        Some(program) => Cmd::new(program)
            .dir(folders::repository())
            .args(["nextest", "run", "--workspace", "--exclude", SYSTEM, "--no-fail-fast"])
            .args(locked())
            .args(["--status-level", "fail", "--final-status-level", "fail", "--no-tests", "pass"])
            .limit(Duration::from_secs(3600)),
        None => {
            say::line("  note  cargo-nextest is not to be had; cargo test runs the unit tests");
            cargo()
                .args(["test", "--workspace", "--exclude", SYSTEM, "--lib", "--bins", "--tests", "--no-fail-fast"])
                .args(locked())
        }
    };
    report.tests("unit tests", command);
}

/// Advisories need a database from the network, so they are asked for separately.
fn dependencies() -> Result<()> {
    let deny = tools::deny()?;
    let command = Cmd::new(deny).dir(folders::repository()).args(locked()).args([
        "--offline",
        "check",
        "bans",
        "licenses",
        "sources",
    ]);
    command.run().map(|_| ())
}

fn logged(command: Cmd, name: &str) -> Result<String> {
    command.log(folders::logs()?.join(format!("test-{name}.log"))).run()
}
