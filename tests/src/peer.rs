//! Other people's model servers as processes: LiteLLM's proxy in front of scripted models, and llama.cpp with a model of random
//! weights. Knows how they are started, not what is asked of them.

use std::{path::Path, time::Duration};

use anyhow::{Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::{control_plane::free_ports, http, process::Process, tier, wait};

/// Both import for long seconds.
const START: Duration = Duration::from_secs(180);

/// One running server with a folder of its own; ends when it is dropped.
#[derive(Debug)]
pub struct Peer {
    /// Its address, without a slash at the end.
    pub url: String,
    /// The process.
    pub process: Process,
    _folder: TempDir,
}

impl Peer {
    /// LiteLLM's proxy of the environment that `OPENHANDS_LITELLM_PYTHON` names, with this configuration.
    ///
    /// # Errors
    /// When it is missing or not alive in time; with its last words.
    pub async fn litellm(config: &Value) -> Result<Self> {
        let python = tier::python("OPENHANDS_LITELLM_PYTHON")?;
        let folder = tempfile::tempdir()?;
        // JSON is YAML.
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config.to_string())?;
        let [port] = free_ports()?;
        let arguments =
            ["-m", "litellm.proxy.proxy_cli", "--host", "127.0.0.1", "--port", &port.to_string(), "--config"]
                .map(ToOwned::to_owned)
                .into_iter()
                .chain([file.display().to_string()]);
        let home = folder.path().display().to_string();
        // It fetches price lists and counts its users otherwise.
        let variables = [("LITELLM_LOCAL_MODEL_COST_MAP", "True"), ("LITELLM_TELEMETRY", "False"), ("HOME", &home)];
        let process = Process::start("litellm", folder.path(), &python, arguments, &variables)?;
        let peer = Self { url: format!("http://127.0.0.1:{port}"), process, _folder: folder };
        peer.answers("/health/liveliness").await
    }

    /// llama.cpp's server of the environment that `OPENHANDS_LLAMA_PYTHON` names, with a context of so many tokens. With `calls`
    /// its model begins every answer with a tool call.
    ///
    /// # Errors
    /// As [`Peer::litellm`].
    pub async fn llama(context: u32, calls: bool) -> Result<Self> {
        let python = tier::python("OPENHANDS_LLAMA_PYTHON")?;
        let folder = tempfile::tempdir()?;
        let script = tier::repository().join("tests/fixtures/llama_server.py");
        let [port] = free_ports()?;
        let arguments = [
            script.display().to_string(),
            folder.path().display().to_string(),
            "--context".to_owned(),
            context.to_string(),
            "--port".to_owned(),
            port.to_string(),
        ];
        let arguments = arguments.into_iter().chain(calls.then(|| "--calls".to_owned()));
        let process = Process::start("llama", folder.path(), Path::new(&python), arguments, &[])?;
        let peer = Self { url: format!("http://127.0.0.1:{port}"), process, _folder: folder };
        peer.answers("/health").await
    }

    async fn answers(self, path: &str) -> Result<Self> {
        let url = format!("{}{path}", self.url);
        let is_alive = || async {
            if !self.process.runs() {
                return Ok(Some(false));
            }
            Ok((http::get(&url).await?.status == 200).then_some(true))
        };
        match wait::until("the peer answers", START, is_alive).await {
            Ok(true) => Ok(self),
            Ok(false) => bail!("the peer has ended\n{}", self.process.said()),
            Err(error) => Err(error.context(self.process.said())),
        }
    }
}
