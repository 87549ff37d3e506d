//! Partners: two parties on one card whose work waits for each other's, found out by what happened.
//!
//! One could not be closed, others got short turns beside it, and its work ended just when one of
//! them began: that one had what it waited for. From then on both get and lose the lease together, as
//! if they had been put into a group. Each is charged for itself.

use crate::{Nanos, event::Action, state::State};

use super::{
    PROBE_NS,
    party::{Party, Stage},
};

impl State {
    /// The work of one that could not be closed has ended: by whose turn?
    pub(crate) fn note_partner(&mut self, now: Nanos, id: u64) {
        let Some(party) = self.compute.parties.get(&id) else { return };
        let Some(since) = party.unclosed_since else { return };
        // Had its own launches waited, it would be they that it waited for, or its queues were deep.
        if !matches!(&party.stage, Stage::Closing(closing) if closing.extended) {
            return;
        }
        let cards: Vec<_> = party.contested().collect();
        let began = |other: &Party| {
            let holds = matches!(other.stage, Stage::Holding { beside: false, .. });
            let just = other.held_at >= since && now.saturating_sub(other.held_at) <= PROBE_NS;
            holds && just && other.contested().eq(cards.iter().copied())
        };
        let others = self.compute.parties.iter().filter(|(other, _)| **other != id);
        let Some(other) = others.filter(|(_, party)| began(party)).map(|(id, _)| *id).next() else {
            return;
        };
        for (one, two) in [(id, other), (other, id)] {
            if let Some(party) = self.compute.parties.get_mut(&one) {
                party.partner = Some(two);
            }
        }
    }

    /// A partner, if it still is one.
    pub(crate) fn partner(&self, id: u64) -> Option<u64> {
        let other = self.compute.parties.get(&id)?.partner?;
        let back = self.compute.parties.get(&other)?;
        let same = back.contested().eq(self.compute.parties.get(&id)?.contested());
        (same && back.partner == Some(id)).then_some(other)
    }

    /// Its partner begins too, for as long.
    pub(crate) fn partner_begins(&mut self, now: Nanos, id: u64) {
        let Some(other) = self.partner(id) else { return };
        let Some(party) = self.compute.parties.get(&id) else { return };
        let Stage::Holding { until, owed, beside: false } = party.stage else { return };
        if self.compute.parties.get(&other).is_some_and(Party::is_out) {
            self.begin_one(now, other, until, owed);
        }
    }

    /// And ends too.
    pub(crate) fn partner_ends(&mut self, now: Nanos, id: u64, actions: &mut Vec<Action>) {
        let Some(other) = self.partner(id) else { return };
        let party = self.compute.parties.get(&other);
        if party.is_some_and(|party| matches!(party.stage, Stage::Holding { .. })) {
            self.close_one(now, other, actions);
        }
    }

    /// And goes on too, if the attempt to close has failed.
    pub(crate) fn partner_goes_on(&mut self, now: Nanos, id: u64, actions: &mut Vec<Action>) {
        let Some(other) = self.partner(id) else { return };
        match self.compute.parties.get(&other).map(|party| &party.stage) {
            Some(Stage::Closing(_)) => self.reopen_one(now, other, actions),
            Some(Stage::Out) => self.begin_one(now, other, now, false),
            _ => return,
        }
        let Some(party) = self.compute.parties.get(&id) else { return };
        let (attempt_at, unclosed_since) = (party.attempt_at, party.unclosed_since);
        let beside = !party.blocks();
        if let Some(party) = self.compute.parties.get_mut(&other) {
            (party.attempt_at, party.unclosed_since) = (attempt_at, unclosed_since);
            party.stage = Stage::Holding { until: now, owed: false, beside };
        }
    }
}
