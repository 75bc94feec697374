//! What the vendor remembers: questions that wait for an answer, codes and tokens that are good.

use std::collections::{HashMap, HashSet};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Account;

/// What became of a code that a person was to enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    NotYet,
    Yes,
    No,
    TooLate,
}

/// A code of the browser or of a device, until it is bought with.
#[derive(Debug)]
pub(super) struct Sold {
    /// How the address ends that must be named.
    pub(super) redirect: String,
    pub(super) challenge: String,
}

#[derive(Debug)]
pub(super) struct Book {
    pub(super) account: Account,
    /// Seconds.
    pub(super) life: i64,
    pub(super) codes: HashMap<String, Sold>,
    /// By device id: the user's code and what became of it.
    pub(super) devices: HashMap<String, (String, Entered)>,
    pub(super) access: HashSet<String>,
    pub(super) refresh: HashSet<String>,
    pub(super) renewed: usize,
    pub(super) refused: usize,
    pub(super) polls: usize,
    number: usize,
}

impl Default for Book {
    fn default() -> Self {
        Self {
            account: Account { id: "acct-7".to_owned(), email: "someone@example.com".to_owned() },
            life: 3600,
            codes: HashMap::new(),
            devices: HashMap::new(),
            access: HashSet::new(),
            refresh: HashSet::new(),
            renewed: 0,
            refused: 0,
            polls: 0,
            number: 0,
        }
    }
}

impl Book {
    pub(super) fn next(&mut self, what: &str) -> String {
        self.number += 1;
        format!("{what}-number-{}", self.number)
    }

    pub(super) fn answer_codes(&mut self, entered: &Entered) {
        for (_, state) in self.devices.values_mut() {
            state.clone_from(entered);
        }
    }

    /// A code that buys tokens once.
    pub(super) fn sell_code(&mut self, redirect: &str, challenge: &str) -> String {
        let code = self.next("code");
        self.codes.insert(code.clone(), Sold { redirect: redirect.to_owned(), challenge: challenge.to_owned() });
        code
    }

    /// Whether the code was good for this.
    pub(super) fn take_code(&mut self, code: &str, redirect: &str, verifier: &str) -> bool {
        let Some(sold) = self.codes.remove(code) else { return false };
        redirect.ends_with(&sold.redirect) && sold.challenge == challenge(verifier)
    }

    pub(super) fn sell(&mut self) -> (String, String) {
        let refresh = self.next("refresh");
        let access = jwt(&json!({
            "jti": self.next("access"),
            "https://api.openai.com/auth": {"chatgpt_account_id": self.account.id},
            "https://api.openai.com/profile": {"email": self.account.email},
        }));
        self.access.insert(access.clone());
        self.refresh.insert(refresh.clone());
        (access, refresh)
    }

    /// The answer that sells a pair.
    pub(super) fn bill(&mut self) -> Value {
        let (access, refresh) = self.sell();
        let id = jwt(&json!({"chatgpt_account_id": self.account.id, "email": self.account.email}));
        json!({
            "access_token": access, "refresh_token": refresh, "id_token": id, "token_type": "Bearer", "expires_in": self.life,
        })
    }
}

pub(super) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

fn jwt(claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{}", part(&json!({"alg": "none"})), part(claims), URL_SAFE_NO_PAD.encode("signature"))
}
