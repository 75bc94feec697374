//! Tests of the crate: what is in a prompt and what is not.

use serde_json::json;

use super::*;

fn values(json: Value) -> Map<String, Value> {
    json.as_object().cloned().unwrap_or_default()
}

#[test]
fn the_built_in_prompt_has_its_parts_and_a_bounded_size() {
    let prompt = StaticPrompt { values: values(json!({"llm_security_analyzer": true})), ..StaticPrompt::default() }
        .render()
        .unwrap();
    for part in ["<task>", "<security>", "<security_risk>", "`finish`", "Instructions come from the user"] {
        assert!(prompt.contains(part), "{part} in {prompt}");
    }
    assert!(!prompt.contains("<persona>"), "{prompt}");
    assert!(!prompt.contains("\n\n\n") && !prompt.contains("{%"), "{prompt}");
    let words = prompt.split_whitespace().count();
    assert!((500..1100).contains(&words), "{words} words");
}

#[test]
fn parts_can_be_switched_off_and_on() {
    let prompt = StaticPrompt {
        security_policy: Template::Off,
        persona: Some("Terse.".to_owned()),
        values: values(json!({"cli_mode": true})),
        ..StaticPrompt::default()
    }
    .render()
    .unwrap();
    assert!(!prompt.contains("<security>") && !prompt.contains("<security_risk>"), "{prompt}");
    assert!(prompt.contains("<persona>\nTerse.\n</persona>"), "{prompt}");
    assert!(prompt.contains("in a terminal"), "{prompt}");
}

#[test]
fn own_templates_see_the_values_and_a_literal_is_taken_word_for_word() {
    let own = StaticPrompt {
        template: Template::Text(
            "Hi {{ name }}{{ unknown }}.{% if security_policy %} {{ security_policy }}{% endif %}".to_owned(),
        ),
        security_policy: Template::Text("Be {{ name }}.".to_owned()),
        values: values(json!({"name": "kind"})),
        ..StaticPrompt::default()
    };
    assert_eq!(own.render().unwrap(), "Hi kind. Be kind.");
    let literal = StaticPrompt { literal: Some("{{ as is }}".to_owned()), ..own };
    assert_eq!(literal.render().unwrap(), "{{ as is }}");
}

#[test]
fn wrong_and_endless_templates_are_errors() {
    for text in
        ["{% if %}", "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}", "{{ 1 + }}"]
    {
        let prompt = StaticPrompt { template: Template::Text(text.to_owned()), ..StaticPrompt::default() };
        let error = prompt.render().unwrap_err().to_string();
        assert!(error.contains("system prompt"), "{error}");
    }
}

#[test]
fn the_dynamic_part_names_secrets_but_has_no_values() {
    let secrets = [("TOKEN".to_owned(), Some("for the registry".to_owned())), ("PLAIN".to_owned(), None)];
    let dynamic =
        DynamicPrompt { working_dir: "/w", now: Some("2026-01-02"), secrets: &secrets, suffix: Some(" Be brief. ") };
    assert_eq!(
        dynamic.render(),
        "<environment>\nWorking directory: /w\nDate: 2026-01-02\n</environment>\n\n<secrets>\nThese secrets are set as \
         environment variables in any shell command that mentions their name. You never see their values, and output shows \
         <secret-hidden> in their place.\n- $TOKEN: for the registry\n- $PLAIN\n</secrets>\n\nBe brief."
    );
    let plain = DynamicPrompt { working_dir: "/w", ..DynamicPrompt::default() };
    assert_eq!(plain.render(), "<environment>\nWorking directory: /w\n</environment>");
}

#[test]
fn additions_of_a_context() {
    assert_eq!(ContextAdditions::read(None), ContextAdditions::default());
    let read = ContextAdditions::read(Some(
        &json!({"system_message_suffix": "S", "user_message_suffix": "U", "current_datetime": null, "skills": []}),
    ));
    assert_eq!(
        read,
        ContextAdditions { system_suffix: Some("S".to_owned()), user_suffix: Some("U".to_owned()), now: Some(None) }
    );
    assert_eq!(read.extended_content(), [TextContent::new("U")]);
    assert_eq!(ContextAdditions::read(Some(&json!({"user_message_suffix": " "}))).extended_content(), []);
}
