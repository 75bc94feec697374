//! Entry point of the front door.
fn main() {}
