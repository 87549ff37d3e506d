//! Compute sharing in made-up time: cards that run kernels, processes that launch them as the library
//! lets them, and the broker's own [`halfwarp_broker_core::State::step`] between them. A run of 30 s
//! takes a moment and is the same each time.
//!
//! What is modelled of the world is little: kernels have durations and run one after the other within a
//! process's stream, the driver takes turns between processes that have work, a message takes some
//! microseconds. Not modelled: memory, what kernels compute, two kernels on one card at once.
#![forbid(unsafe_code)]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod card;
mod load;
mod measure;
mod process;
mod random;
mod world;

pub use load::{Busy, Load, Op, Pair, Requests, Training};
pub use measure::{jain, percentile};
pub use process::Kernel;
pub use random::Random;
pub use world::{Spec, World, facts};

/// Nanoseconds of made-up time.
pub type Nanos = u64;

pub const US: Nanos = 1_000;
pub const MS: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000_000_000;
