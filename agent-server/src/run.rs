//! A server from its configuration to its end.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    config::{self, Config, Variables},
    init, router, server,
    state::AppState,
    supervise::Link,
};

/// The exit code for a configuration that cannot be used; trying again without a change is useless.
pub const BAD_CONFIGURATION: u8 = 78;

/// What the command line says.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on; by default the loopback one, all when keys are set.
    pub host: Option<String>,
    /// The port.
    pub port: u16,
    /// How long everything may take to end once the server is asked to.
    pub grace: Duration,
    /// Whether a parent process supervises this one.
    pub supervised: bool,
}

/// Serves until a signal asks to end.
pub async fn run(options: Options) -> ExitCode {
    let variables: Variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let config::Loaded { config, warnings } = match config::load(&variables) {
        Ok(loaded) => loaded,
        Err(error) => {
            tracing::error!(%error, "the configuration cannot be used");
            return ExitCode::from(BAD_CONFIGURATION);
        }
    };
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    match serve(options, config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the server cannot run");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options, config: Config) -> anyhow::Result<()> {
    use anyhow::Context;

    // Before the first request, so that no signal finds nobody listening.
    let stop = stop_signal()?;
    let link = options.supervised.then(Link::take).transpose().context("cannot reach the parent process")?;
    let inherited = match &link {
        Some(link) => link.inherited().await.context("the parent process does not answer")?,
        None => None,
    };
    let listener = listen(&options, &config).await?;
    let state = start(config, link).await?;
    if let Some(request) = inherited
        && let Err(error) = init::repeat(&state, request).await
    {
        tracing::error!(%error, "cannot initialise again after the crash; waiting for POST /api/init");
    }
    let router = router::build(state.clone());
    tracing::info!(address = %listener.local_addr()?, dormant = state.app().is_err(), "serving");
    if let Some(link) = state.link() {
        link.serving().await.context("cannot reach the parent process")?;
    }
    let serving = tokio::spawn(server::serve(listener, router, state.clone(), stop.clone()));
    stop.cancelled().await;
    tracing::info!("stopping");
    // Sockets end first: what their conversations still do is read again after the reconnect.
    state.shutdown().cancel();
    if let Ok(app) = state.app() {
        app.drain(options.grace).await;
    }
    state.drained().cancel();
    serving.await.context("the server's task failed")?;
    state.reports().close();
    if tokio::time::timeout(LAST_REPORT, state.reports().wait()).await.is_err() {
        tracing::warn!("the last report was not delivered in time");
    }
    Ok(())
}

/// How long the last report may take.
const LAST_REPORT: Duration = Duration::from_secs(3);

/// The state of a new server: dormant when its initialisation is deferred, else ready.
///
/// # Errors
/// When the services cannot be set up.
pub async fn start(config: Config, link: Option<Link>) -> anyhow::Result<AppState> {
    let deferred = config.deferred_init;
    let state = AppState::dormant(config.clone(), link);
    if !deferred {
        let app = App::set_up(config, std::collections::BTreeMap::new()).await?;
        // Nobody else can have taken the turn yet.
        if let Ok(turn) = state.begin_init() {
            turn.succeed(app);
        }
    }
    Ok(state)
}

async fn listen(options: &Options, config: &Config) -> anyhow::Result<TcpListener> {
    use anyhow::Context;

    let is_open = config.session_api_keys.is_empty();
    let host = options.host.clone().unwrap_or_else(|| if is_open { "127.0.0.1" } else { "0.0.0.0" }.to_owned());
    let listener = TcpListener::bind((host.as_str(), options.port))
        .await
        .with_context(|| format!("cannot listen on {host} port {}; --host and --port choose another", options.port))?;
    let is_local = listener.local_addr().is_ok_and(|address: SocketAddr| address.ip().is_loopback());
    if is_open && !is_local && !config.deferred_init {
        tracing::warn!("no session keys are set: everybody who reaches this address can run commands here");
    }
    Ok(listener)
}

/// Fires when the process is asked to end.
fn stop_signal() -> std::io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut stream = signal(kind)?;
        let stop = stop.clone();
        tokio::spawn(async move {
            stream.recv().await;
            stop.cancel();
        });
    }
    Ok(stop)
}
