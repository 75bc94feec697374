//! Event log, state and lease on disk
