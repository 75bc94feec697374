//! What settings forms show: every setting that this server acts on, with its label, kind and default. Settings that are only kept
//! (for agents and runtimes this server does not have) are not offered.

use serde_json::{Value, json};

use crate::{agent::AgentSettings, conversation::ConversationSettings, llm::Show};

/// How prominent a form shows a field.
#[derive(Clone, Copy)]
enum Prominence {
    Critical,
    Major,
    Minor,
}

/// The kind of a field's value.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Secret,
    Whole,
    Number,
    Switch,
    List,
    Object,
    Word(&'static [&'static str]),
}

struct Field {
    key: &'static str,
    label: &'static str,
    kind: Kind,
    prominence: Prominence,
    description: &'static str,
    /// A field that must be switched on, or have a value, for this one to matter.
    depends_on: Option<&'static str>,
}

const fn field(key: &'static str, label: &'static str, kind: Kind, description: &'static str) -> Field {
    Field { key, label, kind, prominence: Prominence::Minor, description, depends_on: None }
}

impl Field {
    const fn major(mut self) -> Self {
        self.prominence = Prominence::Major;
        self
    }

    const fn critical(mut self) -> Self {
        self.prominence = Prominence::Critical;
        self
    }

    const fn with(mut self, other: &'static str) -> Self {
        self.depends_on = Some(other);
        self
    }

    fn json(&self, section: &Section, defaults: &Value) -> Value {
        let (value_type, words) = match self.kind {
            Kind::Text | Kind::Secret => ("string", &[][..]),
            Kind::Whole => ("integer", &[][..]),
            Kind::Number => ("number", &[][..]),
            Kind::Switch => ("boolean", &[][..]),
            Kind::List => ("array", &[][..]),
            Kind::Object => ("object", &[][..]),
            Kind::Word(words) => ("string", words),
        };
        let choices: Vec<Value> = words.iter().map(|word| json!({"value": word, "label": word})).collect();
        let prominence = match self.prominence {
            Prominence::Critical => "critical",
            Prominence::Major => "major",
            Prominence::Minor => "minor",
        };
        let place = format!("/{}", self.key.replace('.', "/"));
        json!({
            "key": self.key,
            "label": self.label,
            "description": self.description,
            "section": section.key,
            "section_label": section.label,
            "value_type": value_type,
            "default": defaults.pointer(&place).unwrap_or(&Value::Null),
            "prominence": prominence,
            "depends_on": self.depends_on.into_iter().collect::<Vec<_>>(),
            "secret": matches!(self.kind, Kind::Secret),
            "choices": choices,
            "variant": section.field_variant,
        })
    }
}

struct Section {
    key: &'static str,
    label: &'static str,
    variant: Option<&'static str>,
    field_variant: Option<&'static str>,
    fields: &'static [Field],
}

use Kind::{List, Number, Object, Secret, Switch, Text, Whole, Word};

const CONDENSER: &str = "condenser.enabled";

static AGENT: [Section; 3] = [
    Section {
        key: "general",
        label: "General",
        variant: None,
        field_variant: Some("openhands"),
        fields: &[
            field("tools", "Tools", List, "Names of the tools the agent has; without a list it has the stock tools.")
                .major(),
            field(
                "tool_concurrency_limit",
                "Parallel tool calls",
                Whole,
                "How many tool calls of one answer run at once.",
            )
            .major(),
        ],
    },
    Section { key: "llm", label: "LLM", variant: Some("openhands"), field_variant: Some("openhands"), fields: &LLM },
    Section {
        key: "condenser",
        label: "Condenser",
        variant: Some("openhands"),
        field_variant: Some("openhands"),
        fields: &[
            field(
                "condenser.condenser_kind",
                "Kind",
                Word(&["llm_summarizing", "no_op"]),
                "How a long history is shortened.",
            ),
            field("condenser.enabled", "Shorten histories", Switch, "Summarise what is old when a history grows long.")
                .critical(),
            field("condenser.max_size", "Most events", Whole, "Events of a history before it is shortened.")
                .with(CONDENSER),
            field("condenser.max_tokens", "Most tokens", Whole, "Tokens of a history before it is shortened.")
                .with(CONDENSER),
            field("condenser.keep_first", "Kept at the start", Whole, "Events at the start that are never summarised.")
                .with(CONDENSER),
            field("condenser.minimum_progress", "Least progress", Number, "The least share that a summary must save.")
                .with(CONDENSER),
            field(
                "condenser.hard_context_reset_max_retries",
                "Attempts",
                Whole,
                "How often all of it is summarised at worst.",
            )
            .with(CONDENSER),
            field(
                "condenser.hard_context_reset_context_scaling",
                "Shrinking",
                Number,
                "How much shorter each such attempt is.",
            )
            .with(CONDENSER),
        ],
    },
];

static LLM: [Field; 55] = [
    field("llm.model", "Model", Text, "The model, with its provider in front: anthropic/claude-sonnet-4-5.").critical(),
    field("llm.api_key", "API key", Secret, "The provider's key. A new address needs the key again.").critical(),
    field("llm.provider_connection_id", "Provider connection", Text, "A stored connection that gives key and address.")
        .major(),
    field("llm.auth_type", "Authentication", Word(&["api_key", "subscription"]), "Whether a key or a plan pays.")
        .critical(),
    field("llm.subscription_vendor", "Plan", Word(&["openai"]), "Whose plan pays.").critical().with("llm.auth_type"),
    field("llm.base_url", "Base URL", Text, "Where the model answers, if not at its provider's own address.").major(),
    field("llm.api_version", "API version", Text, "The version of Azure's interface."),
    field("llm.aws_access_key_id", "AWS access key id", Secret, "AWS credentials for Bedrock."),
    field("llm.aws_secret_access_key", "AWS secret access key", Secret, "AWS credentials for Bedrock."),
    field("llm.aws_session_token", "AWS session token", Secret, "AWS credentials for Bedrock that expire."),
    field("llm.aws_region_name", "AWS region", Text, "The region that Bedrock is asked in."),
    field("llm.aws_profile_name", "AWS profile", Text, "A profile of the AWS configuration files."),
    field("llm.aws_role_name", "AWS role", Text, "A role to assume."),
    field("llm.aws_session_name", "AWS session name", Text, "What sessions of that role are called."),
    field("llm.aws_bedrock_runtime_endpoint", "Bedrock endpoint", Text, "Another address of Bedrock."),
    field("llm.openrouter_site_url", "OpenRouter site", Text, "The site that OpenRouter counts calls for."),
    field("llm.openrouter_app_name", "OpenRouter name", Text, "The name that OpenRouter shows for it."),
    field("llm.num_retries", "Attempts", Whole, "How often a call is tried in all."),
    field("llm.retry_multiplier", "Wait factor", Number, "How waits between attempts grow."),
    field("llm.retry_min_wait", "Shortest wait", Whole, "Seconds."),
    field("llm.retry_max_wait", "Longest wait", Whole, "Seconds."),
    field("llm.timeout", "Time-out", Whole, "Seconds for a whole call; null for no limit."),
    field(
        "llm.stream_idle_timeout",
        "Stream time-out",
        Number,
        "Seconds that a stream may stand still; null for no limit.",
    ),
    field("llm.max_message_chars", "Longest message", Whole, "Characters of one message that the model is shown."),
    field("llm.temperature", "Temperature", Number, "How much chance is in an answer."),
    field("llm.top_p", "Top p", Number, "The share of likely words that are drawn from."),
    field("llm.top_k", "Top k", Number, "How many likely words are drawn from."),
    field("llm.max_input_tokens", "Longest prompt", Whole, "Tokens; known for most models."),
    field("llm.max_output_tokens", "Longest answer", Whole, "Tokens; known for most models."),
    field("llm.model_canonical_name", "Known name", Text, "The well-known name of a model with an alias."),
    field("llm.api_mode", "Interface", Word(&["auto", "chat", "responses"]), "Which of OpenAI's interfaces is spoken."),
    field(
        "llm.capability_overrides",
        "Abilities",
        Object,
        "What the model can do, where this server does not know it.",
    ),
    field("llm.extra_headers", "More headers", Object, "Sent with every request. New ones need the key again."),
    field("llm.input_cost_per_token", "Price read", Number, "US dollars a token, where the price list is wrong."),
    field("llm.output_cost_per_token", "Price written", Number, "US dollars a token, where the price list is wrong."),
    field("llm.ollama_base_url", "Ollama URL", Text, "Where Ollama answers."),
    field("llm.stream", "Streaming", Switch, "Show answers while they are written."),
    field("llm.drop_params", "Drop parameters", Switch, "Leave out what the model does not take."),
    field("llm.disable_vision", "No images", Switch, "Send no images, even to a model that sees."),
    field("llm.disable_stop_word", "No stop words", Switch, "Send no stop words."),
    field("llm.caching_prompt", "Prompt cache", Switch, "Mark what the provider may keep for the next call."),
    field("llm.log_completions", "Log calls", Switch, "Write requests and answers down."),
    field("llm.log_completions_folder", "Log folder", Text, "Where they are written."),
    field("llm.custom_tokenizer", "Tokenizer", Text, "The tokenizer that prompts are counted with."),
    field("llm.native_tool_calling", "Native tools", Switch, "Use the provider's own tool calls instead of text."),
    field("llm.force_string_serializer", "Plain text", Switch, "Send messages as text instead of parts."),
    field("llm.inline_image_urls", "Inline images", Switch, "Fetch images and send them along."),
    field("llm.reasoning_effort", "Reasoning effort", Text, "low, medium, high, xhigh or none."),
    field(
        "llm.reasoning_summary",
        "Reasoning summary",
        Word(&["auto", "concise", "detailed"]),
        "How reasoning is told.",
    ),
    field("llm.enable_encrypted_reasoning", "Keep reasoning", Switch, "Ask for reasoning that can be sent back."),
    field("llm.prompt_cache_retention", "Cache life", Text, "How long the provider keeps a prompt."),
    field("llm.extended_thinking_budget", "Thinking budget", Whole, "Tokens for thinking."),
    field("llm.seed", "Seed", Whole, "Makes answers repeatable where the provider can."),
    field("llm.usage_id", "Usage id", Text, "The model's name in statistics."),
    field("llm.litellm_extra_body", "More members", Object, "Added to the body of every request."),
];

static CONVERSATION: [Section; 2] = [
    Section {
        key: "general",
        label: "General",
        variant: None,
        field_variant: None,
        fields: &[field("max_iterations", "Most steps", Whole, "How many model calls a run may make.").major()],
    },
    Section {
        key: "verification",
        label: "Verification",
        variant: None,
        field_variant: None,
        fields: &[
            field("confirmation_mode", "Confirmation", Switch, "Ask before risky actions.").critical(),
            field("security_analyzer", "Risk analysis", Word(&["llm", "none"]), "Who says what is risky.")
                .major()
                .with("confirmation_mode"),
        ],
    },
];

fn schema(model: &str, sections: &[Section], defaults: &Value) -> Value {
    let sections: Vec<Value> = sections
        .iter()
        .map(|section| {
            let fields: Vec<Value> = section.fields.iter().map(|field| field.json(section, defaults)).collect();
            json!({"key": section.key, "label": section.label, "fields": fields, "variant": section.variant})
        })
        .collect();
    json!({"model_name": model, "sections": sections})
}

/// The form of agent settings.
#[must_use]
pub fn agent() -> Value {
    schema("AgentSettings", &AGENT, &AgentSettings::default().json(Show::Masked))
}

/// The form of conversation settings.
#[must_use]
pub fn conversation() -> Value {
    schema("ConversationSettings", &CONVERSATION, &json!(ConversationSettings::default()))
}

#[cfg(test)]
mod tests {
    use openhands_protocol::LlmConfig;

    use super::*;

    fn keys(schema: &Value) -> Vec<&str> {
        let sections = schema["sections"].as_array().unwrap().iter();
        sections
            .flat_map(|section| section["fields"].as_array().unwrap())
            .map(|field| field["key"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn every_member_of_a_model_is_offered_under_its_name() {
        let schema = agent();
        let mut offered: Vec<_> = keys(&schema).into_iter().filter_map(|key| key.strip_prefix("llm.")).collect();
        let config = serde_json::to_value(LlmConfig::default()).unwrap();
        // What the server finds out by itself.
        let mut members: Vec<_> =
            config.as_object().unwrap().keys().map(String::as_str).filter(|name| *name != "is_subscription").collect();
        offered.sort_unstable();
        members.sort_unstable();
        assert_eq!(offered, members);
    }

    #[test]
    fn fields_carry_kind_and_default() {
        let schema = agent();
        let field = |key: &str| {
            let sections = schema["sections"].as_array().unwrap().iter();
            sections
                .flat_map(|section| section["fields"].as_array().unwrap())
                .find(|field| field["key"] == key)
                .unwrap()
                .clone()
        };
        assert_eq!(
            field("llm.api_mode"),
            json!({
                "key": "llm.api_mode", "label": "Interface", "description": "Which of OpenAI's interfaces is spoken.",
                "section": "llm", "section_label": "LLM", "value_type": "string", "default": "auto", "prominence": "minor",
                "depends_on": [], "secret": false,
                "choices": [{"value": "auto", "label": "auto"}, {"value": "chat", "label": "chat"}, {"value": "responses", "label": "responses"}],
                "variant": "openhands",
            })
        );
        assert_eq!((&field("llm.api_key")["secret"], &field("llm.num_retries")["default"]), (&json!(true), &json!(5)));
        assert_eq!(keys(&conversation()), ["max_iterations", "confirmation_mode", "security_analyzer"]);
    }
}
