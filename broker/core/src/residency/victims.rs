//! Who leaves the card for somebody in the line: idle tenants above their request, idle ones within it,
//! then busy ones whose turn is over; before all of them those that are half out anyway; no more of them than needed, and nobody where all together would
//! not do.

use crate::{Nanos, card::Uuid, state::State};

use super::{
    line::Asker,
    moves::{Phase, Place},
};

/// What can be done for somebody in the line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// Nothing.
    Hopeless,
    /// Enough is on its way.
    Coming,
    /// Nothing before this.
    Later(Nanos),
    /// These are to leave.
    Out(Vec<Place>),
}

/// Somebody who could leave.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    place: Place,
    units: u64,
    ready_at: Nanos,
    /// The first to leave has the least.
    rank: (bool, bool, u16, Nanos),
}

impl State {
    pub(crate) fn plan(&mut self, now: Nanos, card: Uuid, asker: &Asker) -> Plan {
        let missing = self.lacks(asker).saturating_sub(self.leaving_units(card));
        if missing == 0 {
            return Plan::Coming;
        }
        let mut candidates = self.candidates_to_leave(now, card, asker);
        candidates.sort_by_key(|candidate| candidate.rank);
        let sum = |of: &[Candidate]| of.iter().map(|c| c.units).sum::<u64>();
        if sum(&candidates) < missing {
            return Plan::Hopeless;
        }
        let ready = candidates.iter().filter(|candidate| candidate.ready_at <= now);
        let mut chosen = Vec::new();
        for candidate in ready {
            if sum(&chosen) < missing {
                chosen.push(*candidate);
            }
        }
        if sum(&chosen) < missing {
            let later = candidates.iter().map(|c| c.ready_at).filter(|at| *at > now);
            return later.min().map_or(Plan::Hopeless, Plan::Later);
        }
        // The last one may have made earlier ones needless.
        for at in (0..chosen.len()).rev() {
            if sum(&chosen) - chosen[at].units >= missing {
                chosen.remove(at);
            }
        }
        Plan::Out(chosen.into_iter().map(|candidate| candidate.place).collect())
    }

    /// Whether moving others can make room for a grow of a tenant.
    pub(crate) fn can_be_helped(&mut self, now: Nanos, place: Place, units: u64) -> bool {
        let Some(card) = self.place_gpu(place).map(|gpu| gpu.uuid) else { return false };
        let asker = Asker { place, since: now, units, returns: false };
        self.plan(now, card, &asker) != Plan::Hopeless
    }

    fn candidates_to_leave(&mut self, now: Nanos, card: Uuid, asker: &Asker) -> Vec<Candidate> {
        let turns = self.turns_on(now, card, asker);
        let own = self.place_gpu(asker.place);
        let owed =
            own.is_some_and(|gpu| gpu.allowed_units + asker.units <= u64::from(gpu.request_units));
        let others = self.swap_places().filter(|place| place.id != asker.place.id);
        let mut found = Vec::new();
        for place in others {
            let Some(gpu) = self.place_gpu(place).filter(|gpu| gpu.uuid == card) else { continue };
            let Some(tenant) = self.tenants.get(&place.id) else { continue };
            let units = self.resident_units(place);
            let phase = self.phase(place);
            let movable = phase != Phase::Moving && self.can_leave(place, false);
            if units == 0 || !movable || tenant.lending.ended || gpu.residence.trip.is_some() {
                continue;
            }
            let above = gpu.allowed_units > gpu.request_units.into();
            let idle_at = self.idle_at(place);
            let turn_ends = gpu.residence.in_since.saturating_add(turns.get(place));
            let mut ready_at = idle_at.map_or(turn_ends, |idle_at| idle_at.min(turn_ends));
            // Half of it is out already, and it waits too.
            let half = phase == Phase::Out;
            if half || owed && above {
                ready_at = now;
            }
            ready_at = ready_at.max(gpu.residence.attempt_at);
            if !self.can_leave(place, true) {
                // Its chunks are being made; the last of them is an event.
                ready_at = ready_at.max(now + 1_000_000_000);
            }
            let idle = idle_at.is_some_and(|at| at <= now);
            let used_at = if idle { idle_at.unwrap_or(0) } else { gpu.residence.in_since };
            let class = if idle { 0 } else { tenant.priority };
            let rank = if half { (false, false, 0, 0) } else { (!idle, !above, class, used_at) };
            found.push(Candidate { place, units, ready_at, rank });
        }
        found
    }

    /// When a tenant counts as idle on a card, if all of its processes launch nothing now.
    pub(crate) fn idle_at(&self, place: Place) -> Option<Nanos> {
        let each = self.connected_at(place).into_iter();
        let idle = each.map(|at| self.stay(at)?.idle_since).collect::<Option<Vec<_>>>()?;
        let since = idle.into_iter().max().unwrap_or(0);
        Some(since + self.config.swap.idle_after_ns)
    }
}
