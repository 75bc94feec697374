//! The checks of the whole system: the chart, the resources on a real API server, a real cluster, the Python SDK.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::python;
use super::report::Report;
use crate::cluster::target::Target;
use crate::cluster::{self, Provider};
use crate::command::Cmd;
use crate::image::rust::{Profile, cargo, locked};
use crate::image::{build, deliver, rust};
use crate::{folders, go, packages, peers};

/// The cluster that the tests have for themselves.
const CLUSTER: &str = "test";

/// Runs them all. `full` adds what takes longer; `keep` leaves the cluster.
pub(crate) fn run(report: &mut Report, full: bool, keep: bool) {
    let names = ["chart", "resources and operator on an API server", "Python SDK scenarios", "real cluster"];
    if !names.iter().chain(&peers::NAMES).any(|name| report.wants(name)) {
        return;
    }
    if !names.iter().any(|name| report.wants(name)) {
        // The rest of the set-up takes minutes.
        let folder =
            report.prepare("set-up: binaries", || rust::build_packages(Profile::Quick, &["openhands-agent-server"]));
        if let Some(folder) = folder {
            peers::check(report, &folder.join("openhands-agent-server"), full);
        }
        return;
    }
    report.prepare("set-up: packages for the cluster", || packages::ensure(packages::CLUSTER));
    let programs = report.prepare("set-up: Kubernetes programs", go::programs);
    let images = report.prepare("set-up: images", || build::all(Profile::Quick));
    let binaries = report.prepare("set-up: binaries", || rust::build(Profile::Quick));
    let (Some(programs), Some(binaries)) = (programs, binaries) else {
        for name in names {
            report.missing(name, "its set-up failed");
        }
        return;
    };
    let tests = |targets: &[&str], tier: &str| {
        let mut command = cargo().args(["test", "--package", "openhands-tests", "--no-fail-fast"]).args(locked());
        for target in targets {
            command = command.args(["--test", target]);
        }
        command
            .env("OPENHANDS_TEST_TIER", tier)
            .env("OPENHANDS_TEST_FULL", if full { "1" } else { "0" })
            .env("OPENHANDS_KUBE_BIN", &programs)
            .env("OPENHANDS_OPERATOR_BIN", &binaries.operator)
            .env("OPENHANDS_AGENT_SERVER_BIN", &binaries.server)
    };
    report.tests(
        "harness of the whole-system checks",
        cargo().args(["test", "--package", "openhands-tests", "--lib"]).args(locked()),
    );
    report.tests("chart", tests(&["chart"], "chart"));
    report.tests("resources and operator on an API server", tests(&["resources", "operator"], "control-plane"));
    let uses_python = report.wants("Python SDK scenarios") || report.wants("real cluster");
    let python = uses_python.then(|| report.prepare("set-up: Python SDK", python::sdk)).flatten();
    if report.wants("Python SDK scenarios") {
        match &python {
            Some(python) => {
                let mut command = with_conformance(tests(&["sdk", "plan"], "sdk"), python);
                if let Some(collector) =
                    full.then(|| report.prepare("set-up: OpenTelemetry Collector", collector)).flatten()
                {
                    command = command.env("OPENHANDS_OTELCOL", collector);
                }
                report.tests("Python SDK scenarios", command);
            }
            None => report.missing("Python SDK scenarios", "there is no Python with the SDK"),
        }
    }
    peers::check(report, &binaries.server, full);
    if report.wants("real cluster") {
        let _turn = folders::turn(CLUSTER);
        match (images.and_then(|images| report.prepare("set-up: cluster", || start(&images))), &python) {
            (Some(target), Some(python)) => {
                let command = tests(&["cluster"], "cluster").env("OPENHANDS_SDK_PYTHON", python);
                report.tests("real cluster", at_cluster(command, &target));
            }
            (None, _) => report.missing("real cluster", "it did not start"),
            (_, None) => report.missing("real cluster", "there is no Python with the SDK"),
        }
        if !keep {
            report.prepare("clean-up: cluster", || cluster::down(CLUSTER));
        }
    }
}

/// The collector that takes traces in the full test.
fn collector() -> Result<PathBuf> {
    go::local("collector", &folders::repository().join("tests/fixtures/collector"))
}

fn start(images: &[build::Image]) -> Result<Target> {
    let target = cluster::ensure(CLUSTER, Provider::Auto)?;
    deliver::to(&target, images)?;
    cluster::target::existing(CLUSTER)
}

fn at_cluster(command: Cmd, target: &Target) -> Cmd {
    // Both engines that a development cluster may have enforce policies.
    let command = command.env("OPENHANDS_TEST_NETWORK_POLICY", "1");
    match target.kubeconfig() {
        Ok(Some(file)) => command.env("KUBECONFIG", file),
        Ok(None) | Err(_) => command,
    }
}

/// A folder of recorded scenarios beside the checkout takes part when it is there.
fn with_conformance(command: Cmd, python: &Path) -> Cmd {
    let command = command.env("OPENHANDS_SDK_PYTHON", python);
    match conformance() {
        Some(folder) => command.env("OPENHANDS_CONFORMANCE_DIR", folder),
        None => command,
    }
}

fn conformance() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("OPENHANDS_CONFORMANCE_DIR") {
        return Some(given.into());
    }
    let folder = folders::repository().parent()?.join("shared").join("conformance");
    folder.is_dir().then_some(folder)
}
