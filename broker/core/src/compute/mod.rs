//! Turns on the compute engines of each card. Who has the lease, who is next, whose gate is open.
//!
//! A *party* gets and loses leases together: one tenant, or the tenants of one group. A card is
//! *contested* when its mode is not `timesharing` and there is somebody else to think of or a limit to
//! keep; on any other card all gates are open and nothing is counted. On a contested card one party
//! has the lease at a time. The way of a turn:
//!
//! | | where |
//! |---|---|
//! | a process says `Want` at a closed gate: its party asks | [`frames`] |
//! | the party that is next gets the lease: the gates of all its processes open | [`assign`], [`turn`] |
//! | its time is up and somebody else is next, or all its processes are idle | [`assign`] |
//! | its gates close and every process says when its work has ended | [`turn`] |
//! | the time from grant to then is charged | [`books`] |
//!
//! Closing is an attempt. Work that does not end within the deadline may wait for a launch that waits
//! at the gate: the gate opens again, the time is charged, and the next attempt comes later and lasts
//! longer. A party that can't be closed does not keep the others out for ever: they run beside it.
//!
//! Nothing here knows of kernels or of how a process finds out that its work has ended.

mod account;
mod assign;
mod books;
mod frames;
mod gates;
mod partner;
mod party;
mod rank;
mod rates;
mod shown;
mod turn;

use std::collections::BTreeMap;

use crate::{Nanos, card::Uuid};

pub(crate) use gates::Seat;
pub use gates::{Gate, GateWords};
pub(crate) use party::Party;
pub use shown::{LeaseCounters, WAIT_BOUNDS_NS};

/// Most work in flight on a contested card.
pub const BOUND_NS: u32 = 4_000_000;
/// For the one party above all others on its card: metered, so that it says when it is idle, and in
/// effect not bounded.
pub const BOUND_HIGHEST_NS: u32 = u32::MAX;
/// How long the first attempt to close waits for work to end. The second waits three times as long,
/// the third nine times.
pub const DRAIN_NS: Nanos = 50_000_000;
/// How much later than its deadline an answer may come before its process counts as stopped.
pub const SILENCE_NS: Nanos = 20_000_000;
/// From a turn's first attempt to close until others run beside it.
pub const PATIENCE_NS: Nanos = 600_000_000;
/// The first turn of each party beside one that could not be closed.
pub(crate) const PROBE_NS: Nanos = 20_000_000;
/// Most that a party may be behind others of its class for that.
pub(crate) const PROBE_DEBT_NS: f64 = 300e6;
/// Pause after a failed attempt; doubled each time, up to the second figure.
pub const BACK_OFF_NS: Nanos = 20_000_000;
pub const BACK_OFF_MAX_NS: Nanos = 1_000_000_000;
/// Failures in a row that make a party interlocked.
pub const FAILURES_MAX: u32 = 3;

/// All about turns.
#[derive(Debug, Default)]
pub(crate) struct Compute {
    pub(crate) parties: BTreeMap<u64, Party>,
    pub(crate) engines: BTreeMap<Uuid, Engine>,
    /// Until when the books are written.
    written_until: Nanos,
    /// Who is joined where, or an entitlement, may have changed.
    pub(crate) stale: bool,
    /// When something is due, as the last look found.
    due: Option<Nanos>,
    next_drain: u32,
}

/// A card's compute side.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub(crate) contested: bool,
    pub(crate) lease_ns: Nanos,
    pub(crate) counters: LeaseCounters,
}
