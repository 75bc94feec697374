//! A server that is killed in the middle of its work has stored whatever it acknowledged.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
};

use openhands_protocol::{Event, EventBase, EventId, Source, event::MarkerEvent};
use openhands_store::EventLog;

const DIRECTORY: &str = "OPENHANDS_STORE_KILL_TEST";

/// Runs only as the child of the test below: stores events from two tasks and names each that was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child of a_killed_server_keeps_its_promises"]
async fn child() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let log = EventLog::open(&PathBuf::from(dir)).unwrap();
    let work = |log: EventLog| async move {
        loop {
            let id = EventId::random();
            let base = EventBase { id: id.clone(), timestamp: "t".to_owned(), source: Source::User, parent_id: None };
            log.append(&Event::Pause(MarkerEvent { base })).unwrap();
            log.commit().await.unwrap();
            // One write, so that a line is whole or absent.
            let _ = std::io::stdout().write_all(format!("stored {id}\n").as_bytes());
        }
    };
    tokio::join!(tokio::spawn(work(log.clone())), tokio::spawn(work(log))).0.unwrap();
}

#[test]
fn a_killed_server_keeps_its_promises() {
    let dir = tempfile::tempdir().unwrap();
    for round in 1..=3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env(DIRECTORY, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut stored = lines.filter_map(|line| line.strip_prefix("stored ").map(EventId::from));
        let mut acknowledged: Vec<EventId> = stored.by_ref().take(50 * round).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(stored);
        assert!(acknowledged.len() >= 50 * round);
        let log = EventLog::open(dir.path()).unwrap();
        for id in &acknowledged {
            let position = log.position(id).unwrap_or_else(|| panic!("{id} was acknowledged in round {round}"));
            assert_eq!(log.get(position).unwrap().id, *id);
        }
        assert_eq!(log.range(0, u64::MAX).len() as u64, log.len(), "every file is whole");
    }
}
