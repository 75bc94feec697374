//! The remote side of the agent-server protocol: a bounded HTTP client
