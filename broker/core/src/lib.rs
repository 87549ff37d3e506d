//! Every decision of the broker: who is admitted, who joins, who may hold how much, what an ended
//! process still blocks. Facts come in as [`Event`]s, what follows goes out as [`Action`]s.
//!
//! There is no clock, descriptor, thread or file here, and no randomness: the same events give the
//! same actions, so that a run that failed is replayed by its events. The daemon is a loop around
//! [`State::step`].
#![forbid(unsafe_code)]

mod admit;
mod card;
mod change;
mod compute;
mod context;
mod death;
mod event;
mod exhausted;
mod join;
mod ledger;
mod look;
mod recall;
mod reclaim;
mod residency;
mod resize;
mod room;
mod saved;
mod select;
mod settle;
mod state;
mod tenant;
mod view;
mod watch;

pub use admit::{Reason, Rejection};
pub use card::{CardFacts, Uuid, UuidError};
pub use change::Change;
pub use compute::{
    BACK_OFF_MAX_NS, BACK_OFF_NS, BOUND_HIGHEST_NS, BOUND_NS, DRAIN_NS, FAILURES_MAX, Gate,
    GateWords, LeaseCounters, PATIENCE_NS, SILENCE_NS, WAIT_BOUNDS_NS,
};
pub use event::{
    Action, Admitted, CardSample, ClientId, Event, Happening, Kind, PageRef, PageWord, Peer,
    Runner, Sample, Stray, WelcomeGpu, Word,
};
pub use look::Slice;
pub use residency::{MoveCounters, PoolFigures, Progress, ResidencyWords, SwapConfig};
pub use saved::{Saved, SavedGpu, SavedTenant};
pub use state::{Config, Counters, State};

/// `CLOCK_MONOTONIC`, as the daemon reads it.
pub type Nanos = u64;

/// How long a process has for its `Return`; after that it counts as using all it was allowed.
pub const RECALL_NS: Nanos = 100_000_000;
/// How long NVML has to show a new context; after that the charge stays.
pub const CONTEXT_NS: Nanos = 200_000_000;
/// From one look at the cards to the next, while nothing settles and while something does.
pub const SAMPLE_NS: Nanos = 1_000_000_000;
pub const SETTLING_SAMPLE_NS: Nanos = 100_000_000;
/// Bytes of an ended process that the card still shows after this long are called unattributed.
pub const SETTLE_NS: Nanos = 1_000_000_000;
/// A private broker goes this long after its last tenant, and waits longer for its first.
pub const LINGER_NS: Nanos = 5_000_000_000;
pub const FIRST_TENANT_NS: Nanos = 10_000_000_000;
/// How long a restarted broker keeps a tenant's room for processes that have yet to come back.
pub const RETURN_HOME_NS: Nanos = 2_000_000_000;

/// How long a grow waits that its tenant is owed; a little less than the library does.
pub const GROW_NS: Nanos = 9_500_000_000;
/// How long it waits for bytes of ended processes alone: longer than they should take.
pub const SETTLE_WAIT_NS: Nanos = 2_000_000_000;
/// From telling a tenant to end until it is killed.
pub const END_GRACE_NS: Nanos = 1_000_000_000;

/// Units by which an allowance is rounded up while the limit is far: 64 MiB.
pub const SLACK_UNITS: u64 = (64 << 20) / halfwarp_api::UNIT_BYTES;
