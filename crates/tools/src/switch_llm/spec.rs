//! What the model is told about `switch_llm`.

use openhands_protocol::tool::{ToolAnnotations, ToolSpec};
use serde_json::json;

pub(super) fn spec(profiles: &[String]) -> ToolSpec {
    ToolSpec {
        name: "switch_llm".to_owned(),
        kind: "SwitchLLMTool".to_owned(),
        action_kind: "SwitchLLMAction".to_owned(),
        observation_kind: "SwitchLLMObservation".to_owned(),
        description: description(profiles),
        parameters: json!({
            "type": "object",
            "description": "Which saved profile goes on with the work.",
            "properties": {
                "profile_name": {"type": "string", "description": "A profile's name, as listed."},
                "reason": {"type": "string", "description": "In a few words: what makes it fit the coming steps better."},
            },
            "required": ["profile_name", "reason"],
        }),
        annotations: Some(ToolAnnotations {
            title: None,
            read_only_hint: false,
            destructive_hint: false,
            idempotent_hint: false,
            open_world_hint: false,
        }),
    }
}

fn description(profiles: &[String]) -> String {
    let mut text = String::from(
        "Hands this conversation over to another language model, one of the profiles saved on this server. The whole history goes \
         along. This step is still the present model's; the chosen one takes over with the next.\n\n\
         Worth a call when the work changes its nature: a cheaper, faster model for many simple steps, a stronger one for a hard \
         problem, one that sees images for screenshots.\n\n",
    );
    if profiles.is_empty() {
        text.push_str("There is no saved profile now, so a call will fail.");
        return text;
    }
    text.push_str("Profiles:\n");
    for name in profiles {
        text.push_str("- ");
        text.push_str(name);
        text.push('\n');
    }
    text
}
