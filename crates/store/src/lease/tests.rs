//! Who may take a lease from whom.

use std::fs;

use serde_json::{Value, json};

use super::*;

const TTL: Duration = Duration::from_secs(45);

fn stranger(id: &str) -> LeaseOwner {
    LeaseOwner::new(id, format!("host-of-{id}"), 1)
}

fn on_disk(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join(FILE)).unwrap()).unwrap()
}

fn expire(dir: &Path) {
    let mut record = on_disk(dir);
    record["expires_at"] = json!(1.5);
    fs::write(dir.join(FILE), record.to_string()).unwrap();
}

#[test]
fn a_live_lease_is_respected_and_a_released_one_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let lease = Lease::acquire(dir.path(), &stranger("a"), TTL).unwrap();
    assert_eq!(lease.generation(), Some(1));
    let error = Lease::acquire(dir.path(), &stranger("b"), TTL).unwrap_err();
    assert!(matches!(&error, LeaseError::Held { owner, .. } if owner == "a"), "{error}");
    assert_eq!(Lease::acquire(dir.path(), &stranger("a"), TTL).unwrap().generation(), Some(1), "one's own is renewed");
    lease.release().unwrap();
    assert!(!dir.path().join(FILE).exists());
    assert_eq!(Lease::acquire(dir.path(), &stranger("b"), TTL).unwrap().generation(), Some(1));
}

#[test]
fn an_expired_lease_is_taken_over_and_its_owner_notices() {
    let dir = tempfile::tempdir().unwrap();
    let old = Lease::acquire(dir.path(), &stranger("a"), TTL).unwrap();
    expire(dir.path());
    let new = Lease::acquire(dir.path(), &stranger("b"), TTL).unwrap();
    assert_eq!(new.generation(), Some(2));
    assert!(matches!(old.renew(), Err(StoreError::OwnershipLost { .. })));
    assert!(old.is_lost());
    old.release().unwrap();
    assert_eq!(on_disk(dir.path())["owner_instance_id"], "b", "a lost lease is not given back for another");
    new.renew().unwrap();
}

#[test]
fn a_dead_owner_of_this_host_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let me = LeaseOwner::of_this_process(Some("pod"));
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let dead = LeaseOwner::new("pod/1-1", me.host(), child.id());
    Lease::acquire(dir.path(), &dead, TTL).unwrap();
    assert_eq!(Lease::acquire(dir.path(), &me, TTL).unwrap().generation(), Some(2));
}

#[test]
fn the_file_has_the_references_members() {
    let dir = tempfile::tempdir().unwrap();
    Lease::acquire(dir.path(), &stranger("a"), TTL).unwrap();
    let mut record = on_disk(dir.path());
    let expires_at = record["expires_at"].take().as_f64().unwrap();
    assert!((expires_at - now() - 45.0).abs() < 10.0);
    assert_eq!(
        record,
        json!({"owner_instance_id": "a", "generation": 1, "expires_at": null, "owner_host": "host-of-a", "owner_pid": 1})
    );
    for broken in ["", "[]", "{\"generation\": 4}"] {
        fs::write(dir.path().join(FILE), broken).unwrap();
        assert_eq!(Lease::acquire(dir.path(), &stranger("b"), TTL).unwrap().generation(), Some(1), "{broken:?}");
    }
}

#[tokio::test]
async fn zero_turns_leases_off() {
    let dir = tempfile::tempdir().unwrap();
    let lease = Lease::acquire(dir.path(), &stranger("a"), Duration::ZERO).unwrap();
    lease.keep();
    lease.renew().unwrap();
    lease.release().unwrap();
    assert_eq!((lease.generation(), fs::read_dir(dir.path()).unwrap().count()), (None, 0));
}

#[tokio::test]
async fn a_kept_lease_is_renewed_and_its_loss_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let lease = Lease::acquire(dir.path(), &stranger("a"), Duration::from_millis(60)).unwrap();
    lease.keep();
    let first = on_disk(dir.path())["expires_at"].as_f64().unwrap();
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while on_disk(dir.path())["expires_at"].as_f64().unwrap() <= first {
        assert!(tokio::time::Instant::now() < until, "never renewed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fs::write(dir.path().join(FILE), json!({"owner_instance_id": "b", "generation": 9, "expires_at": 9e9}).to_string())
        .unwrap();
    tokio::time::timeout(Duration::from_secs(20), lease.lost()).await.unwrap();
    assert_eq!(on_disk(dir.path())["owner_instance_id"], "b");
}
