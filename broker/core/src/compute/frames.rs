//! What processes say about the lease: that a thread waits, that work has ended, that there is none.
//! All of it is hints from a process about itself: a lie costs its own tenant a turn.

use crate::{
    Nanos,
    event::{Action, PageRef},
    state::State,
};

use super::party::Stage;

impl State {
    /// A thread waits at a gate. An old lease number is no matter: if the gate is closed it waits
    /// there still, and if it is open its futex was woken.
    pub(crate) fn wants(&mut self, now: Nanos, at: PageRef, actions: &mut Vec<Action>) {
        let Some((id, _)) = self.party_at(at) else { return };
        let contested = self.is_contested(at);
        let Some(seat) = self.seat_mut(at) else { return };
        seat.silent = false;
        if seat.is_open() {
            return;
        }
        seat.idle = false;
        if !contested {
            return;
        }
        seat.wants = true;
        let Some(party) = self.compute.parties.get_mut(&id) else { return };
        match &party.stage {
            Stage::Out => {
                party.wanted_since = party.wanted_since.or(Some(now));
                if let Some(other) = self.partner(id) {
                    self.partner_begins(now, other);
                }
            }
            Stage::Holding { .. } => {}
            // What runs may wait for what this thread is about to launch.
            Stage::Closing(closing) if closing.extended => self.look_again(now, id, actions),
            Stage::Closing(_) => {}
        }
    }

    pub(crate) fn is_idle(&mut self, at: PageRef, lease: u32) {
        let Some((id, _)) = self.party_at(at) else { return };
        let metered = !self.is_contested(at) && self.has_swap(at);
        let Some(seat) = self.seat_mut(at) else { return };
        seat.silent = false;
        // A gate that has changed since was not what it looked at.
        if !seat.is_open() || seat.words.lease != lease {
            return;
        }
        let Some(party) = self.compute.parties.get(&id) else { return };
        if (metered || !party.is_out())
            && let Some(seat) = self.seat_mut(at)
        {
            seat.idle = true;
        }
    }

    pub(crate) fn drained(
        &mut self,
        now: Nanos,
        at: PageRef,
        seq: u32,
        done: bool,
        waiting: u32,
        actions: &mut Vec<Action>,
    ) {
        let Some((id, _)) = self.party_at(at) else { return };
        let Some(seat) = self.seat_mut(at) else { return };
        seat.silent = false;
        if seat.drain != Some(seq) {
            return;
        }
        seat.drain = None;
        seat.wants |= waiting > 0;
        let party = self.compute.parties.get_mut(&id);
        let Some(Stage::Closing(closing)) = party.map(|party| &mut party.stage) else { return };
        closing.left.remove(&at);
        if !done {
            closing.undone.insert(at);
        }
        if closing.left.is_empty() {
            self.conclude(now, id, actions);
        }
    }

    /// A process that can't answer any more: its end, or its connection's.
    pub(crate) fn drains_no_more(&mut self, now: Nanos, at: PageRef, actions: &mut Vec<Action>) {
        let Some((id, _)) = self.party_at(at) else { return };
        if let Some(seat) = self.seat_mut(at) {
            (seat.drain, seat.wants) = (None, false);
        }
        let party = self.compute.parties.get_mut(&id);
        let Some(Stage::Closing(closing)) = party.map(|party| &mut party.stage) else { return };
        closing.undone.remove(&at);
        if closing.left.remove(&at) && closing.left.is_empty() {
            self.conclude(now, id, actions);
        }
    }
}
