use std::collections::BTreeSet;

use openhands_protocol::bash::{BashCommand, BashEventKind};
use serde_json::Value;
use tempfile::TempDir;

use super::*;

fn service() -> (TempDir, BashService) {
    service_with(|_| {})
}

fn service_with(change: impl FnOnce(&mut BashOptions)) -> (TempDir, BashService) {
    let directory = TempDir::new().unwrap();
    let mut options = BashOptions::new(directory.path().join("bash_events"));
    change(&mut options);
    (directory, BashService::new(options))
}

fn request(command: &str) -> ExecuteBashRequest {
    ExecuteBashRequest { command: command.to_owned(), cwd: None, timeout: 30 }
}

async fn run(service: &BashService, command: &str) -> (Option<i32>, String, String) {
    let output = service.execute(request(command)).await.unwrap();
    (output.exit_code, output.stdout.unwrap_or_default(), output.stderr.unwrap_or_default())
}

fn outputs_of(id: BashId) -> BashSearch {
    BashSearch { command: Some(id), ..BashSearch::default() }
}

fn parsed(page: &BashPage) -> Vec<Value> {
    page.items.iter().map(|item| serde_json::from_slice(item).unwrap()).collect()
}

fn files(directory: &TempDir) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory.path().join("bash_events")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Waits until the command has a last output.
async fn last_output(service: &BashService, id: BashId) -> BashOutput {
    let wait = async {
        loop {
            let page = service.search(BashSearch { descending: true, limit: 1, ..outputs_of(id) }).await.unwrap();
            if let Some(item) = page.items.first() {
                let output: BashOutput = serde_json::from_slice(item).unwrap();
                if output.exit_code.is_some() {
                    return output;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap()
}

async fn until(what: impl AsyncFn() -> bool) {
    let wait = async {
        while !what().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap();
}

/// Gone, or a zombie that nobody has reaped yet.
fn ended(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).map_or(true, |stat| stat.contains(") Z "))
}

#[tokio::test]
async fn a_command_has_its_streams_code_and_events() {
    let (directory, service) = service();
    let output = service.execute(request("echo out; echo err >&2; exit 3")).await.unwrap();
    assert_eq!(
        (output.exit_code, output.stdout.as_deref(), output.stderr.as_deref(), output.order),
        (Some(3), Some("out\n"), Some("err\n"), 0)
    );
    let command: BashCommand = serde_json::from_slice(&service.get(output.command_id).await.unwrap().unwrap()).unwrap();
    assert_eq!(
        (command.command.as_str(), command.cwd, command.timeout, command.kind),
        ("echo out; echo err >&2; exit 3", None, 30, BashEventKind::BashCommand)
    );
    let page = service.search(outputs_of(output.command_id)).await.unwrap();
    assert_eq!(page.items, [serde_json::to_vec(&output).unwrap()]);
    assert_eq!(files(&directory).len(), 2);
    assert!(files(&directory).iter().all(|name| EventKey::parse(name).is_some()));
}

#[tokio::test]
async fn a_silent_command_has_null_streams() {
    let (_directory, service) = service();
    let output = service.execute(request("true")).await.unwrap();
    assert_eq!((output.exit_code, output.stdout, output.stderr), (Some(0), None, None));
}

#[tokio::test]
async fn long_output_comes_whole_in_pieces() {
    let (_directory, service) = service();
    let bytes = 5 * 1024 * 1024 / 2;
    let output = service.execute(request(&format!("head -c {bytes} /dev/zero | tr '\\0' x"))).await.unwrap();
    assert_eq!((output.exit_code, output.stdout.as_ref().map(String::len), output.order), (Some(0), Some(bytes), 2));
    let pieces = parsed(&service.search(outputs_of(output.command_id)).await.unwrap());
    let seen: Vec<_> = pieces.iter().map(|piece| (piece["order"].as_i64(), piece["exit_code"].as_i64())).collect();
    assert_eq!(seen, [(Some(0), None), (Some(1), None), (Some(2), Some(0))]);
    let joined: usize = pieces.iter().map(|piece| piece["stdout"].as_str().unwrap().len()).sum();
    assert_eq!(joined, bytes);
    let later = service.search(BashSearch { order_above: Some(1), ..outputs_of(output.command_id) }).await.unwrap();
    assert_eq!(parsed(&later), pieces[2..]);
}

#[tokio::test]
async fn one_answer_is_bounded_while_the_events_hold_all() {
    let (_directory, service) = service();
    let bytes = 10 * 1024 * 1024;
    let output = service.execute(request(&format!("head -c {bytes} /dev/zero | tr '\\0' x"))).await.unwrap();
    assert_eq!((output.exit_code, output.stdout.as_ref().map(String::len)), (Some(0), Some(super::ANSWER_BYTES)));
    let note = "[answer cut: the command's events hold the rest; write long output to a file]\n";
    assert_eq!(output.stderr.as_deref(), Some(note));
    let pieces = parsed(&service.search(outputs_of(output.command_id)).await.unwrap());
    let joined: usize = pieces.iter().map(|piece| piece["stdout"].as_str().unwrap().len()).sum();
    assert_eq!(joined, bytes);
}

#[tokio::test]
async fn output_beyond_the_bound_is_dropped_and_said_so() {
    let (_directory, service) = service_with(|options| options.max_output_bytes = 10);
    let (code, stdout, stderr) = run(&service, "printf 0123456789abcde").await;
    assert_eq!((code, stdout.as_str()), (Some(0), "0123456789"));
    assert!(stderr.contains("the first 10 bytes were kept, 5 more were dropped"), "{stderr}");
}

#[tokio::test]
async fn commands_see_no_server_keys_and_are_first_to_go() {
    let (_directory, service) = service_with(|options| {
        options.environment = ToolEnvironment::new([("GREETING".to_owned(), "hello".to_owned())]);
    });
    let (_, stdout, _) = run(&service, "echo $GREETING; env | grep -c '^OH_'; cat /proc/self/oom_score_adj").await;
    assert_eq!(stdout, "hello\n0\n1000\n");
}

#[tokio::test]
async fn the_working_directory_is_used_and_a_missing_one_is_an_output() {
    let (directory, service) = service_with(|options| options.default_cwd = Some("/usr".into()));
    assert_eq!(run(&service, "pwd").await.1, "/usr\n");
    let path = directory.path().canonicalize().unwrap();
    let at = |cwd: String| ExecuteBashRequest { cwd: Some(cwd), ..request("pwd") };
    let output = service.execute(at(path.display().to_string())).await.unwrap();
    assert_eq!(output.stdout.unwrap().trim(), path.to_str().unwrap());
    let output = service.execute(at("/nowhere/at/all".to_owned())).await.unwrap();
    assert_eq!((output.exit_code, output.stdout), (Some(-1), None));
    assert_eq!(output.stderr.unwrap(), "Error executing command: working directory '/nowhere/at/all' does not exist");
}

#[tokio::test]
async fn what_cannot_be_started_is_an_output() {
    let (_directory, service) = service();
    assert_eq!(run(&service, "a\0b").await.0, Some(-1));
    let (code, _, stderr) = run(&service, &format!("true {}", "x".repeat(200_000))).await;
    assert_eq!(code, Some(-1));
    assert!(stderr.contains("put it into a file"), "{stderr}");
}

#[tokio::test]
async fn the_time_limit_ends_the_whole_group() {
    let (directory, service) = service();
    let pid_file = directory.path().join("pid");
    // The child ignores the polite request and holds no pipe.
    let script = format!(
        "echo begun; sh -c 'trap \"\" TERM; echo $$ > {}; while :; do sleep 1; done' >/dev/null 2>&1",
        pid_file.display()
    );
    let output = service.execute(ExecuteBashRequest { timeout: 1, ..request(&script) }).await.unwrap();
    assert_eq!((output.exit_code, output.stdout.as_deref()), (Some(-1), Some("begun\n")));
    assert_eq!(output.stderr.as_deref(), Some("[timed out after 1 seconds, the command was ended]\n"));
    let pid = std::fs::read_to_string(&pid_file).unwrap();
    until(async || ended(&pid)).await;
}

#[tokio::test]
async fn clean_up_traps_run_before_the_kill() {
    let (_directory, service) = service();
    let script = "trap 'echo cleaned; exit 0' TERM; echo begun; sleep 300 & wait";
    let output = service.execute(ExecuteBashRequest { timeout: 1, ..request(script) }).await.unwrap();
    assert_eq!((output.exit_code, output.stdout.as_deref()), (Some(-1), Some("begun\ncleaned\n")));
}

#[tokio::test]
async fn no_time_at_all_ends_at_once() {
    let (_directory, service) = service();
    for timeout in [0, -5] {
        let output = service.execute(ExecuteBashRequest { timeout, ..request("sleep 300") }).await.unwrap();
        assert_eq!(output.exit_code, Some(-1));
    }
}

#[tokio::test]
async fn stopping_ends_one_command_and_knows_finished_ones() {
    let (_directory, service) = service();
    let stopped = service.start(request("sleep 300; echo never")).await.unwrap();
    let other = service.start(request("sleep 1; echo done")).await.unwrap();
    assert!(service.stop(stopped.id).await.unwrap());
    let output = last_output(&service, stopped.id).await;
    assert_eq!((output.exit_code, output.stdout), (Some(-15), None));
    assert_eq!(last_output(&service, other.id).await.stdout.as_deref(), Some("done\n"));
    assert!(service.stop(stopped.id).await.unwrap());
    assert!(!service.stop(BashId::random()).await.unwrap());
    until(async || service.running() == 0).await;
}

#[tokio::test]
async fn a_background_process_that_lets_go_of_the_pipes_lives_on() {
    let (_directory, service) = service();
    let (code, pid, _) = run(&service, "sleep 300 >/dev/null 2>&1 & echo $!").await;
    assert_eq!(code, Some(0));
    assert!(!ended(&pid));
    run(&service, &format!("kill -9 {pid}")).await;
}

#[tokio::test]
async fn pages_follow_each_other_in_both_orders() {
    let (_directory, service) = service();
    for index in 0..5 {
        run(&service, &format!("echo {index}")).await;
    }
    for descending in [false, true] {
        let (mut seen, mut page_id) = (Vec::new(), None);
        loop {
            let kind = Some(BashEventKind::BashOutput);
            let page = service
                .search(BashSearch { kind, descending, page_id, limit: 2, ..BashSearch::default() })
                .await
                .unwrap();
            seen.extend(
                parsed(&page).iter().map(|event| event["stdout"].as_str().unwrap().trim().parse::<i32>().unwrap()),
            );
            page_id = page.next_page_id;
            if page_id.is_none() {
                break;
            }
        }
        let mut expected = vec![0, 1, 2, 3, 4];
        if descending {
            expected.reverse();
        }
        assert_eq!(seen, expected);
    }
    let all = service.search(BashSearch::default()).await.unwrap();
    assert_eq!((all.items.len(), all.next_page_id), (10, None));
    let unknown =
        service.search(BashSearch { page_id: Some("nonsense".to_owned()), ..BashSearch::default() }).await.unwrap();
    assert_eq!(unknown.items, all.items);
}

#[tokio::test]
async fn times_bound_a_search() {
    let (_directory, service) = service();
    run(&service, "true").await;
    let between = jiff::Timestamp::now().as_microsecond();
    until(async || jiff::Timestamp::now().as_microsecond() > between).await;
    run(&service, "false").await;
    let before = service.search(BashSearch { before_micros: Some(between), ..BashSearch::default() }).await.unwrap();
    let after = service.search(BashSearch { from_micros: Some(between), ..BashSearch::default() }).await.unwrap();
    assert_eq!((parsed(&before)[0]["command"].as_str(), before.items.len()), (Some("true"), 2));
    assert_eq!((parsed(&after)[0]["command"].as_str(), after.items.len()), (Some("false"), 2));
}

#[tokio::test]
async fn events_of_earlier_runs_and_of_the_reference_are_found() {
    let (directory, service) = service();
    let output = service.execute(request("echo kept")).await.unwrap();
    let events = directory.path().join("bash_events");
    let foreign = "20261130161915547820_BashOutput_12ce69ab3efa40daa600b6a9ac8cf80e_0d877f2c4a5e40b1a00023d9e0c0baa3";
    let text = "{\n  \"id\": \"0d877f2c4a5e40b1a00023d9e0c0baa3\",\n  \"timestamp\": \"2026-11-30T16:19:15.547820Z\",\n  \"command_id\": \"12ce69ab3efa40daa600b6a9ac8cf80e\",\n  \"order\": 4,\n  \"exit_code\": 0,\n  \"stdout\": \"hi\\n\",\n  \"stderr\": null,\n  \"kind\": \"BashOutput\"\n}";
    std::fs::write(events.join(foreign), text).unwrap();
    std::fs::write(
        events
            .join("20261130161915547821_BashOutput_12ce69ab3efa40daa600b6a9ac8cf80e_0d877f2c4a5e40b1a00023d9e0c0baa4"),
        "{\"torn",
    )
    .unwrap();
    std::fs::write(events.join("README"), "not an event").unwrap();
    std::fs::write(events.join(".20261130161915547820_BashCommand_0d877f2c4a5e40b1a00023d9e0c0baa9.tmp"), "{").unwrap();

    let again = BashService::new(BashOptions::new(events.clone()));
    let page = again.search(outputs_of(output.command_id)).await.unwrap();
    assert_eq!(page.items, [serde_json::to_vec(&output).unwrap()]);
    let id: BashId = "12ce69ab3efa40daa600b6a9ac8cf80e".parse().unwrap();
    let found = again.search(outputs_of(id)).await.unwrap();
    assert_eq!(parsed(&found), [serde_json::from_str::<Value>(text).unwrap()]);
    assert!(!found.items[0].contains(&b'\n'));
    for (above, count) in [(3, 1), (4, 0)] {
        let page = again.search(BashSearch { order_above: Some(above), ..outputs_of(id) }).await.unwrap();
        assert_eq!((page.items.len(), page.next_page_id), (count, None));
    }
    assert!(!files(&directory).iter().any(|name| name.starts_with('.')), "{:?}", files(&directory));
}

#[tokio::test]
async fn clearing_deletes_and_counts() {
    let (directory, service) = service();
    run(&service, "true").await;
    run(&service, "true").await;
    std::fs::write(directory.path().join("bash_events/README"), "stays").unwrap();
    assert_eq!(service.clear().await.unwrap(), 4);
    assert_eq!(service.search(BashSearch::default()).await.unwrap(), BashPage::default());
    assert_eq!(files(&directory), BTreeSet::from(["README".to_owned()]));
    assert_eq!(service.clear().await.unwrap(), 0);
}

#[tokio::test]
async fn the_oldest_events_go_when_there_are_too_many() {
    let (directory, service) = service_with(|options| options.max_events = 4);
    for index in 0..4 {
        run(&service, &format!("echo {index}")).await;
    }
    let events = parsed(&service.search(BashSearch::default()).await.unwrap());
    assert_eq!((events.len(), events[0]["command"].as_str()), (4, Some("echo 2")));
    assert_eq!(files(&directory).len(), 4);
}

#[tokio::test]
async fn old_events_are_deleted_at_the_start() {
    let (directory, service) = service();
    let output = service.execute(request("true")).await.unwrap();
    let events = directory.path().join("bash_events");
    std::fs::write(events.join("20200101000000000000_BashCommand_0d877f2c4a5e40b1a00023d9e0c0baa9"), "{}").unwrap();
    let mut options = BashOptions::new(events);
    options.retention = Some(Duration::from_secs(3600));
    let again = BashService::new(options);
    until(async || files(&directory).len() == 2).await;
    assert!(again.get(output.command_id).await.unwrap().is_some());
}

#[tokio::test]
async fn listeners_hear_the_same_bytes_in_order_after_the_history() {
    let (_directory, service) = service();
    run(&service, "echo before").await;
    let (history, mut live) = service.subscribe(true).await.unwrap();
    run(&service, "echo after").await;
    let mut seen = Vec::new();
    for key in history {
        seen.push(service.read(key).await.unwrap());
    }
    for _ in 0..2 {
        seen.push(live.recv().await.unwrap());
    }
    assert_eq!(seen, service.search(BashSearch::default()).await.unwrap().items);
}

#[tokio::test]
async fn many_commands_run_at_once_up_to_the_bound() {
    let (_directory, service) = service_with(|options| options.max_running = 20);
    let started: Vec<_> =
        futures::future::join_all((0..20).map(|index| service.start(request(&format!("sleep 0.3; echo {index}")))))
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
    let refused = service.start(request("true")).await.unwrap_err();
    assert_eq!(refused.to_string(), "20 commands are running already; stop one or wait");
    for (index, command) in started.iter().enumerate() {
        assert_eq!(last_output(&service, command.id).await.stdout, Some(format!("{index}\n")));
    }
    until(async || service.running() == 0).await;
    assert_eq!(run(&service, "echo free").await.1, "free\n");
}

#[tokio::test]
async fn closing_ends_commands_and_subscriptions() {
    let (_directory, service) = service();
    let (_, mut live) = service.subscribe(false).await.unwrap();
    let started = service.start(request("sleep 300")).await.unwrap();
    service.close().await;
    assert!(matches!(service.start(request("true")).await, Err(BashError::Closed)));
    assert_eq!(service.running(), 0);
    assert_eq!(last_output(&service, started.id).await.exit_code, Some(-15));
    assert_eq!((live.recv().await.is_some(), live.recv().await.is_some(), live.recv().await), (true, true, None));
}

#[tokio::test]
async fn events_survive_a_directory_that_cannot_be_written_in_memory() {
    let (directory, service) = service();
    std::fs::write(directory.path().join("bash_events"), "a file in the way").unwrap();
    let output = service.execute(request("echo hi"));
    assert_eq!(output.await.unwrap().stdout.as_deref(), Some("hi\n"));
}
