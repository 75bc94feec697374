//! An agent-server as a process: ours, or the Python one whose clients must not notice a difference. Knows both only as
//! programs with a port.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{control_plane::free_ports, http, process::Process, tier, wait};

/// The Python server imports for long seconds.
const START: Duration = Duration::from_secs(180);
const ANSWER: Duration = Duration::from_secs(60);
/// One turn of a conversation with a scripted model.
const TURN: Duration = Duration::from_secs(120);

/// One running server with a folder of its own; ends when it is dropped.
#[derive(Debug)]
pub struct AgentServer {
    /// Its address, without a slash at the end.
    pub url: String,
    /// The process.
    pub process: Process,
    folder: TempDir,
}

impl AgentServer {
    /// Our binary: `OPENHANDS_AGENT_SERVER_BIN`, or the one in the target folder.
    ///
    /// # Errors
    /// When it is missing or not ready in time; with its last words.
    pub async fn ours(variables: &[(&str, &str)]) -> Result<Self> {
        let program = tier::built("openhands-agent-server", "OPENHANDS_AGENT_SERVER_BIN")?;
        Self::start("ours", &program, &[], variables).await
    }

    /// The Python server of the environment that `OPENHANDS_REFERENCE_PYTHON` names.
    ///
    /// # Errors
    /// As [`AgentServer::ours`].
    pub async fn reference() -> Result<Self> {
        let python = tier::python("OPENHANDS_REFERENCE_PYTHON")?;
        // Without the first it looks for a price list on the network before it starts.
        let variables = [("LITELLM_LOCAL_MODEL_COST_MAP", "True"), ("OPENHANDS_SUPPRESS_BANNER", "1")];
        Self::start("reference", &python, &["-m", "openhands.agent_server"], &variables).await
    }

    async fn start(name: &str, program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let home = folder.path().join("home");
        std::fs::create_dir_all(&home)?;
        let home = home.display().to_string();
        let data = |name: &str| folder.path().join(name).display().to_string();
        let (conversations, bash) = (data("conversations"), data("bash"));
        let [port] = free_ports()?;
        let port = port.to_string();
        let arguments = [arguments, &["--host", "127.0.0.1", "--port", &port]].concat();
        let own = [
            ("HOME", home.as_str()),
            ("OH_SECRET_KEY", "scenario-secret"),
            ("OH_CONVERSATIONS_PATH", &conversations),
            ("OH_BASH_EVENTS_DIR", &bash),
        ];
        let variables = [own.as_slice(), variables].concat();
        let process = Process::start(name, folder.path(), program, &arguments, &variables)?;
        let server = Self { url: format!("http://127.0.0.1:{port}"), process, folder };
        let ready = format!("{}/ready", server.url);
        let is_ready = || async {
            if !server.process.runs() {
                return Ok(Some(false));
            }
            Ok((http::get(&ready).await?.status == 200).then_some(true))
        };
        match wait::until("the server is ready", START, is_ready).await {
            Ok(true) => Ok(server),
            Ok(false) => bail!("the server has ended\n{}", server.process.said()),
            Err(error) => Err(error.context(server.process.said())),
        }
    }

    /// Its folder; conversations may work below it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// One request; the answer as JSON, null without a body.
    ///
    /// # Errors
    /// When it does not answer, or with a status that is no success.
    pub async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let url = format!("{}{path}", self.url);
        let answer = http::request_within(ANSWER, method, &url, &[("content-type", "application/json")], &body).await?;
        if !(200..300).contains(&answer.status) {
            bail!("{method} {path}: {} {}", answer.status, answer.body);
        }
        Ok(serde_json::from_str(&answer.body).unwrap_or_default())
    }

    /// Creates a conversation of an agent with this model and these tools; gives its id.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn create(&self, llm: &Value, tools: &[&str]) -> Result<String> {
        let tools: Vec<Value> = tools.iter().map(|name| json!({"name": name, "params": {}})).collect();
        let body = json!({
            "agent": {"kind": "Agent", "llm": llm, "tools": tools},
            "workspace": {"kind": "LocalWorkspace", "working_dir": self.folder().join("work")},
            "autotitle": false,
        });
        let made = self.ask("POST", "/api/conversations", &body).await?;
        made.get("id").and_then(Value::as_str).map(ToOwned::to_owned).with_context(|| format!("no id in {made}"))
    }

    /// Says something to the agent and waits for the end of its turn; gives the status.
    ///
    /// # Errors
    /// When the turn does not end in time; with the last words of the server.
    pub async fn say(&self, id: &str, content: &Value) -> Result<String> {
        let before = self.runs(id).await?;
        let message = json!({"role": "user", "content": content, "run": true});
        self.ask("POST", &format!("/api/conversations/{id}/events"), &message).await?;
        let ended = || async {
            if self.runs(id).await? <= before {
                return Ok(None);
            }
            let info = self.ask("GET", &format!("/api/conversations/{id}"), &Value::Null).await?;
            let status = info.get("execution_status").and_then(Value::as_str).unwrap_or_default().to_owned();
            Ok((!["idle", "running"].contains(&status.as_str())).then_some(status))
        };
        wait::until("the turn ends", TURN, ended).await.with_context(|| self.process.said())
    }

    /// How often the conversation began to run: each beginning is in its log.
    async fn runs(&self, id: &str) -> Result<usize> {
        let path = format!("/api/conversations/{id}/events/search?limit=100");
        let page = self.ask("GET", &path, &Value::Null).await?;
        let events = page.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let begins = |event: &&Value| event["key"] == "execution_status" && event["value"] == "running";
        Ok(events.iter().filter(begins).count())
    }
}
