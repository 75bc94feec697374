//! Messages as a model reads them: roles, content parts, tool calls, reasoning.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user, or the framework speaking for the user.
    User,
    /// The model.
    Assistant,
    /// The system prompt.
    System,
    /// The result of a tool call.
    Tool,
}

/// A text part (`type: text`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "text")]
pub struct TextContent {
    /// Marks the end of a prefix that the provider may cache.
    #[serde(default)]
    pub cache_prompt: bool,
    /// The text.
    pub text: String,
}

/// An image part (`type: image`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "image")]
pub struct ImageContent {
    /// Marks the end of a prefix that the provider may cache.
    #[serde(default)]
    pub cache_prompt: bool,
    /// `https:` or `data:` addresses.
    pub image_urls: Vec<String>,
}

/// One part of a message or of a tool result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Content {
    /// Text.
    Text {
        /// See [`TextContent::cache_prompt`].
        #[serde(default)]
        cache_prompt: bool,
        /// The text.
        text: String,
    },
    /// One or more images.
    Image {
        /// See [`ImageContent::cache_prompt`].
        #[serde(default)]
        cache_prompt: bool,
        /// See [`ImageContent::image_urls`].
        image_urls: Vec<String>,
    },
}

impl Content {
    /// A text part without a cache mark.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { cache_prompt: false, text: text.into() }
    }

    /// The text of a text part.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Image { .. } => None,
        }
    }
}

impl TextContent {
    /// A text part without a cache mark.
    pub fn new(text: impl Into<String>) -> Self {
        Self { cache_prompt: false, text: text.into() }
    }
}

/// Which provider interface a tool call came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallOrigin {
    /// Chat Completions and everything modelled on it.
    #[default]
    Completion,
    /// The Responses interface.
    Responses,
}

/// A tool call exactly as the model made it; `arguments` is the model's own string and may be malformed JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's call id.
    pub id: String,
    /// The item id of the Responses interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responses_item_id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments, unparsed.
    pub arguments: String,
    /// The interface it came from.
    #[serde(default)]
    pub origin: CallOrigin,
}

/// A message for or from a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The parts; empty for an assistant that only calls tools.
    #[serde(default)]
    pub content: Vec<Content>,
    /// The calls of an assistant message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// Which call a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The tool's name of a tool message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Plain reasoning text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Signed thinking blocks, as the provider sent them.
    #[serde(default)]
    pub thinking_blocks: Vec<Value>,
    /// The reasoning item of the Responses interface, as the provider sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responses_reasoning_item: Option<Value>,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Message {
    /// A message of `role` with these parts.
    #[must_use]
    pub fn new(role: Role, content: Vec<Content>) -> Self {
        Self {
            role,
            content,
            tool_calls: None,
            tool_call_id: None,
            name: None,
            reasoning_content: None,
            thinking_blocks: Vec::new(),
            responses_reasoning_item: None,
            extra: Map::new(),
        }
    }

    /// The text parts, joined by line feeds.
    #[must_use]
    pub fn joined_text(&self) -> String {
        self.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
    }
}
