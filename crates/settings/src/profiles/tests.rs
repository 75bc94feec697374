use std::{fs, os::unix::fs::PermissionsExt as _};

use openhands_protocol::secret::SecretText;
use serde_json::json;

use super::*;
use crate::connections::NewConnection;

struct Stage {
    dir: tempfile::TempDir,
    store: ProfileStore,
    connections: ConnectionStore,
    cipher: Cipher,
}

fn stage() -> Stage {
    let dir = tempfile::tempdir().unwrap();
    let connections = ConnectionStore::new(dir.path().join("provider-connections"));
    let store = ProfileStore::new(dir.path().join("profiles"), connections.clone());
    Stage { dir, store, connections, cipher: Cipher::new(&SecretText::new("k"), &[]) }
}

impl Stage {
    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(format!("profiles/{name}.json"))
    }

    fn save(&self, name: &str, config: &LlmConfig) {
        self.store.save(name, config, AtRest::Encrypted(&self.cipher), None).unwrap();
    }

    fn key(&self, name: &str) -> Option<String> {
        self.store.load(name, Some(&self.cipher)).unwrap().api_key.map(|key| key.expose().to_owned())
    }
}

fn llm(key: Option<&str>, base_url: &str) -> LlmConfig {
    LlmConfig {
        model: "openai/m".to_owned(),
        api_key: key.map(SecretText::new),
        base_url: Some(base_url.to_owned()),
        temperature: Some(0.3),
        usage_id: "fast".to_owned(),
        ..LlmConfig::default()
    }
}

#[test]
fn a_profile_is_saved_loaded_listed_and_deleted() {
    let stage = stage();
    assert_eq!(stage.store.names().unwrap(), [""; 0]);
    stage.save("fast", &llm(Some("sk-1"), "http://a"));
    stage.save("creative.json", &llm(None, "http://b"));
    assert_eq!(stage.store.names().unwrap(), ["creative", "fast"]);
    assert_eq!(stage.store.load("fast", Some(&stage.cipher)).unwrap(), llm(Some("sk-1"), "http://a"));
    assert_eq!(stage.store.load("fast.json", Some(&stage.cipher)).unwrap().usage_id, "fast");
    stage.store.delete("fast").unwrap();
    stage.store.delete("fast").unwrap();
    assert_eq!(stage.store.names().unwrap(), ["creative"]);
    let mode = fs::metadata(stage.path("creative")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn secrets_are_masked_encrypted_or_plain() {
    let stage = stage();
    let config = llm(Some("sk-secret"), "http://a");
    for (at_rest, shown, kept) in [
        (AtRest::Masked, "\"api_key\": \"**********\"", None),
        (AtRest::Encrypted(&stage.cipher), "\"api_key\": \"gAAAAA", Some("sk-secret")),
        (AtRest::Plain, "\"api_key\": \"sk-secret\"", Some("sk-secret")),
    ] {
        stage.store.save("p", &config, at_rest, None).unwrap();
        let text = stage.text("p");
        assert!(text.contains(shown), "{text}");
        assert_eq!(text.contains("sk-secret"), matches!(at_rest, AtRest::Plain));
        assert_eq!(stage.key("p").as_deref(), kept);
    }
    assert!(matches!(AtRest::of_server(None, true), AtRest::Masked));
    assert!(matches!(AtRest::of_server(Some(&stage.cipher), false), AtRest::Masked));
    assert!(matches!(AtRest::of_server(Some(&stage.cipher), true), AtRest::Encrypted(_)));
}

#[test]
fn a_changed_address_drops_the_key() {
    let stage = stage();
    stage.save("p", &llm(Some("sk-1"), "http://a"));
    // In the file, by somebody who can write it.
    let text = stage.text("p");
    for changed in [text.replace("http://a", "http://evil"), text.replace("\"base_url\": \"http://a\",", "")] {
        fs::write(stage.path("p"), changed).unwrap();
        // Not usable at all: without its key it would be asked with one of the environment.
        let refused = stage.store.load("p", Some(&stage.cipher));
        assert!(matches!(refused, Err(SettingsError::KeyElsewhere(_))));
        assert_eq!(stage.store.read("p", Some(&stage.cipher)).unwrap().api_key, None);
    }
    fs::write(stage.path("p"), text).unwrap();
    // By a client that says "as before".
    stage.save("p", &llm(Some(MASK), "http://a"));
    assert_eq!(stage.key("p").as_deref(), Some("sk-1"));
    stage.save("p", &llm(Some(MASK), "http://evil"));
    assert_eq!(stage.key("p"), None);
    stage.save("p", &llm(Some("sk-2"), "http://b"));
    assert_eq!(stage.key("p").as_deref(), Some("sk-2"));
    stage.save("p", &llm(None, "http://b"));
    assert_eq!(stage.key("p"), None, "unset on purpose");
}

#[test]
fn what_cannot_be_loaded_is_named() {
    let stage = stage();
    let error = |name: &str| stage.store.load(name, Some(&stage.cipher)).unwrap_err().to_string();
    assert_eq!(error("x"), "profile \"x\" does not exist; there are: none");
    stage.save("a", &llm(None, "http://a"));
    stage.save("b", &llm(None, "http://a"));
    assert_eq!(error("x"), "profile \"x\" does not exist; there are: a, b");
    assert!(error("../x").starts_with("\"../x\" cannot be a profile's name"));
    for (text, word) in [
        ("{\"model\": ", "no JSON"),
        ("[]", "expected an object"),
        ("{\"model\": \"m\", \"api_key\": 7, \"base_url\": \"sk-hidden\"}", "api_key: expected a string"),
        ("{\"model\": \"m\", \"schema_version\": 99}", "newer version"),
    ] {
        fs::write(stage.path("a"), text).unwrap();
        let error = error("a");
        assert!(error.contains(word) && error.contains("a.json") && !error.contains("sk-hidden"), "{error}");
    }
    let names: Vec<_> = stage.store.summaries().unwrap().into_iter().map(|summary| summary.name).collect();
    assert_eq!(names, ["a", "b"], "a newer file is still listed");
    fs::write(stage.path("a"), "{").unwrap();
    assert_eq!(stage.store.summaries().unwrap().len(), 1);
}

#[test]
fn the_number_of_profiles_is_bounded() {
    let stage = stage();
    let save = |name: &str| stage.store.save(name, &llm(None, "http://a"), AtRest::Masked, Some(2));
    save("a").unwrap();
    save("b").unwrap();
    save("b").unwrap();
    fs::write(stage.dir.path().join("profiles/.x.json"), "{}").unwrap();
    assert!(matches!(save("c"), Err(SettingsError::Full { limit: 2, .. })));
}

#[test]
fn renaming_keeps_the_profile_and_refuses_taken_names() {
    let stage = stage();
    stage.save("a", &llm(Some("sk-1"), "http://a"));
    stage.save("b", &llm(None, "http://b"));
    assert!(matches!(stage.store.rename("x", "y"), Err(SettingsError::NotFound { .. })));
    assert!(matches!(stage.store.rename("a", "b"), Err(SettingsError::Exists { .. })));
    stage.store.rename("a", "a.json").unwrap();
    stage.store.rename("a", "c").unwrap();
    assert_eq!((stage.store.names().unwrap(), stage.key("c").as_deref()), (vec!["b".into(), "c".into()], Some("sk-1")));
}

#[test]
fn a_profile_takes_key_and_address_from_its_connection() {
    let stage = stage();
    let new = NewConnection {
        display_name: "c".to_owned(),
        provider: "custom".to_owned(),
        api_key: SecretText::new("sk-shared"),
        base_url: Some("https://shared".to_owned()),
    };
    let id = stage.connections.create(new, Some(&stage.cipher)).unwrap().id;
    let config = LlmConfig { provider_connection_id: Some(id.clone()), ..llm(Some("sk-own"), "http://own") };
    stage.save("p", &config);
    assert!(!stage.text("p").contains("http://own") && !stage.text("p").contains("\"api_key\":"));
    let loaded = stage.store.load("p", Some(&stage.cipher)).unwrap();
    assert_eq!((loaded.base_url.as_deref(), stage.key("p").as_deref()), (Some("https://shared"), Some("sk-shared")));
    assert_eq!(stage.store.read("p", Some(&stage.cipher)).unwrap().api_key, None);
    let summary = |broken, set| ProfileSummary {
        name: "p".to_owned(),
        model: Some("openai/m".to_owned()),
        base_url: None,
        provider_connection_id: Some(id.clone()),
        provider_connection_broken: broken,
        api_key_set: set,
    };
    assert_eq!(stage.store.summaries().unwrap(), [summary(false, true)]);
    stage.connections.delete(&id).unwrap();
    assert_eq!(stage.store.summaries().unwrap(), [summary(true, false)]);
    assert!(matches!(stage.store.load("p", Some(&stage.cipher)), Err(SettingsError::NoConnection { .. })));
}

#[test]
fn members_of_other_versions_survive() {
    let stage = stage();
    fs::create_dir_all(stage.path("p").parent().unwrap()).unwrap();
    fs::write(stage.path("p"), json!({"model": "m", "new_member": [1], "schema_version": 1}).to_string()).unwrap();
    let config = stage.store.load("p", None).unwrap();
    stage.save("q", &config);
    let stored: Value = serde_json::from_str(&stage.text("q")).unwrap();
    assert_eq!((&stored["new_member"], &stored["schema_version"]), (&json!([1]), &json!(1)));
}
