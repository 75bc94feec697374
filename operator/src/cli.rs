//! The command line. Every flag has an environment variable of the same meaning, so that a Deployment can use either.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Makes pods, claims and status follow Conversations and WarmPools.
#[derive(Debug, Parser)]
#[command(name = "openhands-operator", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the controller.
    Controller(Box<Controller>),
    /// Print the CustomResourceDefinitions as YAML.
    Crds {
        /// Write one file a definition into this folder instead.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

/// Flags of the controller.
#[derive(Args, Clone, Debug)]
pub struct Controller {
    /// Namespace of the operator: Lease, keyring and EndpointSlice live there.
    #[arg(long, env = "POD_NAMESPACE", default_value = "openhands-system")]
    pub namespace: String,
    /// Name of this replica, the identity in the Lease; a random one when absent.
    #[arg(long, env = "POD_NAME")]
    pub identity: Option<String>,
    /// Address of this replica, which the leader writes into the EndpointSlice.
    #[arg(long, env = "POD_IP")]
    pub pod_ip: Option<IpAddr>,
    /// Serve only this namespace; all when absent or empty.
    #[arg(long, env = "WATCH_NAMESPACE")]
    pub watch_namespace: Option<String>,
    /// Context of the kubeconfig; inside a cluster its own configuration is used.
    #[arg(long, env = "KUBE_CONTEXT")]
    pub context: Option<String>,
    /// Name of the Lease.
    #[arg(long, env = "LEASE_NAME", default_value = "openhands-operator")]
    pub lease_name: String,
    /// How long a silent leader keeps its office, seconds; it gives up by itself after two thirds of that.
    #[arg(long, env = "LEASE_DURATION_SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u32).range(3..=600))]
    pub lease_duration_seconds: u32,
    /// Name of the Secret with the operator's own keys.
    #[arg(long, env = "KEYRING_SECRET", default_value = "openhands-operator-keyring")]
    pub keyring_secret: String,
    /// Where `/metrics`, `/healthz` and `/readyz` are served.
    #[arg(long, env = "METRICS_ADDR", default_value = "0.0.0.0:8080")]
    pub metrics_addr: SocketAddr,
    /// Where servers in sandbox pods report.
    #[arg(long, env = "REPORT_ADDR", default_value = "0.0.0.0:8090")]
    pub report_addr: SocketAddr,
    /// Service without selector in front of the leader's report endpoint; empty for none.
    #[arg(long, env = "REPORT_SERVICE", default_value = "openhands-operator-reports")]
    pub report_service: String,
    /// Address that servers report to, instead of the Service's name: `http://host:port`.
    #[arg(long, env = "REPORT_URL")]
    pub report_url: Option<String>,
    /// Image of sandbox pods whose template names none.
    #[arg(long, env = "SANDBOX_IMAGE", default_value = "localhost/openhands-agent-server:dev")]
    pub sandbox_image: String,
    /// Image whose server is copied into pods whose template names an image and no server image; empty: the image's own.
    #[arg(long, env = "SANDBOX_SERVER_IMAGE", default_value = "")]
    pub sandbox_server_image: String,
    /// When images of sandbox pods are pulled, unless their template says so.
    #[arg(long, env = "SANDBOX_IMAGE_PULL_POLICY", default_value = "IfNotPresent")]
    pub sandbox_image_pull_policy: PullPolicy,
    /// Address ranges that restricted sandboxes do not reach: the cluster's own, private and link-local ones.
    #[arg(
        long,
        env = "CLUSTER_CIDRS",
        value_delimiter = ',',
        default_value = "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,169.254.0.0/16,fc00::/7,fe80::/10"
    )]
    pub cluster_cidrs: Vec<String>,
    /// Conversations that are worked on at the same time.
    #[arg(long, env = "WORKERS", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: u16,
    /// Calls to the API server at the same time on the way of claims; each needs a connection.
    #[arg(long, env = "API_CONNECTIONS", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub api_connections: u16,
    /// How often a running conversation that did not report is asked, seconds; idle ones ten times as seldom.
    #[arg(long, env = "POLL_SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub poll_seconds: u32,
    /// Filter of log lines: a level, or directives.
    #[arg(long, env = "LOG_FILTER", default_value = "info")]
    pub log_filter: String,
    /// How log lines look.
    #[arg(long, env = "LOG_FORMAT", default_value = "json")]
    pub log_format: LogFormat,
}

/// When images are pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum PullPolicy {
    /// Each time.
    Always,
    /// When the node has none.
    IfNotPresent,
    /// Not at all.
    Never,
}

impl PullPolicy {
    /// As in a pod.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl Controller {
    /// The one namespace that is served, if it is one.
    #[must_use]
    pub fn watched_namespace(&self) -> Option<String> {
        self.watch_namespace.clone().filter(|namespace| !namespace.is_empty())
    }

    /// How long a silent leader keeps its office.
    #[must_use]
    pub fn lease_duration(&self) -> Duration {
        Duration::from_secs(u64::from(self.lease_duration_seconds))
    }

    /// Where servers report to; `None` when nothing leads to this replica.
    #[must_use]
    pub fn report_base(&self) -> Option<String> {
        if let Some(url) = self.report_url.as_ref().filter(|url| !url.is_empty()) {
            return Some(url.trim_end_matches('/').to_owned());
        }
        let port = self.report_addr.port();
        (!self.report_service.is_empty())
            .then(|| format!("http://{}.{}.svc:{port}", self.report_service, self.namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_usable_defaults() {
        let cli = Cli::try_parse_from(["openhands-operator", "controller", "--namespace", "here"]).unwrap();
        let Command::Controller(controller) = cli.command else { panic!("controller") };
        assert_eq!(controller.report_base().as_deref(), Some("http://openhands-operator-reports.here.svc:8090"));
        assert_eq!(controller.sandbox_image_pull_policy.as_str(), "IfNotPresent");
    }
}
