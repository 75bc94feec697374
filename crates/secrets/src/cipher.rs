//! Secrets at rest: Fernet tokens that the reference's `cryptography` package reads and writes (protocol section 6, F1-PER-08).

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use fernet::Fernet;
use openhands_protocol::secret::{MASK, SecretText};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// How tokens begin: version byte 0x80 and the upper bytes of a 64 bit time before the year 2106, in base64.
const TOKEN_PREFIX: &str = "gAAAAA";

/// Whether a stored text is a token rather than a plain value of an older store.
#[must_use]
pub fn is_token(text: &str) -> bool {
    text.starts_with(TOKEN_PREFIX)
}

/// Encrypts with the current key and reads what the current or a previous key wrote.
#[derive(Clone)]
pub struct Cipher {
    current: Fernet,
    previous: Vec<Fernet>,
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
        Self { current: derive(primary), previous: previous.map(derive).collect() }
    }

    /// A token for `plain`; each call gives another one.
    #[must_use]
    pub fn encrypt(&self, plain: &str) -> String {
        self.current.encrypt(plain.as_bytes())
    }

    /// The text in a token; `None` when no key opens it or it holds no text.
    #[must_use]
    pub fn decrypt(&self, token: &str) -> Option<String> {
        let plain = std::iter::once(&self.current).chain(&self.previous).find_map(|key| key.decrypt(token).ok())?;
        String::from_utf8(plain).ok()
    }

    /// What is written for a value: itself when it already is a token of the current key, else a token (F1-SCR-05).
    #[must_use]
    pub fn seal(&self, value: &str) -> String {
        if !is_token(value) {
            return self.encrypt(value);
        }
        if self.current.decrypt(value).is_ok() {
            return value.to_owned();
        }
        self.decrypt(value).map_or_else(|| self.encrypt(value), |plain| self.encrypt(&plain))
    }

    /// What a stored or received value means: tokens are opened, masks, blanks and tokens of lost keys are no value, other
    /// texts are plain values of an older store or a client.
    #[must_use]
    pub fn open(cipher: Option<&Self>, stored: &str) -> Option<SecretText> {
        if stored.trim().is_empty() || stored == MASK {
            return None;
        }
        match cipher {
            Some(cipher) if is_token(stored) => {
                let plain = cipher.decrypt(stored);
                if plain.is_none() {
                    tracing::warn!("a stored secret was written under a key that is not configured, it reads as unset");
                }
                plain.map(SecretText::new)
            }
            _ => Some(SecretText::new(stored)),
        }
    }
}

#[expect(
    clippy::expect_used,
    reason = "a Fernet key of 32 bytes in base64 is always valid, and there is no other way to make one"
)]
fn derive(key: &SecretText) -> Fernet {
    let digest = Sha256::digest(key.expose().as_bytes());
    let encoded = Zeroizing::new(URL_SAFE.encode(digest));
    Fernet::new(&encoded).expect("a key of 32 bytes")
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
        for nothing in ["", "  ", MASK, "gAAAAAbroken", &self::cipher("other", &[]).encrypt("v")] {
            assert_eq!(open(nothing), None, "{nothing}");
        }
        assert_eq!(Cipher::open(None, "plain").map(|value| value.expose().to_owned()).as_deref(), Some("plain"));
        assert_eq!(format!("{cipher:?}"), "Cipher { previous: 0, .. }");
    }
}
