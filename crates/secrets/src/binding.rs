//! Keys that may be sent to one place only: a key is stored together with the destination it was entered for, and is dropped
//! when it is read back beside another one.
//!
//! Without that, whoever can write a stored configuration (a tool of the agent, on the same disk) or send one (a client that
//! holds an encrypted or masked key) could have the key sent to an address of his choice. The binding is inside the token itself
//! ([`crate::Cipher`]), so that it cannot be stripped and files stay those of the reference. Knows the members of a model's
//! configuration; makes no calls.

use openhands_protocol::{
    LlmConfig,
    secret::{LLM_SECRET_MEMBERS, MASK, SecretText},
};
use serde_json::{Map, Value, json};

use crate::cipher::{Cipher, Opened};

/// Members that decide where a model's key is sent, beside `extra_headers` and the region.
const ADDRESS_MEMBERS: [&str; 4] = ["base_url", "ollama_base_url", "aws_bedrock_runtime_endpoint", "api_version"];

/// Where the keys of one configuration go. Absent, null and blank members are equal, as is a slash at the end.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination(String);

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Headers may hold keys of their own.
        f.write_str("Destination(..)")
    }
}

/// What became of the keys of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// All are usable, or there were none.
    Kept,
    /// At least one belonged to another destination and was removed: the user has to enter it again.
    Dropped,
}

impl Destination {
    /// Of a configuration in memory.
    #[must_use]
    pub fn of(config: &LlmConfig) -> Self {
        let addresses =
            [&config.base_url, &config.ollama_base_url, &config.aws_bedrock_runtime_endpoint, &config.api_version];
        let region = config.aws_region_name.as_deref();
        Self::new(&config.model, addresses.map(Option::as_deref), region, config.extra_headers.as_ref())
    }

    /// Of a configuration as JSON; members of a wrong type count as absent.
    #[must_use]
    pub fn of_members(members: &Map<String, Value>) -> Self {
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        let headers = members.get("extra_headers").and_then(Value::as_object);
        Self::new(text("model").unwrap_or_default(), ADDRESS_MEMBERS.map(text), text("aws_region_name"), headers)
    }

    /// Of something that is no model: `place` says what it is and all that decides where it is sent.
    #[must_use]
    pub fn of_place(place: &Value) -> Self {
        Self(json!(["place", place]).to_string())
    }

    /// Of a secret that is for its owner to use wherever he likes.
    #[must_use]
    pub const fn anywhere() -> Self {
        Self(String::new())
    }

    fn new(
        model: &str,
        addresses: [Option<&str>; 4],
        region: Option<&str>,
        headers: Option<&Map<String, Value>>,
    ) -> Self {
        let addresses = addresses.map(|address| address.unwrap_or_default().trim().trim_end_matches('/'));
        // Without an address the model's prefix chooses one, and it may be on this machine (`ollama/`).
        let provider = match model.split_once('/') {
            Some((prefix, _)) if addresses[0].is_empty() && prefix != "openai" => prefix,
            _ => "",
        };
        // A plain region chooses one of the provider's own hosts; anything else could name a host of its own.
        let plain = |region: &&str| !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let region = region.filter(plain).unwrap_or_default();
        let mut headers: Vec<(String, String)> = headers
            .into_iter()
            .flatten()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_string()))
            .collect();
        headers.sort();
        Self(json!(["llm", provider, addresses, region, headers]).to_string())
    }

    /// What is stored for a value: a token that only this destination opens.
    #[must_use]
    pub fn seal(&self, cipher: &Cipher, plain: &str) -> String {
        cipher.encrypt_for(plain, &self.0)
    }

    /// What a stored or received value means here. Plain texts are taken as entered just now; tokens that no purpose was given to
    /// (the reference's) are taken, too, and are bound when they are written next.
    #[must_use]
    pub fn open(&self, cipher: Option<&Cipher>, stored: &str) -> Opened {
        Cipher::open_for(cipher, stored, &self.0)
    }
}

/// Encrypts the secrets of every model's configuration at any depth of `json`, each for its own destination. Plain values come in;
/// tokens and masks are written as null, because they are no values.
pub fn seal_llms(json: &mut Value, cipher: &Cipher) {
    visit(json, &mut |destination, value| {
        let plain = destination.open(Some(cipher), value).value()?;
        Some(destination.seal(cipher, plain.expose()))
    });
}

/// Decrypts the secrets of every model's configuration at any depth of `json`; those of other destinations become null.
pub fn open_llms(json: &mut Value, cipher: Option<&Cipher>) -> Binding {
    let mut binding = Binding::Kept;
    visit(json, &mut |destination, value| match destination.open(cipher, value) {
        Opened::Value(value) => Some(value.expose().to_owned()),
        Opened::Unset => None,
        Opened::Elsewhere => {
            binding = Binding::Dropped;
            None
        }
    });
    binding
}

fn visit(json: &mut Value, change: &mut dyn FnMut(&Destination, &str) -> Option<String>) {
    match json {
        Value::Object(members) => {
            let destination = Destination::of_members(members);
            for (name, value) in members.iter_mut() {
                match value {
                    Value::String(secret) if LLM_SECRET_MEMBERS.contains(&name.as_str()) => {
                        *value = change(&destination, secret).map_or(Value::Null, Value::String);
                    }
                    _ => visit(value, change),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, change)),
        _ => {}
    }
}

/// Fills in the secrets that stand as [`MASK`] in `new`, which means "as before", from `old`, if both go to the same destination.
/// Otherwise they become unset, and the answer is [`Binding::Dropped`] when there was something to keep. Absent and blank ones are
/// unset on purpose and stay so.
pub fn keep_secrets(old: &LlmConfig, new: &mut LlmConfig) -> Binding {
    let same = Destination::of(old) == Destination::of(new);
    let mut binding = Binding::Kept;
    for (old, new) in [
        (&old.api_key, &mut new.api_key),
        (&old.aws_access_key_id, &mut new.aws_access_key_id),
        (&old.aws_secret_access_key, &mut new.aws_secret_access_key),
        (&old.aws_session_token, &mut new.aws_session_token),
    ] {
        if new.as_ref().is_none_or(|secret| secret.expose() != MASK) {
            *new = new.take().filter(is_value);
            continue;
        }
        let kept = old.clone().filter(is_value);
        if kept.is_some() && !same {
            binding = Binding::Dropped;
        }
        *new = kept.filter(|_| same);
    }
    binding
}

fn is_value(secret: &SecretText) -> bool {
    !secret.expose().trim().is_empty() && secret.expose() != MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher() -> Cipher {
        Cipher::new(&SecretText::new("k"), &[])
    }

    /// Secrets in clear after storing `llm` and reading it back with `change` made to the stored form.
    fn read_back(mut llm: Value, change: impl FnOnce(&mut Value)) -> (Value, Binding) {
        let cipher = cipher();
        seal_llms(&mut llm, &cipher);
        change(&mut llm);
        let binding = open_llms(&mut llm, Some(&cipher));
        (llm, binding)
    }

    fn llm() -> Value {
        json!({"model": "openai/m", "api_key": "sk-1", "aws_session_token": "aws-1", "base_url": "https://a.example/v1"})
    }

    #[test]
    fn keys_are_read_back_where_they_were_stored() {
        assert_eq!(read_back(llm(), |_| ()), (llm(), Binding::Kept));
        // Nulls are left out of stored states, and a slash is no other place.
        let mut expected = llm();
        expected["base_url"] = json!("https://a.example/v1/");
        expected["api_version"] = Value::Null;
        assert_eq!(
            read_back(llm(), |stored| *stored = json!({"model": "openai/m", "api_key": stored["api_key"],
            "aws_session_token": stored["aws_session_token"], "base_url": "https://a.example/v1/", "api_version": null})),
            (
                json!({"model": "openai/m", "api_key": "sk-1", "aws_session_token": "aws-1", "base_url": "https://a.example/v1/", "api_version": null}),
                Binding::Kept
            )
        );
        // What decides nothing about the destination may change.
        let (read, binding) = read_back(llm(), |stored| stored["model"] = json!("openai/other"));
        assert_eq!((&read["api_key"], binding), (&json!("sk-1"), Binding::Kept));
    }

    #[test]
    fn a_changed_destination_drops_the_keys() {
        for (member, value) in [
            ("base_url", json!("https://evil.example")),
            ("base_url", Value::Null),
            ("ollama_base_url", json!("http://evil.example")),
            ("aws_bedrock_runtime_endpoint", json!("https://evil.example")),
            ("aws_region_name", json!("x.evil.example/")),
            ("api_version", json!("2")),
            ("extra_headers", json!({"Host": "evil.example"})),
        ] {
            let (read, binding) = read_back(llm(), |stored| stored[member] = value.clone());
            let keys = (&read["api_key"], &read["aws_session_token"]);
            assert_eq!((keys, binding), ((&Value::Null, &Value::Null), Binding::Dropped), "{member}");
        }
        let at_home = json!({"model": "openai/m", "api_key": "sk-1"});
        let (read, binding) = read_back(at_home.clone(), |stored| stored["model"] = json!("ollama/m"));
        assert_eq!((&read["api_key"], binding), (&Value::Null, Binding::Dropped), "another provider");
        let (read, _) = read_back(at_home, |stored| stored["model"] = json!("gpt-5"));
        assert_eq!(read["api_key"], "sk-1", "the same provider");
        let (read, _) = read_back(llm(), |stored| stored["aws_region_name"] = json!("eu-central-1"));
        assert_eq!(read["api_key"], "sk-1", "one of the provider's own hosts");
    }

    #[test]
    fn keys_move_neither_between_slots_nor_between_stores() {
        let two = json!({"llm": llm(), "condenser": {"llm": {"api_key": "sk-2", "base_url": "https://b.example"}}});
        assert_eq!(read_back(two.clone(), |_| ()), (two.clone(), Binding::Kept));
        let (read, binding) =
            read_back(two, |stored| stored["condenser"]["llm"]["api_key"] = stored["llm"]["api_key"].clone());
        assert_eq!((&read["condenser"]["llm"]["api_key"], binding), (&Value::Null, Binding::Dropped));
        let token = cipher().encrypt("a secret of the user");
        assert_eq!(Destination::of(&LlmConfig::default()).open(Some(&cipher()), &token), Opened::Elsewhere);
    }

    #[test]
    fn both_forms_of_a_configuration_have_one_destination() {
        let members = json!({"base_url": "https://a.example/", "api_version": "1", "ollama_base_url": "http://o",
            "aws_bedrock_runtime_endpoint": "https://b", "aws_region_name": "x.y", "extra_headers": {"B": "1", "a": "2"}});
        let config: LlmConfig = serde_json::from_value(members.clone()).unwrap();
        assert_eq!(Destination::of(&config), Destination::of_members(members.as_object().unwrap()));
        assert_eq!(Destination::of(&LlmConfig::default()), Destination::of_members(&Map::new()));
    }

    #[test]
    fn what_a_client_sends_masked_is_kept_for_the_same_destination_only() {
        let config = |key: Option<&str>, base_url: &str| LlmConfig {
            api_key: key.map(SecretText::new),
            base_url: Some(base_url.to_owned()),
            ..LlmConfig::default()
        };
        let old = config(Some("sk-1"), "https://a.example");
        for (sent, base_url, expected, binding) in [
            (Some(MASK), "https://a.example/", Some("sk-1"), Binding::Kept),
            (None, "https://a.example", None, Binding::Kept),
            (Some(" "), "https://a.example", None, Binding::Kept),
            (Some(MASK), "https://b.example", None, Binding::Dropped),
            (Some("sk-2"), "https://b.example", Some("sk-2"), Binding::Kept),
        ] {
            let mut new = config(sent, base_url);
            assert_eq!(keep_secrets(&old, &mut new), binding);
            assert_eq!(new, config(expected, base_url));
        }
        assert_eq!(keep_secrets(&config(None, "x"), &mut config(Some(MASK), "y")), Binding::Kept, "nothing to keep");
    }
}
