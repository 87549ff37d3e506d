//! Who is next on a card.

use std::cmp::Ordering;

use crate::{Nanos, card::Uuid};

use super::{
    Compute, PROBE_DEBT_NS,
    party::{Claim, Party},
};

/// A party's standing on one card. The greatest is next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank {
    /// Has not run yet beside one that could not be closed, which may wait for its work: a short
    /// turn before anybody.
    pub(crate) probes: bool,
    /// Kept from its guaranteed share for a whole lease: before any class.
    pub(crate) owed: bool,
    pub(crate) class: u16,
    pub(crate) lag_ns: f64,
    pub(crate) held_at: Nanos,
    pub(crate) id: u64,
}

impl Rank {
    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        let order = self
            .probes
            .cmp(&other.probes)
            .then(self.owed.cmp(&other.owed))
            .then(self.class.cmp(&other.class));
        order
            .then(self.lag_ns.total_cmp(&other.lag_ns))
            .then(other.held_at.cmp(&self.held_at))
            .then(other.id.cmp(&self.id))
    }

    pub(crate) fn beats(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Greater
    }
}

impl Claim {
    /// Whether its limit lets it run; else how long until it does.
    pub(crate) fn may_run(&self) -> Result<(), Nanos> {
        if !self.capped() || self.account.room_ns >= 0.0 {
            return Ok(());
        }
        if self.limit <= 0.0 {
            return Err(Nanos::MAX / 2);
        }
        Err((-self.account.room_ns / self.limit).ceil() as Nanos + 1)
    }

    fn is_owed(&self, lease_ns: Nanos) -> bool {
        self.share > 0.0 && self.account.owed_ns >= lease_ns as f64
    }
}

impl Compute {
    /// None for a party that has no part in the card's turns.
    pub(crate) fn rank(&self, id: u64, card: Uuid) -> Option<Rank> {
        let party = self.parties.get(&id)?;
        let claim = party.claims.get(&card).filter(|claim| claim.contested)?;
        let lease_ns = self.engines.get(&card)?.lease_ns;
        Some(Rank {
            probes: self.probes(party, claim, card),
            owed: claim.is_owed(lease_ns),
            class: claim.class,
            lag_ns: claim.account.lag_ns,
            held_at: party.held_at,
            id,
        })
    }

    /// Whether a short turn may find out that one that could not be closed waits for this party. Not
    /// at everybody else's cost: whoever is far behind goes first.
    fn probes(&self, party: &Party, claim: &Claim, card: Uuid) -> bool {
        let Some(since) = self.unclosed_since(card) else { return false };
        let claims = self.parties.values().filter_map(|party| party.claims.get(&card));
        let asking = claims.filter(|other| other.account.asking && other.class == claim.class);
        let most = asking.map(|other| other.account.lag_ns).fold(f64::MIN, f64::max);
        party.held_at < since && most - claim.account.lag_ns <= PROBE_DEBT_NS
    }

    /// Since when there is somebody on the card who could not be closed.
    fn unclosed_since(&self, card: Uuid) -> Option<Nanos> {
        let here = |party: &&Party| party.claims.get(&card).is_some_and(|claim| claim.contested);
        self.parties.values().filter(here).filter_map(|party| party.unclosed_since).max()
    }

    /// Those that ask for a card and may have it now, the next one first.
    pub(crate) fn candidates(&self, card: Uuid) -> Vec<Rank> {
        let asking = self.parties.iter().filter(|(_, party)| {
            party.is_out()
                && party.wanted_since.is_some()
                && party.claims.values().filter(|c| c.contested).all(|c| c.may_run().is_ok())
        });
        let mut ranks: Vec<Rank> = asking.filter_map(|(id, _)| self.rank(*id, card)).collect();
        ranks.sort_by(|a, b| b.cmp(a));
        ranks
    }
}
