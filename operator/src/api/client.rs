//! Building a client: time-outs, no hidden retries, own writes counted.

use std::time::Duration;

use kube::{Client, Config, client::ClientBuilder, config::KubeConfigOptions};

use super::count::CountWrites;
use crate::metrics::Metrics;

/// How a client behaves.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// For connecting, and for writing a request.
    pub connect: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5) }
    }
}

/// A client for the cluster this process runs in, or the one of the kubeconfig.
///
/// # Errors
/// When there is neither, or it cannot be used.
pub async fn build(context: Option<&str>, options: ClientOptions, metrics: &Metrics) -> anyhow::Result<Client> {
    let mut config = match context {
        Some(context) => {
            let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
            Config::from_kubeconfig(&options).await?
        }
        None => Config::infer().await?,
    };
    config.connect_timeout = Some(options.connect);
    config.write_timeout = Some(options.connect);
    // Calls are bounded where they are made; a retry that nobody sees would hide what a time-out means.
    config.default_retry = false;
    Ok(ClientBuilder::try_from(config)?.with_layer(&CountWrites::new(metrics.clone())).build())
}
