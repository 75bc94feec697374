//! The parent process, with the real binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// A supervised server; killed with its child when dropped.
struct Supervised {
    parent: Child,
    url: String,
    folder: tempfile::TempDir,
}

impl Drop for Supervised {
    fn drop(&mut self) {
        for pid in self.children() {
            kill(pid, "KILL");
        }
        let _ = self.parent.kill();
        let _ = self.parent.wait();
    }
}

fn kill(pid: u32, signal: &str) {
    let _ = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn command(port: u16, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openhands-agent-server"));
    command
        .args(["--supervise", "--host", "127.0.0.1", "--port", &port.to_string(), "--grace-seconds", "5"])
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stderr(fs::File::create(folder.join("log")).unwrap());
    command
}

impl Supervised {
    async fn start(variables: &[(&str, &str)]) -> Self {
        let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
        let parent = command(port, folder.path()).envs(variables.iter().copied()).spawn().unwrap();
        let server = Self { parent, url: format!("http://127.0.0.1:{port}"), folder };
        server.wait("the server is ready", async || server.status("/ready", None).await == Some(200)).await;
        server
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The parent's children, zombies included.
    fn children(&self) -> Vec<u32> {
        let pid = self.parent.id();
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    async fn status(&self, path: &str, key: Option<&str>) -> Option<u16> {
        let client = openhands_llm::http_client().unwrap();
        let mut request = client.get(format!("{}{path}", self.url)).timeout(Duration::from_secs(5));
        if let Some(key) = key {
            request = request.header("X-Session-API-Key", key);
        }
        Some(request.send().await.ok()?.status().as_u16())
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let client = openhands_llm::http_client().unwrap();
        let answer = client
            .post(format!("{}{path}", self.url))
            .header("X-Session-API-Key", "key")
            .timeout(Duration::from_secs(10))
            .json(body)
            .send()
            .await
            .unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn wait(&self, what: &str, mut condition: impl AsyncFnMut() -> bool) -> Duration {
        let start = Instant::now();
        while !condition().await {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}: never; log: {}", self.log());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        start.elapsed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_comes_back_initialised() {
    let server = Supervised::start(&[("OH_DEFERRED_INIT", "1")]).await;
    assert_eq!(server.status("/api/conversations/count", None).await, Some(503));
    let body = json!({"session_api_keys": ["key"], "env": {"KEPT": "yes"}});
    assert_eq!(server.post("/api/init", &body).await.0, 200);
    for _ in 0..2 {
        let [child] = server.children()[..] else { panic!("{:?}", server.children()) };
        kill(child, "KILL");
        let took = server
            .wait("it serves again", async || {
                server.children().iter().any(|pid| *pid != child)
                    && server.status("/api/conversations/count", Some("key")).await == Some(200)
            })
            .await;
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    assert_eq!(server.status("/api/conversations/count", None).await, Some(401));
    let (_, ran) = server.post("/api/bash/execute_bash_command", &json!({"command": "echo $KEPT"})).await;
    assert_eq!(ran["stdout"], "yes\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_reaped() {
    let server = Supervised::start(&[]).await;
    let [child] = server.children()[..] else { panic!("{:?}", server.children()) };
    let orphan = json!({"command": "sh -c 'sleep 0.3 >/dev/null 2>&1 </dev/null & echo $!'"});
    let (_, ran) = server.post("/api/bash/execute_bash_command", &orphan).await;
    let pid: u32 = ran["stdout"].as_str().unwrap().trim().parse().unwrap();
    server
        .wait("the orphan is gone, not a zombie", async || {
            server.children() == [child] && !Path::new(&format!("/proc/{pid}")).exists()
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_end_drains_and_is_bounded() {
    let mut server = Supervised::start(&[]).await;
    let (status, _) = server.post("/api/bash/start_bash_command", &json!({"command": "trap '' TERM; sleep 60"})).await;
    assert_eq!(status, 200);
    kill(server.parent.id(), "TERM");
    let start = Instant::now();
    let code = loop {
        if let Some(status) = server.parent.try_wait().unwrap() {
            break status.code();
        }
        assert!(start.elapsed() < Duration::from_secs(15), "it does not end; log: {}", server.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(code, Some(0), "{}", server.log());
    assert_eq!(server.status("/health", None).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_start_is_not_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let status = command(free_port(), folder.path()).env("OH_MAX_CONCURRENT_RUNS", "many").status().unwrap();
    assert_eq!(status.code(), Some(78));
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("OH_MAX_CONCURRENT_RUNS: expected a whole number"), "{log}");
    assert_eq!(log.matches("cannot be used").count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_ends_with_its_parent() {
    let mut server = Supervised::start(&[]).await;
    let [child] = server.children()[..] else { panic!("{:?}", server.children()) };
    server.parent.kill().unwrap();
    server.parent.wait().unwrap();
    server.wait("the server ends too", async || server.status("/health", None).await.is_none()).await;
    server
        .wait("its process is gone", async || {
            let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_killed_after_its_grace() {
    let mut server = Supervised::start(&[]).await;
    let [child] = server.children()[..] else { panic!("{:?}", server.children()) };
    kill(child, "STOP");
    kill(server.parent.id(), "TERM");
    let start = Instant::now();
    let code = loop {
        if let Some(status) = server.parent.try_wait().unwrap() {
            break status.code();
        }
        assert!(start.elapsed() < Duration::from_secs(20), "it does not end; log: {}", server.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(code, Some(128 + 9), "{}", server.log());
}
