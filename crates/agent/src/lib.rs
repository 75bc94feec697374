//! Decides the next step of a run from events; no clock, network, files or async
