//! The token file of a plan is the same for the Python SDK and for us: each reads, renews and removes what the other wrote.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use openhands_protocol::secret::SecretText;
use openhands_subscription::{CredentialStore, OAuthCredentials, Vendor};
use openhands_tests::{needs, tier};
use serde_json::{Value, json};

/// Does what it is told with the SDK's own store, a line each, and answers what that holds then.
const SDK: &str = r#"
import json, sys
from pathlib import Path
from openhands.sdk.llm.auth import CredentialStore, OAuthCredentials

store = CredentialStore(Path(sys.argv[1]))
for line in sys.stdin:
    command = json.loads(line)
    if "save" in command:
        store.save(OAuthCredentials(**command["save"]))
    if "update" in command:
        store.update_tokens("openai", **command["update"])
    if "delete" in command:
        store.delete("openai")
    held = store.get("openai")
    print("HELD " + json.dumps(held and {**held.model_dump(), "is_expired": held.is_expired()}), flush=True)
"#;

/// The SDK's store in a process of its own; it ends when its input does.
struct Sdk {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Sdk {
    fn start(dir: &Path) -> Result<Self> {
        let mut process = Command::new(tier::python("OPENHANDS_SDK_PYTHON")?)
            .args(["-c", SDK, &dir.display().to_string()])
            .envs([("LITELLM_LOCAL_MODEL_COST_MAP", "True"), ("OPENHANDS_SUPPRESS_BANNER", "1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take().context("its input")?;
        let output = BufReader::new(process.stdout.take().context("its output")?).lines();
        Ok(Self { _process: process, input, output })
    }

    fn tell(&mut self, command: &Value) -> Result<Value> {
        writeln!(self.input, "{command}")?;
        loop {
            let line = self.output.next().context("the SDK has ended, its errors are above")??;
            if let Some(held) = line.strip_prefix("HELD ") {
                return Ok(serde_json::from_str(held)?);
            }
        }
    }
}

#[test]
fn the_token_file_is_shared_with_the_sdk() -> Result<()> {
    needs!(Sdk);
    let home = tempfile::tempdir()?;
    let dir = home.path().join("auth");
    let store = CredentialStore::new(&dir);
    let mut sdk = Sdk::start(&dir)?;
    let far = jiff::Timestamp::now().as_millisecond() + 3_600_000;
    let ours = OAuthCredentials {
        vendor: Vendor::OpenAi,
        access_token: SecretText::new("access 1"),
        refresh_token: SecretText::new("refresh 1"),
        expires_at: far,
        account_id: Some("account".to_owned()),
        issuer: None,
    };
    store.save(&ours)?;
    let expected = json!({
        "type": "oauth", "vendor": "openai", "access_token": "access 1", "refresh_token": "refresh 1", "expires_at": far,
        "is_expired": false,
    });
    ensure!(sdk.tell(&json!({}))? == expected, "it reads what we wrote");

    let renewed =
        sdk.tell(&json!({"update": {"access_token": "access 2", "refresh_token": null, "expires_in": 30}}))?;
    let read = store.get(Vendor::OpenAi)?.context("what it renewed")?;
    ensure!(read.access_token.expose() == "access 2" && read.refresh_token.expose() == "refresh 1");
    ensure!(json!(read.expires_at) == renewed["expires_at"]);
    ensure!(renewed["is_expired"] == json!(true) && read.is_expired(), "the last minute counts as over for both");

    store.update_tokens(Vendor::OpenAi, "access 3", Some("refresh 3"), Some(3600))?;
    let seen = sdk.tell(&json!({}))?;
    ensure!(seen["refresh_token"] == json!("refresh 3") && seen["is_expired"] == json!(false));

    let save = json!({"vendor": "openai", "access_token": "ä\"\\", "refresh_token": "r", "expires_at": 12});
    sdk.tell(&json!({ "save": save }))?;
    let read = store.get(Vendor::OpenAi)?.context("what it saved")?;
    ensure!(read.access_token.expose() == "ä\"\\" && read.expires_at == 12);

    ensure!(sdk.tell(&json!({"delete": true}))? == Value::Null);
    ensure!(store.get(Vendor::OpenAi)?.is_none());
    store.save(&ours)?;
    store.delete(Vendor::OpenAi)?;
    ensure!(sdk.tell(&json!({}))? == Value::Null);
    Ok(())
}
