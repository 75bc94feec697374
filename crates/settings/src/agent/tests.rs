use openhands_protocol::secret::{MASK, SecretText};
use openhands_secrets::Cipher;

use super::*;

#[test]
fn absent_members_have_defaults() {
    let settings = AgentSettings::from_client(json!({"llm": {"model": "m", "api_key": "sk"}})).unwrap();
    let json = settings.json(Show::Plain);
    assert_eq!((&json["llm"]["api_key"], &json["llm"]["num_retries"]), (&json!("sk"), &json!(5)));
    assert_eq!(json["condenser"]["max_size"], 240);
    assert_eq!(settings.json(Show::Masked)["llm"]["api_key"], MASK);
    let default = AgentSettings::default().json(Show::Masked);
    let names: Vec<_> = default.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "schema_version",
            "agent_kind",
            "agent",
            "llm",
            "tools",
            "enable_classify_and_switch_llm_tool",
            "active_meta_profile",
            "meta_profile",
            "meta_profile_llms",
            "tool_concurrency_limit",
            "mcp_config",
            "persona",
            "agent_context",
            "condenser",
            "verification",
        ]
    );
}

#[test]
fn wrong_members_are_named() {
    for (json, expected) in [
        (json!([]), ": expected an object"),
        (json!({"llm": {"temperature": "hot"}}), "llm.temperature: expected a number"),
        (json!({"llm": {"top_p": 2}}), "llm.top_p: must be at most 1"),
        (json!({"condenser": {"max_size": 3}}), "condenser.max_size: must be 20 or more"),
        (
            json!({"condenser": {"condenser_kind": "x"}}),
            "condenser.condenser_kind: must be one of llm_summarizing, no_op",
        ),
        (json!({"verification": {"critic_threshold": 2}}), "verification.critic_threshold: must be between 0 and 1"),
        (json!({"tool_concurrency_limit": 0}), "tool_concurrency_limit: must be 1 or more"),
        (json!({"mcp_config": {"s": {}}}), "mcp_config.s: give either url or command"),
        (
            json!({"meta_profile_llms": {"a": {"model": "m", "top_p": 2}}}),
            "meta_profile_llms.a.top_p: must be at most 1",
        ),
        (json!({"enable_sub_agents": true}), "enable_sub_agents: was removed: list the tool in tools"),
        (json!({"agent_kind": "acp"}), "agent_kind acp"),
    ] {
        assert_eq!(AgentSettings::from_client(json).unwrap_err().to_string(), expected);
    }
}

#[test]
fn older_versions_are_read_and_other_agents_kept() {
    let old = json!({"agent_kind": "llm", "schema_version": 1, "enable_sub_agents": true,
        "llm": {"model": "m", "modify_params": true}, "verification": {"confirmation_mode": true},
        "mcp_config": {"mcpServers": {"s": {"command": "c"}}}});
    let json = AgentSettings::from_stored(old).unwrap().json(Show::Plain);
    assert_eq!((&json["agent_kind"], &json["schema_version"]), (&json!("openhands"), &json!(VERSION)));
    assert_eq!(json["mcp_config"], json!({"s": {"command": "c", "enabled": true}}));
    assert_eq!((json.get("enable_sub_agents"), json["llm"].get("modify_params")), (None, None));
    let acp = json!({"agent_kind": "acp", "acp_server": "codex", "schema_version": 9});
    let kept = AgentSettings::from_stored(acp.clone()).unwrap();
    assert_eq!((kept.json(Show::Masked), kept.kind(), kept.llm(), kept.agent()), (acp, "acp", None, None));
    assert!(AgentSettings::from_stored(json!({"schema_version": 10})).is_err());
}

#[test]
fn secrets_are_shown_as_asked() {
    let cipher = Cipher::new(&SecretText::new("k"), &[]);
    let settings = AgentSettings::from_client(json!({
        "llm": {"model": "m", "api_key": "sk"},
        "mcp_config": {"s": {"command": "c", "env": {"K": "v"}}},
        "agent_context": {"secrets": {"A": "x", "B": {"kind": "StaticSecret", "value": "y"}}},
        "verification": {"critic_api_key": "ck"},
    }))
    .unwrap();
    let text = settings.json(Show::Encrypted(&cipher)).to_string();
    for secret in ["\"sk\"", "\"v\"", "\"x\"", "\"y\"", "\"ck\""] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(settings.json(Show::Masked)["agent_context"]["secrets"]["B"]["value"], MASK);
    assert_eq!(settings.json(Show::Plain)["mcp_config"]["s"]["env"]["K"], "v");
}

#[test]
fn settings_describe_an_agent() {
    let agent = AgentSettings::from_client(json!({"llm": {"model": "m", "api_key": "sk"}})).unwrap().agent().unwrap();
    let names = |agent: &Value| -> Vec<String> {
        agent["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&agent), ["terminal", "file_editor", "task_tracker"]);
    assert_eq!(agent["include_default_tools"], json!(["FinishTool", "ThinkTool", "SwitchLLMTool"]));
    assert_eq!((&agent["llm"]["api_key"], &agent["condenser"]["llm"]["usage_id"]), (&json!("sk"), &json!("condenser")));
    let own = json!({"llm": {"model": "m"}, "tools": [{"name": "terminal"}, {"name": "terminal"}, {"name": "finish"}],
        "condenser": {"enabled": false}});
    let agent = AgentSettings::from_client(own).unwrap().agent().unwrap();
    assert_eq!((names(&agent), agent.get("condenser")), (vec!["terminal".to_owned()], None));
    assert_eq!(agent["include_default_tools"], json!(["FinishTool", "ThinkTool"]));
    let bare = AgentSettings::from_client(json!({"llm": {"model": "m"}, "tools": []})).unwrap().agent().unwrap();
    assert_eq!(names(&bare), [""; 0]);
}
