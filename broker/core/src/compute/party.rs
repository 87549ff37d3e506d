//! Parties: who gets leases together, with what claim on which card. Rebuilt from the tenants when
//! somebody joins, leaves or is changed; what a party has earned or owes stays.

use std::collections::{BTreeMap, BTreeSet};

use halfwarp_rest::Mode;

use crate::{Nanos, card::Uuid, event::PageRef, state::State};

use super::{account::Account, rates::Asker};

/// One tenant, or the tenants of a group. Numbered by the first of its tenants.
#[derive(Debug, Default)]
pub(crate) struct Party {
    pub(crate) claims: BTreeMap<Uuid, Claim>,
    pub(crate) stage: Stage,
    /// Since when it asks without having the lease.
    pub(crate) wanted_since: Option<Nanos>,
    /// When its last turn began.
    pub(crate) held_at: Nanos,
    /// No attempt to close it before this.
    pub(crate) attempt_at: Nanos,
    /// When the present turn's first attempt began.
    pub(crate) first_attempt: Option<Nanos>,
    /// Failed attempts in a row.
    pub(crate) failures: u32,
    pub(crate) interlocked: bool,
    /// Who it was found to wait for, or to be waited for by.
    pub(crate) partner: Option<u64>,
    /// Since when others hold its cards beside it.
    pub(crate) unclosed_since: Option<Nanos>,
    /// Its queues were not bounded when this turn began, and may be deep.
    pub(crate) deep: bool,
    /// The longest that its work outlived a gate that then stayed closed, with decay.
    pub(crate) outlived_ns: Nanos,
}

/// A party's part in one card.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    pub(crate) class: u16,
    pub(crate) share: f64,
    pub(crate) limit: f64,
    /// Its processes there.
    pub(crate) seats: Vec<PageRef>,
    pub(crate) contested: bool,
    pub(crate) account: Account,
}

/// Where a party is between two leases.
#[derive(Debug, Default)]
pub(crate) enum Stage {
    #[default]
    Out,
    Holding {
        /// When others may be next.
        until: Nanos,
        /// Not even a higher class ends this turn before its time: it is owed.
        owed: bool,
        /// Could not be closed: others hold the card beside it.
        beside: bool,
    },
    Closing(Closing),
}

/// An attempt to close.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    pub(crate) since: Nanos,
    pub(crate) deadline: Nanos,
    /// Without an answer yet.
    pub(crate) left: BTreeSet<PageRef>,
    /// Answered that there still is work.
    pub(crate) undone: BTreeSet<PageRef>,
    /// Nobody waited at its gates when its time was up, so it was given more.
    pub(crate) extended: bool,
    /// Others hold the card meanwhile.
    pub(crate) beside: bool,
}

impl Party {
    pub(crate) fn is_out(&self) -> bool {
        matches!(self.stage, Stage::Out)
    }

    /// Whether it keeps others off its cards.
    pub(crate) fn blocks(&self) -> bool {
        match &self.stage {
            Stage::Out => false,
            Stage::Holding { beside, .. } => !beside,
            Stage::Closing(closing) => !closing.beside,
        }
    }

    /// Its cards on which turns are taken.
    pub(crate) fn contested(&self) -> impl Iterator<Item = Uuid> {
        self.claims.iter().filter(|(_, claim)| claim.contested).map(|(uuid, _)| *uuid)
    }

    pub(crate) fn seats(&self) -> Vec<PageRef> {
        let contested = self.claims.values().filter(|claim| claim.contested);
        contested.flat_map(|claim| claim.seats.iter().copied()).collect()
    }
}

impl Claim {
    pub(crate) fn capped(&self) -> bool {
        self.limit < 1.0
    }

    pub(crate) fn asker(&self) -> Asker {
        Asker { class: self.class, share: self.share, limit: self.limit }
    }
}

impl State {
    /// Parties and their claims as the tenants are now.
    pub(crate) fn regroup(&mut self, now: Nanos) {
        self.compute.stale = false;
        let mut parties = std::mem::take(&mut self.compute.parties);
        for party in parties.values_mut() {
            for claim in party.claims.values_mut() {
                (claim.class, claim.share, claim.limit) = (0, 0.0, 0.0);
                claim.seats.clear();
            }
        }
        for tenant in self.tenants.values() {
            let party = parties.entry(tenant.party).or_default();
            for (slot, gpu) in tenant.gpus.iter().enumerate() {
                let Some(card) = self.cards.get(&gpu.uuid) else { continue };
                let share = f64::from(gpu.share_percent) / 100.0;
                let limit = match card.mode {
                    Mode::Strict => share,
                    _ => f64::from(gpu.share_limit_percent.max(gpu.share_percent)) / 100.0,
                };
                let claim = party.claims.entry(gpu.uuid).or_default();
                claim.class = claim.class.max(tenant.priority);
                claim.share = (claim.share + share).min(1.0);
                claim.limit = (claim.limit + limit).min(1.0);
                let slot = slot as u8;
                claim.seats.extend(tenant.processes.iter().map(|&client| PageRef { client, slot }));
            }
        }
        let alive: BTreeSet<u64> = self.tenants.values().map(|tenant| tenant.party).collect();
        parties.retain(|id, _| alive.contains(id));
        self.compute.parties = parties;
        self.find_contested(now);
    }

    fn find_contested(&mut self, now: Nanos) {
        let compute = &mut self.compute;
        for (uuid, card) in &self.cards {
            let joined = |claim: &&mut Claim| !claim.seats.is_empty();
            let claims =
                compute.parties.values_mut().filter_map(|party| party.claims.get_mut(uuid));
            let mut here: Vec<&mut Claim> = claims.filter(joined).collect();
            let contested = card.mode != Mode::Timesharing
                && (here.len() > 1 || here.iter().any(|claim| claim.capped()));
            let engine = compute.engines.entry(*uuid).or_default();
            engine.lease_ns = u64::from(card.lease_ms) * 1_000_000;
            engine.contested = contested;
            for claim in &mut here {
                claim.contested = contested;
            }
            // Those that are not joined have no turn, and keep what they owe while others compete.
            for party in compute.parties.values_mut() {
                let Some(claim) = party.claims.get_mut(uuid) else { continue };
                claim.contested &= contested && !claim.seats.is_empty();
                if !contested {
                    claim.account.forgive();
                }
            }
        }
        for party in compute.parties.values_mut() {
            if party.contested().next().is_none() {
                party.leave_the_game();
            }
        }
        self.take_over_open_gates(now);
    }

    /// On a card that has just become contested, whoever's gates are open has the lease: all of them,
    /// until all but one are closed.
    fn take_over_open_gates(&mut self, now: Nanos) {
        for party in self.compute.parties.values_mut() {
            let open = |at: &PageRef| {
                let seat =
                    self.processes.get(&at.client).and_then(|p| p.gpus.get(usize::from(at.slot)));
                seat.is_some_and(|gpu| gpu.seat.is_open())
            };
            if party.is_out() && party.seats().iter().any(open) {
                party.stage = Stage::Holding { until: now, owed: false, beside: false };
                party.held_at = now;
                party.deep = true;
            }
        }
    }
}

impl Party {
    fn leave_the_game(&mut self) {
        self.stage = Stage::Out;
        self.wanted_since = None;
        self.first_attempt = None;
        self.attempt_at = 0;
        self.failures = 0;
        self.interlocked = false;
        self.unclosed_since = None;
    }
}
