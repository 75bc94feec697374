//! One secret as it travels and as it is stored: `StaticSecret` and `LookupSecret` (F1-SCR-06, F1-SCR-07, F2-SECR-12r).

use openhands_protocol::secret::{MASK, SecretText};
use serde_json::{Map, Value, json};

use crate::cipher::Cipher;

/// Longest value and longest name, bytes.
const VALUE_LIMIT: usize = 1024 * 1024;
const NAME_LIMIT: usize = 256;

/// Words in the names of headers whose values are secrets; upper case, matched anywhere in the name.
const SECRET_WORDS: [&str; 8] =
    ["AUTHORIZATION", "COOKIE", "CREDENTIAL", "KEY", "PASSWORD", "SECRET", "SESSION", "TOKEN"];

/// Whether a header or member of this name holds a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// How secrets are written.
#[derive(Clone, Copy, Debug)]
pub enum Exposure<'a> {
    /// As null: answers of the REST interface.
    Hidden,
    /// As asterisks: the store without a cipher, where values are lost on a restart.
    Masked,
    /// As tokens: the store.
    Encrypted(&'a Cipher),
    /// In clear.
    Plain,
}

impl Exposure<'_> {
    fn show(self, secret: &SecretText) -> Value {
        match self {
            Self::Hidden => Value::Null,
            Self::Masked => MASK.into(),
            Self::Encrypted(cipher) => cipher.seal(secret.expose()).into(),
            Self::Plain => secret.expose().into(),
        }
    }
}

/// A secret that was not understood; the message names the secret and what is wrong, never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("secret {name:?}: {problem}")]
pub struct InvalidSecret {
    /// The secret's name.
    pub name: String,
    /// What is wrong, and what is accepted.
    pub problem: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) description: Option<String>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Static(Option<SecretText>),
    Lookup { url: String, headers: Vec<(String, SecretText)> },
}

impl Source {
    /// Reads a plain string, `{value}`, or a tagged source. `cipher` opens encrypted values.
    pub(crate) fn read(name: &str, json: &Value, cipher: Option<&Cipher>) -> Result<Self, InvalidSecret> {
        let refuse = |problem: &str| InvalidSecret { name: name.to_owned(), problem: problem.to_owned() };
        if name.is_empty() || name.len() > NAME_LIMIT {
            return Err(refuse("a name has 1 to 256 bytes"));
        }
        let members = match json {
            Value::String(value) => return Ok(Self { description: None, kind: static_secret(name, value, cipher)? }),
            Value::Object(members) => members,
            _ => return Err(refuse("expected a string or an object with kind StaticSecret or LookupSecret")),
        };
        let description = match members.get("description") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => return Err(refuse("description must be a string")),
        };
        let kind = match members.get("kind").map(Value::as_str) {
            None => {
                if members.contains_key("url") {
                    "LookupSecret"
                } else {
                    "StaticSecret"
                }
            }
            Some(kind) => kind.unwrap_or_default(),
        };
        let kind = match kind {
            "StaticSecret" => match members.get("value") {
                None | Some(Value::Null) => Kind::Static(None),
                Some(Value::String(value)) => static_secret(name, value, cipher)?,
                Some(_) => return Err(refuse("value must be a string")),
            },
            "LookupSecret" => {
                let Some(Value::String(url)) = members.get("url") else { return Err(refuse("url must be a string")) };
                Kind::Lookup {
                    url: url.clone(),
                    headers: headers(members, cipher).ok_or_else(|| refuse("headers must map names to strings"))?,
                }
            }
            _ => return Err(refuse("kind must be StaticSecret or LookupSecret")),
        };
        Ok(Self { description, kind })
    }

    /// The tagged form, members in the reference's order.
    pub(crate) fn write(&self, exposure: Exposure<'_>) -> Value {
        match &self.kind {
            Kind::Static(value) => json!({
                "description": self.description,
                "value": value.as_ref().map_or(Value::Null, |value| exposure.show(value)),
                "kind": "StaticSecret",
            }),
            Kind::Lookup { url, headers } => {
                let shown = headers.iter().map(|(name, value)| {
                    let value = if is_secret_name(name) { exposure.show(value) } else { value.expose().into() };
                    (name.clone(), value)
                });
                // A header without a value has no use: it is left out, as the reference does.
                let headers: Map<String, Value> = shown.filter(|(_, value)| !value.is_null()).collect();
                json!({"description": self.description, "url": url, "headers": headers, "kind": "LookupSecret"})
            }
        }
    }
}

fn static_secret(name: &str, value: &str, cipher: Option<&Cipher>) -> Result<Kind, InvalidSecret> {
    if value.len() > VALUE_LIMIT {
        return Err(InvalidSecret { name: name.to_owned(), problem: "a value has at most 1 MiB".to_owned() });
    }
    Ok(Kind::Static(Cipher::open(cipher, value)))
}

fn headers(members: &Map<String, Value>, cipher: Option<&Cipher>) -> Option<Vec<(String, SecretText)>> {
    match members.get("headers") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Object(headers)) => {
            let mut read = Vec::with_capacity(headers.len());
            for (name, value) in headers {
                let value = value.as_str()?;
                let value =
                    if is_secret_name(name) { Cipher::open(cipher, value) } else { Some(SecretText::new(value)) };
                read.extend(value.map(|value| (name.clone(), value)));
            }
            Some(read)
        }
        Some(_) => None,
    }
}
