//! The log on real directories: durability, reading back, and what a crash may leave.

use std::{
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::PathBuf,
};

use openhands_protocol::{EventBase, Source, event::MarkerEvent};
use tempfile::TempDir;

use super::*;
use crate::{
    event_name::marker_file,
    lease::{Lease, LeaseOwner},
};

fn event(id: &str) -> Event {
    Event::Pause(MarkerEvent {
        base: EventBase {
            id: id.into(),
            timestamp: "2026-01-02T03:04:05.678901".to_owned(),
            source: Source::User,
            parent_id: None,
        },
    })
}

/// `event-id-0000`, `event-id-0001` ...
fn id(n: usize) -> String {
    format!("0000abcd-{n:04}")
}

async fn log_of(count: usize) -> (TempDir, EventLog) {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    for n in 0..count {
        log.append(&event(&id(n))).unwrap();
    }
    log.commit().await.unwrap();
    (dir, log)
}

fn file(dir: &TempDir, n: usize) -> PathBuf {
    dir.path().join("events").join(format!("event-{n:05}-{}.json", id(n)))
}

fn names(dir: &TempDir) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir.path().join("events"))
        .unwrap()
        .map(|item| item.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".eventlog.lock")
        .collect();
    names.sort();
    names
}

fn ids(log: &EventLog) -> Vec<String> {
    log.range(0, u64::MAX).iter().map(|stored| stored.id.to_string()).collect()
}

fn expected(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(id).collect()
}

#[tokio::test]
async fn a_reopened_log_is_equal() {
    let (dir, log) = log_of(5).await;
    let before = log.range(0, 5);
    let again = EventLog::open(dir.path()).unwrap();
    assert_eq!((again.len(), again.durable_len()), (5, 5));
    assert_eq!(again.range(0, 99), before);
    assert_eq!(again.load(1, 3).await.unwrap(), before[1..3]);
    assert_eq!(again.position(&id(3).as_str().into()), Some(3));
    assert_eq!(again.head(4), Some(before[4].head()));
    assert_eq!(again.get(5), None);
    assert_eq!(before[2].parse().unwrap(), event(&id(2)));
    let text =
        format!(r#"{{"id":"{}","timestamp":"2026-01-02T03:04:05.678901","source":"user","kind":"PauseEvent"}}"#, id(2));
    assert_eq!(fs::read_to_string(file(&dir, 2)).unwrap(), text);
}

#[tokio::test]
async fn the_layout_is_the_references_and_private() {
    let (dir, _log) = log_of(2).await;
    assert_eq!(
        names(&dir),
        [
            ".eventlog-len-2.marker".to_owned(),
            format!("event-00000-{}.json", id(0)),
            format!("event-00001-{}.json", id(1))
        ]
    );
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(file(&dir, 0)), 0o600);
    assert_eq!(mode(dir.path().join("events").join(marker_file(2))), 0o600);
    assert_eq!(mode(dir.path().join("events")), 0o700);
}

#[tokio::test]
async fn a_second_event_of_one_id_and_ids_that_are_paths_are_refused() {
    let (dir, log) = log_of(2).await;
    assert!(matches!(log.append(&event(&id(1))), Err(StoreError::DuplicateId { position: 1, .. })));
    let again = EventLog::open(dir.path()).unwrap();
    assert!(matches!(again.append(&event(&id(0))), Err(StoreError::DuplicateId { position: 0, .. })));
    for bad in ["", "../../etc/x", "a b", &"x".repeat(129)] {
        assert!(matches!(log.append(&event(bad)), Err(StoreError::InvalidId(_))), "{bad:?}");
    }
    assert_eq!(log.len(), 2);
}

#[tokio::test]
async fn events_are_visible_before_they_are_durable() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    let stored = log.append(&event(&id(0))).unwrap();
    assert_eq!((log.get(0), log.durable_len()), (Some(stored), 0));
    log.commit().await.unwrap();
    assert_eq!(log.durable_len(), 1);
}

/// Makes a log of six events, damages it, and opens it again.
async fn after(damage: impl FnOnce(&TempDir)) -> (TempDir, EventLog) {
    let (dir, log) = log_of(6).await;
    drop(log);
    damage(&dir);
    let log = EventLog::open(dir.path()).unwrap();
    (dir, log)
}

fn set_marker(dir: &TempDir, count: Option<u64>) {
    let events = dir.path().join("events");
    fs::remove_file(events.join(marker_file(6))).unwrap();
    count.inspect(|count| fs::write(events.join(marker_file(*count)), "").unwrap());
}

#[tokio::test]
async fn a_torn_tail_is_cut_whatever_the_marker_says() {
    for marker in [Some(6), Some(3), Some(9), None] {
        let (dir, log) = after(|dir| {
            set_marker(dir, marker);
            fs::write(file(dir, 5), r#"{"id":"#).unwrap();
        })
        .await;
        assert_eq!(ids(&log), expected(0..5), "marker {marker:?}");
        // The position is written again, and once only.
        log.append(&event("ffff0000-new")).unwrap();
        log.commit().await.unwrap();
        let again = EventLog::open(dir.path()).unwrap();
        assert_eq!((again.len(), again.durable_len()), (6, 6));
        assert_eq!(again.id(5), Some("ffff0000-new".into()));
        assert!(dir.path().join("events/.damaged").join(format!("event-00005-{}.json", id(5))).exists());
        assert_eq!(names(&dir).iter().filter(|name| name.ends_with(".marker")).count(), 1);
    }
}

#[tokio::test]
async fn an_empty_file_behind_the_marker_cuts_the_log_there() {
    let (_dir, log) = after(|dir| {
        set_marker(dir, Some(3));
        fs::write(file(dir, 4), "").unwrap();
    })
    .await;
    assert_eq!(ids(&log), expected(0..4));
    assert_eq!(log.durable_len(), 3);
    log.commit().await.unwrap();
    assert_eq!(log.durable_len(), 4);
}

#[tokio::test]
async fn a_gap_cuts_the_log_and_keeps_what_follows_aside() {
    let (dir, log) = after(|dir| fs::remove_file(file(dir, 2)).unwrap()).await;
    assert_eq!(ids(&log), expected(0..2));
    assert_eq!(fs::read_dir(dir.path().join("events/.damaged")).unwrap().count(), 3);
    let (_dir, log) = after(|dir| fs::remove_file(file(dir, 0)).unwrap()).await;
    assert!(log.is_empty());
}

#[tokio::test]
async fn foreign_names_are_left_alone_and_unfinished_files_removed() {
    let (dir, log) = after(|dir| {
        let events = dir.path().join("events");
        fs::write(events.join("notes.txt"), "mine").unwrap();
        fs::write(events.join("event-7-x.json"), "{}").unwrap();
        fs::write(events.join(".tmp-1-1"), "half").unwrap();
        fs::write(events.join(std::ffi::OsStr::from_bytes(b"\xff\xfe")), "x").unwrap();
        fs::create_dir(events.join("event-00006-abcdefab")).unwrap();
    })
    .await;
    assert_eq!(ids(&log), expected(0..6));
    let events = dir.path().join("events");
    assert!(events.join("notes.txt").exists() && events.join("event-7-x.json").exists());
    assert!(!events.join(".tmp-1-1").exists());
}

#[tokio::test]
async fn two_files_at_one_position_keep_the_one_written_first() {
    let (_dir, log) = after(|dir| {
        let other = file(dir, 5).with_file_name("event-00005-aaaaaaaa.json");
        fs::write(&other, r#"{"id":"aaaaaaaa","timestamp":"","source":"user","kind":"PauseEvent"}"#).unwrap();
        let past = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        fs::File::options().write(true).open(file(dir, 5)).unwrap().set_modified(past).unwrap();
    })
    .await;
    assert_eq!(ids(&log), expected(0..6));
}

#[tokio::test]
async fn two_files_of_one_id_are_found_by_the_first() {
    let (_dir, log) = after(|dir| {
        fs::rename(file(dir, 5), file(dir, 5).with_file_name(format!("event-00005-{}.json", id(1)))).unwrap();
        fs::copy(file(dir, 1), file(dir, 5).with_file_name(format!("event-00005-{}.json", id(1)))).unwrap();
    })
    .await;
    assert_eq!((log.len(), log.position(&id(1).as_str().into())), (6, Some(1)));
}

#[tokio::test]
async fn a_file_damaged_in_the_middle_is_left_out_without_ending_anything() {
    let (_dir, log) = after(|dir| fs::write(file(dir, 2), "{").unwrap()).await;
    let mut left = expected(0..6);
    left.remove(2);
    assert_eq!((log.len(), ids(&log)), (6, left));
    log.append(&event(&id(6))).unwrap();
    log.commit().await.unwrap();
}

#[tokio::test]
async fn opening_reads_names_only() {
    let (dir, log) = log_of(300).await;
    drop(log);
    // Were any but the last event read, these would cut the log.
    (0..299).for_each(|n| fs::write(file(&dir, n), "").unwrap());
    assert_eq!(EventLog::open(dir.path()).unwrap().len(), 300);
}

#[tokio::test]
async fn memory_is_bounded_and_old_events_come_back_from_disk() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open_with_memory(dir.path(), 1000).unwrap();
    for n in 0..50 {
        log.append(&event(&id(n))).unwrap();
        log.commit().await.unwrap();
    }
    let in_memory = (0..50).filter(|seq| log.index().cached(*seq).is_some()).count();
    assert!((5..12).contains(&in_memory), "{in_memory}");
    assert_eq!(log.head(0).unwrap().timestamp, "2026-01-02T03:04:05.678901");
    assert!(log.index().cached(0).is_none(), "a head does not need the bytes");
    assert_eq!(ids(&log), expected(0..50));
    assert_eq!(log.load(0, 50).await.unwrap().len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_committers_share_rounds_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    let tasks: Vec<_> = (0..200)
        .map(|n| {
            let log = log.clone();
            tokio::spawn(async move {
                let stored = log.append(&event(&id(n))).unwrap();
                log.commit().await.unwrap();
                assert!(log.durable_len() > stored.seq);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let rounds = log.shared.writer.rounds_done();
    assert!(rounds < 150, "200 commits took {rounds} rounds");
    let again = EventLog::open(dir.path()).unwrap();
    assert_eq!(again.range(0, 200), log.range(0, 200));
}

#[tokio::test]
async fn two_commits_at_once_take_one_round() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    log.append(&event(&id(0))).unwrap();
    log.append(&event(&id(1))).unwrap();
    let (first, second) = tokio::join!(log.commit(), log.commit());
    first.unwrap();
    second.unwrap();
    assert!(log.shared.writer.rounds_done() <= 2, "{}", log.shared.writer.rounds_done());
}

#[tokio::test]
async fn a_failed_round_loses_nothing() {
    let (dir, log) = log_of(1).await;
    let (events, hidden) = (dir.path().join("events"), dir.path().join("gone"));
    fs::rename(&events, &hidden).unwrap();
    log.append(&event(&id(1))).unwrap();
    assert!(matches!(log.commit().await, Err(StoreError::Io { .. })));
    fs::rename(&hidden, &events).unwrap();
    log.append(&event(&id(2))).unwrap();
    log.commit().await.unwrap();
    assert_eq!(ids(&EventLog::open(dir.path()).unwrap()), expected(0..3));
    assert!(!names(&dir).iter().any(|name| name.starts_with(".tmp")));
}

#[tokio::test]
async fn events_reach_the_disk_without_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    for n in 0..200 {
        log.append(&event(&id(n))).unwrap();
    }
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while log.shared.writer.written() < 200 {
        assert!(std::time::Instant::now() < until, "{} written", log.shared.writer.written());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(EventLog::open(dir.path()).unwrap().len(), 200);
}

#[test]
fn a_log_works_without_a_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    log.append(&event(&id(0))).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(log.commit()).unwrap();
    assert_eq!(EventLog::open(dir.path()).unwrap().len(), 1);
}

#[test]
fn work_that_a_runtime_dropped_is_done_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    // The only blocking thread is busy until the runtime is gone, so the round is dropped before it began.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).max_blocking_threads(1).build().unwrap();
    let (release, released) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || released.recv());
    runtime.block_on(async { log.append(&event(&id(0))).unwrap() });
    runtime.shutdown_background();
    drop(release);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let limit = std::time::Duration::from_secs(20);
    runtime.block_on(async {
        // Which of the two sees the loss depends on when the old runtime drops its queue.
        if tokio::time::timeout(limit, log.commit()).await.unwrap().is_err() {
            tokio::time::timeout(limit, log.commit()).await.unwrap().unwrap();
        }
    });
    assert_eq!(EventLog::open(dir.path()).unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_lost_its_lease_writes_nothing_more() {
    let (dir, log) = log_of(1).await;
    let ttl = std::time::Duration::from_secs(60);
    let lease = Lease::acquire(dir.path(), &LeaseOwner::new("old", "host-a", 1), ttl).unwrap();
    log.guard(lease.clone());
    log.append(&event(&id(1))).unwrap();
    log.commit().await.unwrap();
    fs::remove_file(dir.path().join("owner_lease.json")).unwrap();
    let other = Lease::acquire(dir.path(), &LeaseOwner::new("new", "host-b", 1), ttl).unwrap();
    log.append(&event(&id(2))).unwrap();
    assert!(matches!(log.commit().await, Err(StoreError::OwnershipLost { .. })));
    assert!(lease.is_lost() && !other.is_lost());
    assert!(matches!(log.append(&event(&id(3))), Err(StoreError::OwnershipLost { .. })));
    assert_eq!(EventLog::open(dir.path()).unwrap().len(), 2);
}

/// A measurement, not a promise: run it alone with `--ignored --nocapture` on a build with optimisation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints times"]
async fn times() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    let start = std::time::Instant::now();
    (0..10_000).for_each(|n| drop(log.append(&event(&format!("0000abcd-{n:06}"))).unwrap()));
    println!("append: {:?} an event", start.elapsed() / 10_000);
    log.commit().await.unwrap();
    println!("append and commit: {:?} an event", start.elapsed() / 10_000);
    let start = std::time::Instant::now();
    for n in 0..200 {
        log.append(&event(&format!("0000abce-{n:06}"))).unwrap();
        log.commit().await.unwrap();
    }
    println!("append and commit one by one: {:?} an event", start.elapsed() / 200);
    let start = std::time::Instant::now();
    let again = EventLog::open(dir.path()).unwrap();
    println!("open of {}: {:?}", again.len(), start.elapsed());
    let start = std::time::Instant::now();
    assert_eq!(again.range(0, 10_000).len(), 10_000);
    println!("read back: {:?} an event", start.elapsed() / 10_000);
}
