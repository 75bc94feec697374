//! A vendor that sells plans: its sign-in by browser and by code, its tokens with rotation, and the backend that takes them.
//!
//! Follows the public flow and is as strict as it: proof keys are checked, codes are good once, refresh tokens change with every
//! use and a used one is refused. What a person does in a browser is a method here.

mod backend;
mod book;
mod issuer;

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use self::book::Book;
use crate::{ScriptedModel, SeenRequest, Turn};

/// Who pays.
#[derive(Clone, Debug)]
pub struct Account {
    /// Stands in tokens, and in a header of each call.
    pub id: String,
    /// Stands in tokens.
    pub email: String,
}

/// The vendor, on 127.0.0.1. Ends when it is dropped.
#[derive(Debug)]
pub struct PlanService {
    address: SocketAddr,
    vendor: Arc<Vendor>,
    model: ScriptedModel,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct Vendor {
    book: Mutex<Book>,
    failures: Mutex<VecDeque<(&'static str, u16, String)>>,
    delay: Mutex<Duration>,
    /// Renewals that have arrived.
    renewals: watch::Sender<usize>,
}

impl Vendor {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next request of this kind is answered with instead.
    fn failure(&self, of: &str) -> Option<Response> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let place = failures.iter().position(|(kind, ..)| *kind == of)?;
        let (_, status, body) = failures.remove(place)?;
        Some((StatusCode::from_u16(status).unwrap_or_default(), body).into_response())
    }
}

impl PlanService {
    /// Starts the vendor; its backend answers with these turns.
    ///
    /// # Panics
    /// When no port can be bound.
    #[expect(clippy::expect_used, reason = "a test cannot go on without its server")]
    pub async fn start(turns: impl IntoIterator<Item = Turn>) -> Self {
        let model = ScriptedModel::start(turns).await;
        let vendor = Arc::new(Vendor {
            book: Mutex::new(Book::default()),
            failures: Mutex::default(),
            delay: Mutex::default(),
            renewals: watch::Sender::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on 127.0.0.1");
        let address = listener.local_addr().expect("a bound address");
        let router = Router::new()
            .route("/issuer/oauth/authorize", get(issuer::authorize))
            .route("/issuer/oauth/token", post(issuer::token))
            .route("/issuer/api/accounts/deviceauth/usercode", post(issuer::user_code))
            .route("/issuer/api/accounts/deviceauth/token", post(issuer::device_token))
            .with_state(Arc::clone(&vendor))
            .merge(backend::router(Arc::clone(&vendor), model.script()));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { address, vendor, model, server }
    }

    /// Where it signs people in.
    #[must_use]
    pub fn issuer_url(&self) -> String {
        format!("http://{}/issuer", self.address)
    }

    /// Where its models answer.
    #[must_use]
    pub fn backend_url(&self) -> String {
        format!("http://{}/backend/codex", self.address)
    }

    /// Who signs in.
    #[must_use]
    pub fn account(&self) -> Account {
        self.vendor.book().account.clone()
    }

    /// Calls that the backend let through to the model.
    #[must_use]
    pub fn calls(&self) -> Vec<SeenRequest> {
        self.model.requests()
    }

    /// Adds turns to the end of the script.
    pub fn push(&self, turns: impl IntoIterator<Item = Turn>) {
        self.model.push(turns);
    }

    /// A person enters the newest code and says yes.
    pub fn enter_code(&self) {
        self.vendor.book().answer_codes(&book::Entered::Yes);
    }

    /// A person says no.
    pub fn deny_code(&self) {
        self.vendor.book().answer_codes(&book::Entered::No);
    }

    /// Nobody came in time.
    pub fn expire_code(&self) {
        self.vendor.book().answer_codes(&book::Entered::TooLate);
    }

    /// The next request of this kind (`usercode`, `device`, `token`, `backend`) is answered so.
    pub fn fail_next(&self, kind: &'static str, status: u16, body: &str) {
        let mut failures = self.vendor.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.push_back((kind, status, body.to_owned()));
    }

    /// How long the tokens live that are sold from now on.
    pub fn sell_for(&self, seconds: i64) {
        self.vendor.book().life = seconds;
    }

    /// How long a renewal takes.
    pub fn renew_in(&self, delay: Duration) {
        *self.vendor.delay.lock().unwrap_or_else(PoisonError::into_inner) = delay;
    }

    /// The backend takes none of the access tokens sold so far.
    pub fn revoke_access(&self) {
        self.vendor.book().access.clear();
    }

    /// The issuer takes none of the refresh tokens sold so far.
    pub fn revoke_refresh(&self) {
        self.vendor.book().refresh.clear();
    }

    /// A pair of tokens as if somebody had signed in: access, refresh.
    #[must_use]
    pub fn sell(&self) -> (String, String) {
        self.vendor.book().sell()
    }

    /// How often tokens were renewed.
    #[must_use]
    pub fn renewed(&self) -> usize {
        self.vendor.book().renewed
    }

    /// How often a refresh token came that was none, or used before.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.vendor.book().refused
    }

    /// How often the issuer was asked whether a code was entered.
    #[must_use]
    pub fn polls(&self) -> usize {
        self.vendor.book().polls
    }

    /// Waits until so many renewals have arrived, answered or not.
    pub async fn renewals_arrived(&self, count: usize) {
        let _ = self.vendor.renewals.subscribe().wait_for(|arrived| *arrived >= count).await;
    }
}

impl Drop for PlanService {
    fn drop(&mut self) {
        self.server.abort();
    }
}
