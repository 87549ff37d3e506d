//! Who has to go, who comes. Looked at after every event; also says when to look again at the latest.

use crate::{Nanos, card::Uuid, event::Action, state::State};

use super::{
    Compute, PROBE_NS,
    party::{Party, Stage},
};

/// What is to happen to a holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Stays,
    /// Stays until then at least.
    Until(Nanos),
    Ends,
    /// Ends, and nothing of it runs.
    Released,
}

impl State {
    /// The part of a step before the event is looked at.
    pub(crate) fn compute_before(&mut self, now: Nanos) {
        self.write_books(now);
    }

    /// And the part after it.
    pub(crate) fn compute_after(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        if self.compute.stale {
            self.regroup(now);
        }
        for id in self.compute.overdue(now) {
            self.give_up_on_silent(now, id, actions);
        }
        // Each round ends or begins a turn; a party does either at most twice at one time.
        for _ in 0..4 * self.compute.parties.len() + 4 {
            self.note_asking();
            self.compute.due = None;
            if !self.end_turns(now, actions) && !self.begin_turns(now, actions) {
                break;
            }
        }
        self.note_asking();
        self.set_gates(actions);
        for party in self.compute.parties.values() {
            if let Stage::Closing(closing) = &party.stage {
                let due = self.compute.due;
                self.compute.due =
                    Some(due.map_or(closing.deadline, |at| at.min(closing.deadline)));
            }
        }
    }

    pub(crate) fn compute_due(&self) -> Option<Nanos> {
        self.compute.due
    }

    fn end_turns(&mut self, now: Nanos, actions: &mut Vec<Action>) -> bool {
        let holding = self.compute.parties.iter();
        let holding = holding.filter(|(_, party)| matches!(party.stage, Stage::Holding { .. }));
        let ids: Vec<u64> = holding.map(|(id, _)| *id).collect();
        let mut changed = false;
        for id in ids {
            match self.verdict(now, id) {
                Verdict::Stays => {}
                Verdict::Until(at) => self.compute.look_at(at),
                Verdict::Released => {
                    self.release(id);
                    changed = true;
                }
                Verdict::Ends => {
                    self.close_party(now, id, actions);
                    changed = true;
                }
            }
        }
        changed
    }

    fn verdict(&mut self, now: Nanos, id: u64) -> Verdict {
        let Some(party) = self.compute.parties.get(&id) else { return Verdict::Stays };
        if !matches!(party.stage, Stage::Holding { .. }) {
            return Verdict::Stays;
        }
        let seats = party.seats();
        let idle = |at| self.seat(at).is_none_or(|seat| seat.idle || seat.silent);
        if seats.iter().all(|at| idle(*at)) {
            return Verdict::Released;
        }
        let cards: Vec<_> = party.contested().collect();
        let verdicts: Vec<_> = cards.iter().map(|c| self.compute.verdict_on(now, id, *c)).collect();
        let attempt_at = self.compute.parties.get(&id).map_or(0, |party| party.attempt_at);
        if verdicts.contains(&Verdict::Ends) {
            return if now < attempt_at { Verdict::Until(attempt_at) } else { Verdict::Ends };
        }
        let until = verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Until(at) => Some(*at),
            _ => None,
        });
        until.min().map_or(Verdict::Stays, Verdict::Until)
    }

    fn begin_turns(&mut self, now: Nanos, actions: &mut Vec<Action>) -> bool {
        let cards: Vec<Uuid> = self.compute.contested();
        let mut changed = false;
        for card in cards {
            if self.compute.is_vacant(card) {
                changed |= self.fill(now, card, actions);
            }
        }
        changed
    }

    /// Gives a vacant card to the next that can have all its cards. One that can't yet is not waited
    /// for longer than the others' work takes to end; until then somebody else may run.
    fn fill(&mut self, now: Nanos, card: Uuid, actions: &mut Vec<Action>) -> bool {
        let mut no_longer_than = Nanos::MAX;
        self.compute.look_at_capped(now, card);
        for rank in self.compute.candidates(card) {
            let taken = self.compute.taken_cards(rank.id);
            if taken.is_empty() {
                let mut lease_ns = self.compute.lease_ns(rank.id);
                if rank.probes {
                    lease_ns = lease_ns.min(PROBE_NS);
                }
                let until = (now + lease_ns).min(no_longer_than);
                self.begin_turn(now, rank.id, until, rank.owed);
                return true;
            }
            let mut over = now;
            for other in taken {
                over = over.max(self.make_room(now, other, rank.id, actions));
            }
            if over <= now {
                return false;
            }
            no_longer_than = no_longer_than.min(over);
        }
        false
    }

    /// Ends whoever is to go for this party on a card, and says until when it is taken otherwise.
    fn make_room(&mut self, now: Nanos, card: Uuid, id: u64, actions: &mut Vec<Action>) -> Nanos {
        let mut over = now;
        for holder in self.compute.blockers(card) {
            let Some(party) = self.compute.parties.get(&holder) else { continue };
            let Stage::Holding { until, owed, .. } = party.stage else { continue };
            let class = |of: u64| self.compute.rank(of, card).map_or(0, |rank| rank.class);
            let higher = class(id) > class(holder) && !owed;
            if (now >= until || higher) && now >= party.attempt_at {
                self.close_party(now, holder, actions);
            } else {
                over = over.max(until).max(party.attempt_at);
            }
        }
        over
    }
}

impl Compute {
    fn look_at(&mut self, at: Nanos) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn contested(&self) -> Vec<Uuid> {
        let contested = self.engines.iter().filter(|(_, engine)| engine.contested);
        contested.map(|(uuid, _)| *uuid).collect()
    }

    /// Attempts whose deadline has passed.
    fn overdue(&self, now: Nanos) -> Vec<u64> {
        let late = |party: &Party| match &party.stage {
            Stage::Closing(closing) => now >= closing.deadline,
            _ => false,
        };
        self.parties.iter().filter(|(_, party)| late(party)).map(|(id, _)| *id).collect()
    }

    /// Those that have a card, each in its own way.
    fn holders(&self, card: Uuid) -> Vec<u64> {
        let here = |party: &Party| party.claims.get(&card).is_some_and(|claim| claim.contested);
        let holding = self.parties.iter().filter(|(_, party)| !party.is_out() && here(party));
        holding.map(|(id, _)| *id).collect()
    }

    /// Those that keep others off a card.
    fn blockers(&self, card: Uuid) -> Vec<u64> {
        let here = |party: &Party| party.claims.get(&card).is_some_and(|claim| claim.contested);
        let blocking = self.parties.iter().filter(|(_, party)| party.blocks() && here(party));
        blocking.map(|(id, _)| *id).collect()
    }

    fn is_vacant(&self, card: Uuid) -> bool {
        self.blockers(card).is_empty()
    }

    /// Cards of a party that somebody else has.
    fn taken_cards(&self, id: u64) -> Vec<Uuid> {
        let party = self.parties.get(&id);
        let cards = party.into_iter().flat_map(Party::contested);
        cards.filter(|card| !self.is_vacant(*card)).collect()
    }

    /// The longest lease of its cards.
    fn lease_ns(&self, id: u64) -> Nanos {
        let party = self.parties.get(&id);
        let cards = party.into_iter().flat_map(Party::contested);
        let engines = cards.filter_map(|card| self.engines.get(&card));
        engines.map(|engine| engine.lease_ns).max().unwrap_or(0)
    }

    /// Those that ask and are over their limit get another look when they are not.
    fn look_at_capped(&mut self, now: Nanos, card: Uuid) {
        let asking = self.parties.values().filter(|p| p.is_out() && p.wanted_since.is_some());
        let claims =
            asking.filter(|p| p.claims.contains_key(&card)).flat_map(|p| p.claims.values());
        let waits = claims.filter(|claim| claim.contested).filter_map(|c| c.may_run().err());
        if let Some(first) = waits.min() {
            self.look_at(now.saturating_add(first));
        }
    }

    /// Whether the holder's turn on one of its cards is over.
    fn verdict_on(&mut self, now: Nanos, id: u64, card: Uuid) -> Verdict {
        let (Some(own), Some(party)) = (self.rank(id, card), self.parties.get(&id)) else {
            return Verdict::Stays;
        };
        let Stage::Holding { until, owed, beside } = party.stage else { return Verdict::Stays };
        let Some(claim) = party.claims.get(&card) else { return Verdict::Stays };
        let over_limit = claim.may_run().is_err();
        let (capped, partner) = (claim.capped(), party.partner);
        self.look_at_capped(now, card);
        let rivals = self.candidates(card);
        let others = self.blockers(card).into_iter();
        let others: Vec<u64> = others.filter(|o| *o != id && Some(*o) != partner).collect();
        if beside {
            // Whenever somebody else could have the card for itself.
            let alone = rivals.is_empty()
                && self.holders(card).iter().all(|h| *h == id || Some(*h) == partner);
            return if alone { Verdict::Stays } else { Verdict::Ends };
        }
        // Several have it only when it has just become contested: the best one stays.
        let better = |other: &u64| self.rank(*other, card).is_some_and(|rank| rank.beats(&own));
        if others.iter().any(better) {
            return Verdict::Ends;
        }
        if now >= until && over_limit {
            return Verdict::Ends;
        }
        let Some(best) = rivals.first().copied() else {
            return if capped {
                Verdict::Until(self.extend(now, id, until))
            } else {
                Verdict::Stays
            };
        };
        if best.class > own.class && !owed {
            return Verdict::Ends;
        }
        if now >= until && best.beats(&own) {
            return Verdict::Ends;
        }
        Verdict::Until(self.extend(now, id, until))
    }

    /// The end of a turn that goes on: later by a lease if it is over and nobody is before the holder.
    fn extend(&mut self, now: Nanos, id: u64, until: Nanos) -> Nanos {
        if now < until {
            return until;
        }
        let later = now + self.lease_ns(id);
        if let Some(party) = self.parties.get_mut(&id)
            && let Stage::Holding { until, owed, .. } = &mut party.stage
        {
            (*until, *owed) = (later, false);
        }
        later
    }
}
