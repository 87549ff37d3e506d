//! How moves end: of each process, and then of the tenant.

use halfwarp_api::{
    UNIT_BYTES,
    wire::{Outcome, Reason},
};

use crate::{
    Nanos,
    event::{Action, Happening, Kind, PageRef},
    state::State,
};

use super::{
    PAUSE_MAX_NS, PAUSE_NS, Stage, Suspension, Trip,
    moves::{Phase, Place},
};

impl State {
    /// A process's move has ended, for better or worse.
    pub(crate) fn swap_ended(
        &mut self,
        now: Nanos,
        at: PageRef,
        seq: u32,
        (outcome, swapped, taken): (Outcome, u32, u32),
        actions: &mut Vec<Action>,
    ) {
        if seq == 0 {
            return self.comes_swapped(now, at, swapped, actions);
        }
        let Some(place) = self.place_of(at) else { return };
        let Some(stay) = self.stay(at) else { return };
        let (former, before) = (stay.stage, stay.swapped_units);
        let left = match former {
            Stage::Leaving(on_way) if on_way.seq == seq => 0,
            Stage::Arriving(on_way) if on_way.seq == seq => on_way.units - taken.min(on_way.units),
            _ => return,
        };
        self.take_allowance(at, left);
        self.set_swapped(at, swapped);
        let arrives = matches!(former, Stage::Arriving(_));
        let untouched = !arrives && before == 0 && swapped == 0;
        let failed = outcome != Outcome::Done || arrives && swapped > 0;
        if let Some(stay) = self.stay_mut(at) {
            stay.stopped = false;
            if arrives {
                stay.orphan_units = stay.orphan_units.min(stay.swapped_units);
            }
        }
        let stage = if failed && untouched { Stage::In } else { Stage::Out };
        self.set_stage_at(at, stage, actions);
        if failed && let Some(trip) = self.trip_mut(place) {
            let why = if outcome == Outcome::Done { Outcome::Driver } else { outcome };
            trip.failed = trip.failed.or(Some(why));
        }
        // What it was allowed and does not use is of no use where it is now.
        if !arrives {
            self.call_back(now, at, actions);
        }
        self.end_trip(now, place, actions);
        if let Some(card) = self.place_gpu(place).map(|gpu| gpu.uuid) {
            self.serve(now, card, actions);
        }
    }

    pub(crate) fn trip_mut(&mut self, place: Place) -> Option<&mut Trip> {
        self.place_gpu_mut(place)?.residence.trip.as_mut()
    }

    pub(crate) fn take_allowance(&mut self, at: PageRef, units: u32) {
        let Some(own) = self.process_gpu(at) else { return };
        let taken = units.min(own.allowed_units);
        own.allowed_units -= taken;
        let Some(place) = self.place_of(at) else { return };
        if let Some(gpu) = self.place_gpu_mut(place) {
            gpu.allowed_units -= u64::from(taken);
        }
    }

    /// All moves of a tenant on a card have ended, or nobody waits for them any more.
    pub(crate) fn end_trip(&mut self, now: Nanos, place: Place, actions: &mut Vec<Action>) {
        if self.phase(place) == Phase::Moving {
            return;
        }
        let late = |at: &PageRef| self.stay(*at).is_some_and(|stay| stay.stopped);
        let stopped = self.connected_at(place).iter().any(late);
        let trip = self.place_gpu_mut(place).and_then(|gpu| gpu.residence.trip.take());
        match trip {
            Some(mut trip) => {
                if stopped {
                    trip.failed = trip.failed.or(Some(Outcome::Undrained));
                }
                if trip.outward {
                    self.is_out(now, place, trip, actions);
                } else {
                    self.is_back(now, place, trip, actions);
                }
            }
            // An answer that came too late to be waited for.
            None if !self.is_held(place) => self.want_back(now, place),
            None => {}
        }
        self.note_suspension(now, place.id, actions);
    }

    /// Whether the tenant is to stay where it is.
    pub(crate) fn is_held(&self, place: Place) -> bool {
        let held = [Suspension::Suspending, Suspension::Suspended];
        self.tenants.get(&place.id).is_some_and(|t| held.contains(&t.suspension))
    }

    /// A place in the line for what is not on the card, or behind a closed gate.
    pub(crate) fn want_back(&mut self, now: Nanos, place: Place) {
        if self.phase(place) == Phase::In {
            return;
        }
        if let Some(gpu) = self.place_gpu_mut(place) {
            gpu.residence.wanted_since = gpu.residence.wanted_since.or(Some(now));
        }
    }

    fn back_off(&mut self, now: Nanos, place: Place) {
        let Some(gpu) = self.place_gpu_mut(place) else { return };
        let pause = PAUSE_NS << gpu.residence.failures.min(5);
        gpu.residence.failures += 1;
        gpu.residence.attempt_at = now + pause.min(PAUSE_MAX_NS);
    }

    fn is_out(&mut self, now: Nanos, place: Place, trip: Trip, actions: &mut Vec<Action>) {
        let Some(gpu) = self.place_gpu_mut(place) else { return };
        gpu.residence.out.add(trip.units, now.saturating_sub(trip.since));
        if let Some(outcome) = trip.failed {
            self.back_off(now, place);
            let text = format!("could not leave the card: {}", self.why_not(place, outcome));
            self.tell_move(Kind::MoveFailed, place, trip.units, text, actions);
            self.suspending_failed(now, place, outcome, actions);
            return self.want_back(now, place);
        }
        gpu.residence.failures = 0;
        let text = "left the card for host copies".to_owned();
        self.tell_move(Kind::SwappedOut, place, trip.units, text, actions);
        let wants = |at: &PageRef| self.stay(*at).is_some_and(|stay| stay.wants);
        if self.connected_at(place).iter().any(wants) && !self.is_held(place) {
            self.want_back(now, place);
        }
    }

    fn is_back(&mut self, now: Nanos, place: Place, trip: Trip, actions: &mut Vec<Action>) {
        let open = self.connected_at(place);
        let open =
            open.into_iter().filter(|at| self.stay(*at).is_some_and(|s| s.stage == Stage::Out));
        let open: Vec<_> = open.collect();
        let whole = open.iter().all(|at| self.stay(*at).is_some_and(|s| s.swapped_units == 0));
        let Some(gpu) = self.place_gpu_mut(place) else { return };
        gpu.residence.back.add(trip.units, now.saturating_sub(trip.since));
        if !whole || trip.failed.is_some_and(|why| why != Outcome::Undrained) {
            let outcome = trip.failed.unwrap_or(Outcome::Driver);
            self.back_off(now, place);
            let text = format!("could not come back whole: {}", outcome.text());
            self.tell_move(Kind::MoveFailed, place, trip.units, text, actions);
            self.resuming_failed(now, place, outcome, actions);
            if !self.is_held(place) {
                self.want_back(now, place);
            }
            return;
        }
        gpu.residence.in_since = now;
        if trip.failed.is_none() {
            gpu.residence.failures = 0;
        }
        let card = gpu.uuid;
        for at in open {
            self.set_stage_at(at, Stage::In, actions);
        }
        self.has_switched(now, card, place.id);
        if trip.units > 0 {
            let text = "is back on the card".to_owned();
            self.tell_move(Kind::SwappedIn, place, trip.units, text, actions);
        }
        self.serve(now, card, actions);
    }

    pub(crate) fn tell_move(
        &self,
        kind: Kind,
        place: Place,
        units: u64,
        text: String,
        actions: &mut Vec<Action>,
    ) {
        let Some(tenant) = self.tenants.get(&place.id) else { return };
        let mut told = Happening::new(kind, format!("{} {text}", tenant.name)).tenant(place.id);
        told.gpu = self.place_gpu(place).map(|gpu| gpu.uuid);
        actions.push(Action::Tell(told.bytes(units * UNIT_BYTES)));
    }

    /// Why a move did not come about, in a reason's name where there is one.
    pub(crate) fn why_not(&self, place: Place, outcome: Outcome) -> String {
        let names = self.reason_names(place);
        match outcome {
            Outcome::Unmovable if !names.is_empty() => names.join(", "),
            Outcome::Capture => Reason::Capture.text().to_owned(),
            Outcome::Undrained if names.contains(&Reason::Stopped.text()) => names.join(", "),
            other => other.text().to_owned(),
        }
    }
}
