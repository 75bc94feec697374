//! The vendor, a directory for tokens, and a person who does as told.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use openhands_protocol::secret::SecretText;
use openhands_subscription::{
    BACKEND_VARIABLE, CredentialStore, ISSUER_VARIABLE, OAuthCredentials, Person, Service, Subscription, Vendor,
};
use openhands_testkit::{PlanService, Turn};
use url::Url;

pub(crate) struct Stage {
    pub(crate) service: PlanService,
    home: tempfile::TempDir,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with([]).await
    }

    pub(crate) async fn with(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { service: PlanService::start(turns).await, home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn addresses(&self) -> Service {
        let pairs = [(ISSUER_VARIABLE, self.service.issuer_url()), (BACKEND_VARIABLE, self.service.backend_url())];
        Service::openai(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone()))
            .unwrap()
            .with_port(0)
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.home.path().join("auth")
    }

    pub(crate) fn store(&self) -> CredentialStore {
        CredentialStore::new(self.dir())
    }

    /// As another process would have it: nothing is shared but the directory.
    pub(crate) fn subscription(&self) -> Subscription {
        Subscription::new(self.store(), self.addresses())
    }

    /// Somebody signed in, and the access token ends so many seconds from now.
    pub(crate) fn signed_in(&self, seconds: i64) -> OAuthCredentials {
        let (access, refresh) = self.service.sell();
        let credentials = OAuthCredentials {
            vendor: Vendor::OpenAi,
            access_token: SecretText::new(access),
            refresh_token: SecretText::new(refresh),
            expires_at: jiff::Timestamp::now().as_millisecond() + seconds * 1000,
            account_id: None,
            issuer: Some(format!("{}", Url::parse(&self.service.issuer_url()).unwrap())),
        };
        self.store().save(&credentials).unwrap();
        credentials
    }

    pub(crate) fn file(&self) -> String {
        std::fs::read_to_string(self.dir().join("openai_oauth.json")).unwrap_or_default()
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }
}

/// What a person's browser did with the address it was given.
type Browsing = Arc<dyn Fn(Url) + Send + Sync>;

/// A person who answers as the test says.
pub(crate) struct Somebody {
    pub(crate) present: bool,
    pub(crate) agrees: bool,
    pub(crate) browsing: Option<Browsing>,
    pub(crate) told: Mutex<Vec<String>>,
}

impl Somebody {
    pub(crate) fn new(present: bool, agrees: bool) -> Self {
        Self { present, agrees, browsing: None, told: Mutex::default() }
    }

    /// Follows the address as a browser would, to the end.
    pub(crate) fn with_browser() -> Self {
        let browsing: Browsing = Arc::new(|address| {
            tokio::spawn(browse(address));
        });
        Self { browsing: Some(browsing), ..Self::new(true, true) }
    }

    pub(crate) fn told(&self) -> String {
        self.told.lock().unwrap().join("\n")
    }
}

impl Person for Somebody {
    fn tell(&self, text: &str) {
        self.told.lock().unwrap().push(text.to_owned());
    }

    fn is_present(&self) -> bool {
        self.present
    }

    fn agrees(&self, _: &str) -> bool {
        self.agrees
    }

    fn open(&self, address: &Url) -> bool {
        let Some(browsing) = &self.browsing else { return false };
        browsing(address.clone());
        true
    }
}

/// Goes to the issuer and back; the status and the text of the last page.
pub(crate) async fn browse(address: Url) -> (u16, String) {
    let client = openhands_llm::http_client().unwrap();
    let answer = client.get(address).send().await.unwrap();
    let back = answer.headers()["location"].to_str().unwrap().to_owned();
    visit(&back).await
}

/// One page of the local address.
pub(crate) async fn visit(address: &str) -> (u16, String) {
    let client = openhands_llm::http_client().unwrap();
    let answer = client.get(address.replace("localhost", "127.0.0.1")).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}
