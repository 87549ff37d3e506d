//! What is shown of turns: received and entitled shares, who has the lease, how long others waited.

use crate::{card::Uuid, state::State, tenant::Tenant};

use super::party::Stage;

/// Upper bounds of the buckets of lease waits.
pub const WAIT_BOUNDS_NS: [u64; 9] = [
    1_000_000,
    4_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
];

/// What only ever rises, of one card.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeaseCounters {
    pub grants: u64,
    /// Grants by how long they were waited for; the last bucket is for longer ones.
    pub waits: [u64; WAIT_BOUNDS_NS.len() + 1],
    pub waited_ns: u64,
    /// Attempts to close that found work at their deadline.
    pub overruns: u64,
}

impl LeaseCounters {
    pub(crate) fn granted(&mut self, waited_ns: u64) {
        self.grants += 1;
        self.waited_ns += waited_ns;
        let bucket = WAIT_BOUNDS_NS.iter().position(|bound| waited_ns <= *bound);
        self.waits[bucket.unwrap_or(WAIT_BOUNDS_NS.len())] += 1;
    }
}

/// A tenant's turns on one card, its group's if it has one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns {
    pub(crate) state: &'static str,
    pub(crate) received: Option<f64>,
    pub(crate) entitled: Option<f64>,
    pub(crate) granted_seconds: f64,
    pub(crate) entitled_seconds: f64,
    pub(crate) interlocked: bool,
}

impl State {
    /// Counters of each card's leases.
    #[must_use]
    pub fn lease_counters(&self) -> Vec<(Uuid, LeaseCounters)> {
        let engines = self.compute.engines.iter();
        engines.map(|(uuid, engine)| (*uuid, engine.counters.clone())).collect()
    }

    pub(crate) fn turns(&self, tenant: &Tenant, card: Uuid) -> Turns {
        let free = Turns { state: "free", ..Turns::default() };
        let Some(party) = self.compute.parties.get(&tenant.party) else { return free };
        let Some(claim) = party.claims.get(&card) else { return free };
        let state = match &party.stage {
            _ if !claim.contested => "free",
            Stage::Holding { beside: false, .. } => "holds",
            Stage::Holding { .. } => "beside",
            Stage::Closing(_) => "closing",
            Stage::Out if party.wanted_since.is_some() => "waits",
            Stage::Out => "idle",
        };
        let recently = claim.account.recently(self.compute.written_until);
        let recently = recently.filter(|_| claim.contested);
        Turns {
            state,
            received: recently.map(|(received, _)| received),
            entitled: recently.map(|(_, entitled)| entitled),
            granted_seconds: claim.account.received_ns / 1e9,
            entitled_seconds: claim.account.entitled_ns / 1e9,
            interlocked: party.interlocked,
        }
    }

    /// Whether one of a tenant's processes did not answer a drain and has been silent since.
    pub(crate) fn is_stalled(&self, tenant: &Tenant) -> bool {
        let processes = tenant.processes.iter().filter_map(|client| self.processes.get(client));
        processes.flat_map(|process| &process.gpus).any(|gpu| gpu.seat.silent)
    }
}
