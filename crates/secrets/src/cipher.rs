//! Secrets at rest: Fernet tokens that the reference's `cryptography` package reads and writes (protocol section 6, F1-PER-08).

use std::fmt;

use openhands_protocol::secret::{MASK, SecretText};

use crate::token::{Key, Mark};

/// How tokens begin: version byte 0x80 and the upper bytes of a 64 bit time before the year 2106, in base64.
const TOKEN_PREFIX: &str = "gAAAAA";
/// The purpose of secrets that are sent to nobody in particular.
const NO_DESTINATION: &str = "";

/// Whether a stored text is a token rather than a plain value of an older store.
#[must_use]
pub fn is_token(text: &str) -> bool {
    text.starts_with(TOKEN_PREFIX)
}

/// Encrypts with the current key and reads what the current or a previous key wrote.
///
/// A token is written for a purpose and opened only for the same one ([`crate::Destination`]); tokens of other Fernet writers carry
/// none and open everywhere.
#[derive(Clone)]
pub struct Cipher {
    current: Key,
    previous: Vec<Key>,
}

/// What a stored secret is for the place that reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The value.
    Value(SecretText),
    /// There is none: blank, masked, or written under a key that is not configured.
    Unset,
    /// There is one, but it was stored for another destination: it must not be used here.
    Elsewhere,
}

impl Opened {
    /// The value, if it may be used.
    #[must_use]
    pub fn value(self) -> Option<SecretText> {
        match self {
            Self::Value(value) => Some(value),
            Self::Unset | Self::Elsewhere => None,
        }
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher").field("previous", &self.previous.len()).finish_non_exhaustive()
    }
}

impl Cipher {
    /// A cipher from secret key strings of any length. Blank previous keys and repeats of the current one are dropped; the
    /// others are tried in order.
    #[must_use]
    pub fn new(primary: &SecretText, previous: &[SecretText]) -> Self {
        let previous = previous.iter().filter(|key| !key.expose().trim().is_empty() && *key != primary);
        let key = |text: &SecretText| Key::new(text.expose());
        Self { current: key(primary), previous: previous.map(key).collect() }
    }

    /// A token for a value that belongs to no destination.
    #[must_use]
    pub fn encrypt(&self, plain: &str) -> String {
        self.encrypt_for(plain, NO_DESTINATION)
    }

    pub(crate) fn encrypt_for(&self, plain: &str, purpose: &str) -> String {
        self.current.write(plain.as_bytes(), purpose)
    }

    /// The text in a token that belongs to no destination; `None` when no key opens it, it holds no text, or it was written for
    /// one.
    #[must_use]
    pub fn decrypt(&self, token: &str) -> Option<String> {
        match self.read(token, NO_DESTINATION)? {
            (_, Mark::Elsewhere) => None,
            (plain, Mark::Here | Mark::Absent) => Some(plain),
        }
    }

    pub(crate) fn read(&self, token: &str, purpose: &str) -> Option<(String, Mark)> {
        let mut keys = std::iter::once(&self.current).chain(&self.previous);
        let (plain, mark) = keys.find_map(|key| key.read(token, purpose))?;
        Some((String::from_utf8(plain.to_vec()).ok()?, mark))
    }

    /// What is written for a value: itself when it already is a token of the current key, else a token (F1-SCR-05).
    #[must_use]
    pub fn seal(&self, value: &str) -> String {
        if !is_token(value) {
            return self.encrypt(value);
        }
        if self.current.read(value, NO_DESTINATION).is_some() {
            return value.to_owned();
        }
        self.decrypt(value).map_or_else(|| self.encrypt(value), |plain| self.encrypt(&plain))
    }

    /// What a stored or received value means: tokens are opened, masks, blanks, tokens of lost keys and of other destinations
    /// are no value, other texts are plain values of an older store or a client.
    #[must_use]
    pub fn open(cipher: Option<&Self>, stored: &str) -> Option<SecretText> {
        Self::open_for(cipher, stored, NO_DESTINATION).value()
    }

    pub(crate) fn open_for(cipher: Option<&Self>, stored: &str, purpose: &str) -> Opened {
        if stored.trim().is_empty() || stored == MASK {
            return Opened::Unset;
        }
        if !is_token(stored) {
            return Opened::Value(SecretText::new(stored));
        }
        match cipher.and_then(|cipher| cipher.read(stored, purpose)) {
            Some((plain, Mark::Here | Mark::Absent)) => Opened::Value(SecretText::new(plain)),
            Some((_, Mark::Elsewhere)) => {
                tracing::warn!("a stored secret was written for another destination, it is not used");
                Opened::Elsewhere
            }
            None => {
                tracing::warn!("a stored secret was written under a key that is not configured, it reads as unset");
                Opened::Unset
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher(current: &str, previous: &[&str]) -> Cipher {
        let previous: Vec<_> = previous.iter().copied().map(SecretText::new).collect();
        Cipher::new(&SecretText::new(current), &previous)
    }

    #[test]
    fn a_token_of_the_reference_is_read() {
        // Written by the reference's Cipher("a-secret-key").
        let token =
            "gAAAAABrDaOUmhNznq8zg5iq9ekl4r5j9A0-1Qmsek3NQR8PHXmsWD0v48iw_7TAywDkpBkIJ7KJvzS-8xa59aR6Wvve9dcISw==";
        assert_eq!(cipher("a-secret-key", &[]).decrypt(token).as_deref(), Some("sk-héllo"));
        assert_eq!(cipher("another", &[" ", "a-secret-key"]).decrypt(token).as_deref(), Some("sk-héllo"));
        assert_eq!(cipher("another", &["b"]).decrypt(token), None);
    }

    #[test]
    fn values_round_trip_and_rotate() {
        let (old, new) = (cipher("old", &[]), cipher("new", &["old"]));
        let token = old.encrypt("v");
        assert!(is_token(&token));
        assert_eq!(old.seal(&token), token, "a token is not wrapped again");
        let rotated = new.seal(&token);
        assert_eq!((old.decrypt(&rotated), new.decrypt(&rotated).as_deref()), (None, Some("v")));
    }

    #[test]
    fn what_a_stored_text_means() {
        let cipher = cipher("k", &[]);
        let open = |text: &str| Cipher::open(Some(&cipher), text).map(|value| value.expose().to_owned());
        assert_eq!(open(&cipher.encrypt("v")).as_deref(), Some("v"));
        assert_eq!(open("plain").as_deref(), Some("plain"));
        let others = [self::cipher("other", &[]).encrypt("v"), cipher.encrypt_for("v", "somewhere")];
        for nothing in ["", "  ", MASK, "gAAAAAbroken"].into_iter().chain(others.iter().map(String::as_str)) {
            assert_eq!(open(nothing), None, "{nothing}");
        }
        assert_eq!(Cipher::open(None, "plain").map(|value| value.expose().to_owned()).as_deref(), Some("plain"));
        assert_eq!(Cipher::open(None, &cipher.encrypt("v")), None, "a token is no value");
        assert_eq!(format!("{cipher:?}"), "Cipher { previous: 0, .. }");
    }
}
