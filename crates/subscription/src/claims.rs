//! What a token says about the account. Signatures are not checked: the tokens come straight from the issuer over TLS, and what
//! is read here only travels back beside the very token that says it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;

const AUTH: &str = "https://api.openai.com/auth";
const PROFILE: &str = "https://api.openai.com/profile";

/// The claims that matter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) account_id: Option<String>,
    pub(crate) email: Option<String>,
}

impl Claims {
    /// Of a JWT; nothing for any other token.
    pub(crate) fn of(token: &str) -> Self {
        let Some(claims) = payload(token) else { return Self::default() };
        let text =
            |value: Option<&Value>| value.and_then(Value::as_str).filter(|text| is_sound(text)).map(ToOwned::to_owned);
        let auth = claims.get(AUTH);
        Self {
            account_id: text(auth.and_then(|auth| auth.get("chatgpt_account_id")))
                .or_else(|| text(claims.get("chatgpt_account_id"))),
            email: text(claims.get("email"))
                .or_else(|| text(claims.get(PROFILE).and_then(|profile| profile.get("email")))),
        }
    }
}

fn payload(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_head, payload, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// What a header can carry.
fn is_sound(text: &str) -> bool {
    !text.is_empty() && text.len() <= 256 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(claims: &Value) -> String {
        format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn the_account_and_the_address_are_found() {
        let full = json!({AUTH: {"chatgpt_account_id": "acct-1"}, PROFILE: {"email": "a@b.c"}});
        assert_eq!(
            Claims::of(&token(&full)),
            Claims { account_id: Some("acct-1".to_owned()), email: Some("a@b.c".to_owned()) }
        );
        let flat = json!({"chatgpt_account_id": "acct-2", "email": "d@e.f"});
        assert_eq!(
            Claims::of(&token(&flat)),
            Claims { account_id: Some("acct-2".to_owned()), email: Some("d@e.f".to_owned()) }
        );
    }

    #[test]
    fn what_no_header_can_carry_is_left_out() {
        for odd in [json!("a\nb"), json!(""), json!(5), json!("x".repeat(300))] {
            assert_eq!(Claims::of(&token(&json!({AUTH: {"chatgpt_account_id": odd}}))), Claims::default());
        }
        for odd in ["", "opaque", "a.b.c", "a.!!.c"] {
            assert_eq!(Claims::of(odd), Claims::default(), "{odd}");
        }
    }
}
