//! The providers as the tests see them.

use openhands_protocol::LlmConfig;
use openhands_testkit::{ScriptedModel, Turn, llm_config};
use serde_json::json;

/// Whose format errors have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Chat,
    Responses,
    Anthropic,
    Gemini,
    Bedrock,
}

/// One provider.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) model: &'static str,
    pub(super) wire: Wire,
    /// The path of a whole call.
    pub(super) path: &'static str,
    /// The header with the key, and its value.
    pub(super) key: (&'static str, &'static str),
    /// Whose signed reasoning it gives and takes; empty for none.
    pub(super) signs: &'static str,
    /// How prefixes are marked: text in the body; empty where the provider caches by itself.
    pub(super) mark: &'static str,
    /// How an inline image looks in the body.
    pub(super) image: &'static str,
    /// Whether usage tells what was written to the cache.
    pub(super) tells_written: bool,
}

const BEARER: (&str, &str) = ("authorization", "Bearer test-key");
const MARK: &str = r#""cache_control":{"type":"ephemeral"}"#;
const IMAGE_URL: &str = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}"#;

pub(super) const fn chat() -> Case {
    Case {
        model: "openai/scripted",
        wire: Wire::Chat,
        path: "/v1/chat/completions",
        key: BEARER,
        signs: "",
        mark: "",
        image: IMAGE_URL,
        tells_written: true,
    }
}

pub(super) const fn proxied_claude() -> Case {
    Case { model: "litellm_proxy/claude-sonnet-4-5", signs: "claude", mark: MARK, ..chat() }
}

pub(super) const fn azure() -> Case {
    Case {
        model: "azure/my-deployment",
        path: "/v1/openai/deployments/my-deployment/chat/completions",
        key: ("api-key", "test-key"),
        ..chat()
    }
}

pub(super) const fn responses() -> Case {
    Case {
        model: "openai/gpt-5",
        wire: Wire::Responses,
        path: "/v1/responses",
        signs: "openai",
        image: r#"{"type":"input_image","image_url":"data:image/png;base64,AA==","detail":"auto"}"#,
        ..chat()
    }
}

pub(super) const fn anthropic() -> Case {
    Case {
        model: "anthropic/claude-sonnet-4-5",
        wire: Wire::Anthropic,
        path: "/v1/messages",
        key: ("x-api-key", "test-key"),
        signs: "claude",
        mark: MARK,
        image: r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}"#,
        tells_written: true,
    }
}

pub(super) const fn gemini() -> Case {
    Case {
        model: "gemini/gemini-3.1-pro-preview",
        wire: Wire::Gemini,
        path: "/v1/models/gemini-3.1-pro-preview:generateContent",
        key: ("x-goog-api-key", "test-key"),
        signs: "gemini",
        mark: "",
        image: r#"{"inlineData":{"mimeType":"image/png","data":"AA=="}}"#,
        tells_written: false,
    }
}

pub(super) const fn bedrock() -> Case {
    Case {
        model: "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        wire: Wire::Bedrock,
        path: "/v1/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse",
        key: BEARER,
        signs: "claude",
        mark: r#"{"cachePoint":{"type":"default"}}"#,
        image: r#"{"image":{"format":"png","source":{"bytes":"AA=="}}}"#,
        tells_written: true,
    }
}

/// One whose call ids must have nine letters.
pub(super) const fn mistral() -> Case {
    compatible("mistral/scripted")
}

/// Anybody else's Chat Completions.
pub(super) const fn compatible(model: &'static str) -> Case {
    Case { model, ..chat() }
}

/// Gemini in Google's cloud.
pub(super) const fn vertex_gemini() -> Case {
    Case {
        model: "vertex_ai/gemini-3.1-pro-preview",
        path: "/v1/projects/p/locations/global/publishers/google/models/gemini-3.1-pro-preview:generateContent",
        key: BEARER,
        ..gemini()
    }
}

/// Claude in Google's cloud.
pub(super) const fn vertex_claude() -> Case {
    Case {
        model: "vertex_ai/claude-sonnet-4-5",
        path: "/v1/projects/p/locations/us-central1/publishers/anthropic/models/claude-sonnet-4-5:rawPredict",
        key: BEARER,
        ..anthropic()
    }
}

/// Claude in Microsoft's cloud.
pub(super) const fn foundry_claude() -> Case {
    Case { model: "azure_ai/claude-sonnet-4-5", path: "/v1/messages", ..anthropic() }
}

/// All interfaces.
pub(super) fn all() -> [Case; 10] {
    [
        chat(),
        proxied_claude(),
        azure(),
        responses(),
        anthropic(),
        gemini(),
        bedrock(),
        vertex_gemini(),
        vertex_claude(),
        foundry_claude(),
    ]
}

/// Where models of Google's cloud are asked for.
pub(super) fn project() -> serde_json::Map<String, serde_json::Value> {
    [("vertex_project".to_owned(), "p".into())].into_iter().collect()
}

impl Case {
    pub(super) fn config(&self, model: &ScriptedModel) -> LlmConfig {
        let mut config = LlmConfig { model: self.model.to_owned(), ..llm_config(model) };
        config.extra.extend(project());
        config
    }

    /// An error in the provider's own form.
    pub(super) fn error(&self, status: u16, kind: &str, text: &str) -> Turn {
        let body = match self.wire {
            Wire::Chat | Wire::Responses => {
                json!({"error": {"message": text, "type": kind, "param": null, "code": kind}})
            }
            Wire::Anthropic => json!({"type": "error", "error": {"type": kind, "message": text}, "request_id": "r"}),
            Wire::Gemini => json!({"error": {"code": status, "message": text, "status": kind.to_uppercase()}}),
            Wire::Bedrock => json!({ "message": text }),
        };
        Turn::raw(status, &body.to_string())
    }

    /// The provider's words for a prompt that does not fit.
    pub(super) const fn too_long(&self) -> &'static str {
        match self.wire {
            Wire::Chat => "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
            Wire::Responses => "Your input exceeds the context window of this model.",
            Wire::Anthropic => "prompt is too long: 9 tokens > 8 maximum",
            Wire::Gemini => "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            Wire::Bedrock => "Input is too long for requested model.",
        }
    }
}
