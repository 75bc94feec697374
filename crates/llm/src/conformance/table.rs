//! The table of `docs/models.md`, written from the lists that the tests are made of, so that it cannot name one that is not there.
//!
//! `UPDATE_DOCS=1 cargo test -p openhands-llm conformance::table` writes it anew.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use super::{
    COMPATIBLE,
    cases::{self, Case, Wire},
    interfaces,
};
use crate::providers::{self, Interface};

const BEGIN: &str = "<!-- providers:begin -->\n";
const END: &str = "<!-- providers:end -->";
const HEAD: &str = "\
| Provider (module `conformance::`) | tools, parallel tools | streaming | reasoning kept across turns | images | caching | usage | error classes |
|---|---|---|---|---|---|---|---|
| | `answers_with_parallel_calls` | `streams_the_same_answer`, `breaks_are_taken_back` | `keeps_reasoning_across_turns` | `sends_images` | `marks_prefixes_for_the_cache` | `counts_tokens` | `names_refusals` |
";

fn title(module: &str) -> Option<&'static str> {
    Some(match module {
        "chat" => "Chat Completions, `openai/`",
        "proxied_claude" => "Claude behind `litellm_proxy/`",
        "azure" => "Azure deployments, `azure/`",
        "responses" => "Responses, `openai/`",
        "anthropic" => "Messages, `anthropic/`",
        "gemini" => "generateContent, `gemini/`",
        "bedrock" => "Converse, `bedrock/`",
        "mistral" => "`mistral/`",
        "vertex_gemini" => "generateContent, `vertex_ai/`",
        "vertex_claude" => "Messages, `vertex_ai/`",
        "foundry_claude" => "Messages, `azure_ai/`",
        _ => return None,
    })
}

fn line(title: &str, module: &str, case: &Case) -> String {
    let streaming = if case.wire == Wire::Bedrock { "yes, binary frames" } else { "yes" };
    let reasoning = match (case.wire, case.signs) {
        (Wire::Chat, "") => "not part of the interface (1)",
        (Wire::Chat, _) => "signed thinking blocks",
        (Wire::Responses, _) => "encrypted items with their ids",
        (Wire::Anthropic, _) => "signed and redacted thinking (2)",
        (Wire::Gemini, _) => "thought signatures",
        (Wire::Bedrock, _) => "signed thinking",
    };
    let caching = match (case.wire, case.mark) {
        (_, "") => "by the provider itself",
        (Wire::Bedrock, _) => "cache points",
        _ => "marks",
    };
    let usage = if case.tells_written { "all kinds" } else { "without written cache" };
    format!("| {title} (`{module}`) | yes | {streaming} | {reasoning} | yes | {caching} | {usage} | yes |\n")
}

fn lines() -> String {
    let mut text = HEAD.to_owned();
    for (module, case) in interfaces() {
        text.push_str(&line(title(module).unwrap(), module, &case));
    }
    for (module, prefix) in COMPATIBLE {
        text.push_str(&line(&format!("`{prefix}/`"), module, &cases::compatible("")));
    }
    text
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().and_then(Path::parent).unwrap()
}

#[test]
fn the_table_in_the_documentation_is_what_is_tested() {
    let path = root().join("docs/models.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let mut expected = before.to_owned();
    write!(expected, "{BEGIN}{}{END}{after}", lines()).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &expected).unwrap();
        return;
    }
    let differing = page.lines().zip(expected.lines()).find(|(is, should)| is != should);
    assert!(page == expected, "UPDATE_DOCS=1 writes it anew; the first line that differs: {differing:?}");
}

#[test]
fn every_provider_is_tested() {
    let tested = COMPATIBLE.iter().map(|(_, prefix)| *prefix);
    let cases: Vec<_> = interfaces().into_iter().map(|(_, case)| case.model).collect();
    let tested: BTreeSet<_> = tested.chain(cases.iter().filter_map(|model| Some(model.split_once('/')?.0))).collect();
    let missing: Vec<_> = providers::supported()
        .filter(|provider| matches!(provider.interface, Interface::OpenAi))
        .map(|provider| provider.prefix)
        .filter(|prefix| !tested.contains(prefix))
        .collect();
    assert!(missing.is_empty(), "add them to compatible! in conformance.rs: {missing:?}");
    assert!(interfaces().iter().all(|(module, _)| title(module).is_some()));
}

/// Whether a test of that name is in the files of a module. The last word of a path names the test, the first one its file.
fn exists(path: &str, sources: &[(String, String)]) -> bool {
    let words: Vec<_> = path.split("::").collect();
    let (Some(first), Some(test)) = (words.first(), words.last()) else { return false };
    sources.iter().any(|(file, text)| {
        let is_here = file.split(['/', '.']).any(|part| part == *first);
        is_here && [format!("fn {test}("), format!("mod {test};")].iter().any(|known| text.contains(known))
    })
}

#[test]
fn tests_that_the_documentation_names_are_there() {
    let mut sources = Vec::new();
    let mut folders: Vec<_> = ["crates", "agent-server", "tests"].iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                sources.push((path.to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let page = fs::read_to_string(root().join("docs/models.md")).unwrap();
    let named: BTreeSet<_> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| {
            code.contains("::") && code.chars().all(|sign| sign.is_ascii_alphanumeric() || "_:".contains(sign))
        })
        .filter(|code| !code.ends_with("::") && code.rsplit("::").next().is_some_and(|last| last != "tests"))
        .collect();
    assert!(named.len() > 10, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|path| !exists(path, &sources)).collect();
    assert!(missing.is_empty(), "docs/models.md names tests that are not there: {missing:?}");
}
