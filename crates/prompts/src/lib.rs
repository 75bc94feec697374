//! Templates and the context they are rendered with.
//!
//! A system prompt has two parts: the static one depends on the agent's configuration only, so that providers may cache it
//! over conversations, and the dynamic one says what differs between conversations. Pure: files and the clock are the
//! caller's. Values of secrets never come near this crate, only their names and descriptions.

use minijinja::{Environment, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use openhands_protocol::TextContent;
use serde_json::{Map, Value};

const SYSTEM_PROMPT: &str = include_str!("templates/system_prompt.j2");
const SECURITY_POLICY: &str = include_str!("templates/security_policy.j2");

/// What a model is told that summarises a part of a history; the sections' names are the reference's (F2-COND-21r).
pub const SUMMARY_INSTRUCTIONS: &str = include_str!("templates/summary.txt");

/// The name under which an agent asks for the built-in system prompt.
pub const SYSTEM_PROMPT_NAME: &str = "system_prompt.j2";
/// The name under which an agent asks for the built-in security policy.
pub const SECURITY_POLICY_NAME: &str = "security_policy.j2";

/// Longest rendered prompt, bytes.
const MAX_PROMPT: usize = 1024 * 1024;
/// Steps a template may take; templates come from users.
const FUEL: u64 = 1_000_000;

/// A template that cannot be rendered; the text names line and cause.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// A mistake in the template, or one that runs for too long.
    #[error("cannot render {template}: {source:#}")]
    Render {
        /// Which template.
        template: &'static str,
        /// The engine's own description.
        source: minijinja::Error,
    },
    /// A prompt that is too long.
    #[error("the rendered {template} has {size} bytes, the limit is {MAX_PROMPT}")]
    TooLong {
        /// Which template.
        template: &'static str,
        /// Its rendered size.
        size: usize,
    },
}

/// Where a template comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Template {
    /// This crate's own.
    #[default]
    BuiltIn,
    /// The text of a template file.
    Text(String),
    /// Left out.
    Off,
}

/// What the static part is made from.
#[derive(Clone, Debug, Default)]
pub struct StaticPrompt {
    /// A finished prompt that replaces everything, taken word for word.
    pub literal: Option<String>,
    /// The system prompt's template. [`Template::Off`] counts as built in.
    pub template: Template,
    /// The security policy's template.
    pub security_policy: Template,
    /// A persona.
    pub persona: Option<String>,
    /// The agent's own values for the template (`cli_mode`, `llm_security_analyzer`, ...).
    pub values: Map<String, Value>,
}

impl StaticPrompt {
    /// Renders it.
    ///
    /// # Errors
    /// [`PromptError`] when a template of the user is wrong.
    pub fn render(&self) -> Result<String, PromptError> {
        if let Some(literal) = &self.literal {
            return Ok(literal.clone());
        }
        let policy = match &self.security_policy {
            Template::BuiltIn => Some(render("security policy", SECURITY_POLICY, &self.values)?),
            Template::Text(text) => Some(render("security policy", text, &self.values)?),
            Template::Off => None,
        };
        let mut values = self.values.clone();
        values.insert("security_policy".to_owned(), policy.into());
        values.insert("persona".to_owned(), self.persona.clone().into());
        let template = match &self.template {
            Template::Text(text) => text,
            Template::BuiltIn | Template::Off => SYSTEM_PROMPT,
        };
        render("system prompt", template, &values)
    }
}

/// What the dynamic part is made from.
#[derive(Clone, Debug, Default)]
pub struct DynamicPrompt<'a> {
    /// Where the agent works.
    pub working_dir: &'a str,
    /// The date (and time) as the model shall read it; `None` says nothing of time.
    pub now: Option<&'a str>,
    /// Names and descriptions of secrets.
    pub secrets: &'a [(String, Option<String>)],
    /// The user's own addition.
    pub suffix: Option<&'a str>,
}

impl DynamicPrompt<'_> {
    /// Renders it.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::from("<environment>\n");
        text.push_str(&format!("Working directory: {}\n", self.working_dir));
        if let Some(now) = self.now {
            text.push_str(&format!("Date: {now}\n"));
        }
        text.push_str("</environment>");
        if !self.secrets.is_empty() {
            text.push_str(
                "\n\n<secrets>\nThese secrets are set as environment variables in any shell command that mentions their \
                 name. You never see their values, and output shows <secret-hidden> in their place.\n",
            );
            for (name, description) in self.secrets {
                match description.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
                    Some(description) => text.push_str(&format!("- ${name}: {description}\n")),
                    None => text.push_str(&format!("- ${name}\n")),
                }
            }
            text.push_str("</secrets>");
        }
        if let Some(suffix) = self.suffix.map(str::trim).filter(|text| !text.is_empty()) {
            text.push_str("\n\n");
            text.push_str(suffix);
        }
        text
    }
}

/// What an `agent_context` adds to prompts; members of skills are not read here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextAdditions {
    /// Goes to the end of the system prompt.
    pub system_suffix: Option<String>,
    /// Goes behind every user message.
    pub user_suffix: Option<String>,
    /// What the context says about time: absent = use the clock, `Some(None)` = say nothing.
    pub now: Option<Option<String>>,
}

impl ContextAdditions {
    /// Reads an `agent_context` as on the wire.
    #[must_use]
    pub fn read(context: Option<&Value>) -> Self {
        let Some(context) = context.filter(|context| context.is_object()) else { return Self::default() };
        let text = |name: &str| {
            context.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty()).map(str::to_owned)
        };
        let now = context.get("current_datetime").map(|now| now.as_str().map(str::to_owned));
        Self { system_suffix: text("system_message_suffix"), user_suffix: text("user_message_suffix"), now }
    }

    /// What the framework adds behind a user message (F1-CTX-04).
    #[must_use]
    pub fn extended_content(&self) -> Vec<TextContent> {
        self.user_suffix.iter().map(TextContent::new).collect()
    }
}

fn render(name: &'static str, template: &str, values: &Map<String, Value>) -> Result<String, PromptError> {
    let mut environment = Environment::new();
    let rendered = lenient(&mut environment)
        .and_then(|()| environment.render_str(template, Serde(values)))
        .map_err(|source| PromptError::Render { template: name, source })?;
    if rendered.len() > MAX_PROMPT {
        return Err(PromptError::TooLong { template: name, size: rendered.len() });
    }
    Ok(rendered.trim().to_owned())
}

/// As lenient as the templates people bring expect: unknown values are empty, blocks leave no blank lines.
fn lenient(environment: &mut Environment<'_>) -> Result<(), minijinja::Error> {
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_fuel(Some(FUEL));
    Ok(())
}

#[cfg(test)]
mod tests;
