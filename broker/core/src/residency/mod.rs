//! Whose memory lies on a card and whose in host copies. Closes and opens the residency gates, sends
//! the two moves, keeps what is reserved for them, and hands host memory out.
//!
//! The unit of a move is a tenant on one card: its processes may share memory, so all of them leave, or
//! none. The way of a tenant's memory:
//!
//! | | where |
//! |---|---|
//! | each process gets chunks of host memory for what it may have to move | [`pool`] |
//! | somebody asks for memory that is not free: a grow that waits, a tenant that wants back | [`line`] |
//! | who has to go for it: the idle before the busy, the busy when their turn is over | [`victims`], [`turns`] |
//! | gates closed, `SwapOut`, each `Left` is room at once; or reserved, `SwapIn`, gates opened | [`moves`], [`ended`] |
//! | people's own moves: suspend and resume | [`suspend`] |
//! | a process that comes back to this or another broker | [`rejoin`] |
//!
//! Nothing here copies a byte, and no gate stays closed without somebody who is to open it: a move on
//! its way, a place in the line, a suspension.

mod ended;
mod frames;
mod line;
mod moves;
mod pool;
mod rejoin;
mod shown;
mod suspend;
mod turns;
mod victims;

use std::collections::BTreeMap;

use halfwarp_api::wire::Outcome;

use crate::{GROW_NS, Nanos, card::Uuid, event::Action, state::State};

pub(crate) use moves::Place;
pub(crate) use pool::{CHUNKS_KEPT, Chunk};
pub use shown::{MoveCounters, PoolFigures};
pub use suspend::Progress;
pub(crate) use suspend::Suspension;

/// How much later than its deadline the first sign of a move may come.
pub(crate) const GRACE_NS: Nanos = 1_000_000_000;
/// Slowest link that an arrival is expected to have, in bytes a second.
pub(crate) const SLOWEST_BYTES: u64 = 100 << 20;
/// Pause after a move that failed; doubled each time, up to the second figure.
pub(crate) const PAUSE_NS: Nanos = 1_000_000_000;
pub(crate) const PAUSE_MAX_NS: Nanos = 30_000_000_000;
/// A process may have said less than it took of the card by less than this: slack of the driver's
/// granules that did not fit below its limit.
pub(crate) const DEBT_UNITS: u64 = (2 << 20) / halfwarp_api::UNIT_BYTES;

/// What the operator decides about swap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwapConfig {
    /// Host memory for copies, of all tenants together; 0: no swap.
    pub pool_bytes: u64,
    /// Without a launch for so long a tenant is idle.
    pub idle_after_ns: Nanos,
    /// How long a move out waits for work on the card to end.
    pub drain_ns: Nanos,
    /// Longest turn of a tenant while another that does not fit beside it waits.
    pub max_turn_ns: Nanos,
    /// The same where moving would cost too much.
    pub thrash_period_ns: Nanos,
}

impl Default for SwapConfig {
    fn default() -> Self {
        Self {
            pool_bytes: 0,
            idle_after_ns: 10_000_000_000,
            drain_ns: 5_000_000_000,
            max_turn_ns: 10_000_000_000,
            thrash_period_ns: 60_000_000_000,
        }
    }
}

/// The words about residency in a process's page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResidencyWords {
    pub closed: bool,
    /// Rises by one whenever the gate changes.
    pub number: u32,
}

/// A process's memory on one card.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stay {
    pub(crate) stage: Stage,
    pub(crate) words: ResidencyWords,
    /// What lies in host copies.
    pub(crate) swapped_units: u32,
    /// Of that, what lies in chunks of an earlier connection.
    pub(crate) orphan_units: u32,
    /// Why it can't be moved, as it said, by bit.
    pub(crate) reasons: u32,
    /// It did not answer a move in time, and has not since.
    pub(crate) stopped: bool,
    /// A thread waits at the closed gate.
    pub(crate) wants: bool,
    /// Since when it launches nothing.
    pub(crate) idle_since: Option<Nanos>,
    pub(crate) chunks: BTreeMap<u32, Chunk>,
    /// No new chunk before this.
    pub(crate) cover_at: Nanos,
    /// Since when it has more chunks than it needs.
    pub(crate) excess_since: Option<Nanos>,
    /// What it has on the card is still to leave: it came back to a suspended tenant.
    pub(crate) left_behind: bool,
}

/// Where a process's memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stage {
    /// On the card; the gate is open.
    #[default]
    In,
    Leaving(Move),
    /// The gate is closed and nothing moves.
    Out,
    Arriving(Move),
}

/// A move on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Move {
    pub(crate) seq: u32,
    /// Without a sign until then the process counts as stopped.
    pub(crate) until: Nanos,
    /// It does: nobody waits for this move any more.
    pub(crate) late: bool,
    /// What an arrival was given.
    pub(crate) units: u32,
}

/// A tenant's memory on one card.
#[derive(Clone, Debug, Default)]
pub(crate) struct Residence {
    /// Moves out can be asked of it, and there is host memory for all of it.
    pub(crate) movable: bool,
    /// Since when it has been on the card, or was given more after waiting.
    pub(crate) in_since: Nanos,
    /// Since when it wants back.
    pub(crate) wanted_since: Option<Nanos>,
    /// No attempt to move it before this.
    pub(crate) attempt_at: Nanos,
    pub(crate) failures: u32,
    /// The move of all its processes that is on its way.
    pub(crate) trip: Option<Trip>,
    /// Nobody can be moved for it as things are.
    pub(crate) hopeless: bool,
    pub(crate) out: MoveCounters,
    pub(crate) back: MoveCounters,
}

/// A move of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trip {
    pub(crate) outward: bool,
    pub(crate) since: Nanos,
    pub(crate) units: u64,
    pub(crate) failed: Option<Outcome>,
}

/// For whom room is being made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub(crate) tenant: u64,
    pub(crate) units: u64,
    pub(crate) since: Nanos,
}

/// All about residency that is no tenant's.
#[derive(Debug, Default)]
pub(crate) struct Residency {
    /// Room on a card that others leave for this tenant.
    pub(crate) claims: BTreeMap<Uuid, Claim>,
    /// Whose way in is the end of a claim, by card.
    pub(crate) switching: BTreeMap<Uuid, Claim>,
    /// How long it last took from the close of one tenant's gates to the opening of another's.
    pub(crate) switch_ns: BTreeMap<Uuid, Nanos>,
    /// Cards on which moving costs too much.
    pub(crate) thrashing: BTreeMap<Uuid, bool>,
    pub(crate) next_seq: u32,
    pub(crate) next_chunk: u32,
    due: Option<Nanos>,
}

impl Residency {
    pub(crate) fn look_at(&mut self, at: Nanos) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    pub(crate) fn due(&self) -> Option<Nanos> {
        self.due
    }
}

impl State {
    /// The part of a step after the event: whoever can be served is.
    pub(crate) fn residency_after(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        self.residency.due = None;
        if !self.tenants.values().any(|tenant| tenant.swap) {
            return;
        }
        self.note_idle(now);
        self.give_up_on_late(now, actions);
        self.cover(now, actions);
        self.note_movable();
        self.go_on_suspending(now, actions);
        let late = |gpu: &crate::tenant::TenantGpu| {
            gpu.queue.front().is_some_and(|head| now >= head.since.saturating_add(GROW_NS))
        };
        if self.tenants.values().any(|t| t.swap && t.gpus.iter().any(late)) {
            self.serve_everywhere(now, actions);
        }
        if self.home_until.is_none() {
            let cards: Vec<_> = self.cards.keys().copied().collect();
            for card in cards {
                let was = self.residency.thrashing.get(&card).copied().unwrap_or(false);
                self.serve_line(now, card, actions);
                self.tell_thrashing(card, was, actions);
            }
        }
        self.note_deadlines();
    }

    /// A process is idle while it has said that it launches nothing.
    fn note_idle(&mut self, now: Nanos) {
        for gpu in self.processes.values_mut().flat_map(|process| &mut process.gpus) {
            if !gpu.seat.idle {
                gpu.stay.idle_since = None;
            } else if gpu.stay.idle_since.is_none() {
                gpu.stay.idle_since = Some(now);
            }
        }
    }

    fn note_deadlines(&mut self) {
        let stays = self.processes.values().flat_map(|p| &p.gpus).map(|gpu| &gpu.stay);
        let due = stays.filter_map(|stay| match stay.stage {
            Stage::Leaving(on_way) | Stage::Arriving(on_way) if !on_way.late => Some(on_way.until),
            _ => None,
        });
        if let Some(first) = due.min() {
            self.residency.look_at(first);
        }
    }
}
