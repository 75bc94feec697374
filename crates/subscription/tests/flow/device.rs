//! The sign-in with a code that is entered elsewhere.

use std::time::Duration;

use openhands_subscription::{DeviceLogin, DevicePoll, OAuthCredentials, Subscription, SubscriptionError};
use tokio_util::sync::CancellationToken;

use crate::stage::Stage;

/// Asks when the issuer wants to be asked again.
async fn later(subscription: &Subscription, login: &mut DeviceLogin) -> Result<DevicePoll, SubscriptionError> {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    subscription.poll_device(login).await
}

fn pending(polled: Result<DevicePoll, SubscriptionError>) -> Duration {
    match polled.unwrap() {
        DevicePoll::Pending(wait) => wait,
        DevicePoll::Done(_) => panic!("done"),
    }
}

fn done(polled: Result<DevicePoll, SubscriptionError>) -> OAuthCredentials {
    match polled.unwrap() {
        DevicePoll::Done(credentials) => credentials,
        DevicePoll::Pending(_) => panic!("pending"),
    }
}

#[tokio::test]
async fn a_code_that_is_entered_buys_tokens() {
    let stage = Stage::new().await;
    let subscription = stage.subscription();
    let mut login = subscription.start_device().await.unwrap();
    assert_eq!(login.verification_url(), format!("{}/codex/device", stage.service.issuer_url()));
    assert!(login.user_code().starts_with("CODE"));
    assert_eq!(login.interval(), Duration::from_secs(1));
    assert!(login.remaining() > Duration::from_secs(890));
    assert_eq!(pending(subscription.poll_device(&mut login).await), Duration::from_secs(1));
    stage.service.enter_code();
    // Too early: answered without asking.
    pending(subscription.poll_device(&mut login).await);
    assert_eq!(stage.service.polls(), 1);
    let credentials = done(later(&subscription, &mut login).await);
    assert_eq!(credentials.account(), Some(stage.service.account().id));
    let shown = format!("{login:?}");
    assert!(!shown.contains("device-number"), "{shown}");
}

#[tokio::test]
async fn the_issuers_wish_for_slowness_is_obeyed() {
    let stage = Stage::new().await;
    let subscription = stage.subscription();
    let mut login = subscription.start_device().await.unwrap();
    stage.service.fail_next("device", 400, r#"{"error":"slow_down"}"#);
    assert_eq!(pending(later(&subscription, &mut login).await), Duration::from_secs(6));
    stage.service.fail_next("device", 429, "");
    assert_eq!(pending(later(&subscription, &mut login).await), Duration::from_secs(11));
    assert_eq!(login.interval(), Duration::from_secs(11));
    for word in [r#"{"error":"authorization_pending"}"#, r#"{"error":{"code":"authorization_pending"}}"#] {
        stage.service.fail_next("device", 400, word);
        pending(later(&subscription, &mut login).await);
    }
    stage.service.fail_next("device", 404, "");
    pending(later(&subscription, &mut login).await);
}

#[tokio::test]
async fn a_no_and_a_late_code_end_it() {
    let stage = Stage::new().await;
    let subscription = stage.subscription();
    let mut login = subscription.start_device().await.unwrap();
    stage.service.deny_code();
    let error = subscription.poll_device(&mut login).await.unwrap_err();
    assert!(matches!(&error, SubscriptionError::Denied(text) if text.contains("access_denied")), "{error}");

    let mut login = subscription.start_device().await.unwrap();
    stage.service.expire_code();
    assert!(matches!(subscription.poll_device(&mut login).await.unwrap_err(), SubscriptionError::Expired));

    let mut login = subscription.start_device().await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(901)).await;
    tokio::time::resume();
    let polls = stage.service.polls();
    assert!(matches!(subscription.poll_device(&mut login).await.unwrap_err(), SubscriptionError::Expired));
    assert_eq!(stage.service.polls(), polls, "nobody was asked");
}

#[tokio::test]
async fn an_issuer_that_fails_may_be_asked_again() {
    let stage = Stage::new().await;
    let subscription = stage.subscription();
    stage.service.fail_next("usercode", 404, "");
    let error = subscription.start_device().await.unwrap_err();
    assert!(matches!(error, SubscriptionError::NoDeviceLogin(_)), "{error}");
    stage.service.fail_next("usercode", 500, "");
    assert!(subscription.start_device().await.unwrap_err().is_transient());
    for body in [
        "",
        "{}",
        r#"{"user_code":"","device_auth_id":"x"}"#,
        r#"{"user_code":"x","device_auth_id":"y","interval":"soon"}"#,
    ] {
        stage.service.fail_next("usercode", 200, body);
        let error = subscription.start_device().await.unwrap_err();
        assert!(matches!(error, SubscriptionError::BadAnswer(_)), "{body}: {error}");
    }
    let mut login = subscription.start_device().await.unwrap();
    stage.service.fail_next("device", 503, "");
    assert!(subscription.poll_device(&mut login).await.unwrap_err().is_transient());
    stage.service.enter_code();
    done(later(&subscription, &mut login).await);
}

#[tokio::test]
async fn waiting_asks_until_the_code_is_entered_or_nobody_wants_it() {
    let stage = Stage::new().await;
    let subscription = stage.subscription();
    let cancel = CancellationToken::new();
    let login = subscription.start_device().await.unwrap();
    stage.service.fail_next("device", 503, "");
    stage.service.enter_code();
    subscription.finish_device(login, &cancel).await.unwrap();

    let login = subscription.start_device().await.unwrap();
    let waiting = tokio::spawn({
        let (subscription, cancel) = (subscription.clone(), cancel.clone());
        async move { subscription.finish_device(login, &cancel).await }
    });
    cancel.cancel();
    assert!(matches!(waiting.await.unwrap().unwrap_err(), SubscriptionError::Cancelled));
}
