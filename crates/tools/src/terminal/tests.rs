//! The tool on real shells.

use std::{collections::BTreeMap, time::Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::SecretLookup;

struct Secrets;

impl SecretLookup for Secrets {
    fn mentioned(&self, text: &str) -> Vec<(String, String)> {
        let secret = ("API_TOKEN".to_owned(), "s3cr3t-value".to_owned());
        text.to_lowercase().contains("api_token").then_some(secret).into_iter().collect()
    }

    fn mask(&self, text: &str) -> String {
        text.replace("s3cr3t-value", "<secret-hidden>")
    }
}

struct Bench {
    directory: tempfile::TempDir,
    tool: Arc<TerminalTool>,
    cancel: CancellationToken,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = TerminalSettings { quiet: Duration::from_secs(20), ..TerminalSettings::default() };
        let tool = Arc::new(TerminalTool::new(settings, directory.path().join("work")));
        Self { directory, tool, cancel: CancellationToken::new() }
    }

    fn context(&self) -> ToolContext {
        ToolContext {
            working_dir: self.directory.path().join("work"),
            observations_dir: Some(self.directory.path().join("observations")),
            environment: BTreeMap::from([
                ("FROM_INIT".to_owned(), "yes".to_owned()),
                ("HOME".to_owned(), self.directory.path().display().to_string()),
            ]),
            cancel: self.cancel.clone(),
            secrets: Arc::new(Secrets),
            models: None,
        }
    }

    async fn call(&self, arguments: Value) -> Value {
        let action = self.tool.action(arguments).unwrap();
        self.tool.run(&action, &self.context()).await.unwrap().body
    }

    async fn command(&self, command: &str) -> Value {
        self.call(json!({"command": command})).await
    }

    /// Text, exit code and suffix.
    async fn brief(&self, arguments: Value) -> (String, Value, String) {
        brief(&self.call(arguments).await)
    }
}

fn brief(body: &Value) -> (String, Value, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&body["content"][0]["text"]), body["exit_code"].clone(), text(&body["metadata"]["suffix"]))
}

#[tokio::test]
async fn an_observation_has_the_protocols_members() {
    let bench = Bench::new();
    let body = bench.command("echo hello-$((40+2)) && pwd; (exit 3)").await;
    let work = bench.directory.path().join("work").display().to_string();
    let account = openhands_workspace::terminal::Account::current();
    assert_eq!(
        body,
        json!({
            "content": [{"type": "text", "cache_prompt": false, "text": format!("hello-42\n{work}")}],
            "is_error": false,
            "command": "echo hello-$((40+2)) && pwd; (exit 3)",
            "exit_code": 3,
            "timeout": false,
            "metadata": {
                "exit_code": 3, "pid": -1, "username": account.user, "hostname": account.host, "working_dir": work,
                "py_interpreter_path": body["metadata"]["py_interpreter_path"], "prefix": "", "suffix": ""},
            "full_output_save_dir": bench.directory.path().join("observations").display().to_string(),
            "kind": "TerminalObservation"})
    );
    assert!(body["metadata"]["py_interpreter_path"].as_str().unwrap().contains("python"));
    let action = bench.tool.action(json!({"command": "ls", "timeout": "5"})).unwrap();
    assert_eq!(
        action,
        json!({"command": "ls", "is_input": false, "timeout": 5.0, "reset": false, "kind": "TerminalAction"})
    );
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let bench = Bench::new();
    for (arguments, part) in [
        (json!({"cmd": "x"}), "unknown field `cmd`"),
        (json!({}), "missing field `command`"),
        (json!({"command": "x", "timeout": -1}), "`timeout` is -1"),
        (json!({"command": "x", "is_input": true, "reset": true}), "exclude each other"),
        (json!({"command": "a\u{0}b"}), "NUL"),
    ] {
        let wrong = bench.tool.action(arguments).unwrap_err().0;
        assert!(wrong.starts_with("terminal: ") && wrong.contains(part), "{wrong}");
    }
    let settings = TerminalSettings { foreground_limit: Some(Duration::from_secs(90)), ..TerminalSettings::default() };
    let tool = TerminalTool::new(settings, "/".into());
    assert!(tool.action(json!({"command": "make", "timeout": 91})).unwrap_err().0.contains("90 seconds at most"));
    assert!(tool.action(json!({"command": "make", "timeout": 90})).is_ok());
}

#[tokio::test]
async fn state_stays_and_the_environment_is_clean() {
    let bench = Bench::new();
    bench.command("cd /tmp; export X=1; y=2").await;
    assert_eq!(bench.command("echo $X $y $PWD $FROM_INIT").await["content"][0]["text"], "1 2 /tmp yes");
    assert_eq!(bench.command("env | grep -cE '^(OH_|LLM_|PROMPT_COMMAND|__oh)'").await["content"][0]["text"], "0");
}

#[tokio::test]
async fn a_broken_command_is_not_begun() {
    let bench = Bench::new();
    let body = bench.command("touch begun\necho 'open").await;
    assert_eq!((&body["is_error"], &body["exit_code"]), (&json!(true), &json!(2)));
    let suffix = body["metadata"]["suffix"].as_str().unwrap();
    assert!(suffix.contains("Not executed") && suffix.contains("line 2"), "{suffix}");
    assert!(!bench.directory.path().join("work/begun").exists());
}

#[tokio::test]
async fn long_commands_come_back_and_can_be_spoken_to() {
    let bench = Bench::new();
    let body = bench
        .call(
            json!({"command": "echo start; read -r a; echo \"<$a>\"; sleep 0.2; exit_code() { return 4; }; exit_code"}),
        )
        .await;
    let (text, code, suffix) = brief(&body);
    assert_eq!((text.as_str(), &code), ("start", &json!(-1)));
    assert!(suffix.contains("seems to wait for input"), "{suffix}");
    let body = bench.command("ls").await;
    assert_eq!((&body["is_error"], &body["exit_code"]), (&json!(true), &json!(-1)));
    assert!(brief(&body).2.contains("Not executed"));
    let (text, code, _) = bench.brief(json!({"command": "words", "is_input": true})).await;
    assert_eq!((text.as_str(), code), ("words\n<words>", json!(4)));

    let body = bench.call(json!({"command": "echo a; sleep 0.7; echo b", "timeout": 0.3})).await;
    assert_eq!((brief(&body).0.as_str(), &body["exit_code"], &body["timeout"]), ("a", &json!(-1), &json!(true)));
    let body = bench.command("").await;
    assert_eq!((brief(&body).0.as_str(), &body["exit_code"]), ("b", &json!(0)));
    assert!(body["metadata"]["prefix"].as_str().unwrap().contains("command started earlier"));
    let body = bench.command("").await;
    assert_eq!((&body["is_error"], body["exit_code"].is_null()), (&json!(true), true));
    assert!(brief(&body).0.contains("No command is running"));
    assert_eq!(bench.call(json!({"command": "C-c", "is_input": true})).await["is_error"], true);

    bench.call(json!({"command": "sleep 100", "timeout": 0.1})).await;
    assert_eq!(bench.command("C-c").await["exit_code"], 130);
    bench.call(json!({"command": "sleep 100", "timeout": 0.1})).await;
    let (text, code, suffix) = bench.brief(json!({"command": "C-c", "is_input": true})).await;
    assert_eq!((text.as_str(), code, suffix.as_str()), ("^C", json!(130), "\n[The command ended after C-c.]"));
}

#[tokio::test]
async fn silence_brings_a_command_back() {
    let directory = tempfile::tempdir().unwrap();
    let settings = TerminalSettings { quiet: Duration::from_millis(300), ..TerminalSettings::default() };
    let bench =
        Bench { tool: Arc::new(TerminalTool::new(settings, "/".into())), directory, cancel: CancellationToken::new() };
    let (text, code, suffix) = bench.brief(json!({"command": "echo a; sleep 1; echo b; sleep 100"})).await;
    assert_eq!((text.as_str(), code), ("a", json!(-1)));
    assert!(suffix.contains("Nothing new for 0.3 seconds"), "{suffix}");
    // Steady output is no silence.
    bench.call(json!({"command": "", "reset": true})).await;
    let (text, code, _) = bench.brief(json!({"command": "for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done"})).await;
    assert_eq!((text.as_str(), code), ("1\n2\n3\n4\n5\n6", json!(0)));
}

#[tokio::test]
async fn what_ended_unseen_is_told_with_the_next_command() {
    let bench = Bench::new();
    let body =
        bench.call(json!({"command": "echo a; sleep 0.3; echo late; touch done; (exit 9)", "timeout": 0.1})).await;
    assert_eq!(body["exit_code"], -1);
    let deadline = Instant::now() + Duration::from_secs(10);
    while bench.tool.current().unwrap().unseen_end().is_none() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let body = bench.command("echo next").await;
    assert_eq!(brief(&body).0, "next");
    let prefix = body["metadata"]["prefix"].as_str().unwrap();
    assert!(prefix.contains("exit code 9") && prefix.contains("late"), "{prefix}");
}

#[tokio::test]
async fn reset_and_a_lost_shell() {
    let bench = Bench::new();
    bench.command("cd /; x=1").await;
    let body = bench.call(json!({"command": "echo \"$x\" $(basename $PWD)", "reset": true})).await;
    assert_eq!((brief(&body).0.as_str(), &body["command"]), (" work", &json!("[RESET] echo \"$x\" $(basename $PWD)")));
    let body = bench.call(json!({"command": "", "reset": true})).await;
    assert_eq!((&body["is_error"], &body["command"]), (&json!(false), &json!("[RESET]")));
    assert!(brief(&body).0.contains("new terminal"));

    bench.command("cd /usr").await;
    let (text, code, suffix) = bench.brief(json!({"command": "echo bye; exit 3"})).await;
    assert_eq!((text.as_str(), code), ("bye", json!(3)));
    assert!(suffix.contains("shell itself ended with exit code 3") && suffix.contains("/usr"), "{suffix}");
    assert_eq!(bench.command("pwd").await["content"][0]["text"], "/usr");
    let (_, code, suffix) = bench.brief(json!({"command": "kill -9 $$"})).await;
    assert_eq!(code, json!(-9), "{suffix}");
    assert_eq!(bench.command("pwd").await["content"][0]["text"], "/usr");
}

#[tokio::test]
async fn cancelling_stops_the_command_and_keeps_the_shell() {
    let bench = Bench::new();
    bench.command("x=kept").await;
    let canceller = tokio::spawn({
        let (cancel, tool) = (bench.cancel.clone(), Arc::clone(&bench.tool));
        async move {
            while !tool.current().is_some_and(|terminal| terminal.is_running()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            cancel.cancel();
        }
    });
    let begin = Instant::now();
    let (_, code, suffix) = bench.brief(json!({"command": "echo a; sleep 1000", "timeout": 500})).await;
    canceller.await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(code, json!(130));
    assert!(suffix.contains("Interrupted; the command was stopped"), "{suffix}");
    // With the token still set nothing is started.
    assert!(brief(&bench.command("touch no").await).0.contains("not executed"));
    let bench = Bench { cancel: CancellationToken::new(), ..bench };
    assert_eq!(bench.command("echo $x; ls").await["content"][0]["text"], "kept");
}

#[tokio::test]
async fn secrets_reach_commands_and_not_outputs() {
    let bench = Bench::new();
    assert_eq!(bench.command("env | grep -c S3 ; true").await["content"][0]["text"], "0");
    let body = bench.command("echo \"$API_TOKEN\"; test \"$API_TOKEN\" = 's3cr3t'-value && echo same").await;
    assert_eq!(body["content"][0]["text"], "<secret-hidden>\nsame");
    let body = bench.command("for i in $(seq 3000); do echo \"$i API_TOKEN is $API_TOKEN\"; done").await;
    assert!(!body.to_string().contains("s3cr3t-value"));
    let file = std::fs::read_dir(bench.directory.path().join("observations")).unwrap().next().unwrap().unwrap();
    let whole = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(whole, (1..=3000).map(|n| format!("{n} API_TOKEN is <secret-hidden>\n")).collect::<String>());
}

#[tokio::test]
async fn calls_at_the_same_time_take_turns() {
    let bench = Arc::new(Bench::new());
    let calls: Vec<_> = (0..8)
        .map(|n| {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move { bench.command(&format!("echo {n}; sleep 0.02; echo {n}")).await })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap()["content"][0]["text"], format!("{n}\n{n}"));
    }
}

#[tokio::test]
async fn closing_ends_a_running_command() {
    let bench = Arc::new(Bench::new());
    let running = tokio::spawn({
        let bench = Arc::clone(&bench);
        async move { bench.command("echo begun; sleep 1000").await }
    });
    while !bench.tool.current().is_some_and(|terminal| terminal.is_running()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bench.tool.close().await;
    let body = running.await.unwrap();
    assert!(brief(&body).2.contains("closed"), "{body}");
    let action = bench.tool.action(json!({"command": "ls"})).unwrap();
    assert_eq!(bench.tool.run(&action, &bench.context()).await, Err(ToolError("the terminal is closed".to_owned())));
}
