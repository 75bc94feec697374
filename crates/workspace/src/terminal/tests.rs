//! Real shells on real terminals.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::*;

fn options(directory: &Path) -> TerminalOptions {
    let environment: BTreeMap<_, _> = std::env::vars_os().filter(|(name, _)| name == "PATH").collect();
    TerminalOptions { directory: directory.to_owned(), environment, shell: None, start_files: false }
}

async fn bash() -> Terminal {
    Terminal::start(&options(Path::new("/"))).await.unwrap()
}

fn patience(seconds: u64) -> Patience {
    Patience { quiet: None, total: Duration::from_secs(seconds), until_input: false }
}

async fn run(terminal: &Terminal, command: &str) -> (String, Waited) {
    let submitted = terminal.submit(&[], command, OutputPolicy::default()).await;
    assert!(submitted.is_ok(), "{command}: {submitted:?}");
    end(terminal).await
}

async fn end(terminal: &Terminal) -> (String, Waited) {
    let waited = terminal.wait(&patience(20), &CancellationToken::new()).await;
    let text = terminal.take_output().text;
    assert!(matches!(waited, Waited::Finished(_) | Waited::Ended(_)), "{waited:?}, {text:?}");
    (text, waited)
}

fn code(waited: &Waited) -> i32 {
    match waited {
        Waited::Finished(finished) => finished.exit_code,
        other => panic!("not finished: {other:?}"),
    }
}

async fn check(terminal: &Terminal, command: &str, text: &str, exit_code: i32) {
    let (output, waited) = run(terminal, command).await;
    assert_eq!((output.trim_end(), code(&waited)), (text, exit_code), "{command}");
}

/// Waits until the output so far contains `text`.
async fn until_shown(terminal: &Terminal, text: &str) {
    let mut seen = String::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !seen.contains(text) {
        assert!(Instant::now() < deadline, "{text:?} not in {seen:?}");
        terminal
            .wait(
                &Patience { quiet: None, total: Duration::from_millis(20), until_input: false },
                &CancellationToken::new(),
            )
            .await;
        seen += &terminal.take_output().text;
    }
}

/// A key that comes while the shell starts a program hits the shell, as in every terminal; so it is pressed again.
async fn press_until_ended(terminal: &Terminal, name: &str) -> Waited {
    let short = Patience { quiet: None, total: Duration::from_secs(1), until_input: false };
    for _ in 0..20 {
        terminal.send(&key(name).unwrap()).await.unwrap();
        match terminal.wait(&short, &CancellationToken::new()).await {
            Waited::TimedOut => {}
            waited => return waited,
        }
    }
    panic!("{name} does not end it: {:?}", terminal.take_output());
}

async fn behaves_like_a_shell(terminal: &Terminal) {
    check(terminal, "echo hello-$((40+2)) && pwd", "hello-42\n/", 0).await;
    check(terminal, "f() { return 7; }; f", "", 7).await;
    check(terminal, "cd /tmp; false", "", 1).await;
    let (_, waited) = run(terminal, "true").await;
    assert!(matches!(waited, Waited::Finished(finished) if finished.directory == Path::new("/tmp")));
    check(terminal, "cat <<'EOF'\n\tone $x\nEOF\necho 'a\nb'", "\tone $x\na\nb", 0).await;
    check(terminal, "x='ü €'; export Y=2", "", 0).await;
    check(terminal, "echo \"$x $Y\"", "ü € 2", 0).await;
    let (output, waited) = run(terminal, "echo 'never ended").await;
    assert!(output.to_lowercase().contains("eof") || output.contains("nterminated"), "{output}");
    assert_eq!(code(&waited), 2);
    check(terminal, "echo on", "on", 0).await;
}

#[tokio::test]
async fn bash_behaves_like_a_shell() {
    let terminal = bash().await;
    assert_eq!(terminal.dialect(), Dialect::Bash);
    behaves_like_a_shell(&terminal).await;
    check(&terminal, "declare -A m=([a]=1); declare v=2; (exit 5)", "", 5).await;
    check(&terminal, "echo ${m[a]} $v $?", "1 2 5", 0).await;
    // Leaves the shell's own loop, which comes back by itself.
    check(&terminal, "break; echo no", "", 0).await;
    check(&terminal, "continue; echo no", "", 0).await;
    check(&terminal, "return 3; echo no", "bash: return: can only `return' from a function or sourced script\nno", 0)
        .await;
}

#[tokio::test]
async fn sh_behaves_like_a_shell() {
    let terminal =
        Terminal::start(&TerminalOptions { shell: Some("/bin/sh".into()), ..options(Path::new("/")) }).await.unwrap();
    assert_eq!(terminal.dialect(), Dialect::Posix);
    behaves_like_a_shell(&terminal).await;
    terminal.submit(&[], "sleep 100", OutputPolicy::default()).await.unwrap();
    assert_eq!(terminal.interrupt().await.0.map(|finished| finished.exit_code), Some(130));
    check(&terminal, "echo on", "on", 0).await;
}

#[tokio::test]
async fn the_session_survives_hard_settings() {
    let terminal = bash().await;
    for setting in [
        "set -u",
        "PROMPT_COMMAND= PS1=x PS2=y",
        "set -o pipefail",
        "exec 5>/dev/null",
        "trap 'echo E' ERR",
        "IFS=,",
        "shopt -s nullglob",
    ] {
        check(&terminal, setting, "", 0).await;
    }
    let (output, waited) = run(&terminal, "false").await;
    // Twice: the trap sees the command and the evaluation of it.
    assert_eq!((output.trim_end(), code(&waited)), ("E\nE", 1));
    check(&terminal, "trap - ERR; exec nothing-there", "bash: exec: nothing-there: not found", 127).await;
    check(&terminal, "exec >/dev/null; echo hidden", "", 0).await;
    check(&terminal, "exec >/dev/tty; echo back", "back", 0).await;
    check(&terminal, "echo ${nothing?gone}; true", "bash: nothing: gone", 1).await;
    check(&terminal, "echo on", "on", 0).await;
}

#[tokio::test]
async fn output_cannot_pretend_to_be_the_end() {
    let terminal = bash().await;
    let fake = r"printf '\033]7770;%s\0370\037\037/\037/bin\037%s\007' x x; printf '\033]7771;x\007'; sleep 0.3; echo real; false";
    check(&terminal, fake, "real", 1).await;
    // What the shell knows does not help: the token is not there yet, and the pipe it comes from is closed.
    let spy =
        "set | grep -c '^__oh_word=.'; ls /proc/self/fd | wc -l; (declare -p; cat /proc/$$/environ) >/dev/null; true";
    check(&terminal, spy, "0\n4", 0).await;
}

#[tokio::test]
async fn interrupt_keys_stop_and_continue() {
    let terminal = bash().await;
    for command in [
        "echo go; sleep 100; echo no",
        "echo go; while :; do :; done",
        "echo go; while :; do sleep 0.1; done",
        "echo go; cat",
    ] {
        terminal.submit(&[], command, OutputPolicy::default()).await.unwrap();
        until_shown(&terminal, "go").await;
        let waited = press_until_ended(&terminal, "C-c").await;
        let output = terminal.take_output().text;
        assert_eq!((output.trim().replace("^C", ""), code(&waited)), (String::new(), 130), "{command}");
    }
    terminal.submit(&[], "echo go; sleep 100", OutputPolicy::default()).await.unwrap();
    until_shown(&terminal, "go").await;
    let waited = press_until_ended(&terminal, "C-z").await;
    let output = terminal.take_output().text;
    assert!(output.contains("Stopped"), "{output}");
    assert!(code(&waited) > 128, "{waited:?}");
    let (output, _) = run(&terminal, "jobs; kill %%; fg 2>/dev/null; cd /tmp").await;
    assert!(output.contains("sleep 100"), "{output}");
    check(&terminal, "pwd", "/tmp", 0).await;
}

#[tokio::test]
async fn interactive_programs_take_input() {
    let terminal = bash().await;
    terminal.submit(&[], "read -r line; echo \"got $line\"", OutputPolicy::default()).await.unwrap();
    let patience = Patience { quiet: Some(Duration::from_secs(15)), total: Duration::from_secs(20), until_input: true };
    let begin = Instant::now();
    assert_eq!(terminal.wait(&patience, &CancellationToken::new()).await, Waited::NeedsInput);
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert!(terminal.is_running());
    assert!(matches!(terminal.submit(&[], "ls", OutputPolicy::default()).await, Err(TerminalError::Busy)));
    terminal.send("grüß dich\n".as_bytes()).await.unwrap();
    assert_eq!(end(&terminal).await.0, "grüß dich\ngot grüß dich\n");

    terminal.submit(&[], "python3 -q", OutputPolicy::default()).await.unwrap();
    until_shown(&terminal, ">>> ").await;
    terminal.send(b"6*7\n").await.unwrap();
    until_shown(&terminal, "42").await;
    terminal.send(&key("C-d").unwrap()).await.unwrap();
    assert_eq!(code(&end(&terminal).await.1), 0);
}

#[tokio::test]
async fn time_limits_leave_the_command_running() {
    let terminal = bash().await;
    terminal.submit(&[], "echo a; sleep 1.2; echo b", OutputPolicy::default()).await.unwrap();
    let quiet =
        Patience { quiet: Some(Duration::from_millis(300)), total: Duration::from_secs(20), until_input: false };
    assert_eq!(terminal.wait(&quiet, &CancellationToken::new()).await, Waited::Quiet);
    assert_eq!(terminal.take_output().text.trim_end(), "a");
    let short = Patience { quiet: None, total: Duration::from_millis(100), until_input: false };
    assert_eq!(terminal.wait(&short, &CancellationToken::new()).await, Waited::TimedOut);
    let (output, waited) = end(&terminal).await;
    assert_eq!((output.trim_end(), code(&waited)), ("b", 0));
}

#[tokio::test]
async fn cancelling_ends_everything_but_the_shell() {
    let terminal = bash().await;
    check(&terminal, "trap '' USR1; x=kept; cd /tmp", "", 0).await;
    for command in [
        "echo go; sleep 1000",
        "echo go; (trap '' INT TERM; while :; do sleep 1; done)",
        "echo go; while :; do sleep 0.05; done",
    ] {
        terminal.submit(&[], command, OutputPolicy::default()).await.unwrap();
        until_shown(&terminal, "go").await;
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert_eq!(terminal.wait(&patience(20), &cancel).await, Waited::Cancelled);
        assert!(terminal.interrupt().await.0.is_some(), "{command}");
        check(&terminal, "echo $x $PWD", "kept /tmp", 0).await;
    }
}

#[tokio::test]
async fn closing_kills_background_processes_and_ends_a_wait() {
    let terminal = Arc::new(bash().await);
    let (output, _) = run(&terminal, "sleep 1000 & echo $!").await;
    let pid: i32 = output.trim().parse().unwrap();
    terminal.submit(&[], "sleep 1000", OutputPolicy::default()).await.unwrap();
    let waiting = tokio::spawn({
        let terminal = Arc::clone(&terminal);
        async move { terminal.wait(&patience(20), &CancellationToken::new()).await }
    });
    terminal.close().await;
    assert_eq!(waiting.await.unwrap(), Waited::Ended(Some(-9)));
    let deadline = Instant::now() + Duration::from_secs(5);
    while std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    assert!(matches!(terminal.submit(&[], "ls", OutputPolicy::default()).await, Err(TerminalError::Ended)));
}

#[tokio::test]
async fn leaving_the_shell_is_seen() {
    let terminal = bash().await;
    assert_eq!(run(&terminal, "echo bye; exit 3").await, ("bye\n".to_owned(), Waited::Ended(Some(3))));
    assert!(terminal.has_ended());
}

#[tokio::test]
async fn ten_megabytes_are_bounded_and_complete_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let terminal = bash().await;
    let policy = OutputPolicy { shown: 0, directory: Some(directory.path().to_owned()), mask: None };
    let command =
        "i=0; line=$(printf '%0100d' 0); for i in $(seq 1000); do printf \"$i %s\\n\" $(yes $line | head -n 100); done";
    terminal.submit(&[], command, policy).await.unwrap();
    let waited = terminal.wait(&patience(60), &CancellationToken::new()).await;
    let output = terminal.take_output();
    assert_eq!(code(&waited), 0);
    assert!(output.characters > 10_000_000 && output.text.chars().count() <= 30_000);
    assert!(output.text.starts_with("1 000") && output.text.contains("characters left out"));
    let file = std::fs::read_to_string(output.file.unwrap()).unwrap();
    assert_eq!(file.lines().count(), 100_000);
    assert_eq!(file.chars().count() as u64, output.characters);
}

#[tokio::test]
async fn exports_are_set_and_not_shown() {
    let terminal = bash().await;
    let exports = [("TOKEN".to_owned(), "it's\na secret".to_owned())];
    terminal.submit(&exports, "set -x; echo \"${#TOKEN}\"; set +x; history", OutputPolicy::default()).await.unwrap();
    let (output, _) = end(&terminal).await;
    assert!(output.contains("\n13\n") && !output.contains("a secret"), "{output}");
    check(&terminal, "env | grep -c TOKEN", "1", 0).await;
}

#[tokio::test]
async fn output_of_background_processes_is_handed_over() {
    let terminal = bash().await;
    check(&terminal, "(sleep 0.2; echo late; touch /tmp/.late-$$) & true", "", 0).await;
    check(&terminal, "wait", "late", 0).await;
}

#[tokio::test]
async fn start_files_are_read_and_bad_ones_survived() {
    let home = tempfile::tempdir().unwrap();
    let mut options = TerminalOptions { start_files: true, ..options(home.path()) };
    options.environment.insert("HOME".into(), home.path().into());
    std::fs::write(
        home.path().join(".bashrc"),
        "echo noise; export FROM_RC=1; PROMPT_COMMAND='echo mine'; declare z=1",
    )
    .unwrap();
    let terminal = Terminal::start(&options).await.unwrap();
    check(&terminal, "echo $FROM_RC $z", "1 1", 0).await;
    check(&terminal, "env | grep -E '^(PROMPT_COMMAND|PS1|__oh)' | wc -l", "0", 0).await;
    std::fs::write(home.path().join(".bashrc"), "exit 4").unwrap();
    let terminal = Terminal::start(&options).await.unwrap();
    check(&terminal, "echo on", "on", 0).await;
}

#[tokio::test]
async fn the_shell_is_first_to_go_and_has_no_foreign_descriptors() {
    let terminal = bash().await;
    check(
        &terminal,
        "cat /proc/self/oom_score_adj; ps -o tty= -p $$ | grep -c pts; (ls /proc/self/fd | head -3)",
        "1000\n1\n0\n1\n2",
        0,
    )
    .await;
}

#[tokio::test]
async fn a_fast_start_and_little_overhead() {
    let begin = Instant::now();
    let terminal = bash().await;
    let started = begin.elapsed();
    let begin = Instant::now();
    for _ in 0..50 {
        run(&terminal, "true").await;
    }
    let each = begin.elapsed() / 50;
    println!("start {started:?}, command {each:?}");
    // Wide limits: the machine may be busy.
    assert!(started < Duration::from_secs(2) && each < Duration::from_millis(100), "{started:?} {each:?}");
}

#[tokio::test]
async fn programs_leave_nothing_behind_for_the_next() {
    let terminal = bash().await;
    terminal
        .submit(&[], "stty -echo raw; printf '\\033[?1049h'; echo go; sleep 0.3", OutputPolicy::default())
        .await
        .unwrap();
    until_shown(&terminal, "go").await;
    terminal.send(b"left over\n").await.unwrap();
    assert_eq!(code(&end(&terminal).await.1), 0);
    let (output, _) =
        run(&terminal, "stty -a | grep -ow -- '-\\?echo' | head -1; read -r -t 0.1 x; echo \"<$x>\"").await;
    assert_eq!(output, "echo\n<>\n");
}

#[tokio::test]
async fn interrupts_at_any_moment_leave_a_working_shell() {
    let terminal = bash().await;
    let interrupted = AtomicUsize::new(0);
    for round in 0..300_u64 {
        terminal.submit(&[], "true", OutputPolicy::default()).await.unwrap();
        // From before the command is read to after its token is taken.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(round * 3) {
            std::hint::spin_loop();
        }
        terminal.send(&key("C-c").unwrap()).await.unwrap();
        match terminal.wait(&patience(5), &CancellationToken::new()).await {
            Waited::Finished(finished) => {
                interrupted.fetch_add(usize::from(finished.exit_code == 130), Ordering::Relaxed);
            }
            other => panic!("round {round}: {other:?}"),
        }
        let _ = terminal.take_output();
        if round % 10 == 0 {
            let command = format!("echo {round} >&2");
            let (mut output, mut waited) = run(&terminal, &command).await;
            if code(&waited) == 130 {
                // The key came when the command had ended and hit this one.
                (output, waited) = run(&terminal, &command).await;
            }
            // The echo of a late key may come first.
            let shown = output.trim_start_matches("^C").trim();
            assert_eq!((shown, code(&waited)), (round.to_string().as_str(), 0));
        }
    }
    println!("{interrupted:?} of 300 commands were hit");
}

#[tokio::test]
async fn a_large_command_is_taken_whole() {
    let terminal = bash().await;
    let text = "0123456789abcde\n".repeat(20_000);
    let begin = Instant::now();
    check(&terminal, &format!("wc -c <<'EOF'\n{text}EOF"), "320000", 0).await;
    println!("320 KB took {:?}", begin.elapsed());
}

#[tokio::test]
async fn a_shell_that_ignores_interrupts_is_given_up() {
    let terminal = bash().await;
    terminal.submit(&[], "trap '' INT; echo go; while :; do :; done", OutputPolicy::default()).await.unwrap();
    until_shown(&terminal, "go").await;
    assert_eq!(terminal.interrupt().await.0, None);
    terminal.close().await;
    assert!(terminal.has_ended());
}
