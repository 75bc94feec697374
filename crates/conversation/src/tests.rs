//! Whole conversations on a real store, with a scripted model and simple tools.

mod confirmation;
mod control;
mod crash;
mod failures;
mod stage;
mod storage;
mod storm;
mod turns;
