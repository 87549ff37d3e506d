//! What people see of residency.

use halfwarp_api::UNIT_BYTES;

use crate::{Nanos, state::State, tenant::Tenant};

use super::{
    Suspension,
    moves::{Phase, Place},
};

/// Moves of a tenant on a card in one direction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct MoveCounters {
    pub moves: u64,
    pub bytes: u64,
    pub seconds: f64,
}

impl MoveCounters {
    pub(crate) fn add(&mut self, units: u64, took_ns: Nanos) {
        self.moves += 1;
        self.bytes += units * UNIT_BYTES;
        self.seconds += took_ns as f64 / 1e9;
    }
}

/// The host pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolFigures {
    pub total_bytes: u64,
    pub used_bytes: u64,
}

impl State {
    #[must_use]
    pub fn host_pool(&self) -> PoolFigures {
        PoolFigures { total_bytes: self.config.swap.pool_bytes, used_bytes: self.pool_used_bytes() }
    }

    /// Host memory of a tenant for one card.
    pub(crate) fn host_bytes(&self, place: Place) -> u64 {
        let tenant = self.tenants.get(&place.id);
        let processes = tenant.into_iter().flat_map(|t| &t.processes);
        let gpus =
            processes.filter_map(|c| self.processes.get(c)?.gpus.get(usize::from(place.slot)));
        gpus.map(crate::tenant::ProcessGpu::host_bytes).sum()
    }

    /// Where a tenant's memory on a card is, in a word.
    pub(crate) fn residency_word(&self, place: Place) -> &'static str {
        let Some(gpu) = self.place_gpu(place) else { return "resident" };
        match (self.phase(place), gpu.residence.trip) {
            (_, Some(trip)) if trip.outward => "leaving",
            (_, Some(_)) => "arriving",
            (Phase::In, None) => "resident",
            _ if gpu.residence.wanted_since.is_some() => "waiting",
            _ => "swapped",
        }
    }

    /// A tenant's state where its memory has to do with it.
    pub(crate) fn residency_state(&self, tenant: &Tenant) -> Option<&'static str> {
        match tenant.suspension {
            Suspension::Suspended => return Some("suspended"),
            Suspension::Suspending => return Some("suspending"),
            Suspension::None | Suspension::Resuming => {}
        }
        let words = self.places(tenant.id).into_iter().map(|place| self.residency_word(place));
        let words: Vec<_> = words.collect();
        if words.contains(&"waiting") {
            Some("waiting (no room)")
        } else if tenant.suspension == Suspension::Resuming {
            Some("resuming")
        } else if words.contains(&"swapped") {
            Some("swapped")
        } else {
            None
        }
    }
}
