//! The whole way from nothing to a model slot.

use std::sync::Arc;

use openhands_subscription::{LoginMethod, LoginOptions, SubscriptionError, Vendor, subscription_login};
use tokio_util::sync::CancellationToken;

use crate::stage::{Somebody, Stage};

async fn login(
    stage: &Stage,
    person: &Arc<Somebody>,
    change: impl FnOnce(&mut LoginOptions),
) -> Result<openhands_protocol::LlmConfig, SubscriptionError> {
    let mut options = LoginOptions::default();
    change(&mut options);
    let person = Arc::clone(person);
    subscription_login(&stage.subscription(), person, options, &CancellationToken::new()).await
}

#[tokio::test]
async fn the_first_time_asks_and_later_ones_do_not() {
    let stage = Stage::new().await;
    let person = Arc::new(Somebody::with_browser());
    let llm = login(&stage, &person, |options| options.model = "gpt-5.2-codex".to_owned()).await.unwrap();
    assert_eq!(llm.model, "openai/gpt-5.2-codex");
    assert!(llm.is_subscription && llm.stream && llm.api_key.is_none());
    assert_eq!((llm.auth_type.as_str(), llm.subscription_vendor.as_deref()), ("subscription", Some("openai")));
    assert_eq!(llm.base_url, Some(stage.service.backend_url()));
    assert!(person.told().contains("terms-of-use") && person.told().contains("/oauth/authorize?"));
    let first = stage.file();
    assert!(first.contains("refresh_token"));

    let nobody = Arc::new(Somebody::new(false, false));
    let llm = login(&stage, &nobody, |_| {}).await.unwrap();
    assert_eq!(llm.model, "openai/gpt-5.5");
    assert_eq!((nobody.told().as_str(), stage.file()), ("", first.clone()));

    let again = Arc::new(Somebody::with_browser());
    login(&stage, &again, |options| options.force_login = true).await.unwrap();
    assert_ne!(stage.file(), first);
    // Nobody to ask, but the yes of the first time counts.
    let quiet = Arc::new(Somebody { present: false, ..Somebody::with_browser() });
    login(&stage, &quiet, |options| options.force_login = true).await.unwrap();
}

#[tokio::test]
async fn without_a_browser_the_address_is_shown() {
    let stage = Stage::new().await;
    let person = Arc::new(Somebody::new(true, true));
    let waiting = tokio::spawn({
        let (subscription, person) = (stage.subscription(), Arc::clone(&person));
        let options = LoginOptions { open_browser: false, ..LoginOptions::default() };
        async move { subscription_login(&subscription, person, options, &CancellationToken::new()).await }
    });
    let begin = format!("{}/oauth/authorize?", stage.service.issuer_url());
    let address = loop {
        let told = person.told();
        if let Some(address) = told.lines().find(|line| line.starts_with(&begin)) {
            break address.to_owned();
        }
        assert!(!waiting.is_finished());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    assert_eq!(crate::stage::browse(address.parse().unwrap()).await.0, 200);
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn by_code_the_code_is_shown() {
    let stage = Stage::new().await;
    let person = Arc::new(Somebody::new(true, true));
    let waiting = tokio::spawn({
        let (subscription, person) = (stage.subscription(), Arc::clone(&person));
        let options = LoginOptions { method: LoginMethod::DeviceCode, ..LoginOptions::default() };
        async move { subscription_login(&subscription, person, options, &CancellationToken::new()).await }
    });
    while !person.told().contains("CODE-number") {
        assert!(!waiting.is_finished());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    stage.service.enter_code();
    waiting.await.unwrap().unwrap();
    assert!(stage.file().contains("refresh_token"));
}

#[tokio::test]
async fn nothing_is_asked_for_what_cannot_be_had() {
    let stage = Stage::new().await;
    let person = Arc::new(Somebody::with_browser());
    let error = login(&stage, &person, |options| options.vendor = "acme".to_owned()).await.unwrap_err();
    assert!(matches!(error, SubscriptionError::UnsupportedVendor(_)), "{error}");
    let error = login(&stage, &person, |options| options.model = "gpt-4o".to_owned()).await.unwrap_err();
    assert!(matches!(error, SubscriptionError::UnsupportedModel { .. }), "{error}");
    assert_eq!(person.told(), "");
}

#[tokio::test]
async fn the_notice_needs_a_yes() {
    let stage = Stage::new().await;
    let refusing = Arc::new(Somebody { agrees: false, ..Somebody::with_browser() });
    assert!(matches!(login(&stage, &refusing, |_| {}).await.unwrap_err(), SubscriptionError::Declined));
    let nobody = Arc::new(Somebody { present: false, ..Somebody::with_browser() });
    assert!(matches!(login(&stage, &nobody, |_| {}).await.unwrap_err(), SubscriptionError::ConsentNeeded));
    assert!(!stage.dir().exists() && stage.home().exists());
    login(&stage, &nobody, |options| options.skip_consent = true).await.unwrap();
}

#[tokio::test]
async fn void_tokens_lead_to_a_new_sign_in_and_an_unreachable_issuer_does_not() {
    let stage = Stage::new().await;
    stage.signed_in(-10);
    stage.service.fail_next("token", 503, "");
    let person = Arc::new(Somebody::with_browser());
    let error = login(&stage, &person, |_| {}).await.unwrap_err();
    assert!(error.is_transient() && person.told().is_empty(), "{error}");
    stage.service.revoke_refresh();
    login(&stage, &person, |_| {}).await.unwrap();
    assert!(!stage.store().get(Vendor::OpenAi).unwrap().unwrap().is_expired());
}
