//! Entry point of the operator binary.
fn main() {}
