//! Container images without Docker: what lies in them, written as OCI layouts, brought to where a cluster finds them.

pub(crate) mod build;
pub(crate) mod debian;
pub(crate) mod deliver;
pub(crate) mod layer;
pub(crate) mod layout;
pub(crate) mod pause;
pub(crate) mod rust;

/// The operator.
pub(crate) const OPERATOR: &str = "localhost/openhands-operator:dev";
/// The agent-server in a Debian root with the usual tools.
pub(crate) const AGENT: &str = "localhost/openhands-agent-server:dev";
/// Only the agent-server's binary, to be injected into any image.
pub(crate) const STATIC: &str = "localhost/openhands-agent-server-static:dev";

/// The user that every image runs as unless the pod says otherwise.
pub(crate) const USER: u64 = 10001;
