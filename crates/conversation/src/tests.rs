//! Whole conversations on a real store, with a scripted model and simple tools.

mod condensing;
mod confirmation;
mod control;
mod crash;
mod disk;
mod failures;
mod fork;
mod limits;
mod models;
mod stage;
mod storage;
mod storm;
mod turns;
