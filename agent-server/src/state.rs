//! What routes share: the boot configuration, where deferred initialisation stands, and, once the server is initialised, the
//! [`App`]. A dormant server has no `App`, so no handler can reach a service before its time.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use openhands_protocol::init::{InitState, InitStatus};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{auth::SessionKeys, config::Config, cors::Origins, error::ApiError, supervise::Link};

pub use crate::app::App;

/// The state of the router; clones are cheap and all mean the same server.
#[derive(Clone)]
pub struct AppState {
    shared: Arc<Shared>,
}

struct Shared {
    boot: Config,
    phase: RwLock<Phase>,
    boot_keys: SessionKeys,
    boot_origins: Origins,
    boot_root_path: Arc<str>,
    clock: Clock,
    link: Option<Link>,
    shutdown: CancellationToken,
    drained: CancellationToken,
    reports: TaskTracker,
}

/// Where initialisation stands. `Ready` is final.
enum Phase {
    Dormant { error: Option<String> },
    Initializing,
    Ready(Arc<App>),
}

impl Phase {
    const fn state(&self) -> InitState {
        match self {
            Self::Dormant { .. } => InitState::Dormant,
            Self::Initializing => InitState::Initializing,
            Self::Ready(_) => InitState::Ready,
        }
    }
}

/// The right to initialise: one at a time. Dropping it unused makes the server dormant again.
pub struct InitTurn {
    state: AppState,
    done: bool,
}

impl AppState {
    /// A server that waits for its initialisation. `link` leads to the parent process that keeps the init payload.
    #[must_use]
    pub fn dormant(boot: Config, link: Option<Link>) -> Self {
        let shared = Shared {
            boot_keys: SessionKeys::new(&boot.session_api_keys),
            boot_origins: Origins::new(&boot),
            boot_root_path: boot.root_path().into(),
            phase: RwLock::new(Phase::Dormant { error: None }),
            clock: Clock::start(),
            shutdown: CancellationToken::new(),
            drained: CancellationToken::new(),
            reports: TaskTracker::new(),
            boot,
            link,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The configuration the process started with.
    #[must_use]
    pub fn boot(&self) -> &Config {
        &self.shared.boot
    }

    /// Fires when the server is to stop: long answers and sockets end.
    #[must_use]
    pub fn shutdown(&self) -> &CancellationToken {
        &self.shared.shutdown
    }

    /// Fires when the conversations have ended: what is reported now is final.
    #[must_use]
    pub fn drained(&self) -> &CancellationToken {
        &self.shared.drained
    }

    /// The tasks that send reports; awaited before the process ends.
    #[must_use]
    pub fn reports(&self) -> &TaskTracker {
        &self.shared.reports
    }

    /// The way to the parent process, when there is one.
    #[must_use]
    pub fn link(&self) -> Option<&Link> {
        self.shared.link.as_ref()
    }

    /// Uptime and idle time.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The initialised application.
    ///
    /// # Errors
    /// 503 while the server is dormant or initialises.
    pub fn app(&self) -> Result<Arc<App>, ApiError> {
        match &*self.phase() {
            Phase::Ready(app) => Ok(Arc::clone(app)),
            phase => Err(ApiError::Unavailable(format!(
                "the server is {}: it waits for POST /api/init",
                match phase.state() {
                    InitState::Dormant => "dormant",
                    InitState::Initializing | InitState::Ready => "initializing",
                }
            ))),
        }
    }

    /// The keys that open the API now.
    #[must_use]
    pub fn keys(&self) -> SessionKeys {
        match &*self.phase() {
            Phase::Ready(app) => app.keys.clone(),
            Phase::Dormant { .. } | Phase::Initializing => self.shared.boot_keys.clone(),
        }
    }

    /// Whether a browser's origin may read answers now.
    #[must_use]
    pub fn allows_origin(&self, origin: &str) -> bool {
        match &*self.phase() {
            Phase::Ready(app) => app.origins.allow(origin),
            Phase::Dormant { .. } | Phase::Initializing => self.shared.boot_origins.allow(origin),
        }
    }

    /// The configuration in force now: that of the start, or what initialisation made of it.
    #[must_use]
    pub fn with_config<T>(&self, read: impl FnOnce(&Config) -> T) -> T {
        let app = match &*self.phase() {
            Phase::Ready(app) => Some(Arc::clone(app)),
            Phase::Dormant { .. } | Phase::Initializing => None,
        };
        read(app.as_ref().map_or(&self.shared.boot, |app| &app.config))
    }

    /// The path below which a proxy may address this server; empty without one.
    #[must_use]
    pub fn root_path(&self) -> Arc<str> {
        match &*self.phase() {
            Phase::Ready(app) => Arc::clone(&app.root_path),
            Phase::Dormant { .. } | Phase::Initializing => Arc::clone(&self.shared.boot_root_path),
        }
    }

    /// Where initialisation stands, as `GET /api/init` shows it.
    #[must_use]
    pub fn init_status(&self) -> InitStatus {
        let phase = self.phase();
        let error = match &*phase {
            Phase::Dormant { error } => error.clone(),
            Phase::Initializing | Phase::Ready(_) => None,
        };
        InitStatus { state: phase.state(), error, pod_uid: None, proof: None }
    }

    /// Takes the turn to initialise.
    ///
    /// # Errors
    /// 400 unless the server is dormant.
    pub fn begin_init(&self) -> Result<InitTurn, ApiError> {
        let mut phase = self.shared.phase.write().unwrap_or_else(PoisonError::into_inner);
        match &*phase {
            Phase::Dormant { .. } => {
                *phase = Phase::Initializing;
                Ok(InitTurn { state: self.clone(), done: false })
            }
            Phase::Initializing => Err(ApiError::BadRequest("an initialisation is under way already".to_owned())),
            Phase::Ready(_) => Err(ApiError::BadRequest("the server is initialised already".to_owned())),
        }
    }

    fn phase(&self) -> std::sync::RwLockReadGuard<'_, Phase> {
        self.shared.phase.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_phase(&self, phase: Phase) {
        *self.shared.phase.write().unwrap_or_else(PoisonError::into_inner) = phase;
    }
}

impl InitTurn {
    /// Opens the API.
    pub fn succeed(mut self, app: Arc<App>) {
        self.done = true;
        self.state.set_phase(Phase::Ready(app));
    }

    /// Back to dormant; the text is shown by `GET /api/init`.
    pub fn fail(mut self, error: String) {
        self.done = true;
        self.state.set_phase(Phase::Dormant { error: Some(error) });
    }
}

impl Drop for InitTurn {
    fn drop(&mut self) {
        if !self.done {
            self.state.set_phase(Phase::Dormant { error: Some("the initialisation was cut off".to_owned()) });
        }
    }
}

/// When the server started, and when it last worked for anybody.
pub struct Clock {
    start: Instant,
    last_work: AtomicU64,
}

impl Clock {
    fn start() -> Self {
        Self { start: Instant::now(), last_work: AtomicU64::new(0) }
    }

    /// Notes that something happened in a conversation or a command.
    pub fn touch(&self) {
        self.last_work.store(self.start.elapsed().as_secs(), Ordering::Relaxed);
    }

    /// Whole seconds since the start.
    #[must_use]
    pub fn uptime(&self) -> u64 {
        self.start.elapsed().as_secs()
    }

    /// Whole seconds since something happened.
    #[must_use]
    pub fn idle_time(&self) -> u64 {
        self.uptime().saturating_sub(self.last_work.load(Ordering::Relaxed))
    }
}
