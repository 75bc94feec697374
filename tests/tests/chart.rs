//! The Helm chart as text: linted, rendered and compared with golden files, its values refused when they make no sense, its
//! table of values and its copies of the definitions up to date.
//!
//! `OPENHANDS_UPDATE_GOLDEN=1` writes the golden files and the table anew; read the difference before you commit it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use openhands_tests::{helm, needs, tier};
use serde_json::Value;

const BEGIN: &str = "<!-- values:begin -->";
const END: &str = "<!-- values:end -->";

fn golden() -> PathBuf {
    tier::repository().join("tests/golden/chart")
}

fn updates() -> bool {
    env::var_os("OPENHANDS_UPDATE_GOLDEN").is_some()
}

fn compare(file: &Path, got: &str) -> Result<()> {
    if updates() {
        fs::write(file, got)?;
    }
    let wanted = fs::read_to_string(file).unwrap_or_default();
    ensure!(
        wanted == got,
        "{} is out of date (OPENHANDS_UPDATE_GOLDEN=1 writes it); first difference:\n{}",
        file.display(),
        first_difference(&wanted, got)
    );
    Ok(())
}

fn first_difference(wanted: &str, got: &str) -> String {
    let mut lines = wanted.lines().zip(got.lines()).enumerate();
    lines.find(|(_, (a, b))| a != b).map_or_else(
        || format!("{} lines wanted, {} lines got", wanted.lines().count(), got.lines().count()),
        |(number, (a, b))| format!("line {}: wanted {a:?}, got {b:?}", number + 1),
    )
}

async fn template(home: &Path, arguments: &[&str]) -> Result<String> {
    let chart = helm::chart().display().to_string();
    let mut all =
        vec!["template", "test", &chart, "--namespace", "openhands-system", "--kube-version", helm::KUBERNETES];
    all.extend(arguments);
    helm::run(home, None, &all, "").await
}

fn documents(yaml: &str) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for part in yaml.split("\n---\n") {
        if part.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#') && line != "---") {
            all.push(serde_saphyr::from_str(part).with_context(|| part.to_owned())?);
        }
    }
    Ok(all)
}

#[tokio::test]
async fn lint_finds_nothing() -> Result<()> {
    needs!(Chart);
    let home = tempfile::tempdir()?;
    let chart = helm::chart().display().to_string();
    let mut variants = vec![vec![]];
    for file in variant_files()? {
        variants.push(vec!["--values".to_owned(), file.display().to_string()]);
    }
    for variant in variants {
        let mut arguments = vec!["lint", "--strict", &chart];
        arguments.extend(variant.iter().map(String::as_str));
        helm::run(home.path(), None, &arguments, "").await?;
    }
    Ok(())
}

fn variant_files() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(golden())? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".values.yaml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[tokio::test]
async fn each_variant_of_values_renders_its_golden_file() -> Result<()> {
    needs!(Chart);
    let home = tempfile::tempdir()?;
    let files = variant_files()?;
    ensure!(files.len() >= 4, "{} variants in {}", files.len(), golden().display());
    for values in files {
        let rendered = template(home.path(), &["--values", &values.display().to_string()]).await?;
        let name = values.display().to_string().replace(".values.yaml", ".yaml");
        compare(Path::new(&name), &rendered)?;
        documents(&rendered)?;
    }
    Ok(())
}

#[tokio::test]
async fn definitions_are_current_upgradable_and_stay_when_the_release_goes() -> Result<()> {
    needs!(Chart);
    let home = tempfile::tempdir()?;
    let mut rendered = BTreeMap::new();
    for document in documents(&template(home.path(), &["--show-only", "templates/crds.yaml"]).await?)? {
        let name = document.pointer("/metadata/name").and_then(Value::as_str).context("name")?.to_owned();
        rendered.insert(name, document);
    }
    let mut wanted = BTreeSet::new();
    for entry in fs::read_dir(tier::repository().join("crds/yaml"))? {
        let path = entry?.path();
        let file = path.file_name().context("name of a definition's file")?;
        let copy = helm::chart().join("files/crds").join(file);
        let text = fs::read_to_string(&path)?;
        if updates() {
            fs::write(&copy, &text)?;
        }
        ensure!(
            fs::read_to_string(&copy).ok().as_ref() == Some(&text),
            "{} differs from {}: OPENHANDS_UPDATE_GOLDEN=1 copies it",
            copy.display(),
            path.display()
        );
        let definition: Value = serde_saphyr::from_str(&text)?;
        let name = definition.pointer("/metadata/name").and_then(Value::as_str).context("name")?.to_owned();
        let in_chart = rendered.get(&name).with_context(|| format!("the chart does not render {name}"))?;
        assert!(in_chart["spec"] == definition["spec"], "the chart renders {name} otherwise than {}", path.display());
        assert_eq!(in_chart["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm", "{name}");
        assert_eq!(in_chart["metadata"]["annotations"]["helm.sh/resource-policy"], "keep", "{name}");
        wanted.insert(name);
    }
    assert_eq!(rendered.into_keys().collect::<BTreeSet<_>>(), wanted);
    assert!(!helm::chart().join("crds").exists(), "helm never upgrades what lies in crds/");
    let without = template(home.path(), &["--set", "crds.install=false"]).await?;
    assert!(!without.contains("CustomResourceDefinition"), "crds.install=false");
    Ok(())
}

#[tokio::test]
async fn senseless_values_are_refused_by_name() -> Result<()> {
    needs!(Chart);
    let home = tempfile::tempdir()?;
    let chart = helm::chart().display().to_string();
    let cases = [
        ("replicas=-1", "replicas"),
        ("replicas=many", "replicas"),
        ("replica=2", "replica"),
        ("image.repositry=x", "repositry"),
        ("image.digest=latest", "digest"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("sandbox.image=", "sandbox"),
        ("log.format=xml", "format"),
        ("metrics.port=0", "port"),
        ("reports.port=70000", "port"),
        ("watchNamespace=Not_A_Namespace", "watchNamespace"),
        ("leaderElection.leaseDurationSeconds=1", "leaseDurationSeconds"),
        ("networkPolicy.apiServerCidrs[0]=everywhere", "apiServerCidrs"),
        ("runAsUser=0", "runAsUser"),
        ("extraArgs[0]=no-flag", "extraArgs"),
        ("resources.limits.memory=lots", "memory"),
        ("serviceAccount.create=false", "serviceAccount.name is needed"),
    ];
    for (setting, wanted) in cases {
        let arguments = ["template", "test", &chart, "--kube-version", helm::KUBERNETES, "--set", setting];
        let answer = helm::ask(home.path(), None, &arguments, "").await?;
        assert!(!answer.success, "accepted: {setting}");
        assert!(answer.stderr.contains(wanted), "{setting}: {}", answer.stderr);
    }
    Ok(())
}

#[tokio::test]
async fn roles_ask_for_nothing_at_large() -> Result<()> {
    needs!(Chart);
    let home = tempfile::tempdir()?;
    for arguments in
        [&["--set", "crds.install=false"][..], &["--set", "crds.install=false", "--set", "watchNamespace=a"]]
    {
        let rendered = documents(&template(home.path(), arguments).await?)?;
        let narrow = arguments.len() > 2;
        for document in rendered {
            let kind = document["kind"].as_str().unwrap_or_default();
            let name = document["metadata"]["name"].as_str().unwrap_or_default();
            let for_users = name.ends_with("-view") || name.ends_with("-edit");
            assert!(
                !narrow || for_users || !kind.starts_with("ClusterRole"),
                "{kind} {name} although one namespace is served"
            );
            for rule in document["rules"].as_array().into_iter().flatten() {
                let text = rule.to_string();
                assert!(!text.contains("\"*\""), "{name}: {text}");
                for word in ["escalate", "bind\"", "impersonate", "pods/exec", "finalizers"] {
                    assert!(!text.contains(word), "{name}: {text}");
                }
                let secrets = rule["resources"].as_array().is_some_and(|all| all.iter().any(|r| r == "secrets"));
                let verbs = rule["verbs"].to_string();
                assert!(!secrets || !verbs.contains("deletecollection"), "{name}: {text}");
            }
        }
    }
    Ok(())
}

/// A value of the chart: its path, its default as JSON, the words above it.
struct Row {
    path: String,
    default: String,
    words: String,
}

/// Reads the commented leaves of `values.yaml`: a line `# -- words` belongs to the key below it.
fn rows(text: &str) -> Result<Vec<Row>> {
    let values: Value = serde_saphyr::from_str(text)?;
    let (mut rows, mut parents, mut words) = (Vec::new(), Vec::<(usize, String)>::new(), None);
    for line in text.lines() {
        let (trimmed, indent) = (line.trim_start(), line.len() - line.trim_start().len());
        if let Some(comment) = trimmed.strip_prefix("# -- ") {
            words = Some(comment.to_owned());
            continue;
        }
        let Some((key, _)) = trimmed.split_once(':').filter(|(key, _)| !key.starts_with(['#', '-'])) else { continue };
        parents.retain(|(depth, _)| *depth < indent);
        parents.push((indent, key.to_owned()));
        if let Some(words) = words.take() {
            let keys: Vec<&str> = parents.iter().map(|(_, key)| key.as_str()).collect();
            let default = values.pointer(&format!("/{}", keys.join("/"))).with_context(|| keys.join("."))?;
            rows.push(Row { path: keys.join("."), default: default.to_string(), words });
        }
    }
    Ok(rows)
}

fn leaves(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value.as_object().filter(|members| !members.is_empty()) {
        Some(members) => members.iter().for_each(|(key, value)| leaves(value, &format!("{path}{key}."), into)),
        None => {
            into.insert(path.trim_end_matches('.').to_owned());
        }
    }
}

#[test]
fn every_value_is_described_in_the_readme() -> Result<()> {
    let values = fs::read_to_string(helm::chart().join("values.yaml"))?;
    let rows = rows(&values)?;
    let mut all = BTreeSet::new();
    leaves(&serde_saphyr::from_str(&values)?, "", &mut all);
    let described: BTreeSet<String> = rows.iter().map(|row| row.path.clone()).collect();
    assert_eq!(all, described, "each leaf of values.yaml needs a line `# -- words` above it");

    let mut table = String::from("| value | default | what it does |\n|---|---|---|\n");
    for Row { path, default, words } in &rows {
        table.push_str(&format!("| `{path}` | `{default}` | {} |\n", words.replace('|', "\\|")));
    }
    let file = helm::chart().join("README.md");
    let readme = fs::read_to_string(&file)?;
    let (head, rest) = readme.split_once(BEGIN).context(BEGIN)?;
    let (_, tail) = rest.split_once(END).context(END)?;
    let wanted = format!("{head}{BEGIN}\n{table}{END}{tail}");
    compare(&file, &wanted)
}
