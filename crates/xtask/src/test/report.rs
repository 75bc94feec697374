//! The parts of a run, what each brought, and the table at the end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::count::{self, Count};
use crate::command::Cmd;
use crate::{folders, say};

/// What was run so far.
#[derive(Debug)]
pub(crate) struct Report {
    parts: Vec<Part>,
    only: Vec<String>,
    started: Instant,
}

#[derive(Debug)]
struct Part {
    name: String,
    took: Duration,
    count: Count,
    failed: bool,
}

impl Report {
    /// An empty report; with names in `only`, other parts are passed over.
    pub(crate) fn new(only: Vec<String>) -> Self {
        Self { parts: Vec::new(), only, started: Instant::now() }
    }

    /// Whether a part is to be run.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text.as_str()))
    }

    /// Runs something that is no test: it counts only when it fails. Gives what it made.
    pub(crate) fn check<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Option<T> {
        if !self.wants(name) {
            return None;
        }
        self.prepare(name, work)
    }

    /// As [`Report::check`], for what other parts stand on: never passed over.
    pub(crate) fn prepare<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Option<T> {
        let started = Instant::now();
        let outcome = say::step(name, work);
        if let Err(error) = &outcome {
            say::line(format!("{error:#}"));
        }
        self.add(name, started, Count { passed: 0, failed: u64::from(outcome.is_err()) }, outcome.is_err());
        outcome.ok()
    }

    /// Runs a test runner, shows what it prints, and counts its tests. A runner that fails without a failed test (it did not
    /// compile) counts as one.
    pub(crate) fn tests(&mut self, name: &str, command: Cmd) {
        if !self.wants(name) {
            return;
        }
        let started = Instant::now();
        say::line(format!("  ...   {name}"));
        let log = folders::logs().map(|folder| folder.join(format!("test-{}.log", name.replace([' ', '/', ','], "-"))));
        let outcome = log.and_then(|log| {
            let outcome = command.log(&log).shown().outcome()?;
            Ok((outcome.status.success(), count::read(&std::fs::read_to_string(log)?)))
        });
        let (good, mut count) = outcome.unwrap_or_else(|error| {
            say::line(format!("{error:#}"));
            (false, Count::default())
        });
        if !good && count.failed == 0 {
            count.failed = 1;
        }
        say::line(format!("  {}  {name} ({})", if good { "ok  " } else { "FAIL" }, say::seconds(started.elapsed())));
        self.add(name, started, count, !good);
    }

    /// A part that cannot be run because what it stands on is missing.
    pub(crate) fn missing(&mut self, name: &str, why: &str) {
        if self.wants(name) {
            say::line(format!("  FAIL  {name}: {why}"));
            self.add(name, Instant::now(), Count { passed: 0, failed: 1 }, true);
        }
    }

    fn add(&mut self, name: &str, started: Instant, count: Count, failed: bool) {
        self.parts.push(Part { name: name.to_owned(), took: started.elapsed(), count, failed });
    }

    /// Prints the table and the closing line.
    ///
    /// # Errors
    /// A part failed.
    pub(crate) fn finish(self) -> Result<()> {
        let mut total = Count::default();
        say::result(format!("\n{:<44} {:>12} {:>8} {:>8}", "part", "time", "passed", "failed"));
        for part in &self.parts {
            total += part.count;
            let mark = if part.failed { "FAIL " } else { "" };
            let (passed, failed) = (part.count.passed, part.count.failed);
            say::result(format!(
                "{:<44} {:>12} {passed:>8} {failed:>8}",
                format!("{mark}{}", part.name),
                say::seconds(part.took)
            ));
        }
        say::result(format!("{:<44} {:>12}", "all", say::seconds(self.started.elapsed())));
        say::result(format!("{} passed, {} failed", total.passed, total.failed));
        if self.parts.iter().any(|part| part.failed) {
            let names: Vec<&str> =
                self.parts.iter().filter(|part| part.failed).map(|part| part.name.as_str()).collect();
            bail!("failed: {}", names.join(", "));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn a_failed_check_counts_and_the_rest_still_runs() {
        let mut report = Report::new(Vec::new());
        assert_eq!(report.check("bad", || Err::<(), _>(anyhow!("no"))), None);
        assert_eq!(report.check("good", || Ok(5)), Some(5));
        report.tests("runner", Cmd::new("echo").arg("test result: ok. 2 passed; 0 failed;"));
        report.tests("broken runner", Cmd::new("false"));
        let counts: Vec<(u64, u64, bool)> =
            report.parts.iter().map(|part| (part.count.passed, part.count.failed, part.failed)).collect();
        assert_eq!(counts, [(0, 1, true), (0, 0, false), (2, 0, false), (0, 1, true)]);
        assert_eq!(report.finish().unwrap_err().to_string(), "failed: bad, broken runner");
    }

    #[test]
    fn only_what_was_asked_for() {
        let mut report = Report::new(vec!["unit".into()]);
        assert_eq!(report.check("clippy", || Ok(1)), None);
        assert_eq!(report.check("unit tests", || Ok(2)), Some(2));
        assert_eq!(report.prepare("set-up", || Ok(3)), Some(3));
        assert_eq!(report.parts.len(), 2);
    }
}
