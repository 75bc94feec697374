//! The token format (Fernet): version, time, IV, AES-128-CBC, HMAC-SHA256, in URL-safe base64. Any Fernet reader opens our
//! tokens and we open any writer's.
//!
//! What is our own is the choice of the IV: it is no random number but made of two keyed tags over the content, which any reader
//! takes for a random number. The first tells that this program wrote the token, the second for which purpose, so that a token
//! cannot be moved to another place. Knows nothing of what the purposes are.

use std::time::{SystemTime, UNIX_EPOCH};

use aes::{
    Aes128,
    cipher::{BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _, block_padding::Pkcs7},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use hmac::{Hmac, KeyInit as _, Mac};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

const VERSION: u8 = 0x80;
const TIME: usize = 8;
const IV: usize = 16;
const TAG: usize = IV / 2;
const HEAD: usize = 1 + TIME + IV;
const SIGNATURE: usize = 32;

/// One secret key.
#[derive(Clone)]
pub(crate) struct Key {
    signing: Zeroizing<[u8; 16]>,
    encryption: Zeroizing<[u8; 16]>,
    tagging: Zeroizing<[u8; 32]>,
}

/// What an opened token says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Written by us for this purpose.
    Here,
    /// Written by us for another purpose.
    Elsewhere,
    /// Written by another Fernet implementation, which knows no purposes.
    Absent,
}

impl Key {
    /// From a secret key string, as the reference derives its own.
    pub(crate) fn new(secret: &str) -> Self {
        let digest = Zeroizing::new(<[u8; 32]>::from(Sha256::digest(secret.as_bytes())));
        let (mut signing, mut encryption) = (Zeroizing::new([0; 16]), Zeroizing::new([0; 16]));
        let (first, second) = digest.split_at(16);
        signing.copy_from_slice(first);
        encryption.copy_from_slice(second);
        let tagging = Zeroizing::new(mac(&*digest, &[b"openhands: purpose of a token, 1"]));
        Self { signing, encryption, tagging }
    }

    /// A token that holds `plain` for `purpose`. Equal within one second for equal content.
    pub(crate) fn write(&self, plain: &[u8], purpose: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.write_at(plain, purpose, now.to_be_bytes())
    }

    fn write_at(&self, plain: &[u8], purpose: &str, time: [u8; TIME]) -> String {
        let iv = self.iv(plain, purpose, &time);
        let sealed =
            cbc::Encryptor::<Aes128>::new((&*self.encryption).into(), (&iv).into()).encrypt_padded_vec::<Pkcs7>(plain);
        let mut token = Vec::with_capacity(HEAD + sealed.len() + SIGNATURE);
        token.push(VERSION);
        token.extend(time);
        token.extend(iv);
        token.extend(sealed);
        let signature = mac(&*self.signing, &[&token]);
        token.extend(signature);
        URL_SAFE.encode(token)
    }

    /// The content and what the token says of `purpose`; `None` when another key wrote it or it is damaged.
    pub(crate) fn read(&self, token: &str, purpose: &str) -> Option<(Zeroizing<Vec<u8>>, Mark)> {
        let token = URL_SAFE.decode(token).ok()?;
        let (signed, signature) = token.split_at_checked(token.len().checked_sub(SIGNATURE)?)?;
        let (head, sealed) = signed.split_at_checked(HEAD)?;
        if head.first() != Some(&VERSION) || !bool::from(mac(&*self.signing, &[signed]).ct_eq(signature)) {
            return None;
        }
        let (time, iv) = head.get(1..)?.split_first_chunk::<TIME>()?;
        let iv: &[u8; IV] = iv.try_into().ok()?;
        let plain = cbc::Decryptor::<Aes128>::new((&*self.encryption).into(), iv.into())
            .decrypt_padded_vec::<Pkcs7>(sealed)
            .map(Zeroizing::new)
            .ok()?;
        let expected = self.iv(&plain, purpose, time);
        let same = |from: usize| iv.iter().zip(&expected).skip(from).take(TAG).all(|(a, b)| a == b);
        let mark = match (same(0), same(TAG)) {
            (true, true) => Mark::Here,
            (true, false) => Mark::Elsewhere,
            (false, _) => Mark::Absent,
        };
        Some((plain, mark))
    }

    /// Two tags of 64 bits: "ours", and "for this purpose". Unpredictable without the key, as CBC demands of an IV.
    fn iv(&self, plain: &[u8], purpose: &str, time: &[u8; TIME]) -> [u8; IV] {
        let ours = mac(&*self.tagging, &[b"ours", time, plain]);
        let length = (purpose.len() as u64).to_be_bytes();
        let bound = mac(&*self.tagging, &[b"bind", time, &length, purpose.as_bytes(), plain]);
        let mut iv = [0; IV];
        let tags = ours.iter().take(TAG).chain(bound.iter().take(TAG));
        iv.iter_mut().zip(tags).for_each(|(place, byte)| *place = *byte);
        iv
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC takes keys of every length; the other arm is never reached and would match nothing.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: &Key, token: &str, purpose: &str) -> Option<(String, Mark)> {
        let (plain, mark) = key.read(token, purpose)?;
        Some((String::from_utf8(plain.to_vec()).unwrap(), mark))
    }

    #[test]
    fn a_token_knows_its_purpose_and_its_writer() {
        let key = Key::new("k");
        let token = key.write(b"value", "a");
        assert_eq!(read(&key, &token, "a"), Some(("value".to_owned(), Mark::Here)));
        assert_eq!(read(&key, &token, "b"), Some(("value".to_owned(), Mark::Elsewhere)));
        assert_eq!(read(&key, &token, ""), Some(("value".to_owned(), Mark::Elsewhere)));
        assert_eq!(read(&Key::new("other"), &token, "a"), None);
    }

    #[test]
    fn the_specification_s_example_of_reading_is_read() {
        // Of the reference's Cipher("a-secret-key"): a random IV.
        let token =
            "gAAAAABrDaOUmhNznq8zg5iq9ekl4r5j9A0-1Qmsek3NQR8PHXmsWD0v48iw_7TAywDkpBkIJ7KJvzS-8xa59aR6Wvve9dcISw==";
        assert_eq!(read(&Key::new("a-secret-key"), token, "a"), Some(("sk-héllo".to_owned(), Mark::Absent)));
    }

    #[test]
    fn damaged_tokens_are_no_tokens() {
        let key = Key::new("k");
        let token = key.write("any content of more than one block".as_bytes(), "a");
        for place in 0..token.len() {
            let mut damaged = token.clone().into_bytes();
            damaged[place] = if damaged[place] == b'A' { b'B' } else { b'A' };
            let damaged = String::from_utf8(damaged).unwrap();
            assert!(key.read(&damaged, "a").is_none(), "{place}");
            assert!(key.read(&token[..place], "a").is_none(), "{place}");
        }
        for nothing in ["", "gAAAAA", "gAAAAAB", "é"] {
            assert!(key.read(nothing, "").is_none());
        }
    }
}
