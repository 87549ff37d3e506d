//! The books between two steps: time that has passed is given to whoever had the lease, and everybody
//! who asked is entitled to its part.

use std::collections::BTreeMap;

use crate::{Nanos, card::Uuid, state::State};

use super::{Compute, account::Passed, party::Party, rates::rates};

impl Party {
    /// Whether it asks for its cards or has them. Both or none: for one card is for all.
    pub(crate) fn asks(&self) -> bool {
        !self.is_out() || self.wanted_since.is_some()
    }
}

impl State {
    /// Writes the books up to now, by what was so until now.
    pub(crate) fn write_books(&mut self, now: Nanos) {
        let ns = now.saturating_sub(self.compute.written_until) as f64;
        self.compute.written_until = self.compute.written_until.max(now);
        if ns == 0.0 {
            return;
        }
        let contested = self.compute.engines.iter().filter(|(_, engine)| engine.contested);
        let cards: Vec<_> = contested.map(|(uuid, engine)| (*uuid, engine.lease_ns)).collect();
        for (uuid, lease_ns) in cards {
            self.compute.write_card(now, uuid, ns, lease_ns as f64);
        }
    }

    /// Whoever begins or ends to ask enters or leaves the reckoning.
    pub(crate) fn note_asking(&mut self) {
        let contested = self.compute.engines.iter().filter(|(_, engine)| engine.contested);
        let cards: Vec<_> = contested.map(|(uuid, engine)| (*uuid, engine.lease_ns)).collect();
        for (uuid, lease_ns) in cards {
            self.compute.note_asking_on(uuid, lease_ns as f64);
        }
    }
}

impl Compute {
    fn write_card(&mut self, now: Nanos, card: Uuid, ns: f64, lease_ns: f64) {
        let mut entitled: BTreeMap<u64, f64> = BTreeMap::new();
        let (mut ids, mut askers, mut holders) = (Vec::new(), Vec::new(), 0);
        for (id, party) in &self.parties {
            let Some(claim) = party.claims.get(&card) else { continue };
            if claim.account.asking {
                ids.push(*id);
                askers.push(claim.asker());
            }
            holders += usize::from(claim.contested && !party.is_out());
        }
        entitled.extend(ids.iter().copied().zip(rates(&askers)));
        let would_be = 1.0 / (askers.len() as f64 + 1.0);
        for (id, party) in &mut self.parties {
            let holds = !party.is_out();
            let Some(claim) = party.claims.get_mut(&card) else { continue };
            let if_asked = would_be.min(claim.limit).max(claim.share);
            let received = if holds && claim.contested { ns / holders as f64 } else { 0.0 };
            let passed = Passed {
                ns,
                rate: entitled.get(id).copied().unwrap_or(if_asked),
                share: claim.share,
                limit: claim.limit,
                received_ns: received,
                lease_ns,
            };
            claim.account.pass(now, passed);
        }
    }

    fn note_asking_on(&mut self, card: Uuid, lease_ns: f64) {
        let ids: Vec<u64> = self.parties.keys().copied().collect();
        for id in ids {
            let Some(party) = self.parties.get(&id) else { continue };
            let asks = party.asks();
            let Some(claim) = party.claims.get(&card) else { continue };
            let asks = asks && claim.contested;
            if asks == claim.account.asking {
                continue;
            }
            let others = self.lags(card, claim.class, id);
            let party = self.parties.get_mut(&id);
            let Some(claim) = party.and_then(|p| p.claims.get_mut(&card)) else { continue };
            if asks {
                claim.account.enter(&others);
            } else {
                claim.account.leave(&others, lease_ns);
            }
        }
    }

    /// Lags of those of a class that ask, without one.
    fn lags(&self, card: Uuid, class: u16, but: u64) -> Vec<f64> {
        let others = self.parties.iter().filter(|(id, _)| **id != but);
        let claims = others.filter_map(|(_, party)| party.claims.get(&card));
        let asking = claims.filter(|claim| claim.account.asking && claim.class == class);
        asking.map(|claim| claim.account.lag_ns).collect()
    }
}
