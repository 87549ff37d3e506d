//! What the library decides about a call, without doing anything: the ledger word ([`ledger`]), what
//! an array may cost ([`array`]), how a thread passes a gate ([`pass`]), when calls of ours are not
//! allowed ([`bans`]), how long kernels take ([`durations`]) and how much of that may be in flight
//! ([`flight`]), and the structs by which the two stages of the library know each other
//! ([`stage`]).
//!
//! No I/O, no allocation, no unsafe code, no driver: everything here runs in a unit test.
#![cfg_attr(not(any(test, loom)), no_std)]
#![forbid(unsafe_code)]

pub mod array;
mod atomic;
pub mod bans;
pub mod durations;
pub mod flight;
pub mod image;
pub mod ledger;
pub mod pass;
pub mod stage;
