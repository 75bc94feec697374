//! Sign-ins that wait, against a vendor that is as strict as the public flow.

use openhands_subscription::{BACKEND_VARIABLE, ISSUER_VARIABLE, Vendor};
use openhands_testkit::PlanService;

use super::*;

struct Stage {
    service: PlanService,
    _home: tempfile::TempDir,
    sign_ins: SignIns,
}

async fn stage() -> Stage {
    let (service, home) = (PlanService::start([]).await, tempfile::tempdir().unwrap());
    let pairs = [(ISSUER_VARIABLE, service.issuer_url()), (BACKEND_VARIABLE, service.backend_url())];
    let addresses =
        Service::openai(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())).unwrap();
    let sign_ins = SignIns::with(Subscription::new(CredentialStore::new(home.path().join("auth")), addresses));
    Stage { service, _home: home, sign_ins }
}

impl Stage {
    fn stored(&self) -> bool {
        self.sign_ins.subscription().store().get(Vendor::OpenAi).unwrap().is_some()
    }
}

#[tokio::test]
async fn a_sign_in_is_known_by_its_secret_until_it_is_done() {
    let stage = stage().await;
    let started = stage.sign_ins.start().await.unwrap();
    assert_eq!(started.secret.len(), 64);
    assert!(matches!(stage.sign_ins.poll(&started.user_code).await, Err(SignInError::Unknown)));
    stage.service.enter_code();
    let status = stage.sign_ins.poll(&started.secret).await.unwrap().unwrap();
    assert_eq!(status.account_email, Some(stage.service.account().email));
    assert!(stage.stored());
    assert!(matches!(stage.sign_ins.poll(&started.secret).await, Err(SignInError::Unknown)));
}

#[tokio::test]
async fn so_many_may_wait_and_signing_out_gives_them_up() {
    let stage = stage().await;
    let mut secrets = Vec::new();
    for _ in 0..MAX_WAITING {
        secrets.push(stage.sign_ins.start().await.unwrap().secret);
    }
    assert!(matches!(stage.sign_ins.start().await, Err(SignInError::TooMany)));
    stage.sign_ins.end().await.unwrap();
    for secret in secrets {
        assert!(matches!(stage.sign_ins.poll(&secret).await, Err(SignInError::Unknown)));
    }
    stage.sign_ins.start().await.unwrap();
}

#[tokio::test]
async fn a_start_that_fails_takes_no_place() {
    let stage = stage().await;
    for _ in 0..=MAX_WAITING {
        stage.service.fail_next("usercode", 500, "");
        assert!(matches!(stage.sign_ins.start().await, Err(SignInError::Failed(_))));
    }
    stage.sign_ins.start().await.unwrap();
}

#[tokio::test]
async fn the_end_of_a_sign_in_is_told_once() {
    let stage = stage().await;
    let started = stage.sign_ins.start().await.unwrap();
    stage.service.deny_code();
    let denied = stage.sign_ins.poll(&started.secret).await;
    assert!(matches!(denied, Err(SignInError::Failed(SubscriptionError::Denied(_)))));
    assert!(matches!(stage.sign_ins.poll(&started.secret).await, Err(SignInError::Unknown)));
    let started = stage.sign_ins.start().await.unwrap();
    stage.service.expire_code();
    assert!(matches!(stage.sign_ins.poll(&started.secret).await, Err(SignInError::Unknown)));
    assert!(!stage.stored());
}

#[tokio::test]
async fn an_issuer_that_fails_can_be_asked_again() {
    let stage = stage().await;
    let started = stage.sign_ins.start().await.unwrap();
    stage.service.fail_next("device", 503, "");
    assert!(matches!(stage.sign_ins.poll(&started.secret).await, Err(SignInError::Failed(_))));
    assert!(stage.sign_ins.poll(&started.secret).await.unwrap().is_none());
}

#[tokio::test]
async fn who_signs_out_while_the_issuer_answers_stays_out() {
    let stage = stage().await;
    let started = stage.sign_ins.start().await.unwrap();
    stage.service.enter_code();
    let (polled, ended) = tokio::join!(stage.sign_ins.poll(&started.secret), stage.sign_ins.end());
    ended.unwrap();
    assert!(polled.unwrap().is_none());
    assert!(!stage.stored());
}
