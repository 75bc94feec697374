//! The store on real files.

use super::*;

fn store() -> (tempfile::TempDir, CredentialStore) {
    let home = tempfile::tempdir().unwrap();
    let store = CredentialStore::new(home.path().join("auth"));
    (home, store)
}

fn credentials() -> OAuthCredentials {
    OAuthCredentials {
        vendor: Vendor::OpenAi,
        access_token: SecretText::new("access"),
        refresh_token: SecretText::new("refresh"),
        expires_at: 42,
        account_id: None,
        issuer: None,
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_is_stored_is_private_and_read_back() {
    let (_home, store) = store();
    assert_eq!(store.get(Vendor::OpenAi).unwrap(), None);
    assert!(!store.dir().exists(), "looking makes nothing");
    store.save(&credentials()).unwrap();
    let file = store.dir().join("openai_oauth.json");
    assert_eq!((mode(store.dir()), mode(&file)), (0o700, 0o600));
    assert_eq!(store.get(Vendor::OpenAi).unwrap(), Some(credentials()));
    assert_eq!(fs::read_dir(store.dir()).unwrap().count(), 1, "no temporary file is left");
    assert!(store.delete(Vendor::OpenAi).unwrap());
    assert!(!store.delete(Vendor::OpenAi).unwrap());
}

#[test]
fn open_directories_and_files_are_closed() {
    let (_home, store) = store();
    fs::create_dir_all(store.dir()).unwrap();
    fs::set_permissions(store.dir(), Permissions::from_mode(0o755)).unwrap();
    let file = store.dir().join("openai_oauth.json");
    fs::write(&file, "{}").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    store.save(&credentials()).unwrap();
    assert_eq!((mode(store.dir()), mode(&file)), (0o700, 0o600));
}

#[test]
fn invalid_files_are_removed() {
    let (_home, store) = store();
    store.prepare().unwrap();
    let file = store.dir().join("openai_oauth.json");
    for text in ["", "{", "{\"vendor\": \"openai\"}"] {
        fs::write(&file, text).unwrap();
        assert_eq!(store.get(Vendor::OpenAi).unwrap(), None);
        assert!(!file.exists(), "{text}");
    }
    fs::write(&file, vec![b' '; 300 * 1024]).unwrap();
    assert_eq!(store.get(Vendor::OpenAi).unwrap(), None);
    assert!(!file.exists());
}

#[test]
fn files_that_are_being_written_are_left_alone() {
    let (_home, store) = store();
    store.prepare().unwrap();
    let file = store.dir().join("openai_oauth.json");
    fs::write(&file, "{\"type\":").unwrap();
    let end = || fs::write(&file, credentials().to_json().to_string()).unwrap();
    assert_eq!(store.get_after(Vendor::OpenAi, end).unwrap(), Some(credentials()));
    fs::write(&file, "{\"type\":").unwrap();
    let more = || fs::write(&file, "{\"type\": \"oauth\",").unwrap();
    assert_eq!(store.get_after(Vendor::OpenAi, more).unwrap(), None);
    assert!(file.exists());
}

#[test]
fn new_tokens_keep_what_they_do_not_replace() {
    let (_home, store) = store();
    assert_eq!(store.update_tokens(Vendor::OpenAi, "a", None, None).unwrap(), None);
    assert_eq!(store.get(Vendor::OpenAi).unwrap(), None);
    let before = OAuthCredentials {
        account_id: Some("acct".to_owned()),
        issuer: Some("https://i/".to_owned()),
        ..credentials()
    };
    store.save(&before).unwrap();
    let one = store.update_tokens(Vendor::OpenAi, "second", None, Some(10)).unwrap().unwrap();
    let expected =
        OAuthCredentials { access_token: SecretText::new("second"), expires_at: one.expires_at, ..before.clone() };
    assert_eq!(one, expected);
    let two = store.update_tokens(Vendor::OpenAi, "third", Some("rotated"), Some(3600)).unwrap().unwrap();
    assert_eq!(two.refresh_token.expose(), "rotated");
    assert!(!two.is_expired());
    assert_eq!(store.get(Vendor::OpenAi).unwrap(), Some(two));
}

#[test]
fn only_one_holds_the_lock() {
    let (_home, store) = store();
    let lock = store.lock(Vendor::OpenAi).unwrap();
    let waiting = std::thread::spawn({
        let store = store.clone();
        move || drop(store.lock(Vendor::OpenAi).unwrap())
    });
    assert!(store.lock_now(Vendor::OpenAi).is_none());
    drop(lock);
    waiting.join().unwrap();
    assert!(store.lock_now(Vendor::OpenAi).is_some());
}

impl CredentialStore {
    fn lock_now(&self, vendor: Vendor) -> Option<Lock> {
        Lock::try_take(&self.dir.join(format!(".{}_oauth.lock", vendor.name()))).unwrap()
    }
}
