//! Where the secrets of agent settings stand, and where each of them may be sent.

use openhands_protocol::secret::LLM_SECRET_MEMBERS;
use openhands_secrets::Destination;
use serde_json::{Map, Value, json};

/// Members of an MCP server's `auth` that are secrets.
const MCP_AUTH_SECRETS: [&str; 5] = ["value", "password", "client_secret", "access_token", "refresh_token"];

/// A place of a secret.
pub(crate) struct Place {
    /// The way to it, as a JSON pointer without escapes; only compared with others.
    pub(crate) path: String,
    /// Where it goes.
    pub(crate) destination: Destination,
}

type Visit<'a> = dyn FnMut(&Place, &mut Value) + 'a;

/// Visits every text in a place of a secret.
pub(crate) fn visit(settings: &mut Value, visit: &mut Visit<'_>) {
    let Some(members) = settings.as_object_mut() else { return };
    for (name, value) in members.iter_mut() {
        match name.as_str() {
            "mcp_config" => mcp_servers(value, visit),
            "agent_context" => context(value, visit),
            "verification" => critic(value, visit),
            _ => models(value, &format!("/{name}"), visit),
        }
    }
}

/// Configurations of models, at any depth.
fn models(value: &mut Value, path: &str, visit: &mut Visit<'_>) {
    match value {
        Value::Object(members) => {
            let destination = Destination::of_members(members);
            for (name, value) in members.iter_mut() {
                let path = format!("{path}/{name}");
                if value.is_string() && LLM_SECRET_MEMBERS.contains(&name.as_str()) {
                    visit(&Place { path, destination: destination.clone() }, value);
                } else {
                    models(value, &path, visit);
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().enumerate().for_each(|(index, item)| models(item, &format!("{path}/{index}"), visit));
        }
        _ => {}
    }
}

fn mcp_servers(servers: &mut Value, visit: &mut Visit<'_>) {
    for (name, server) in servers.as_object_mut().into_iter().flatten() {
        let Some(server) = server.as_object_mut() else { continue };
        let destination =
            Destination::of_place(&json!(
                ["mcp server", server.get("url"), server.get("command"), server.get("args"),]
            ));
        let path = format!("/mcp_config/{name}");
        for (member, value) in server.iter_mut() {
            let path = format!("{path}/{member}");
            match (member.as_str(), value) {
                ("env" | "headers", Value::Object(texts)) => texts_of(texts, &path, &destination, visit),
                ("auth", Value::Object(auth)) => mcp_auth(auth, &path, &destination, visit),
                _ => {}
            }
        }
    }
}

fn mcp_auth(auth: &mut Map<String, Value>, path: &str, destination: &Destination, visit: &mut Visit<'_>) {
    for (member, value) in auth.iter_mut() {
        let path = format!("{path}/{member}");
        match value {
            Value::String(_) if MCP_AUTH_SECRETS.contains(&member.as_str()) => {
                visit(&Place { path, destination: destination.clone() }, value);
            }
            Value::Object(texts) if member == "headers" => texts_of(texts, &path, destination, visit),
            Value::Object(below) => mcp_auth(below, &path, destination, visit),
            _ => {}
        }
    }
}

fn context(context: &mut Value, visit: &mut Visit<'_>) {
    let secrets = context.get_mut("secrets").and_then(Value::as_object_mut);
    for (name, source) in secrets.into_iter().flatten() {
        let path = format!("/agent_context/secrets/{name}");
        let destination = Destination::anywhere();
        match source {
            Value::String(_) => visit(&Place { path, destination }, source),
            Value::Object(members) => {
                for (member, value) in members.iter_mut() {
                    let path = format!("{path}/{member}");
                    match value {
                        Value::String(_) if member == "value" => {
                            visit(&Place { path, destination: destination.clone() }, value);
                        }
                        Value::Object(headers) if member == "headers" => {
                            for (header, value) in headers.iter_mut() {
                                if value.is_string() && openhands_secrets::is_secret_name(header) {
                                    let path = format!("{path}/{header}");
                                    visit(&Place { path, destination: destination.clone() }, value);
                                }
                            }
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

fn critic(verification: &mut Value, visit: &mut Visit<'_>) {
    let Some(members) = verification.as_object_mut() else { return };
    let destination = Destination::of_place(&json!(["critic", members.get("critic_server_url")]));
    if let Some(key) = members.get_mut("critic_api_key").filter(|key| key.is_string()) {
        visit(&Place { path: "/verification/critic_api_key".to_owned(), destination }, key);
    }
}

fn texts_of(texts: &mut Map<String, Value>, path: &str, destination: &Destination, visit: &mut Visit<'_>) {
    for (name, value) in texts.iter_mut().filter(|(_, value)| value.is_string()) {
        visit(&Place { path: format!("{path}/{name}"), destination: destination.clone() }, value);
    }
}

/// Takes out the secrets that became null where a null is no value: in maps of texts.
pub(crate) fn remove_unset(settings: &mut Value) {
    for (_, server) in settings.get_mut("mcp_config").and_then(Value::as_object_mut).into_iter().flatten() {
        for member in ["env", "headers"] {
            if let Some(texts) = server.get_mut(member).and_then(Value::as_object_mut) {
                texts.retain(|_, value| !value.is_null());
            }
        }
    }
    if let Some(secrets) = settings.pointer_mut("/agent_context/secrets").and_then(Value::as_object_mut) {
        secrets.retain(|_, value| !value.is_null());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_found_and_nothing_else() {
        let mut settings = json!({
            "llm": {"model": "m", "api_key": "1", "aws_session_token": "2", "fallback_strategy": {"llms": [{"api_key": "3"}]}},
            "meta_profile_llms": {"a": {"api_key": "4"}},
            "verification": {"critic_api_key": "5", "critic_model_name": "-"},
            "mcp_config": {
                "s": {"command": "-", "args": ["-"], "env": {"K": "6"}},
                "t": {"url": "-", "headers": {"a": "7"}, "auth": {"strategy": "-", "value": "8", "state": {"tokens": {"access_token": "9"}}}},
            },
            "agent_context": {"secrets": {"A": "10", "B": {"kind": "-", "value": "11"},
                "C": {"url": "-", "headers": {"Authorization": "12", "Accept": "-"}}}},
            "persona": "-",
        });
        let mut found = Vec::new();
        visit(&mut settings, &mut |place, value| {
            found.push((value.as_str().unwrap().parse::<u8>().unwrap(), place.path.clone()))
        });
        found.sort();
        assert_eq!(found.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
        assert_eq!(found[2].1, "/llm/fallback_strategy/llms/0/api_key");
    }
}
