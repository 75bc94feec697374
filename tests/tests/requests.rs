//! The Python agent-server and ours play the same conversations with the same scripted models; what they ask those models is
//! compared by meaning. `tests/golden/requests/differences.json` holds the differences that are meant, each with its reason:
//! a new one fails, and so does one that is gone.
//!
//! `OPENHANDS_REFERENCE_PYTHON` is a Python that has openhands-agent-server. With `OPENHANDS_REQUESTS_DIR` the requests of
//! both are written there as well.

use std::{env, fmt::Write as _, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use openhands_testkit::{ScriptedModel, SeenRequest, Turn};
use openhands_tests::{agent_server::AgentServer, needs, requests, tier};
use serde_json::{Value, json};

const IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// Model calls of a conversation.
const CALLS: usize = 4;

/// One conversation: who the model is, and what it does besides answering.
struct Case {
    name: &'static str,
    model: &'static str,
    /// Behind the scripted model's address.
    base: &'static str,
    thinks: bool,
    signs: bool,
    redacts: bool,
    /// More members of the model's configuration.
    more: Value,
}

impl Case {
    fn new(name: &'static str, model: &'static str, base: &'static str) -> Self {
        Self { name, model, base, thinks: false, signs: false, redacts: false, more: json!({}) }
    }

    fn thinks(self) -> Self {
        Self { thinks: true, ..self }
    }

    fn signs(self) -> Self {
        Self { thinks: true, signs: true, ..self }
    }

    fn with(self, more: Value) -> Self {
        Self { more, ..self }
    }

    fn all() -> Vec<Self> {
        vec![
            Self::new("chat-unknown", "openai/scripted-model", "/v1"),
            Self::new("chat-gpt-4o", "openai/gpt-4o", "/v1"),
            Self::new("chat-streamed", "openai/gpt-4o", "/v1").with(json!({"stream": true})),
            Self::new("chat-sampling", "openai/gpt-4o", "/v1").with(json!({
                "temperature": 0.3, "top_p": 0.9, "max_output_tokens": 2048, "seed": 7,
                "extra_headers": {"x-team": "blue"}, "litellm_extra_body": {"user": "somebody"},
            })),
            Self::new("chat-by-prompt", "openai/gpt-4o", "/v1").with(json!({"native_tool_calling": false})),
            Self::new("responses-gpt-5", "openai/gpt-5", "/v1").signs(),
            Self::new("responses-streamed", "openai/gpt-5", "/v1").signs().with(json!({"stream": true})),
            Self::new("responses-low", "openai/gpt-5-codex", "/v1").signs().with(json!({
                "reasoning_effort": "low", "reasoning_summary": "auto", "max_output_tokens": 4096,
            })),
            Self::new("proxied-claude-sonnet-4-5", "litellm_proxy/claude-sonnet-4-5", "/v1").signs(),
            Self::new("proxied-claude-opus-4-8", "litellm_proxy/claude-opus-4-8", "/v1").signs(),
            Self::new("proxied-claude-uncached", "litellm_proxy/claude-sonnet-4-5", "/v1")
                .signs()
                .with(json!({"caching_prompt": false})),
            Self::new("anthropic-sonnet-4-5", "anthropic/claude-sonnet-4-5", "").signs(),
            Self::new("anthropic-opus-4-8", "anthropic/claude-opus-4-8", "").signs(),
            Self::new("anthropic-streamed", "anthropic/claude-sonnet-4-5", "").signs().with(json!({"stream": true})),
            Self { redacts: true, ..Self::new("anthropic-redacted", "anthropic/claude-sonnet-4-5", "").signs() },
            Self::new("anthropic-plain", "anthropic/claude-sonnet-4-5", "")
                .with(json!({"reasoning_effort": "none", "extended_thinking_budget": null, "caching_prompt": false})),
            Self::new("gemini-3.1-pro", "gemini/gemini-3.1-pro-preview", "").signs(),
            Self::new("gemini-2.5-pro", "gemini/gemini-2.5-pro", "").thinks(),
            Self::new("bedrock-claude", "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "").signs(),
            Self::new("azure-gpt-4o", "azure/gpt-4o", "").with(json!({"api_version": "2024-12-01-preview"})),
            Self::new("openrouter-claude", "openrouter/anthropic/claude-sonnet-4.5", "/v1"),
            Self::new("deepseek", "deepseek/deepseek-reasoner", "/v1").thinks(),
        ]
    }

    fn llm(&self, model: &ScriptedModel) -> Value {
        let address = model.base_url().trim_end_matches("/v1").to_owned();
        let mut llm = json!({
            "model": self.model, "api_key": "the-key", "base_url": format!("{address}{}", self.base), "usage_id": "agent",
            "num_retries": 0,
        });
        if self.model.starts_with("bedrock/") {
            llm = json!({
                "model": self.model, "usage_id": "agent", "num_retries": 0, "aws_access_key_id": "AKID",
                "aws_secret_access_key": "secret", "aws_region_name": "us-east-1",
                "aws_bedrock_runtime_endpoint": address,
            });
        }
        for (name, value) in self.more.as_object().into_iter().flatten() {
            llm[name] = value.clone();
        }
        llm
    }

    fn turns(&self) -> Vec<Turn> {
        let by_prompt = self.more["native_tool_calling"] == false;
        let shell = |id: &'static str, word: &str| (id, "terminal", json!({"command": format!("echo {word}-output")}));
        let mut look = if by_prompt {
            Turn::text("I look.\n\n<function=terminal>\n<parameter=command>echo first-output</parameter>\n</function>")
        } else {
            Turn::calls(&[shell("call_a", "first"), shell("call_b", "second")]).saying("I look.")
        };
        if self.thinks {
            look = look.thinking("Let me see.");
        }
        if self.signs {
            look = look.signed("c2lnbmVk");
        }
        if self.redacts {
            look = look.redacted("cmVkYWN0ZWQ=");
        }
        let one = if by_prompt {
            Turn::text("<function=terminal>\n<parameter=command>echo third-output</parameter>\n</function>")
        } else {
            Turn::calls(&[shell("call_c", "third")])
        };
        vec![look, Turn::text("Seen."), one, Turn::text("All done.")]
    }

    /// Two turns: the first with an image and two calls at once, the second with one call.
    async fn play(&self, server: &AgentServer) -> Result<Vec<SeenRequest>> {
        let model = ScriptedModel::start(self.turns()).await;
        let tools = ["terminal", "file_editor", "task_tracker"];
        let id = server.create(&self.llm(&model), &tools).await?;
        let image = json!([{"type": "text", "text": "Look at this."}, {"type": "image", "image_urls": [IMAGE]}]);
        for content in [image, json!([{"type": "text", "text": "Go on."}])] {
            let status = server.say(&id, &content).await?;
            if status != "finished" {
                let seen = model.requests().len();
                bail!("the turn ended as {status} after {seen} model calls\n{}", server.process.said());
            }
        }
        let seen = model.requests();
        server.ask("DELETE", &format!("/api/conversations/{id}"), &Value::Null).await?;
        if seen.len() != CALLS {
            bail!("{} model calls instead of {CALLS}", seen.len());
        }
        Ok(seen)
    }
}

/// Keeps what was asked, for whoever looks into a difference.
fn keep(case: &str, who: &str, seen: &[SeenRequest]) -> Result<()> {
    let Some(folder) = env::var_os("OPENHANDS_REQUESTS_DIR").map(PathBuf::from) else { return Ok(()) };
    std::fs::create_dir_all(&folder)?;
    let requests: Vec<Value> = seen.iter().map(requests::normal).collect();
    let raw: Vec<&Value> = seen.iter().map(|seen| &seen.body).collect();
    std::fs::write(folder.join(format!("{case}.{who}.json")), serde_json::to_string_pretty(&requests)?)?;
    std::fs::write(folder.join(format!("{case}.{who}.raw.json")), serde_json::to_string_pretty(&raw)?)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_servers_ask_their_models_for_the_same() -> Result<()> {
    needs!(Reference);
    let mut rules = requests::Rules::read(&tier::repository().join("tests/golden/requests/differences.json"))?;
    let only = env::var("OPENHANDS_REQUESTS_ONLY").ok();
    let (ours, theirs) = tokio::try_join!(AgentServer::ours(&[]), AgentServer::reference())?;
    let mut findings = String::new();
    for case in Case::all() {
        if only.as_ref().is_some_and(|only| !case.name.contains(only.as_str())) {
            continue;
        }
        let mine = case.play(&ours).await.with_context(|| format!("{}: ours", case.name));
        let other = case.play(&theirs).await.with_context(|| format!("{}: theirs", case.name));
        let (mine, other) = match (mine, other) {
            (Ok(mine), Ok(other)) => (mine, other),
            (mine, other) => {
                for error in [mine.err(), other.err()].into_iter().flatten() {
                    writeln!(findings, "{error:#}")?;
                }
                continue;
            }
        };
        keep(case.name, "ours", &mine)?;
        keep(case.name, "theirs", &other)?;
        for (number, (mine, other)) in mine.iter().zip(&other).enumerate() {
            for difference in requests::between(&requests::normal(mine), &requests::normal(other)) {
                if !rules.covers(case.name, &difference) {
                    writeln!(findings, "{} {}: {difference}", case.name, number + 1)?;
                }
            }
        }
    }
    if only.is_none() {
        for rule in rules.idle() {
            writeln!(findings, "no difference any more: {} at {}", rule.case, rule.at)?;
        }
    }
    if !findings.is_empty() {
        bail!("requests differ from the Python server's:\n{findings}");
    }
    Ok(())
}
