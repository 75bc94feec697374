//! Putting the process together: servers, leadership, then the controller.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use openhands_crds::manifest;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tracing_subscriber::EnvFilter;

use crate::{
    api::{self, ClientOptions, Kube},
    cli::{Controller, LogFormat},
    context::Context,
    conversation, dispatch,
    elector::{Candidate, Elector, Kept},
    endpoint,
    events::Events,
    keyring::{Keyring, random_hex},
    metrics::Metrics,
    queue::Queue,
    report, serve,
    view::{self, World},
};

/// Longest wait for one call to the API server.
const CALL: Duration = Duration::from_secs(10);
/// How many watches have to have seen everything before anything is decided.
const WATCHES: usize = 4;

/// Prints the CustomResourceDefinitions, or writes one file each into a folder.
///
/// # Errors
/// When they cannot be written.
pub fn crds(dir: Option<&Path>) -> anyhow::Result<()> {
    let Some(dir) = dir else {
        use std::io::Write;
        std::io::stdout().write_all(manifest::yaml()?.as_bytes())?;
        return Ok(());
    };
    for definition in manifest::definitions() {
        let name = format!("{}.yaml", definition.metadata.name.as_deref().unwrap_or_default());
        let path = dir.join(name);
        std::fs::write(&path, manifest::one_yaml(&definition)?).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Runs the controller until it is asked to stop or loses its leadership.
///
/// # Errors
/// When it cannot begin, or when the leadership is lost: the process ends then, since two leaders are worse than none.
pub fn controller(options: Controller) -> anyhow::Result<()> {
    log(&options)?;
    // Another part of the process may have installed one already; both are the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(run(options));
    runtime.shutdown_timeout(Duration::from_secs(2));
    outcome
}

fn log(options: &Controller) -> anyhow::Result<()> {
    let mut filter = EnvFilter::try_new(&options.log_filter).context("--log-filter")?;
    // The client logs each failure by itself; it is logged where it is handled.
    if !options.log_filter.contains("kube_client") {
        filter = filter.add_directive("kube_client=off".parse()?);
    }
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match options.log_format {
        LogFormat::Json => lines.json().flatten_event(true).init(),
        LogFormat::Text => lines.init(),
    }
    Ok(())
}

async fn run(options: Controller) -> anyhow::Result<()> {
    let (metrics, health) = (Metrics::default(), serve::Health::default());
    let (filled, context) = watch::channel(None);
    let listener = TcpListener::bind(options.metrics_addr).await.context("--metrics-addr")?;
    let shown = tokio::spawn(serve::metrics(listener, metrics.clone(), health.clone()));
    let listener = TcpListener::bind(options.report_addr).await.context("--report-addr")?;
    let reports = tokio::spawn(report::serve(listener, context));

    let stop = stopped()?;
    let mut elector = elector(&options, &metrics).await?;
    let mut early = stop.clone();
    tokio::select! {
        () = wait(&mut early) => return Ok(()),
        outcome = stand_by(&mut elector, &options, &metrics, &health) => outcome?,
    }
    tracing::info!(identity = options.identity, "leading");
    let outcome = tokio::select! {
        kept = elector.keep(stop) => match kept {
            Kept::Stopped => Ok(()),
            Kept::Lost => Err(anyhow::anyhow!("the Lease was lost: leaving, so that nobody acts beside the new leader")),
        },
        outcome = lead(&options, &metrics, &health, &filled) => outcome,
        ended = shown => Err(anyhow::anyhow!("the metrics server ended: {ended:?}")),
        ended = reports => Err(anyhow::anyhow!("the report server ended: {ended:?}")),
    };
    metrics.leader.set(0);
    filled.send_replace(None);
    if outcome.is_ok() {
        elector.release().await;
    }
    outcome
}

async fn stand_by(
    elector: &mut Elector,
    options: &Controller,
    metrics: &Metrics,
    health: &serve::Health,
) -> anyhow::Result<()> {
    // A replica that waits is ready when it can reach the API server: the answer to its first look at the Lease tells.
    let probe = Kube::new(api::build(options.context.as_deref(), ClientOptions::default(), metrics).await?, 1, CALL);
    let reachable = async {
        loop {
            let lease =
                probe.get::<k8s_openapi::api::coordination::v1::Lease>(&options.namespace, &options.lease_name).await;
            if lease.is_ok() {
                health.set_ready();
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = elector.acquire() => Ok(()),
        () = reachable => Ok(()),
    }
}

/// The elector has a client of its own, with time-outs that are short against the Lease, so that a slow call of the
/// controller never costs the office.
async fn elector(options: &Controller, metrics: &Metrics) -> anyhow::Result<Elector> {
    let limit = (options.lease_duration() / 5).max(Duration::from_millis(500));
    let client = api::build(options.context.as_deref(), ClientOptions { connect: limit }, metrics).await?;
    let identity = options.identity.clone().unwrap_or_else(|| format!("openhands-operator-{}", random_hex::<4>()));
    let candidate = Candidate {
        namespace: options.namespace.clone(),
        lease: options.lease_name.clone(),
        identity,
        duration: options.lease_duration(),
    };
    Ok(Elector::new(Kube::new(client, 1, limit), candidate))
}

async fn lead(
    options: &Controller,
    metrics: &Metrics,
    health: &serve::Health,
    filled: &watch::Sender<Option<Arc<Context>>>,
) -> anyhow::Result<()> {
    let client = api::build(options.context.as_deref(), ClientOptions::default(), metrics).await?;
    let kube = Kube::new(client.clone(), usize::from(options.api_connections), CALL);
    let refill = Kube::new(client.clone(), 4, CALL);
    let keyring = load_keyring(&kube, options).await;
    let reporter = options.identity.clone().unwrap_or_default();
    let cx = Arc::new(Context {
        events: Events::start(Kube::new(client.clone(), 1, CALL), reporter),
        kube,
        refill,
        world: Arc::new(World::default()),
        keyring,
        metrics: metrics.clone(),
        conversations: Queue::default(),
        pool_queue: Queue::default(),
        memory: conversation::Memory::default(),
        pools: crate::pool::Pools::default(),
        reports: conversation::Reports::default(),
        claiming: crate::context::Claiming::default(),
        options: options.clone(),
    });
    let (synced, mut seen) = watch::channel(0);
    let told = {
        let cx = Arc::clone(&cx);
        move |watched| dispatch::told(&cx, watched)
    };
    let world = Arc::clone(&cx.world);
    let watches = tokio::spawn(view::run_watches(client, options.watched_namespace(), world, synced, told));
    let watches = AbortOnDrop(watches);
    // Nothing is decided before everything was seen once: half a picture makes pools grow and sandboxes look lost.
    seen.wait_for(|count| *count >= WATCHES).await.context("the watches ended")?;
    publish(&cx).await;
    filled.send_replace(Some(Arc::clone(&cx)));
    health.set_ready();
    metrics.leader.set(1);
    let _workers = dispatch::work(&cx);
    let _sweep = AbortOnDrop(tokio::spawn(conversation::sweep_orphans(Arc::clone(&cx))));
    let _keep = AbortOnDrop(tokio::spawn(dispatch::housekeeping(Arc::clone(&cx))));
    let mut watches = watches;
    let ended = (&mut watches.0).await;
    Err(anyhow::anyhow!("the watches ended: {ended:?}"))
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn load_keyring(kube: &Kube, options: &Controller) -> Keyring {
    loop {
        match Keyring::load(kube, &options.namespace, &options.keyring_secret).await {
            Ok(keyring) => return keyring,
            Err(error) => tracing::error!(%error, "no keyring; trying again"),
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// The leader's address for reports. Without it reports are lost and polls tell the same later.
async fn publish(cx: &Arc<Context>) {
    let options = &cx.options;
    let (Some(address), false) = (options.pod_ip, options.report_service.is_empty()) else { return };
    let port = options.report_addr.port();
    if let Err(error) = endpoint::publish(&cx.kube, &options.namespace, &options.report_service, address, port).await {
        tracing::warn!(%error, "the address for reports could not be published; trying again in the background");
        let cx = Arc::clone(cx);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(10)).await;
                let options = &cx.options;
                if endpoint::publish(&cx.kube, &options.namespace, &options.report_service, address, port).await.is_ok()
                {
                    return;
                }
            }
        });
    }
}

/// True once the process is asked to stop.
fn stopped() -> anyhow::Result<watch::Receiver<bool>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to stop");
        sender.send_replace(true);
        // Keeps the channel open for those who look later.
        std::future::pending::<()>().await;
    });
    Ok(receiver)
}

async fn wait(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
