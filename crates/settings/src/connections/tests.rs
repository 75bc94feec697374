use super::*;

fn store() -> (tempfile::TempDir, ConnectionStore, Cipher) {
    let dir = tempfile::tempdir().unwrap();
    let store = ConnectionStore::new(dir.path().join("provider-connections"));
    (dir, store, Cipher::new(&SecretText::new("k"), &[]))
}

fn new(key: &str, base_url: Option<&str>) -> NewConnection {
    NewConnection {
        display_name: "mine".to_owned(),
        provider: "custom".to_owned(),
        api_key: SecretText::new(key),
        base_url: base_url.map(str::to_owned),
    }
}

fn key(connection: &Connection) -> Option<&str> {
    connection.api_key.as_ref().map(SecretText::expose)
}

#[test]
fn connections_are_kept_encrypted_and_changed() {
    let (dir, store, cipher) = store();
    assert_eq!(store.list(Some(&cipher)).unwrap(), []);
    assert!(matches!(store.create(new("sk-1", None), None), Err(SettingsError::NoCipher)));
    let made = store.create(new("sk-1", Some("https://a")), Some(&cipher)).unwrap();
    assert_eq!((store.get(&made.id, Some(&cipher)).unwrap(), made.id.len()), (made.clone(), 32));
    let file = std::fs::read_to_string(dir.path().join("provider-connections").join(FILE)).unwrap();
    assert!(!file.contains("sk-1") && file.contains("gAAAAA"), "{file}");
    let renamed = ConnectionChange { display_name: Some("ours".to_owned()), ..ConnectionChange::default() };
    let renamed = store.update(&made.id, renamed, Some(&cipher)).unwrap();
    assert_eq!((renamed.display_name.as_str(), key(&renamed)), ("ours", Some("sk-1")));
    store.delete(&made.id).unwrap();
    assert!(matches!(store.delete(&made.id), Err(SettingsError::NotFound { .. })));
}

#[test]
fn a_changed_address_drops_the_key_unless_a_fresh_one_comes() {
    let (_dir, store, cipher) = store();
    let id = store.create(new("sk-1", Some("https://a")), Some(&cipher)).unwrap().id;
    let to = |url: &str, fresh: Option<&str>| {
        let change = ConnectionChange {
            base_url: Some(Some(url.to_owned())),
            api_key: fresh.map(SecretText::new),
            ..ConnectionChange::default()
        };
        key(&store.update(&id, change, Some(&cipher)).unwrap()).map(str::to_owned)
    };
    assert_eq!(to("https://a/", None).as_deref(), Some("sk-1"), "the same place");
    assert_eq!(to("https://b", None), None);
    assert_eq!(to("https://a", None), None, "it does not come back");
    assert_eq!(to("https://c", Some("sk-2")).as_deref(), Some("sk-2"));
}

#[test]
fn an_address_changed_in_the_file_drops_the_key_and_entries_of_lost_keys_survive() {
    let (dir, store, cipher) = store();
    let id = store.create(new("sk-1", Some("https://a")), Some(&cipher)).unwrap().id;
    let path = dir.path().join("provider-connections").join(FILE);
    let file = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, file.replace("https://a", "https://evil")).unwrap();
    assert_eq!(key(&store.get(&id, Some(&cipher)).unwrap()), None);
    std::fs::write(&path, &file).unwrap();
    let other = Cipher::new(&SecretText::new("other"), &[]);
    assert_eq!(key(&store.get(&id, Some(&other)).unwrap()), None);
    store.create(new("sk-2", None), Some(&other)).unwrap();
    assert_eq!(key(&store.get(&id, Some(&cipher)).unwrap()), Some("sk-1"), "kept as it was");
}

#[test]
fn a_configuration_gets_the_key_and_the_address_together() {
    let (_dir, store, cipher) = store();
    let id = store.create(new("sk-1", Some("https://a")), Some(&cipher)).unwrap().id;
    let mut config = LlmConfig {
        provider_connection_id: Some(id),
        base_url: Some("https://evil".to_owned()),
        ollama_base_url: Some("https://evil".to_owned()),
        ..LlmConfig::default()
    };
    store.resolve("it", &mut config, Some(&cipher)).unwrap();
    assert_eq!(config.base_url.as_deref(), Some("https://a"));
    assert_eq!((&config.ollama_base_url, &config.api_key), (&None, &Some(SecretText::new("sk-1"))));
    let id = config.provider_connection_id.clone().unwrap();
    let moved = ConnectionChange { base_url: Some(None), ..ConnectionChange::default() };
    store.update(&id, moved, Some(&cipher)).unwrap();
    assert!(matches!(store.resolve("it", &mut config, Some(&cipher)), Err(SettingsError::NoKey(_))));
    let mut gone = LlmConfig { provider_connection_id: Some("gone".to_owned()), ..LlmConfig::default() };
    let error = store.resolve("profile \"p\"", &mut gone, Some(&cipher)).unwrap_err().to_string();
    assert!(error.contains("gone") && error.contains("profile \"p\""), "{error}");
    gone.api_key = Some(SecretText::new("own"));
    store.resolve("it", &mut gone, Some(&cipher)).unwrap();
    assert_eq!(gone.api_key, Some(SecretText::new("own")));
}

#[test]
fn names_and_numbers_are_bounded() {
    let (_dir, store, cipher) = store();
    let nameless = NewConnection { display_name: String::new(), ..new("k", None) };
    assert!(matches!(store.create(nameless, Some(&cipher)), Err(SettingsError::Invalid(_))));
    let long = "x".repeat(LONGEST_ADDRESS + 1);
    assert!(matches!(store.create(new("k", Some(&long)), Some(&cipher)), Err(SettingsError::Invalid(_))));
    for _ in 0..MAX_CONNECTIONS {
        store.create(new("k", None), Some(&cipher)).unwrap();
    }
    assert!(matches!(store.create(new("k", None), Some(&cipher)), Err(SettingsError::Full { .. })));
}
