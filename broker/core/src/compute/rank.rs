//! Who is next on a card.

use std::cmp::Ordering;

use crate::{Nanos, card::Uuid};

use super::{Compute, party::Claim};

/// A party's standing on one card. The greatest is next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank {
    /// Kept from its guaranteed share for a whole lease: before any class.
    pub(crate) owed: bool,
    pub(crate) class: u16,
    pub(crate) lag_ns: f64,
    pub(crate) held_at: Nanos,
    pub(crate) id: u64,
}

impl Rank {
    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        let order = self.owed.cmp(&other.owed).then(self.class.cmp(&other.class));
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
            owed: claim.is_owed(lease_ns),
            class: claim.class,
            lag_ns: claim.account.lag_ns,
            held_at: party.held_at,
            id,
        })
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
