//! The sign-in in a browser on this machine.

use openhands_subscription::SubscriptionError;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::stage::{Stage, browse, visit};

fn parameter(address: &Url, name: &str) -> String {
    address.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap()
}

#[tokio::test]
async fn the_browser_brings_a_code_and_the_code_buys_tokens() {
    let stage = Stage::new().await;
    let login = stage.subscription().login_in_browser().await.unwrap();
    let address = login.address().clone();
    assert!(address.as_str().starts_with(&format!("{}/oauth/authorize?", stage.service.issuer_url())));
    assert_eq!(parameter(&address, "code_challenge_method"), "S256");
    assert_eq!(parameter(&address, "scope"), "openid profile email offline_access");
    let browser = tokio::spawn(browse(address));
    let credentials = login.finish(&CancellationToken::new()).await.unwrap();
    let (status, page) = browser.await.unwrap();
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("You are signed in"), "{page}");
    assert!(!page.contains(credentials.access_token.expose()));
    assert_eq!(credentials.account(), Some(stage.service.account().id));
    assert_eq!(credentials.email(), Some(stage.service.account().email));
    assert!(!credentials.is_expired());
    assert_eq!(stage.file(), "", "whoever asked decides whether it is stored");
}

#[tokio::test]
async fn strangers_at_the_address_change_nothing() {
    let stage = Stage::new().await;
    let login = stage.subscription().login_in_browser().await.unwrap();
    let address = login.address().clone();
    let here = parameter(&address, "redirect_uri");
    let waiting = tokio::spawn(async move { login.finish(&CancellationToken::new()).await });
    for attack in [
        "?code=stolen&state=guess",
        "?error=access_denied",
        "?error=access_denied&state=",
        "?code=stolen",
        "",
        "?state=<script>",
    ] {
        let (status, page) = visit(&format!("{here}{attack}")).await;
        assert_eq!(status, 400, "{attack}");
        assert!(!page.contains("script>"), "{page}");
    }
    assert_eq!(visit(&here.replace("/auth/callback", "/other")).await.0, 404);
    assert_eq!(browse(address.clone()).await.0, 200);
    waiting.await.unwrap().unwrap();
    // Once: the port is free again.
    let gone = openhands_llm::http_client().unwrap().get(here.replace("localhost", "127.0.0.1")).send().await;
    assert!(gone.is_err());
}

#[tokio::test]
async fn only_the_first_answer_counts() {
    let stage = Stage::new().await;
    let login = stage.subscription().login_in_browser().await.unwrap();
    let address = login.address().clone();
    let (here, state) = (parameter(&address, "redirect_uri"), parameter(&address, "state"));
    let first = tokio::spawn(async move {
        visit(&format!("{here}?state={state}&error=access_denied&error_description=no%20%3Cb%3E")).await
    });
    let error = login.finish(&CancellationToken::new()).await.unwrap_err();
    assert!(matches!(&error, SubscriptionError::Denied(text) if text == "no <b>"), "{error}");
    let (status, page) = first.await.unwrap();
    assert_eq!(status, 502);
    assert!(page.contains("no &lt;b&gt;"), "{page}");
}

#[tokio::test]
async fn a_code_that_buys_nothing_is_told_to_both() {
    let stage = Stage::new().await;
    for (status, body, transient) in
        [(400, r#"{"error":"invalid_grant","error_description":"used"}"#, false), (503, "", true), (200, "{}", false)]
    {
        let login = stage.subscription().login_in_browser().await.unwrap();
        stage.service.fail_next("token", status, body);
        let browser = tokio::spawn(browse(login.address().clone()));
        let error = login.finish(&CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.is_transient(), transient, "{error}");
        let (status, page) = browser.await.unwrap();
        assert!(status == 502 && page.contains("The sign-in failed"), "{page}");
    }
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let stage = Stage::new().await;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let other = openhands_subscription::Subscription::new(stage.store(), stage.addresses().with_port(port));
    let error = other.login_in_browser().await.err().unwrap();
    assert!(matches!(error, SubscriptionError::PortInUse(named) if named == port));
    assert!(error.to_string().contains("OPENHANDS_OAUTH_PORT"));
    drop(taken);
    // A sign-in that is given up frees its port, as soon as its servers have noticed.
    let first = other.login_in_browser().await.unwrap();
    assert!(first.address().as_str().contains(&format!("localhost%3A{port}")));
    drop(first);
    for _ in 0..1000 {
        if other.login_in_browser().await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("the port stays in use");
}

#[tokio::test]
async fn a_sign_in_can_be_given_up_and_ends_by_itself() {
    let stage = Stage::new().await;
    let cancel = CancellationToken::new();
    let login = stage.subscription().login_in_browser().await.unwrap();
    cancel.cancel();
    assert!(matches!(login.finish(&cancel).await.unwrap_err(), SubscriptionError::Cancelled));

    let login = stage.subscription().login_in_browser().await.unwrap();
    tokio::time::pause();
    let error = login.finish(&CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, SubscriptionError::TimedOut(300)), "{error}");
}
