//! The notice before a first sign-in, and the mark that it was agreed to (F2-SUBS-11r).

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;

use crate::{CredentialStore, Person, SubscriptionError};

/// The reference's name, so that one consent serves both.
const MARK: &str = ".chatgpt_consent_acknowledged";

const NOTICE: &str = "\
You are about to sign in with your own ChatGPT account. Models will be paid for by its plan, and OpenAI's terms of use apply:
https://openai.com/policies/terms-of-use/
";

/// Shows the notice. On a terminal a yes is asked for each time; without one an earlier yes counts. Blocks.
///
/// # Errors
/// [`SubscriptionError::Declined`], [`SubscriptionError::ConsentNeeded`].
pub(crate) fn ask(store: &CredentialStore, person: &dyn Person) -> Result<(), SubscriptionError> {
    let mark = store.dir().join(MARK);
    person.tell(NOTICE);
    if !person.is_present() {
        return if mark.exists() { Ok(()) } else { Err(SubscriptionError::ConsentNeeded) };
    }
    if !person.agrees("Sign in?") {
        return Err(SubscriptionError::Declined);
    }
    store.prepare()?;
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&mark);
    opened.map(drop).map_err(SubscriptionError::storage("write", mark))
}
