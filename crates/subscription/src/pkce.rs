//! Random texts of a sign-in: the proof key that ties the code to us (RFC 7636), and the state that ties the answer to the
//! question (RFC 6749, 10.12).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Random bytes behind each text.
const ENTROPY: usize = 32;

/// A proof key; the verifier leaves the process only with the exchange of the code.
pub(crate) struct Pkce {
    pub(crate) verifier: String,
    pub(crate) challenge: String,
}

impl Pkce {
    pub(crate) fn random() -> Self {
        let verifier = random_text();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        Self { verifier, challenge }
    }
}

/// 43 characters that go into addresses as they are.
pub(crate) fn random_text() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; ENTROPY]>())
}

/// Compares without telling by its time how much is right.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_fresh_and_challenges_follow_from_them() {
        let (one, other) = (Pkce::random(), Pkce::random());
        assert_eq!((one.verifier.len(), one.challenge.len()), (43, 43));
        assert_ne!(one.verifier, other.verifier);
        // The example of RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert!(is_same("a", "a") && !is_same("a", "b") && !is_same("a", "ab"));
    }
}
