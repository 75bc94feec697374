//! Staying signed in: tokens are renewed once for all who wait, and no renewal is lost.

use std::{process::Command, sync::Arc, time::Duration};

use openhands_llm::{ClientOptions, Credentials, LlmRequest, client_with};
use openhands_protocol::{Content, Message, Role};
use openhands_subscription::{Subscription, SubscriptionError, Vendor};
use openhands_testkit::Turn;
use tokio_util::sync::CancellationToken;

use crate::stage::Stage;

fn token(credentials: &Credentials) -> String {
    match credentials {
        Credentials::Bearer { token, .. } => token.expose().to_owned(),
        Credentials::Aws { .. } => panic!("no bearer token"),
    }
}

#[tokio::test]
async fn good_tokens_are_used_as_they_are() {
    let stage = Stage::new().await;
    let stored = stage.signed_in(600);
    let source = stage.subscription().tokens();
    let Credentials::Bearer { token, headers } = source.current().await.unwrap() else { panic!("no bearer token") };
    assert_eq!(token, stored.access_token);
    let [(name, value)] = &headers[..] else { panic!("one header") };
    assert_eq!((name.as_str(), value.to_str().unwrap()), ("chatgpt-account-id", stage.service.account().id.as_str()));
    assert_eq!(stage.service.renewed(), 0);
}

#[tokio::test]
async fn many_callers_cause_one_renewal() {
    let stage = Stage::new().await;
    let before = stage.signed_in(30);
    stage.service.renew_in(Duration::from_millis(50));
    let source = stage.subscription().tokens();
    let callers = (0..50).map(|_| {
        let source = Arc::clone(&source);
        tokio::spawn(async move { token(&source.current().await.unwrap()) })
    });
    let mut tokens = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        tokens.push(caller.await.unwrap());
    }
    tokens.dedup();
    assert_eq!((tokens.len(), stage.service.renewed(), stage.service.refused()), (1, 1, 0));
    let after = stage.store().get(Vendor::OpenAi).unwrap().unwrap();
    assert_eq!(after.access_token.expose(), tokens[0]);
    assert_ne!(after.refresh_token, before.refresh_token, "the rotated token is kept");
}

#[tokio::test]
async fn instances_on_one_directory_lose_no_rotation() {
    let stage = Stage::new().await;
    stage.signed_in(-5);
    stage.service.renew_in(Duration::from_millis(30));
    let sources: Vec<_> = (0..6).map(|_| stage.subscription().tokens()).collect();
    let callers: Vec<_> = sources
        .iter()
        .cloned()
        .map(|source| tokio::spawn(async move { token(&source.current().await.unwrap()) }))
        .collect();
    let mut tokens = Vec::new();
    for caller in callers {
        tokens.push(caller.await.unwrap());
    }
    tokens.dedup();
    assert_eq!((tokens.len(), stage.service.renewed(), stage.service.refused()), (1, 1, 0));
}

const CHILD: &str = "OPENHANDS_TEST_RENEWS";

/// What a process of the next test does; nothing in a plain run.
#[tokio::test]
async fn a_process_that_renews() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let [dir, issuer, backend] = &told.split(' ').collect::<Vec<_>>()[..] else { panic!("{told}") };
    let pairs =
        [(openhands_subscription::ISSUER_VARIABLE, issuer), (openhands_subscription::BACKEND_VARIABLE, backend)];
    let service = openhands_subscription::Service::openai(|name| {
        pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (**value).to_owned())
    });
    let subscription = Subscription::new(openhands_subscription::CredentialStore::new(*dir), service.unwrap());
    subscription.renewed_if_needed().await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_on_one_directory_lose_no_rotation() {
    let stage = Stage::new().await;
    stage.signed_in(-5);
    stage.service.renew_in(Duration::from_millis(100));
    let told = format!("{} {} {}", stage.dir().display(), stage.service.issuer_url(), stage.service.backend_url());
    let mut children: Vec<_> = (0..3)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "renewal::a_process_that_renews"])
                .env(CHILD, &told)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    tokio::task::spawn_blocking(move || {
        for child in &mut children {
            assert!(child.wait().unwrap().success());
        }
    })
    .await
    .unwrap();
    assert_eq!((stage.service.renewed(), stage.service.refused()), (1, 0));
    assert!(!stage.store().get(Vendor::OpenAi).unwrap().unwrap().is_expired());
}

#[tokio::test]
async fn a_caller_who_goes_away_takes_no_tokens_along() {
    let stage = Stage::new().await;
    stage.signed_in(-5);
    stage.service.renew_in(Duration::from_millis(100));
    let source = stage.subscription().tokens();
    let caller = tokio::spawn({
        let source = Arc::clone(&source);
        async move { source.current().await }
    });
    stage.service.renewals_arrived(1).await;
    caller.abort();
    // Waits for its turn, and finds what the first renewal bought.
    source.current().await.unwrap();
    assert_eq!((stage.service.renewed(), stage.service.refused()), (1, 0));
}

#[tokio::test]
async fn a_quicker_reference_wins() {
    let stage = Stage::new().await;
    let old = stage.signed_in(-5);
    stage.service.renew_in(Duration::from_millis(100));
    let source = stage.subscription().tokens();
    let caller = tokio::spawn({
        let source = Arc::clone(&source);
        async move { source.current().await }
    });
    stage.service.renewals_arrived(1).await;
    // It takes no lock, has used the refresh token, and writes in place.
    stage.service.revoke_refresh();
    let new = stage.signed_in(600);
    assert_eq!(token(&caller.await.unwrap().unwrap()), new.access_token.expose());
    assert_ne!(new.access_token, old.access_token);
    assert_eq!(stage.store().get(Vendor::OpenAi).unwrap(), Some(new));
}

#[tokio::test]
async fn what_cannot_be_renewed_says_what_to_do() {
    let stage = Stage::new().await;
    let source = stage.subscription().tokens();
    let error = source.current().await.unwrap_err();
    assert!(error.code() == "LLMAuthenticationError" && error.to_string().contains("not signed in"), "{error}");
    let stored = stage.signed_in(-5);
    stage.service.revoke_refresh();
    let error = source.current().await.unwrap_err();
    assert!(error.code() == "LLMAuthenticationError" && error.to_string().contains("sign in again"), "{error}");
    assert!(!error.to_string().contains(stored.refresh_token.expose()));
    assert!(stage.file().contains(stored.refresh_token.expose()), "nothing is thrown away");
    stage.service.fail_next("token", 502, "<html>");
    assert_eq!(source.current().await.unwrap_err().code(), "LLMServiceUnavailableError");
    // The last minute of a token is better than nothing.
    let last = stage.signed_in(30);
    stage.service.fail_next("token", 502, "");
    assert_eq!(token(&source.current().await.unwrap()), last.access_token.expose());
}

#[tokio::test]
async fn tokens_of_another_issuer_go_nowhere() {
    let stage = Stage::new().await;
    let mut stored = stage.signed_in(-5);
    stored.issuer = None;
    stage.store().save(&stored).unwrap();
    let subscription = stage.subscription();
    assert_eq!(subscription.status().await.unwrap(), None);
    assert!(subscription.tokens().current().await.is_err());
    assert_eq!((stage.service.renewed(), stage.service.refused()), (0, 0));
}

#[tokio::test]
async fn tokens_that_cannot_be_stored_are_not_lost_while_we_run() {
    let stage = Stage::new().await;
    stage.signed_in(-5);
    stage.service.renew_in(Duration::from_millis(100));
    let source = stage.subscription().tokens();
    let caller = tokio::spawn({
        let source = Arc::clone(&source);
        async move { source.current().await }
    });
    stage.service.renewals_arrived(1).await;
    let away = stage.home().join("away");
    std::fs::rename(stage.dir(), &away).unwrap();
    std::fs::write(stage.dir(), "in the way").unwrap();
    let bought = token(&caller.await.unwrap().unwrap());
    std::fs::remove_file(stage.dir()).unwrap();
    std::fs::rename(&away, stage.dir()).unwrap();
    assert_eq!(token(&source.current().await.unwrap()), bought);
    assert_eq!((stage.service.renewed(), stage.service.refused()), (1, 0));
    // Whoever signs in again is newer.
    let new = stage.signed_in(600);
    assert_eq!(token(&source.current().await.unwrap()), new.access_token.expose());
}

#[tokio::test]
async fn signing_out_counts_at_once() {
    let stage = Stage::new().await;
    let subscription = stage.subscription();
    assert!(!subscription.logout().await.unwrap());
    assert!(!stage.dir().exists());
    stage.signed_in(600);
    let source = subscription.tokens();
    source.current().await.unwrap();
    assert!(subscription.has_valid_credentials().await.unwrap());
    assert!(
        subscription
            .status()
            .await
            .unwrap()
            .is_some_and(|status| status.account_email == Some(stage.service.account().email))
    );
    assert!(subscription.logout().await.unwrap());
    assert!(source.current().await.unwrap_err().to_string().contains("not signed in"));
    assert_eq!(subscription.status().await.unwrap(), None);
    stage.signed_in(30);
    assert!(!subscription.has_valid_credentials().await.unwrap());
}

#[tokio::test]
async fn a_call_is_made_with_the_plan_and_survives_a_revoked_token() {
    let stage = Stage::with([Turn::text("one"), Turn::text("two")]).await;
    stage.signed_in(600);
    let subscription = stage.subscription();
    let mut config = subscription.llm("gpt-5.2-codex", Some("be brief")).unwrap();
    config.num_retries = 1;
    let options = ClientOptions { credentials: Some(subscription.tokens()), ..ClientOptions::default() };
    let client = client_with(&config, &Default::default(), &options).unwrap();
    let request = LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: Vec::new() };
    let cancel = CancellationToken::new();
    let say = || client.complete(&request, None, &cancel);
    assert_eq!(say().await.unwrap().message.joined_text(), "one");
    assert_eq!(stage.service.calls()[0].body["instructions"], "be brief");
    stage.service.revoke_access();
    assert_eq!(say().await.unwrap().message.joined_text(), "two");
    assert_eq!((stage.service.renewed(), stage.service.calls().len()), (1, 2));
    // Nothing helps when the plan itself has ended.
    stage.service.revoke_access();
    stage.service.revoke_refresh();
    let error = say().await.unwrap_err();
    assert_eq!(error.code(), "LLMAuthenticationError");
}

#[tokio::test]
async fn a_directory_that_cannot_be_locked_costs_no_token() {
    let stage = Stage::new().await;
    stage.signed_in(-5);
    std::fs::create_dir(stage.dir().join(".openai_oauth.lock")).unwrap();
    let error = stage.subscription().renewed_if_needed().await.unwrap_err();
    assert!(matches!(error, SubscriptionError::Storage { what: "lock", .. }), "{error}");
    assert_eq!((stage.service.renewed(), stage.service.refused()), (0, 0));
}
