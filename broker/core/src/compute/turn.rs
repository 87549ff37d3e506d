//! One turn: the grant, the attempt to close, its outcome.

use std::collections::BTreeSet;

use halfwarp_api::wire::ToClient;

use crate::{
    Nanos,
    event::{Action, Happening, Kind, PageRef},
    state::State,
};

use super::{
    BACK_OFF_MAX_NS, BACK_OFF_NS, BOUND_NS, DRAIN_NS, FAILURES_MAX, PATIENCE_NS, SILENCE_NS,
    party::{Closing, Party, Stage},
};

impl State {
    pub(crate) fn begin_turn(&mut self, now: Nanos, id: u64, until: Nanos, owed: bool) {
        self.begin_one(now, id, until, owed);
        self.partner_begins(now, id);
    }

    pub(crate) fn begin_one(&mut self, now: Nanos, id: u64, until: Nanos, owed: bool) {
        let Some(party) = self.compute.parties.get_mut(&id) else { return };
        party.stage = Stage::Holding { until, owed, beside: false };
        party.held_at = now;
        party.first_attempt = None;
        party.deep = false;
        let since = party.wanted_since.take();
        let cards: Vec<_> = party.contested().collect();
        for at in party.seats() {
            if let Some(seat) = self.seat_mut(at) {
                seat.idle = false;
            }
        }
        for card in cards {
            if let Some(engine) = self.compute.engines.get_mut(&card) {
                engine.counters.granted(since.map_or(0, |since| now.saturating_sub(since)));
            }
        }
    }

    /// All its processes are idle: nothing runs that would have to end.
    pub(crate) fn release(&mut self, id: u64) {
        self.out(id);
    }

    /// The lease is gone; whoever waits at a gate asks anew from now on.
    fn out(&mut self, id: u64) {
        let Some(party) = self.compute.parties.get_mut(&id) else { return };
        party.stage = Stage::Out;
        party.first_attempt = None;
        party.unclosed_since = None;
        let seats = party.seats();
        let wants = seats.iter().any(|at| self.seat(*at).is_some_and(|seat| seat.wants));
        let now = self.compute.written_until;
        if let Some(party) = self.compute.parties.get_mut(&id) {
            party.wanted_since = wants.then_some(now);
        }
    }

    /// Closes the gates and asks for the end of what is in flight.
    pub(crate) fn close_party(&mut self, now: Nanos, id: u64, actions: &mut Vec<Action>) {
        self.close_one(now, id, actions);
        self.partner_ends(now, id, actions);
    }

    pub(crate) fn close_one(&mut self, now: Nanos, id: u64, actions: &mut Vec<Action>) {
        let Some(party) = self.compute.parties.get_mut(&id) else { return };
        let within_ns = party.drain_ns();
        party.first_attempt = party.first_attempt.or(Some(now));
        let beside = !party.blocks();
        let seats = party.seats();
        party.stage = Stage::Closing(Closing { since: now, beside, ..Closing::default() });
        self.set_gates(actions);
        self.ask_to_drain(now, id, seats, within_ns, actions);
    }

    /// Says `Drain` to those that can hear it. Nobody who can is an end.
    fn ask_to_drain(
        &mut self,
        now: Nanos,
        id: u64,
        seats: Vec<PageRef>,
        within_ns: Nanos,
        actions: &mut Vec<Action>,
    ) {
        let mut left = BTreeSet::new();
        for at in seats {
            let connected = self.processes.get(&at.client).is_some_and(|p| p.connected);
            if !connected || self.seat(at).is_none_or(|seat| seat.silent) {
                continue;
            }
            let seq = self.compute.next_drain;
            self.compute.next_drain = seq.wrapping_add(1);
            if let Some(seat) = self.seat_mut(at) {
                seat.drain = Some(seq);
            }
            left.insert(at);
            let frame = ToClient::Drain { seq, gpu: at.slot, within_ns };
            actions.push(Action::Send { client: at.client, frame });
        }
        let party = self.compute.parties.get_mut(&id);
        let Some(Stage::Closing(closing)) = party.map(|party| &mut party.stage) else { return };
        closing.deadline = now + within_ns + SILENCE_NS;
        closing.undone.clear();
        closing.left = left;
        if closing.left.is_empty() {
            self.conclude(now, id, actions);
        }
    }

    /// Somebody waits at the gate of work that was still there when it was last asked for: it is asked
    /// for once more, shortly. The very end of a long kernel is what lets its program come back.
    pub(crate) fn look_again(&mut self, now: Nanos, id: u64, actions: &mut Vec<Action>) {
        let Some(party) = self.compute.parties.get_mut(&id) else { return };
        let Stage::Closing(closing) = &mut party.stage else { return };
        closing.extended = false;
        let undone = closing.undone.iter().chain(&closing.left).copied().collect();
        self.ask_to_drain(now, id, undone, BOUND_NS.into(), actions);
    }

    /// The deadline of an attempt has passed: who has not answered is stopped or hangs. Its turn is
    /// taken; what it had in flight is at most the bound.
    pub(crate) fn give_up_on_silent(&mut self, now: Nanos, id: u64, actions: &mut Vec<Action>) {
        let party = self.compute.parties.get_mut(&id);
        let Some(Stage::Closing(closing)) = party.map(|party| &mut party.stage) else { return };
        for at in std::mem::take(&mut closing.left) {
            let Some(seat) = self.seat_mut(at) else { continue };
            (seat.drain, seat.silent, seat.wants) = (None, true, false);
            let Some(process) = self.processes.get(&at.client) else { continue };
            let text = format!(
                "{} does not answer: its turn was taken, its gate stays closed until it asks",
                process.peer.command
            );
            let told = Happening::new(Kind::Stalled, text).pid(process.peer.pid);
            actions.push(Action::Tell(told.tenant(process.tenant)));
        }
        self.conclude(now, id, actions);
    }

    /// Everybody has answered or is given up.
    pub(crate) fn conclude(&mut self, now: Nanos, id: u64, actions: &mut Vec<Action>) {
        let Some(party) = self.compute.parties.get_mut(&id) else { return };
        let Stage::Closing(closing) = &mut party.stage else { return };
        let since = party.first_attempt.unwrap_or(now);
        let trying_ns = now.saturating_sub(since);
        let took_ns = now.saturating_sub(closing.since);
        if closing.undone.is_empty() {
            party.outlived_ns = took_ns.max(party.outlived_ns / 10 * 9);
            party.failures = 0;
            party.interlocked = false;
            party.attempt_at = now;
            self.note_partner(now, id);
            if let Some(party) = self.compute.parties.get_mut(&id).filter(|p| p.partner.is_some()) {
                // It waited for another's work; how long says nothing of its own.
                party.outlived_ns = 0;
            }
            return self.out(id);
        }
        let undone: Vec<_> = closing.undone.iter().copied().collect();
        let mut seats = party.seats();
        let partner = self.partner(id).and_then(|other| self.compute.parties.get(&other));
        seats.extend(partner.into_iter().flat_map(Party::seats));
        if seats.iter().any(|at| self.seat(*at).is_some_and(|seat| seat.wants)) {
            return self.fail(now, id, actions);
        }
        // Nobody waits at its gates, so nothing that runs waits for what would be launched there.
        let party = self.compute.parties.get_mut(&id);
        let Some(Stage::Closing(closing)) = party.map(|party| &mut party.stage) else { return };
        closing.extended = true;
        closing.beside |= trying_ns >= PATIENCE_NS;
        let beside = closing.beside;
        let within_ns = if beside { BACK_OFF_MAX_NS } else { PATIENCE_NS - trying_ns };
        if let Some(party) = self.compute.parties.get_mut(&id).filter(|_| beside) {
            party.unclosed_since = party.unclosed_since.or(Some(now));
        }
        self.ask_to_drain(
            now,
            id,
            undone,
            within_ns.clamp(BOUND_NS.into(), BACK_OFF_MAX_NS),
            actions,
        );
    }

    /// The attempt has failed: the gates open again.
    pub(crate) fn fail(&mut self, now: Nanos, id: u64, actions: &mut Vec<Action>) {
        let Some(party) = self.compute.parties.get_mut(&id) else { return };
        party.failures = party.failures.saturating_add(1);
        let cards: Vec<_> = party.contested().collect();
        if party.failures == FAILURES_MAX && !party.deep {
            party.interlocked = true;
            self.tell_interlocked(id, actions);
        }
        for card in cards {
            if let Some(engine) = self.compute.engines.get_mut(&card) {
                engine.counters.overruns += 1;
            }
        }
        self.reopen(now, id, actions);
    }

    fn reopen(&mut self, now: Nanos, id: u64, actions: &mut Vec<Action>) {
        self.reopen_one(now, id, actions);
        self.partner_goes_on(now, id, actions);
        self.set_gates(actions);
    }

    pub(crate) fn reopen_one(&mut self, now: Nanos, id: u64, actions: &mut Vec<Action>) {
        let Some(party) = self.compute.parties.get_mut(&id) else { return };
        let pause = BACK_OFF_NS.saturating_mul(1 << party.failures.saturating_sub(1).min(10));
        party.attempt_at = now + pause.min(BACK_OFF_MAX_NS);
        let beside = party.failures >= FAILURES_MAX || !party.blocks();
        party.unclosed_since = party.unclosed_since.or_else(|| beside.then_some(now));
        party.stage = Stage::Holding { until: now, owed: false, beside };
        for at in party.seats() {
            if let Some(seat) = self.seat_mut(at) {
                (seat.drain, seat.idle) = (None, false);
            }
        }
        self.set_gates(actions);
    }

    fn tell_interlocked(&self, id: u64, actions: &mut Vec<Action>) {
        for tenant in self.tenants.values().filter(|tenant| tenant.party == id) {
            let text = format!(
                "work of {} does not end while its launches wait: it may wait for them. Others run \
                 beside it; processes that wait for each other belong in one group (--group)",
                tenant.name
            );
            let told = Happening::new(Kind::Interlocked, text).tenant(tenant.id);
            actions.push(Action::Tell(told));
        }
    }
}

impl Party {
    /// How long the next attempt waits.
    fn drain_ns(&self) -> Nanos {
        if self.interlocked {
            return DRAIN_NS;
        }
        let longest = DRAIN_NS * 9;
        let patient = DRAIN_NS * 3_u64.pow(self.failures.min(2));
        patient.max(3 * self.outlived_ns).min(longest)
    }
}
