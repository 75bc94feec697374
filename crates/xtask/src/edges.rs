//! The check that crates depend on each other only as the table of docs/ARCHITECTURE.md allows. A new edge is a design
//! change: it starts in the table.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::image::rust::{cargo, locked};
use crate::{folders, say};

const TABLE: &str = "docs/ARCHITECTURE.md";
const BEGIN: &str = "<!-- edges:begin -->";
const END: &str = "<!-- edges:end -->";

/// What a crate may use, and what only its tests may.
#[derive(Debug, Default, PartialEq, Eq)]
struct Allowed {
    always: BTreeSet<String>,
    tests: BTreeSet<String>,
}

/// An edge between two of our crates; `tests` when it is a development dependency.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    from: String,
    to: String,
    tests: bool,
}

/// Checks every crate of the workspace.
///
/// # Errors
/// Names every edge that the table lacks, every crate that it lacks and every crate that it should no longer have.
pub(crate) fn check() -> Result<()> {
    let file = folders::repository().join(TABLE);
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let table = parse(&text)?;
    let metadata = cargo().args(["metadata", "--format-version", "1", "--no-deps"]).args(locked()).run()?;
    let (crates, edges) = graph(&serde_json::from_str(&metadata)?)?;
    let faults = faults(&table, &crates, &edges);
    if !faults.is_empty() {
        bail!("the crates and the table in {TABLE} disagree:\n  {}", faults.join("\n  "));
    }
    say::line(format!("  ok    {} edges between {} crates, all in {TABLE}", edges.len(), crates.len()));
    Ok(())
}

/// Rows `| crate | duty | may use |` between the markers; what is followed by `(tests)` may be used by tests only.
fn parse(text: &str) -> Result<BTreeMap<String, Allowed>> {
    let (_, rest) = text.split_once(BEGIN).with_context(|| format!("{TABLE} has no {BEGIN}"))?;
    let (body, _) = rest.split_once(END).with_context(|| format!("{TABLE} has no {END}"))?;
    let mut table = BTreeMap::new();
    for line in body.lines().map(str::trim).filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [name, _duty, uses] = cells.as_slice() else { bail!("{TABLE}: not three cells: {line}") };
        if *name == "crate" || name.starts_with("--") {
            continue;
        }
        let mut allowed = Allowed::default();
        for used in
            uses.split(',').map(|used| used.trim().trim_matches('`')).filter(|used| !used.is_empty() && *used != "-")
        {
            match used.strip_suffix("(tests)") {
                Some(used) => allowed.tests.insert(used.trim().trim_matches('`').to_owned()),
                None => allowed.always.insert(used.to_owned()),
            };
        }
        if table.insert((*name).to_owned(), allowed).is_some() {
            bail!("{TABLE}: {name} has two rows");
        }
    }
    Ok(table)
}

/// Our crates and the edges between them.
fn graph(metadata: &Value) -> Result<(BTreeSet<String>, Vec<Edge>)> {
    let packages = metadata.get("packages").and_then(Value::as_array).context("cargo metadata has no packages")?;
    let name_of = |value: &Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
    let crates: BTreeSet<String> = packages.iter().filter_map(name_of).collect();
    let mut edges = BTreeSet::new();
    for package in packages {
        let from = name_of(package).context("a package has no name")?;
        for dependency in package.get("dependencies").and_then(Value::as_array).into_iter().flatten() {
            let to = name_of(dependency).context("a dependency has no name")?;
            if crates.contains(&to) {
                let tests = dependency.get("kind").and_then(Value::as_str) == Some("dev");
                edges.insert(Edge { from: from.clone(), to, tests });
            }
        }
    }
    Ok((crates, edges.into_iter().collect()))
}

fn faults(table: &BTreeMap<String, Allowed>, crates: &BTreeSet<String>, edges: &[Edge]) -> Vec<String> {
    let mut faults: Vec<String> = Vec::new();
    faults.extend(crates.iter().filter(|name| !table.contains_key(*name)).map(|name| format!("{name} has no row")));
    faults.extend(
        table.keys().filter(|name| !crates.contains(*name)).map(|name| format!("{name} has a row but is no crate")),
    );
    for Edge { from, to, tests } in edges {
        let Some(allowed) = table.get(from) else { continue };
        if !(allowed.always.contains(to) || (*tests && allowed.tests.contains(to))) {
            faults.push(format!("{from} uses {to}{}", if *tests { " in its tests" } else { "" }));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &str = "before\n<!-- edges:begin -->\n| crate | its one duty | may use (ours) |\n|---|---|---|\n\
                        | `a` | first | - |\n| b | second | `a`, c (tests) |\n| c | third | a |\n<!-- edges:end -->\nafter | x |";

    fn edge(from: &str, to: &str, tests: bool) -> Edge {
        Edge { from: from.into(), to: to.into(), tests }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn rows_become_what_is_allowed() {
        let table = parse(TEXT).unwrap();
        assert_eq!(table.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(table["b"], Allowed { always: names(&["a"]), tests: names(&["c"]) });
        assert_eq!(table["a"], Allowed::default());
        assert!(parse("no table").is_err() && parse("<!-- edges:begin -->\n| a | b |\n<!-- edges:end -->").is_err());
    }

    #[test]
    fn every_kind_of_disagreement_is_named() {
        let table = parse(TEXT).unwrap();
        let good = [edge("b", "a", false), edge("b", "c", true), edge("c", "a", true)];
        assert!(faults(&table, &names(&["a", "b", "c"]), &good).is_empty());
        let bad = [edge("a", "b", false), edge("b", "c", false)];
        let expected = ["d has no row", "c has a row but is no crate", "a uses b", "b uses c"];
        assert_eq!(faults(&table, &names(&["a", "b", "d"]), &bad), expected);
    }

    #[test]
    fn foreign_dependencies_are_no_edges() {
        let metadata = json!({"packages": [
            {"name": "a", "dependencies": [{"name": "serde", "kind": null}]},
            {"name": "b", "dependencies": [{"name": "a", "kind": null}, {"name": "a", "kind": "dev"}]},
        ]});
        let (crates, edges) = graph(&metadata).unwrap();
        assert_eq!(crates, names(&["a", "b"]));
        assert_eq!(edges, [edge("b", "a", false), edge("b", "a", true)]);
    }
}
