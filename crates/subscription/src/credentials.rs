//! Tokens as they are stored: the reference's members, and two of ours that it ignores.

use jiff::Timestamp;
use openhands_protocol::secret::SecretText;
use serde_json::{Map, Value, json};

use crate::{Vendor, claims::Claims};

/// A token counts as expired this long before its time: a call that begins now must still be good at its end, milliseconds.
const MARGIN: i64 = 60_000;
/// How long a token lives whose answer does not say, seconds.
const DEFAULT_LIFE: i64 = 3600;
const LONGEST_LIFE: i64 = 366 * 24 * 3600;

/// What a sign-in gave (F1-REG-08).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthCredentials {
    /// Whose.
    pub vendor: Vendor,
    /// Goes with each call.
    pub access_token: SecretText,
    /// Buys the next access token; many issuers give a new one each time, and the old one is void then.
    pub refresh_token: SecretText,
    /// When the access token ends, Unix milliseconds.
    pub expires_at: i64,
    /// The account that pays, where the access token itself does not say.
    pub account_id: Option<String>,
    /// Who issued the tokens, when it is not the vendor itself. They are never sent to another.
    pub issuer: Option<String>,
}

impl OAuthCredentials {
    /// Whether the access token has ended, or ends within a minute.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.expires_at < Timestamp::now().as_millisecond().saturating_add(MARGIN)
    }

    /// Whether the access token may still be accepted, however shortly.
    pub(crate) fn is_alive(&self) -> bool {
        self.expires_at > Timestamp::now().as_millisecond()
    }

    /// The account that pays: out of the access token, else what the sign-in said.
    #[must_use]
    pub fn account(&self) -> Option<String> {
        Claims::of(self.access_token.expose()).account_id.or_else(|| self.account_id.clone())
    }

    /// The account's mail address, if the access token holds it.
    #[must_use]
    pub fn email(&self) -> Option<String> {
        Claims::of(self.access_token.expose()).email
    }

    /// The file's text.
    pub(crate) fn to_json(&self) -> Value {
        let mut json = json!({
            "type": "oauth",
            "vendor": self.vendor.name(),
            "access_token": self.access_token.expose(),
            "refresh_token": self.refresh_token.expose(),
            "expires_at": self.expires_at,
        });
        if let Some(members) = json.as_object_mut() {
            for (name, value) in [("account_id", &self.account_id), ("issuer", &self.issuer)] {
                if let Some(value) = value {
                    members.insert(name.to_owned(), value.as_str().into());
                }
            }
        }
        json
    }

    /// Reads a file; `None` when it is none of `vendor`'s.
    pub(crate) fn from_json(bytes: &[u8], vendor: Vendor) -> Option<Self> {
        let members: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let is_oauth = members.get("type").is_none_or(|kind| kind == "oauth");
        let is_ours = text("vendor").is_some_and(|name| name == vendor.name());
        (is_oauth && is_ours).then_some(())?;
        Some(Self {
            vendor,
            access_token: SecretText::new(text("access_token")?),
            refresh_token: SecretText::new(text("refresh_token")?),
            expires_at: whole(members.get("expires_at")?)?,
            account_id: text("account_id").filter(|id| !id.is_empty()),
            issuer: text("issuer").filter(|issuer| !issuer.is_empty()),
        })
    }
}

/// A whole number, as numbers, whole floats and digits; the reference takes all of them.
fn whole(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "bounded just before")]
    let from_float = |float: f64| (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64);
    match value {
        Value::Number(number) => number.as_i64().or_else(|| from_float(number.as_f64()?)),
        Value::String(digits) => digits.trim().parse().ok(),
        _ => None,
    }
}

/// The end of a life that begins now, Unix milliseconds; `seconds` is what the issuer said.
pub(crate) fn end_of_life(seconds: Option<i64>) -> i64 {
    let seconds = seconds.unwrap_or(DEFAULT_LIFE).clamp(0, LONGEST_LIFE);
    Timestamp::now().as_millisecond().saturating_add(seconds * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(expires_at: i64) -> OAuthCredentials {
        OAuthCredentials {
            vendor: Vendor::OpenAi,
            access_token: SecretText::new("a"),
            refresh_token: SecretText::new("r"),
            expires_at,
            account_id: None,
            issuer: None,
        }
    }

    #[test]
    fn the_last_minute_counts_as_over() {
        let now = Timestamp::now().as_millisecond();
        assert!(credentials(now + 50_000).is_expired() && credentials(now + 50_000).is_alive());
        assert!(!credentials(now + 70_000).is_expired());
        assert!(credentials(0).is_expired() && !credentials(0).is_alive());
        assert!((end_of_life(None) - now - 3_600_000).abs() < 5_000);
        assert!((end_of_life(Some(-5)) - now).abs() < 5_000);
    }

    #[test]
    fn files_are_read_back_and_foreign_ones_are_not() {
        let full = OAuthCredentials {
            account_id: Some("acct".to_owned()),
            issuer: Some("http://127.0.0.1:1".to_owned()),
            ..credentials(5)
        };
        for one in [credentials(5), full] {
            assert_eq!(OAuthCredentials::from_json(one.to_json().to_string().as_bytes(), Vendor::OpenAi), Some(one));
        }
        let read = |text: &str| OAuthCredentials::from_json(text.as_bytes(), Vendor::OpenAi);
        let with =
            |end: &str| format!(r#"{{"vendor":"openai","access_token":"a","refresh_token":"r","expires_at":{end}}}"#);
        for end in ["5", "5.0", "\"5\""] {
            assert_eq!(read(&with(end)), Some(credentials(5)), "{end}");
        }
        for end in ["5.5", "null", "\"x\"", "1e300"] {
            assert_eq!(read(&with(end)), None, "{end}");
        }
        for text in ["", "[]", "{\"vendor\":\"openai\"}", &with("5").replace("openai", "acme")] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(format!("{:?}", credentials(5)).matches("**********").count(), 2);
    }
}
