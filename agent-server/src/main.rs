//! Entry point of the agent-server binary.
fn main() {}
