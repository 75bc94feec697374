//! The Python agent-server and ours play the same conversations with the same scripted models; what they ask those models is
//! compared by meaning. `tests/golden/requests/differences.json` holds the differences that are meant, each with its reason:
//! a new one fails, and so does one that is gone.
//!
//! `OPENHANDS_REFERENCE_PYTHON` is a Python that has openhands-agent-server. With `OPENHANDS_REQUESTS_DIR` the requests of
//! both are written there as well.

use std::{collections::BTreeMap, env, fmt, path::PathBuf};

use anyhow::{Result, bail};
use openhands_testkit::{ScriptedModel, SeenRequest, Turn};
use openhands_tests::{
    agent_server::AgentServer,
    needs,
    requests::{self, Difference},
    tier,
};
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
    /// Shows an image; the Python server answers for models that are not known to see, without a call.
    shows: bool,
    thinks: bool,
    signs: bool,
    redacts: bool,
    /// Calls without thinking in the second turn.
    forgets: bool,
    /// Calls with torn arguments in the second turn.
    tears: bool,
    /// More members of the model's configuration.
    more: Value,
}

impl Case {
    fn new(name: &'static str, model: &'static str, base: &'static str) -> Self {
        Self {
            name,
            model,
            base,
            shows: true,
            thinks: false,
            signs: false,
            redacts: false,
            forgets: false,
            tears: false,
            more: json!({}),
        }
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
            Self { shows: false, ..Self::new("chat-unknown", "openai/scripted-model", "/v1") },
            Self::new("chat-gpt-4o", "openai/gpt-4o", "/v1"),
            Self::new("chat-streamed", "openai/gpt-4o", "/v1").with(json!({"stream": true})),
            Self::new("chat-sampling", "openai/gpt-4o", "/v1").with(json!({
                "temperature": 0.3, "top_p": 0.9, "max_output_tokens": 2048, "seed": 7,
                "extra_headers": {"x-team": "blue"}, "litellm_extra_body": {"user": "somebody"},
            })),
            Self { tears: true, ..Self::new("chat-torn-arguments", "openai/gpt-4o", "/v1") },
            Self { tears: true, ..Self::new("responses-torn-arguments", "openai/gpt-5", "/v1").signs() },
            Self::new("chat-by-prompt", "openai/gpt-4o", "/v1").with(json!({"native_tool_calling": false})),
            Self::new("responses-gpt-5", "openai/gpt-5", "/v1").signs(),
            Self::new("responses-streamed", "openai/gpt-5", "/v1").signs().with(json!({"stream": true})),
            Self::new("responses-low", "openai/gpt-5-codex", "/v1").signs().with(json!({
                "reasoning_effort": "low", "reasoning_summary": "auto", "max_output_tokens": 4096,
            })),
            Self::new("proxied-claude-sonnet-4-5", "litellm_proxy/claude-sonnet-4-5", "/v1").signs(),
            Self::new("proxied-claude-opus-4-8", "litellm_proxy/claude-opus-4-8", "/v1").signs(),
            Self::new("proxied-claude-streamed", "litellm_proxy/claude-sonnet-4-5", "/v1")
                .signs()
                .with(json!({"stream": true})),
            Self::new("proxied-claude-uncached", "litellm_proxy/claude-sonnet-4-5", "/v1")
                .signs()
                .with(json!({"caching_prompt": false})),
            Self::new("anthropic-sonnet-4-5", "anthropic/claude-sonnet-4-5", "").signs(),
            Self::new("anthropic-opus-4-8", "anthropic/claude-opus-4-8", "").signs(),
            Self::new("anthropic-streamed", "anthropic/claude-sonnet-4-5", "").signs().with(json!({"stream": true})),
            Self { redacts: true, ..Self::new("anthropic-redacted", "anthropic/claude-sonnet-4-5", "").signs() },
            Self { forgets: true, ..Self::new("anthropic-forgets", "anthropic/claude-sonnet-4-5", "").signs() },
            Self::new("anthropic-plain", "anthropic/claude-sonnet-4-5", "")
                .with(json!({"reasoning_effort": "none", "extended_thinking_budget": null, "caching_prompt": false})),
            Self::new("gemini-3.1-pro", "gemini/gemini-3.1-pro-preview", "").signs(),
            Self::new("gemini-streamed", "gemini/gemini-3.1-pro-preview", "").signs().with(json!({"stream": true})),
            Self::new("gemini-2.5-pro", "gemini/gemini-2.5-pro", "").thinks(),
            Self::new("bedrock-claude", "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "").signs(),
            Self::new("bedrock-streamed", "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "")
                .signs()
                .with(json!({"stream": true})),
            Self::new("chat-o4-mini", "openai/o4-mini", "/v1").with(json!({"reasoning_effort": "medium"})),
            Self { shows: false, ..Self::new("mistral", "mistral/devstral-medium-latest", "/v1") },
            Self { shows: false, ..Self::new("xai", "xai/grok-4", "/v1") },
            Self { shows: false, ..Self::new("moonshot", "moonshot/kimi-k2-thinking", "/v1").thinks() },
            Self::new("azure-gpt-4o", "azure/gpt-4o", "").with(json!({"api_version": "2024-12-01-preview"})),
            Self::new("openrouter-claude", "openrouter/anthropic/claude-sonnet-4.5", "/v1"),
            Self { shows: false, ..Self::new("deepseek", "deepseek/deepseek-reasoner", "/v1").thinks() },
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
            if let Some(members) = llm.as_object_mut() {
                members.insert(name.clone(), value.clone());
            }
        }
        llm
    }

    fn turns(&self) -> Vec<Turn> {
        let by_prompt = self.more.get("native_tool_calling") == Some(&Value::Bool(false));
        let shell = |id: &'static str, word: &str| (id, "terminal", json!({"command": format!("echo {word}-output")}));
        let thinking = |mut turn: Turn| {
            if self.thinks {
                turn = turn.thinking("Let me see.");
            }
            if self.signs { turn.signed("c2lnbmVk") } else { turn }
        };
        let mut look = if by_prompt {
            Turn::text("I look.\n\n<function=terminal>\n<parameter=command>echo first-output</parameter>\n</function>")
        } else {
            Turn::calls(&[shell("call_a", "first"), shell("call_b", "second")]).saying("I look.")
        };
        look = thinking(look);
        if self.redacts {
            look = look.redacted("cmVkYWN0ZWQ=");
        }
        let one = if by_prompt {
            Turn::text("<function=terminal>\n<parameter=command>echo third-output</parameter>\n</function>")
        } else if self.tears {
            Turn::calls(&[("call_c", "terminal", json!("{\"command\": \"echo thi"))])
        } else {
            Turn::calls(&[shell("call_c", "third")])
        };
        vec![look, Turn::text("Seen."), if self.forgets { one } else { thinking(one) }, Turn::text("All done.")]
    }

    /// Two turns: the first with an image and two calls at once, the second with one call.
    async fn play(&self, server: &AgentServer) -> Result<Vec<SeenRequest>> {
        let model = ScriptedModel::start(self.turns()).await;
        let tools = ["terminal", "file_editor", "task_tracker"];
        let id = server.create(&self.llm(&model), &tools).await?;
        let mut look = vec![json!({"type": "text", "text": "Look at this."})];
        look.extend(self.shows.then(|| json!({"type": "image", "image_urls": [IMAGE]})));
        for content in [json!(look), json!([{"type": "text", "text": "Go on."}])] {
            let status = server.say(&id, &content).await?;
            if status != "finished" {
                let seen = model.requests().len();
                bail!("the turn ended as {status} after {seen} model calls\n{}", server.process.said());
            }
        }
        server.ask("DELETE", &format!("/api/conversations/{id}"), &Value::Null).await?;
        Ok(model.requests())
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

/// What was found, the same findings together: place and values, then where they were.
#[derive(Default)]
struct Findings(BTreeMap<String, Vec<String>>);

impl Findings {
    fn add(&mut self, what: String, place: String) {
        self.0.entry(what).or_default().push(place);
    }

    /// An index says nothing: the same difference stands at many.
    fn differ(&mut self, difference: Difference, place: String) {
        let steps: Vec<&str> = difference.at.split('/').collect();
        let is_index = |step: &str| !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        let at = steps.into_iter().map(|step| if is_index(step) { "*" } else { step }).collect::<Vec<_>>().join("/");
        self.add(Difference { at, ..difference }.to_string(), place);
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, places) in &self.0 {
            writeln!(f, "{what}\n      in: {}", places.join(" "))?;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_servers_ask_their_models_for_the_same() -> Result<()> {
    needs!(Reference);
    let mut rules = requests::Rules::read(&tier::repository().join("tests/golden/requests/differences.json"))?;
    let only = env::var("OPENHANDS_REQUESTS_ONLY").ok();
    let (ours, theirs) = tokio::try_join!(AgentServer::ours(&[]), AgentServer::reference())?;
    let mut findings = Findings::default();
    for case in Case::all() {
        if only.as_ref().is_some_and(|only| !case.name.contains(only.as_str())) {
            continue;
        }
        let mut both = Vec::new();
        for (who, server) in [("ours", &ours), ("theirs", &theirs)] {
            match case.play(server).await {
                Ok(seen) => {
                    keep(case.name, who, &seen)?;
                    if seen.len() != CALLS {
                        findings.add(format!("{who}: {} model calls instead of {CALLS}", seen.len()), case.name.into());
                    }
                    both.push(seen);
                }
                Err(error) => findings.add(format!("{who}: {error:#}"), case.name.into()),
            }
        }
        let [mine, other] = both.as_slice() else { continue };
        for (number, (mine, other)) in mine.iter().zip(other).enumerate() {
            for difference in requests::between(&requests::normal(mine), &requests::normal(other)) {
                if !rules.covers(case.name, &difference) {
                    findings.differ(difference, format!("{}:{}", case.name, number + 1));
                }
            }
        }
    }
    if only.is_none() {
        for rule in rules.idle() {
            findings.add("no difference any more".to_owned(), format!("{} at {}", rule.case, rule.at));
        }
    }
    if !findings.0.is_empty() {
        bail!("requests differ from the Python server's:\n{findings}");
    }
    Ok(())
}
