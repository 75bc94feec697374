//! The system prompt of a conversation, and what its agent adds to messages.

use std::{fs, io::Read as _, path::Path};

use jiff::Zoned;
use openhands_prompts::{
    ContextAdditions, DynamicPrompt, SECURITY_POLICY_NAME, SYSTEM_PROMPT_NAME, StaticPrompt, Template,
};
use openhands_protocol::{AgentSpec, Event, Source, TextContent, event::SystemPromptEvent};

use crate::{
    core::draft,
    snapshot::Snapshot,
    toolset::{Tools, Wrong},
};

/// Longest template file, bytes.
const MAX_TEMPLATE: u64 = 256 * 1024;

/// The static part of an agent's system prompt. Reads the template files that the agent names, blocking.
pub(crate) fn static_prompt(agent: &AgentSpec) -> Result<String, Wrong> {
    let members = agent.members();
    let mut values = members.system_prompt_kwargs.clone();
    // As in the reference, tools ask for a risk unless the agent says otherwise, so the prompt explains the levels.
    values.entry("llm_security_analyzer").or_insert(true.into());
    let literal = members.system_prompt.clone().filter(|text| !text.trim().is_empty());
    let prompt = StaticPrompt {
        template: template("agent.system_prompt_filename", &members.system_prompt_filename, SYSTEM_PROMPT_NAME)?,
        security_policy: template(
            "agent.security_policy_filename",
            &members.security_policy_filename,
            SECURITY_POLICY_NAME,
        )?,
        literal,
        persona: members.persona.clone().filter(|text| !text.trim().is_empty()),
        values,
    };
    prompt.render().map_err(|error| ("agent.system_prompt".to_owned(), error.to_string()))
}

fn template(member: &str, name: &str, built_in: &str) -> Result<Template, Wrong> {
    if name.is_empty() {
        return Ok(Template::Off);
    }
    if name == built_in {
        return Ok(Template::BuiltIn);
    }
    let wrong = |why: String| (member.to_owned(), why);
    if !Path::new(name).is_absolute() {
        return Err(wrong(format!(
            "{name:?} is unknown: use {built_in:?} or the absolute path of a file on the server"
        )));
    }
    let mut text = String::new();
    fs::File::open(name)
        .and_then(|file| file.take(MAX_TEMPLATE + 1).read_to_string(&mut text))
        .map_err(|error| wrong(format!("cannot read {name:?}: {error}")))?;
    if text.len() as u64 > MAX_TEMPLATE {
        return Err(wrong(format!("{name:?} is longer than {MAX_TEMPLATE} bytes")));
    }
    Ok(Template::Text(text))
}

/// A draft of the event that opens a conversation.
pub(crate) fn system_prompt(state: &Snapshot, tools: &Tools, static_prompt: &str, working_dir: &Path) -> Event {
    let additions = ContextAdditions::read(state.agent.members().agent_context.as_ref());
    let now = match additions.now {
        Some(said) => said,
        // Only the day: a prompt that changes with every conversation is cached by no provider.
        None => Some(Zoned::now().strftime("%A, %Y-%m-%d (%Z)").to_string()),
    };
    let dynamic = DynamicPrompt {
        working_dir: &working_dir.to_string_lossy(),
        now: now.as_deref(),
        secrets: &state.secrets.names(),
        suffix: additions.system_suffix.as_deref(),
    };
    Event::SystemPrompt(SystemPromptEvent {
        base: draft(Source::Agent),
        system_prompt: TextContent::new(static_prompt),
        tools: tools.definitions(),
        dynamic_context: Some(TextContent::new(dynamic.render())),
    })
}

/// What the agent's context adds behind a user message.
pub(crate) fn message_additions(agent: &AgentSpec) -> Vec<TextContent> {
    ContextAdditions::read(agent.members().agent_context.as_ref()).extended_content()
}
