//! Files in the repository that are made by our binaries: written anew, or compared with what lies there.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::image::rust::{cargo, locked};
use crate::{folders, go, say};

/// Where the definitions lie: for `kubectl apply`, and inside the chart.
const DEFINITIONS: &[&str] = &["crds/yaml", "charts/openhands-operator/files/crds"];

/// Writes every generated file, or with `check` only compares.
///
/// # Errors
/// A generator failed, or with `check` a file differs.
pub(crate) fn run(check: bool) -> Result<()> {
    let files = files()?;
    if !check {
        for (path, text) in &files {
            std::fs::write(path, text).with_context(|| path.display().to_string())?;
        }
        return chart_documents();
    }
    let repository = folders::repository();
    let stale: Vec<String> = files
        .iter()
        .filter(|(path, text)| std::fs::read_to_string(path).ok().as_deref() != Some(text.as_str()))
        .map(|(path, _)| path.strip_prefix(&repository).unwrap_or(path).display().to_string())
        .collect();
    if !stale.is_empty() {
        bail!("generated files differ from their generators; run `cargo xtask generate`: {}", stale.join(", "));
    }
    say::line(format!("  ok    {} generated files are as their generators write them", files.len()));
    Ok(())
}

/// Every generated file with its text.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let stream = cargo()
        .args(["run", "--quiet", "--package", "openhands-operator"])
        .args(locked())
        .args(["--", "crds"])
        .run()?;
    let documents = documents(&stream)?;
    let repository = folders::repository();
    let files = DEFINITIONS.iter().flat_map(|folder| {
        let folder = repository.join(folder);
        documents.iter().map(move |(name, text)| (folder.join(format!("{name}.yaml")), text.clone()))
    });
    Ok(files.collect())
}

/// The definitions of a YAML stream by their names.
fn documents(stream: &str) -> Result<Vec<(String, String)>> {
    let mut documents = Vec::new();
    for text in stream.split("---\n").filter(|text| !text.trim().is_empty()) {
        let mut lines = text.lines().skip_while(|line| *line != "metadata:");
        let name = lines.find_map(|line| line.strip_prefix("  name: ")).context("a definition has no metadata.name")?;
        documents.push((name.trim_matches('"').to_owned(), text.to_owned()));
    }
    if documents.is_empty() {
        bail!("the operator printed no definitions");
    }
    Ok(documents)
}

/// The chart's golden files and its table of values are written by the tests that compare them.
fn chart_documents() -> Result<()> {
    let mut tests = cargo().args(["test", "--quiet", "--package", "openhands-tests", "--test", "chart"]).args(locked());
    tests = tests.env("OPENHANDS_TEST_TIER", "chart").env("OPENHANDS_UPDATE_GOLDEN", "1");
    tests = tests.env("OPENHANDS_KUBE_BIN", go::programs()?);
    say::step("the chart's golden files and table of values", || tests.run().map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_into_named_files() {
        let stream = "---\nkind: CustomResourceDefinition\nmetadata:\n  name: cats.example.dev\nspec:\n  name: x\n---\nmetadata:\n  name: dogs.example.dev\n";
        let names: Vec<String> = documents(stream).unwrap().into_iter().map(|document| document.0).collect();
        assert_eq!(names, ["cats.example.dev", "dogs.example.dev"]);
        assert!(documents("").is_err());
    }
}
