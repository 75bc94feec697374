use std::fs;

use openhands_protocol::secret::SecretText;

use super::*;

fn cipher(key: &str) -> Cipher {
    Cipher::new(&SecretText::new(key), &[])
}

fn store() -> (tempfile::TempDir, SettingsStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = SettingsStore::new(dir.path().to_owned());
    (dir, store)
}

fn agent(patch: Value) -> SettingsChange {
    SettingsChange { agent: patch.as_object().cloned(), ..SettingsChange::default() }
}

fn change(store: &SettingsStore, cipher: &Cipher, patch: Value) -> Settings {
    store.update(Some(cipher), |settings| settings.apply(&agent(patch), Some(cipher))).unwrap().0
}

fn key(settings: &Settings) -> Option<&str> {
    settings.agent.llm()?.api_key.as_ref().map(SecretText::expose)
}

#[test]
fn settings_are_changed_kept_and_shown() {
    let (dir, store) = store();
    let cipher = cipher("k");
    assert!(!store.load(Some(&cipher)).unwrap().llm_api_key_is_set());
    change(&store, &cipher, json!({"llm": {"model": "openai/m", "api_key": "sk-1", "temperature": 0.5}}));
    let settings = store.load(Some(&cipher)).unwrap();
    assert_eq!((key(&settings), settings.llm_api_key_is_set()), (Some("sk-1"), true));
    let text = fs::read_to_string(dir.path().join(FILE)).unwrap();
    assert!(!text.contains("sk-1") && text.contains("\"schema_version\": 6"), "{text}");
    assert_eq!(settings.answer(Show::Masked)["agent_settings"]["llm"]["api_key"], MASK);
    assert_eq!(settings.answer(Show::Plain)["agent_settings"]["llm"]["api_key"], "sk-1");
    // A null gives a member its default back.
    let settings = change(&store, &cipher, json!({"llm": {"temperature": null, "api_key": null}}));
    assert_eq!((settings.agent.llm().unwrap().temperature, key(&settings)), (None, None));
}

#[test]
fn a_refused_change_changes_nothing() {
    let (_dir, store) = store();
    let cipher = cipher("k");
    change(&store, &cipher, json!({"llm": {"model": "m"}}));
    for (change, expected) in [
        (agent(json!({"llm": {"temperature": "sk-x"}})), "agent_settings_diff.llm.temperature: expected a number"),
        (
            SettingsChange {
                conversation: json!({"max_iterations": 0}).as_object().cloned(),
                ..agent(json!({"llm": {"model": "n"}}))
            },
            "conversation_settings_diff.max_iterations: must be 1 or more",
        ),
        (
            SettingsChange {
                conversation: json!({"confirmation_mode": null}).as_object().cloned(),
                ..SettingsChange::default()
            },
            "conversation_settings_diff.confirmation_mode: expected a boolean",
        ),
    ] {
        let error = store.update(Some(&cipher), |settings| settings.apply(&change, Some(&cipher))).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(store.load(Some(&cipher)).unwrap().agent.llm().unwrap().model, "m");
}

#[test]
fn a_changed_address_drops_the_key_unless_a_fresh_one_comes() {
    let (dir, store) = store();
    let cipher = cipher("k");
    let to = |patch: Value| key(&change(&store, &cipher, json!({"llm": patch}))).map(str::to_owned);
    assert_eq!(to(json!({"api_key": "sk-1", "base_url": "http://a"})).as_deref(), Some("sk-1"));
    assert_eq!(to(json!({"model": "other"})).as_deref(), Some("sk-1"));
    assert_eq!(to(json!({"api_key": MASK, "base_url": "http://a"})).as_deref(), Some("sk-1"));
    assert_eq!(to(json!({"base_url": "http://b"})), None);
    assert_eq!(to(json!({"base_url": "http://a"})), None, "it does not come back");
    assert_eq!(to(json!({"base_url": "http://c", "api_key": "sk-2"})).as_deref(), Some("sk-2"));
    assert_eq!(to(json!({"base_url": "http://d", "api_key": MASK})), None);
    // The same by somebody who can write the file.
    to(json!({"base_url": "http://a", "api_key": "sk-3"}));
    let path = dir.path().join(FILE);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("http://a", "http://evil")).unwrap();
    let moved = store.load(Some(&cipher)).unwrap();
    assert_eq!(key(&moved), None);
    assert!(matches!(moved.usable_llm(), Err(SettingsError::KeyElsewhere(_))));
    let again = change(&store, &cipher, json!({"llm": {"api_key": "sk-4"}}));
    assert_eq!(again.usable_llm().unwrap().unwrap().api_key, Some(SecretText::new("sk-4")));
}

#[test]
fn a_token_from_a_client_opens_where_it_belongs() {
    let (_dir, store) = store();
    let cipher = cipher("k");
    let settings = change(&store, &cipher, json!({"llm": {"api_key": "sk-1", "base_url": "http://a"}}));
    let token = settings.answer(Show::Encrypted(&cipher))["agent_settings"]["llm"]["api_key"].clone();
    let settings = change(&store, &cipher, json!({"llm": {"api_key": token, "temperature": 1}}));
    assert_eq!(key(&settings), Some("sk-1"));
    let settings = change(&store, &cipher, json!({"llm": {"api_key": token, "base_url": "http://evil"}}));
    assert_eq!(key(&settings), None);
}

#[test]
fn other_secrets_stay_with_their_places_too() {
    let (_dir, store) = store();
    let cipher = cipher("k");
    change(
        &store,
        &cipher,
        json!({
            "mcp_config": {"s": {"url": "http://a", "headers": {"Authorization": "t", "X": "u"}}},
            "verification": {"critic_api_key": "c", "critic_server_url": "http://a"},
            "agent_context": {"secrets": {"A": "v"}},
        }),
    );
    let settings = change(&store, &cipher, json!({"mcp_config": {"s": {"headers": {"X": null}}}}));
    let plain = settings.answer(Show::Plain);
    assert_eq!(plain.pointer("/agent_settings/mcp_config/s/headers"), Some(&json!({"Authorization": "t"})));
    let settings = change(
        &store,
        &cipher,
        json!({
            "mcp_config": {"s": {"url": "http://evil"}}, "verification": {"critic_server_url": "http://evil"},
        }),
    );
    let plain = settings.answer(Show::Plain);
    assert_eq!(plain.pointer("/agent_settings/mcp_config/s/headers"), Some(&json!({})));
    assert_eq!(plain.pointer("/agent_settings/verification/critic_api_key"), Some(&Value::Null));
    assert_eq!(plain.pointer("/agent_settings/agent_context/secrets/A"), Some(&json!("v")));
    assert_eq!(store.load(Some(&cipher)).unwrap().answer(Show::Plain), plain);
}

#[test]
fn without_a_cipher_secrets_do_not_reach_the_disk() {
    let (dir, store) = store();
    let patch = agent(json!({"llm": {"model": "m", "api_key": "sk-1"}}));
    let (settings, ()) = store.update(None, |settings| settings.apply(&patch, None)).unwrap();
    assert_eq!((settings.agent.llm().unwrap().model.as_str(), settings.llm_api_key_is_set()), ("m", false));
    let text = fs::read_to_string(dir.path().join(FILE)).unwrap();
    assert!(!text.contains("sk-1") && text.contains(MASK), "{text}");
}

#[test]
fn secrets_of_a_lost_key_survive_changes_and_damaged_files_are_not_overwritten() {
    let (dir, store) = store();
    let (old, new) = (cipher("old"), cipher("new"));
    change(&store, &old, json!({"llm": {"model": "m", "api_key": "sk-1"}}));
    assert_eq!(key(&change(&store, &new, json!({"llm": {"model": "n"}}))), None);
    assert_eq!(key(&store.load(Some(&old)).unwrap()), Some("sk-1"));
    change(&store, &new, json!({"llm": {"base_url": "http://evil"}}));
    assert_eq!(key(&store.load(Some(&old)).unwrap()), None);
    let path = dir.path().join(FILE);
    for text in ["{", "[]", r#"{"schema_version": 7}"#, r#"{"agent_settings": {"llm": {"top_p": 7}}}"#] {
        fs::write(&path, text).unwrap();
        let read = store.load(Some(&old)).unwrap();
        assert_eq!(read.agent.llm(), AgentSettings::default().llm(), "{text}");
        let update = store.update(Some(&old), |settings| settings.apply(&agent(json!({"llm": {"model": "x"}})), None));
        assert!(matches!(update, Err(SettingsError::Damaged { .. })), "{text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn clients_keep_what_they_like_and_unknown_members_survive() {
    let (dir, store) = store();
    let cipher = cipher("k");
    fs::write(dir.path().join(FILE), r#"{"new_member": 1, "misc_settings": {"a": {"b": 1, "c": 2}}}"#).unwrap();
    let change = SettingsChange {
        misc: json!({"a": {"b": null, "d": [3]}, "e": "f"}).as_object().cloned(),
        active_profile: Some(Some("p".to_owned())),
        active_meta_profile: Some(Some("mp".to_owned())),
        ..SettingsChange::default()
    };
    store.update(Some(&cipher), |settings| settings.apply(&change, Some(&cipher))).unwrap();
    let settings = store.load(Some(&cipher)).unwrap();
    assert_eq!(Value::Object(settings.misc.clone()), json!({"a": {"c": 2, "d": [3]}, "e": "f"}));
    assert_eq!((settings.active_profile.as_deref(), settings.active_meta_profile.as_deref()), (Some("p"), Some("mp")));
    assert_eq!(settings.agent.json(Show::Masked)["enable_classify_and_switch_llm_tool"], true);
    let file: Value = serde_json::from_slice(&fs::read(dir.path().join(FILE)).unwrap()).unwrap();
    assert_eq!(file["new_member"], 1);
}

#[test]
fn a_changed_address_stays_refused_until_somebody_speaks_about_the_model() {
    let (dir, store) = store();
    let cipher = cipher("k");
    change(&store, &cipher, json!({"llm": {"model": "openai/m", "api_key": "sk-1", "base_url": "https://a.example"}}));
    let path = dir.path().join(FILE);
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    file["agent_settings"]["llm"]["base_url"] = json!("https://evil.example");
    fs::write(&path, file.to_string()).unwrap();
    let refused = |settings: &Settings| matches!(settings.usable_llm(), Err(SettingsError::KeyElsewhere(_)));
    assert!(refused(&store.load(Some(&cipher)).unwrap()));
    let misc = SettingsChange { misc: json!({"theme": "dark"}).as_object().cloned(), ..SettingsChange::default() };
    store.update(Some(&cipher), |settings| settings.apply(&misc, Some(&cipher))).unwrap();
    assert!(refused(&store.load(Some(&cipher)).unwrap()), "a change of something else means nothing for the address");
    change(&store, &cipher, json!({"llm": {"base_url": "https://b.example", "api_key": "sk-2"}}));
    let settings = store.load(Some(&cipher)).unwrap();
    assert_eq!((key(&settings), refused(&settings)), (Some("sk-2"), false));
}
