//! Keys of an agent's models at rest: encrypted, each openable only for the address it was given for (`openhands-secrets`), so
//! that a stored state whose address was changed, by a tool of the agent or by anybody else with access to the disk, loses its keys
//! instead of sending them there.
//!
//! A model without a key of its own uses one of the server's environment. For that case an empty token is stored in the key's place:
//! it is bound like a key, the reference reads it as "no key", and a model without it is not given the environment's keys.

use openhands_protocol::{LlmConfig, secret::LLM_SECRET_MEMBERS};
use openhands_secrets::{Binding, Cipher, Destination, is_token, open_llms, seal_llms};
use serde_json::{Map, Value};

use crate::toolset::Wrong;

/// Models that live on this machine unless they have an address: whatever listens there may be the agent's.
const LOCAL: [&str; 3] = ["ollama/", "ollama_chat/", "llamafile/"];

/// What a model's state says when its key may not be used.
pub(crate) const MOVED: &str = "the stored model's key is not used: it was given for another address than the one stored now, or stored under \
     another OH_SECRET_KEY or without one. Send the model with its key again (switch_llm), or change to a saved profile (switch_profile)";

/// Members whose change sends calls, and with them keys, somewhere else.
const ADDRESSES: [&str; 4] = ["base_url", "ollama_base_url", "aws_bedrock_runtime_endpoint", "extra_headers"];

/// Encrypts the keys in an agent's JSON. `bind` says whether models without keys are bound to their addresses; those of a state
/// that was changed by somebody else are not, or the next start would take the change as meant.
pub(crate) fn seal(agent: &mut Value, cipher: &Cipher, bind: bool) {
    seal_llms(agent, cipher);
    if !bind {
        return;
    }
    each_llm(agent, &mut |llm| {
        if LLM_SECRET_MEMBERS.iter().all(|name| llm.get(*name).is_none_or(Value::is_null)) {
            let nothing = Destination::of_members(llm).seal(cipher, "");
            llm.insert("api_key".to_owned(), nothing.into());
        }
    });
}

/// Decrypts the keys in a stored agent. `true` when its models may be asked; `false` when a key was given for another address, or
/// when nothing shows that keys of the environment were meant for this one.
pub(crate) fn open(agent: &mut Value, cipher: Option<&Cipher>) -> bool {
    let mut usable = true;
    if let Some(cipher) = cipher {
        each_llm(agent, &mut |llm| {
            let destination = Destination::of_members(llm);
            let is_bound = LLM_SECRET_MEMBERS.iter().any(|name| {
                let stored = llm.get(*name).and_then(Value::as_str).filter(|stored| is_token(stored));
                stored.is_some_and(|stored| destination.open(Some(cipher), stored).value().is_some())
            });
            usable &= is_bound || !has_address(llm);
        });
    }
    usable &= open_llms(agent, cipher) == Binding::Kept;
    each_llm(agent, &mut |llm| {
        if let Some(key) = llm.get_mut("api_key")
            && key == ""
        {
            key.take();
        }
    });
    usable
}

/// A stored token that could not be opened: its secret key is not configured, or it is for another address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LostToken {
    /// The model's place in the agent's JSON.
    place: String,
    member: &'static str,
    token: String,
}

/// The tokens in a stored agent that this server cannot open. A start with a wrong secret key must not cost them.
pub(crate) fn lost(agent: &mut Value, cipher: Option<&Cipher>) -> Vec<LostToken> {
    let mut found = Vec::new();
    each_llm_at(agent, &mut |place, llm| {
        let destination = Destination::of_members(llm);
        for member in LLM_SECRET_MEMBERS {
            let stored = llm.get(member).and_then(Value::as_str).filter(|stored| is_token(stored));
            if let Some(token) = stored.filter(|stored| destination.open(cipher, stored).value().is_none()) {
                found.push(LostToken { place: place.to_owned(), member, token: token.to_owned() });
            }
        }
    });
    found
}

/// Puts lost tokens back into an agent that is about to be stored, where nothing has taken their place. They still open for nothing but
/// their own address.
pub(crate) fn keep_lost(agent: &mut Value, lost: &[LostToken]) {
    for LostToken { place, member, token } in lost {
        if let Some(llm) = agent.pointer_mut(place).and_then(Value::as_object_mut)
            && llm.get(*member).is_none_or(Value::is_null)
        {
            llm.insert((*member).to_owned(), token.as_str().into());
        }
    }
}

/// Every model of an agent: its own, those of a router, its condensers'.
fn each_llm(agent: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>)) {
    each_llm_at(agent, &mut |_, llm| visit(llm));
}

/// The same with their places in the JSON.
fn each_llm_at(agent: &mut Value, visit: &mut dyn FnMut(&str, &mut Map<String, Value>)) {
    let members = agent.pointer("/condenser/condensers").and_then(Value::as_array).map_or(0, Vec::len);
    let members = (0..members).map(|index| format!("/condenser/condensers/{index}/llm"));
    for place in ["/llm", "/condenser/llm"].into_iter().map(str::to_owned).chain(members) {
        let Some(llm) = agent.pointer_mut(&place).and_then(Value::as_object_mut) else { continue };
        visit(&place, llm);
        let routed = llm.get_mut("llms_for_routing").and_then(Value::as_object_mut);
        for (name, llm) in routed.into_iter().flatten() {
            if let Some(llm) = llm.as_object_mut() {
                let name = name.replace('~', "~0").replace('/', "~1");
                visit(&format!("{place}/llms_for_routing/{name}"), llm);
            }
        }
    }
}

fn has_address(llm: &Map<String, Value>) -> bool {
    let model = llm.get("model").and_then(Value::as_str).unwrap_or_default();
    LOCAL.iter().any(|prefix| model.starts_with(prefix))
        || ADDRESSES.iter().any(|name| llm.get(*name).is_some_and(|value| !value.is_null()))
}

/// Reads the secrets of a model that a client sent: in clear, encrypted by this server, or masked, which keeps those of `old` when
/// they go to the same address.
pub(crate) fn receive(new: &mut LlmConfig, old: &LlmConfig, cipher: Option<&Cipher>) -> Result<(), Wrong> {
    let refuse = |name: &str, why: &str| Err((format!("llm.{name}"), why.to_owned()));
    let destination = Destination::of(new);
    for (name, secret) in [
        ("api_key", &mut new.api_key),
        ("aws_access_key_id", &mut new.aws_access_key_id),
        ("aws_secret_access_key", &mut new.aws_secret_access_key),
        ("aws_session_token", &mut new.aws_session_token),
    ] {
        let Some(token) = secret.as_ref().map(|secret| secret.expose().to_owned()).filter(|text| is_token(text)) else {
            continue;
        };
        match destination.open(cipher, &token).value() {
            Some(plain) => *secret = Some(plain).filter(|plain| !plain.expose().is_empty()),
            None => {
                return refuse(
                    name,
                    "the encrypted key was not made by this server for this address: send the key itself",
                );
            }
        }
    }
    match openhands_secrets::keep_secrets(old, new) {
        Binding::Kept => Ok(()),
        Binding::Dropped => refuse(
            "api_key",
            "a masked key is kept only when the address stays the same: send the key with the new address",
        ),
    }
}

#[cfg(test)]
mod tests {
    use openhands_protocol::secret::{MASK, SecretText};
    use serde_json::json;

    use super::*;

    fn cipher() -> Cipher {
        Cipher::new(&SecretText::new("k"), &[])
    }

    /// The agent's model after a restart, when `change` was made to what is stored.
    fn restarted(llm: Value, change: impl FnOnce(&mut Value)) -> (Value, bool) {
        let cipher = cipher();
        let mut agent = json!({ "llm": llm });
        seal(&mut agent, &cipher, true);
        change(&mut agent["llm"]);
        let usable = open(&mut agent, Some(&cipher));
        (agent["llm"]["api_key"].clone(), usable)
    }

    #[test]
    fn a_wrong_secret_key_costs_nothing() {
        let right = cipher();
        let llm = || json!({"model": "openai/m", "api_key": "the-key", "base_url": "https://a.example"});
        let mut stored = json!({"llm": {"llms_for_routing": {"a/b~c": llm()}, "model": "router", "api_key": "k1"},
            "condenser": {"llm": llm()}});
        seal(&mut stored, &right, true);
        for wrong in [Some(Cipher::new(&SecretText::new("other"), &[])), None] {
            let mut agent = stored.clone();
            let tokens = lost(&mut agent, wrong.as_ref());
            assert_eq!(tokens.len(), 3);
            assert!(!open(&mut agent, wrong.as_ref()) || wrong.is_none());
            if let Some(cipher) = &wrong {
                seal(&mut agent, cipher, false);
            }
            keep_lost(&mut agent, &tokens);
            assert!(lost(&mut agent, Some(&right)).is_empty());
            assert!(open(&mut agent, Some(&right)), "the right key opens them again");
            assert_eq!(agent["condenser"]["llm"]["api_key"], "the-key");
            assert_eq!(agent["llm"]["llms_for_routing"]["a/b~c"]["api_key"], "the-key");
        }
        // What was given meanwhile stays.
        let mut agent = stored.clone();
        let tokens = lost(&mut agent, None);
        let mut newer = json!({"llm": {"model": "m", "api_key": "new"}});
        keep_lost(&mut newer, &tokens);
        assert_eq!(newer, json!({"llm": {"model": "m", "api_key": "new"}}));
    }

    #[test]
    fn a_model_without_a_key_is_bound_too() {
        let llm = json!({"model": "openai/m", "api_key": null, "base_url": "https://a.example"});
        assert_eq!(restarted(llm.clone(), |_| ()), (Value::Null, true));
        assert_eq!(restarted(llm.clone(), |llm| llm["base_url"] = json!("https://evil.example")), (Value::Null, false));
        assert_eq!(
            restarted(llm.clone(), |llm| {
                llm["base_url"] = json!("https://evil.example");
                llm["api_key"] = Value::Null;
            }),
            (Value::Null, false)
        );
        let plain = json!({"model": "openai/m"});
        assert_eq!(
            restarted(plain.clone(), |llm| llm["api_key"] = Value::Null),
            (Value::Null, true),
            "nowhere else to go"
        );
        assert_eq!(
            restarted(plain, |llm| llm["extra_headers"] = json!({"Host": "evil.example"})),
            (Value::Null, false)
        );
    }

    #[test]
    fn a_key_stays_with_its_address() {
        let llm = json!({"model": "openai/m", "api_key": "sk-1", "base_url": "https://a.example"});
        assert_eq!(restarted(llm.clone(), |_| ()), (json!("sk-1"), true));
        assert_eq!(restarted(llm.clone(), |llm| llm["base_url"] = json!("https://evil.example")), (Value::Null, false));
        for nonsense in ["gAAAAAnonsense", MASK, " "] {
            let change = |llm: &mut Value| {
                llm["base_url"] = json!("https://evil.example");
                llm["api_key"] = json!(nonsense);
            };
            assert_eq!(restarted(llm.clone(), change), (Value::Null, false), "the environment's key would be used");
        }
        let routed =
            json!({"model": "openai/r", "llms_for_routing": {"primary": llm, "secondary": {"model": "openai/s"}}});
        assert!(restarted(routed.clone(), |_| ()).1);
        let evil = |llm: &mut Value| llm["llms_for_routing"]["secondary"]["base_url"] = json!("https://evil.example");
        assert!(!restarted(routed, evil).1);
        let pipeline = json!({"kind": "PipelineCondenser", "condensers": [{"llm": {"model": "openai/s"}}]});
        let mut agent = json!({"llm": {"model": "openai/m"}, "condenser": pipeline});
        seal(&mut agent, &cipher(), true);
        agent["condenser"]["condensers"][0]["llm"]["base_url"] = json!("https://evil.example");
        agent["condenser"]["condensers"][0]["llm"]["api_key"] = Value::Null;
        assert!(!open(&mut agent, Some(&cipher())), "a condenser in a pipeline");
        let mut unencrypted = json!({"llm": {"model": "m", "api_key": MASK, "base_url": "https://a.example"}});
        assert!(open(&mut unencrypted, None), "without a cipher nothing can be bound");
    }

    #[test]
    fn what_clients_send_is_read_for_its_address() {
        let config = |key: &str, base_url: &str| LlmConfig {
            api_key: Some(SecretText::new(key)),
            base_url: Some(base_url.to_owned()),
            ..LlmConfig::default()
        };
        let (old, cipher) = (config("sk-1", "https://a.example"), cipher());
        let sealed = Destination::of(&old).seal(&cipher, "sk-3");
        let received = |key: &str, base_url: &str| {
            let mut new = config(key, base_url);
            receive(&mut new, &old, Some(&cipher))
                .map(|()| new.api_key.map(|key| key.expose().to_owned()))
                .map_err(|w| w.0)
        };
        let refused = Err("llm.api_key".to_owned());
        assert_eq!(received("sk-2", "https://b.example"), Ok(Some("sk-2".to_owned())));
        assert_eq!(received(MASK, "https://a.example"), Ok(Some("sk-1".to_owned())));
        assert_eq!(received(MASK, "https://b.example"), refused);
        assert_eq!(received(&sealed, "https://a.example"), Ok(Some("sk-3".to_owned())));
        assert_eq!(received(&sealed, "https://b.example"), refused);
        assert_eq!(received("gAAAAAnonsense", "https://a.example"), refused);
    }
}
