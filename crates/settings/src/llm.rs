//! A model's configuration as JSON: read with checks, shown with its secrets as asked, in the form that is stored.

use openhands_protocol::{
    LlmConfig,
    secret::{MASK, map_llm_secrets},
};
use openhands_secrets::{Binding, Cipher, Destination, open_llms, seal_llms};
use serde_json::{Map, Value};

use crate::{error::Invalid, lenient};

/// The version that stored profiles carry.
pub(crate) const PROFILE_VERSION: u64 = 1;
const NAMELESS: &str = "must name a model, such as \"openai/gpt-5\"";
const VERSION_MEMBER: &str = "schema_version";

/// How secrets are shown.
#[derive(Clone, Copy, Debug)]
pub enum Show<'a> {
    /// As `**********` where there is one.
    Masked,
    /// As tokens, each bound to its destination.
    Encrypted(&'a Cipher),
    /// In clear.
    Plain,
}

impl Show<'_> {
    pub(crate) fn text(self, destination: &Destination, plain: &str) -> String {
        match self {
            Self::Masked => MASK.to_owned(),
            Self::Encrypted(cipher) => destination.seal(cipher, plain),
            Self::Plain => plain.to_owned(),
        }
    }
}

/// The whole configuration, nulls included.
#[must_use]
pub fn to_json(config: &LlmConfig, show: Show<'_>) -> Value {
    let mut json = config.plain_json();
    hide(&mut json, show);
    json
}

fn hide(plain: &mut Value, show: Show<'_>) {
    match show {
        Show::Plain => {}
        Show::Masked => map_llm_secrets(plain, &mut |_| Some(MASK.to_owned())),
        Show::Encrypted(cipher) => seal_llms(plain, cipher),
    }
}

/// Reads what a client sent: tokens are opened where they belong, blanks and masks are no keys. The mask itself stays, so that the
/// caller can ask [`openhands_secrets::keep_secrets`].
///
/// # Errors
/// [`Invalid`] names the first member that is wrong.
pub fn from_client(json: Value, cipher: Option<&Cipher>) -> Result<LlmConfig, Invalid> {
    let mut config = read_sent(json)?;
    open_sent(&mut config, cipher);
    Ok(config)
}

/// A configuration that a client sent to be used at once: every member checked and in the form that its type takes, defaults filled
/// in. Masks and tokens stay as they were sent.
///
/// # Errors
/// As [`from_client`].
pub fn checked(json: Value) -> Result<Value, Invalid> {
    Ok(read_sent(json)?.plain_json())
}

fn read_sent(mut json: Value) -> Result<LlmConfig, Invalid> {
    LlmConfig::complete(&mut json);
    read(json)
}

fn open_sent(config: &mut LlmConfig, cipher: Option<&Cipher>) {
    let destination = Destination::of(config);
    for secret in [
        &mut config.api_key,
        &mut config.aws_access_key_id,
        &mut config.aws_secret_access_key,
        &mut config.aws_session_token,
    ] {
        *secret = secret.take().and_then(|sent| match sent.expose() {
            MASK => Some(sent),
            text => destination.open(cipher, text).value(),
        });
    }
    config.llms_for_routing.values_mut().for_each(|routed| open_sent(routed, cipher));
}

/// What is stored for a profile: members without a value left out, credentials of a subscription or a provider connection left to
/// their own stores.
pub(crate) fn to_stored(config: &LlmConfig, show: Show<'_>) -> Value {
    let Value::Object(mut members) = config.plain_json() else { return Value::Null };
    let linked = config.provider_connection_id.as_ref().is_some_and(|id| !id.is_empty());
    let elsewhere: &[&str] = if config.auth_type == "subscription" {
        &["api_key", "base_url", "extra_headers"]
    } else if linked {
        &["api_key", "base_url"]
    } else {
        &[]
    };
    members.retain(|name, value| !value.is_null() && !elsewhere.contains(&name.as_str()));
    members.insert(VERSION_MEMBER.to_owned(), PROFILE_VERSION.into());
    // Only now, so that keys are bound to what is really stored beside them.
    let mut stored = Value::Object(members);
    hide(&mut stored, show);
    stored
}

/// Reads a stored profile, secrets in clear. The second answer tells whether a key was dropped, because it was stored for another
/// destination.
pub(crate) fn from_stored(mut json: Value, cipher: Option<&Cipher>) -> Result<(LlmConfig, Binding), Invalid> {
    let members = json.as_object_mut().ok_or_else(|| Invalid::new("", "expected an object"))?;
    match members.remove(VERSION_MEMBER) {
        None | Some(Value::Null) => {}
        Some(version) => match version.as_u64() {
            Some(version) if version <= PROFILE_VERSION => {}
            Some(_) => return Err(Invalid::new(VERSION_MEMBER, "written by a newer version")),
            None => return Err(Invalid::new(VERSION_MEMBER, "expected a whole number")),
        },
    }
    canonicalize(members);
    let binding = open_llms(&mut json, cipher);
    Ok((read(json)?, binding))
}

/// Reads a configuration as it is and checks its ranges.
pub(crate) fn read(json: Value) -> Result<LlmConfig, Invalid> {
    let members = json.as_object().ok_or_else(|| Invalid::new("", "expected an object"))?;
    // The default of the type is a model that nobody chose.
    if members.get("model").is_none_or(Value::is_null) {
        return Err(Invalid::new("model", NAMELESS));
    }
    let config = lenient::read(&json)?;
    check(&config)?;
    Ok(config)
}

/// The addresses of the proxy that the `openhands` provider means anyway.
const OPENHANDS_PROXY: [&str; 2] = ["https://llm-proxy.app.all-hands.dev", "https://llm-proxy.app.all-hands.dev/v1"];

/// Takes the proxy's address off an `openhands/` model: it is that provider's own, and a written one would outlive a change.
fn canonicalize(members: &mut Map<String, Value>) {
    let is_openhands =
        members.get("model").and_then(Value::as_str).is_some_and(|model| model.starts_with("openhands/"));
    let address = members.get("base_url").and_then(Value::as_str).map(|url| url.trim().trim_end_matches('/'));
    let is_proxy = address.is_some_and(|url| OPENHANDS_PROXY.contains(&url));
    // With a key that is bound to that address the address stays: without it the key would not open.
    let has_token = members.get("api_key").and_then(Value::as_str).is_some_and(openhands_secrets::is_token);
    if is_openhands && is_proxy && !has_token {
        members.remove("base_url");
    }
}

/// What the types cannot say (F1-LLM rows).
fn check(config: &LlmConfig) -> Result<(), Invalid> {
    let refuse = |member: &str, reason: &str| Err(Invalid::new(member, reason));
    if config.model.trim().is_empty() {
        return refuse("model", NAMELESS);
    }
    let from_zero = [
        ("retry_multiplier", Some(config.retry_multiplier)),
        ("stream_idle_timeout", config.stream_idle_timeout),
        ("temperature", config.temperature),
        ("top_p", config.top_p),
        ("top_k", config.top_k),
        ("input_cost_per_token", config.input_cost_per_token),
        ("output_cost_per_token", config.output_cost_per_token),
    ];
    if let Some((member, _)) = from_zero.iter().find(|(_, value)| value.is_some_and(|value| value < 0.0)) {
        return refuse(member, "must be 0 or more");
    }
    if config.top_p.is_some_and(|value| value > 1.0) {
        return refuse("top_p", "must be at most 1");
    }
    let from_one = [
        ("max_input_tokens", config.max_input_tokens),
        ("max_output_tokens", config.max_output_tokens),
        ("max_message_chars", Some(config.max_message_chars as u64)),
    ];
    if let Some((member, _)) = from_one.iter().find(|(_, value)| *value == Some(0)) {
        return refuse(member, "must be 1 or more");
    }
    let words: [(&str, Option<&str>, &[&str]); 4] = [
        ("auth_type", Some(&config.auth_type), &["api_key", "subscription"]),
        ("subscription_vendor", config.subscription_vendor.as_deref(), &["openai"]),
        ("api_mode", Some(&config.api_mode), &["auto", "chat", "responses"]),
        ("reasoning_summary", config.reasoning_summary.as_deref(), &["auto", "concise", "detailed"]),
    ];
    for (member, value, allowed) in words {
        if value.is_some_and(|value| !allowed.contains(&value)) {
            return refuse(member, &format!("must be one of {}", allowed.join(", ")));
        }
    }
    let header = config.extra_headers.iter().flatten().find(|(_, value)| !value.is_string());
    if let Some((name, _)) = header {
        return Err(Invalid::new("", "expected a string").below(name).below("extra_headers"));
    }
    for (name, routed) in &config.llms_for_routing {
        check(routed).map_err(|error| error.below(name).below("llms_for_routing"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use openhands_protocol::secret::SecretText;
    use serde_json::json;

    use super::*;

    fn cipher() -> Cipher {
        Cipher::new(&SecretText::new("k"), &[])
    }

    #[test]
    fn wrong_members_are_named_without_their_values() {
        for (llm, expected) in [
            (json!({}), "model: must name a model, such as \"openai/gpt-5\""),
            (json!({"model": " "}), "model: must name a model, such as \"openai/gpt-5\""),
            (json!({"model": "m", "api_key": 123}), "api_key: expected a string"),
            (json!({"model": "m", "temperature": "hot"}), "temperature: expected a number"),
            (json!({"model": "m", "temperature": -1}), "temperature: must be 0 or more"),
            (json!({"model": "m", "top_p": 1.5}), "top_p: must be at most 1"),
            (json!({"model": "m", "num_retries": -1}), "num_retries: expected a whole number of 0 or more"),
            (json!({"model": "m", "max_output_tokens": 0}), "max_output_tokens: must be 1 or more"),
            (json!({"model": "m", "api_mode": "x"}), "api_mode: must be one of auto, chat, responses"),
            (json!({"model": "m", "extra_headers": {"x-n": 1}}), "extra_headers.x-n: expected a string"),
        ] {
            assert_eq!(from_client(llm, None).unwrap_err().to_string(), expected);
        }
        assert_eq!(read(json!([])).unwrap_err().to_string(), ": expected an object");
    }

    #[test]
    fn what_is_used_at_once_is_checked_and_put_right() {
        let sent =
            json!({"model": "m", "api_key": MASK, "num_retries": "3", "stream": "yes", "timeout": 60.0, "mine": 1});
        let used = checked(sent).unwrap();
        let names = ["api_key", "num_retries", "stream", "timeout", "stream_idle_timeout", "usage_id", "mine"];
        let found: Vec<_> = names.iter().map(|name| used[*name].clone()).collect();
        assert_eq!(found, [json!(MASK), json!(3), json!(true), json!(60), json!(60.0), json!("default"), json!(1)]);
        assert_eq!(checked(json!({"model": "m", "top_p": 2})).unwrap_err().to_string(), "top_p: must be at most 1");
    }

    #[test]
    fn what_a_client_sends_is_opened_where_it_belongs() {
        let cipher = cipher();
        let config = from_client(json!({"model": "m", "base_url": "http://a", "api_key": "sk-1"}), None).unwrap();
        let mut shown = to_json(&config, Show::Encrypted(&cipher));
        assert_ne!(shown["api_key"], "sk-1");
        assert_eq!(from_client(shown.clone(), Some(&cipher)).unwrap(), config);
        shown["base_url"] = json!("http://b");
        assert_eq!(from_client(shown, Some(&cipher)).unwrap().api_key, None, "the key stays with its address");
        let masked = from_client(json!({"model": "m", "api_key": MASK}), Some(&cipher)).unwrap();
        assert_eq!(masked.api_key, Some(SecretText::new(MASK)));
        assert_eq!(to_json(&config, Show::Masked)["api_key"], MASK);
        assert_eq!(to_json(&config, Show::Masked)["aws_session_token"], Value::Null);
    }

    #[test]
    fn stored_profiles_leave_out_what_is_kept_elsewhere() {
        let llm = json!({"model": "m", "api_key": "sk-1", "base_url": "http://a", "extra_headers": {"a": "b"}});
        let stored = |change: Value| {
            let mut llm = llm.clone();
            llm.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            to_stored(&from_client(llm, None).unwrap(), Show::Plain)
        };
        let plain = stored(json!({}));
        assert_eq!(
            (&plain["api_key"], &plain["base_url"], &plain["schema_version"]),
            (&json!("sk-1"), &json!("http://a"), &json!(PROFILE_VERSION))
        );
        assert_eq!(plain.get("temperature"), None);
        let linked = stored(json!({"provider_connection_id": "c"}));
        assert_eq!(
            (linked.get("api_key"), linked.get("base_url"), linked.get("extra_headers").is_some()),
            (None, None, true)
        );
        let paid = stored(json!({"auth_type": "subscription"}));
        assert_eq!((paid.get("api_key"), paid.get("base_url"), paid.get("extra_headers")), (None, None, None));
    }

    #[test]
    fn stored_profiles_of_newer_versions_are_refused() {
        let read = |version: Value| from_stored(json!({"model": "m", "schema_version": version}), None);
        assert_eq!(read(json!(0)).unwrap().0.model, "m");
        assert!(read(json!(PROFILE_VERSION + 1)).is_err() && read(json!("1")).is_err());
        assert!(from_stored(json!({"temperature": 1}), None).is_err(), "no model is chosen for anybody");
        let moved = json!({"model": "openhands/m", "base_url": "https://llm-proxy.app.all-hands.dev/v1/"});
        assert_eq!(from_stored(moved, None).unwrap().0.base_url, None);
    }
}
