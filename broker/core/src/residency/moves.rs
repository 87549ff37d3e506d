//! The two moves of a tenant's memory on a card, from the gate's closing to its opening.

use halfwarp_api::{UNIT_BYTES, wire::ToClient};

use crate::{
    Nanos,
    event::{Action, ClientId, Happening, Kind, PageRef},
    state::State,
    tenant::TenantGpu,
};

use super::{GRACE_NS, Move, ResidencyWords, SLOWEST_BYTES, Stage, Stay, Trip};

/// A tenant's part of one card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) id: u64,
    pub(crate) slot: u8,
}

/// Where a tenant's memory on a card is, all processes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    In,
    Moving,
    Out,
}

impl State {
    pub(crate) fn stay_mut(&mut self, at: PageRef) -> Option<&mut Stay> {
        self.process_gpu(at).map(|gpu| &mut gpu.stay)
    }

    pub(crate) fn stay(&self, at: PageRef) -> Option<&Stay> {
        let process = self.processes.get(&at.client)?;
        process.gpus.get(usize::from(at.slot)).map(|gpu| &gpu.stay)
    }

    pub(crate) fn place_gpu(&self, place: Place) -> Option<&TenantGpu> {
        self.tenants.get(&place.id)?.gpus.get(usize::from(place.slot))
    }

    pub(crate) fn place_gpu_mut(&mut self, place: Place) -> Option<&mut TenantGpu> {
        self.tenants.get_mut(&place.id)?.gpus.get_mut(usize::from(place.slot))
    }

    /// The processes of a place that can hear.
    pub(crate) fn connected_at(&self, place: Place) -> Vec<PageRef> {
        let tenant = self.tenants.get(&place.id);
        let clients = tenant.into_iter().flat_map(|t| &t.processes);
        let hears = |c: &&ClientId| self.processes.get(c).is_some_and(|p| p.connected);
        clients.filter(hears).map(|c| PageRef { client: *c, slot: place.slot }).collect()
    }

    fn stages(&self, place: Place) -> impl Iterator<Item = Stage> {
        self.connected_at(place).into_iter().filter_map(|at| Some(self.stay(at)?.stage))
    }

    pub(crate) fn phase(&self, place: Place) -> Phase {
        let mut all_in = true;
        for stage in self.stages(place) {
            match stage {
                Stage::Leaving(on_way) | Stage::Arriving(on_way) if !on_way.late => {
                    return Phase::Moving;
                }
                Stage::In => {}
                _ => all_in = false,
            }
        }
        if all_in { Phase::In } else { Phase::Out }
    }

    /// Whether a tenant's gates are closed, or some of them: nothing is given to it now.
    pub(crate) fn is_away(&self, place: Place) -> bool {
        self.tenants.get(&place.id).is_some_and(|tenant| tenant.swap)
            && self.phase(place) != Phase::In
    }

    /// What a tenant has in host copies.
    pub(crate) fn swapped_units(&self, place: Place) -> u64 {
        let tenant = self.tenants.get(&place.id);
        let processes = tenant.into_iter().flat_map(|t| &t.processes);
        let gpus =
            processes.filter_map(|c| self.processes.get(c)?.gpus.get(usize::from(place.slot)));
        gpus.map(|gpu| u64::from(gpu.stay.swapped_units)).sum()
    }

    pub(crate) fn set_stage_at(&mut self, at: PageRef, stage: Stage, actions: &mut Vec<Action>) {
        let Some(stay) = self.stay_mut(at) else { return };
        stay.stage = stage;
        let closed = stage != Stage::In;
        if !closed {
            (stay.wants, stay.stopped) = (false, false);
        }
        if stay.words.closed != closed {
            stay.words = ResidencyWords { closed, number: stay.words.number.wrapping_add(1) };
            actions.push(Action::Residency { at, words: stay.words });
        }
    }

    /// Whether a process has something that a move out could take, or an open gate.
    fn could_leave(&self, at: PageRef) -> bool {
        let process = self.processes.get(&at.client);
        let own = process.and_then(|process| process.gpus.get(usize::from(at.slot)));
        own.is_some_and(|own| match own.stay.stage {
            Stage::In => true,
            Stage::Out => own.stay.left_behind || own.allowed_units > own.context_units,
            Stage::Leaving(_) | Stage::Arriving(_) => false,
        })
    }

    fn next_seq(&mut self) -> u32 {
        // 0 is what a process says by itself.
        self.residency.next_seq = self.residency.next_seq.wrapping_add(1).max(1);
        self.residency.next_seq
    }

    /// Closes the gates of a tenant on a card, then asks its processes to leave.
    pub(crate) fn begin_out(&mut self, now: Nanos, place: Place, actions: &mut Vec<Action>) {
        let within_ns = self.config.swap.drain_ns;
        // One that is half out and waits keeps its place in the line.
        let leaves_the_line = self.phase(place) == Phase::In;
        let mut asked = Vec::new();
        for at in self.connected_at(place) {
            if !self.could_leave(at) {
                continue;
            }
            let seq = self.next_seq();
            let until = now + within_ns + GRACE_NS;
            let on_way = Move { seq, until, late: false, units: 0 };
            self.set_stage_at(at, Stage::Leaving(on_way), actions);
            if let Some(stay) = self.stay_mut(at) {
                stay.left_behind = false;
            }
            asked.push((at, seq));
        }
        if asked.is_empty() {
            return;
        }
        if let Some(gpu) = self.place_gpu_mut(place) {
            let trip = Trip { outward: true, since: now, units: 0, failed: None };
            gpu.residence.trip = Some(trip);
            if leaves_the_line {
                gpu.residence.wanted_since = None;
            }
        }
        for (at, seq) in asked {
            let frame = ToClient::SwapOut { seq, gpu: at.slot, within_ns };
            actions.push(Action::Send { client: at.client, frame });
        }
        self.end_trip(now, place, actions);
    }

    /// Reserves all that a tenant has in host copies, and asks its processes to fetch it. The caller
    /// has seen that there is room.
    pub(crate) fn begin_in(&mut self, now: Nanos, place: Place, actions: &mut Vec<Action>) {
        let mut total = 0;
        for at in self.connected_at(place) {
            let Some(stay) = self.stay(at) else { continue };
            let units = stay.swapped_units;
            if units == 0 || stay.stage != Stage::Out {
                continue;
            }
            let seq = self.next_seq();
            let expected_ns = u64::from(units) * UNIT_BYTES * 1000 / SLOWEST_BYTES * 1_000_000;
            let until = now + self.config.swap.drain_ns + GRACE_NS + expected_ns;
            let on_way = Move { seq, until, late: false, units };
            self.set_stage_at(at, Stage::Arriving(on_way), actions);
            if let Some(own) = self.process_gpu(at) {
                own.allowed_units = own.allowed_units.saturating_add(units);
            }
            total += u64::from(units);
            let frame = ToClient::SwapIn { seq, gpu: at.slot, units };
            actions.push(Action::Send { client: at.client, frame });
        }
        if let Some(gpu) = self.place_gpu_mut(place) {
            gpu.allowed_units += total;
            // What a process has in host copies may be more than it said had left.
            gpu.excess_units = gpu.excess_units.max(gpu.allowed_units);
            gpu.residence.trip =
                Some(Trip { outward: false, since: now, units: total, failed: None });
            gpu.residence.wanted_since = None;
            gpu.residence.hopeless = false;
        }
        self.end_trip(now, place, actions);
    }

    /// Moves that show no sign: their processes are stopped or hang. Their gates stay closed, as they may
    /// have begun; whatever they answer later is looked at then.
    pub(crate) fn give_up_on_late(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let mut places = Vec::new();
        for process in self.processes.values_mut() {
            for (slot, gpu) in process.gpus.iter_mut().enumerate() {
                let (Stage::Leaving(on_way) | Stage::Arriving(on_way)) = &mut gpu.stay.stage else {
                    continue;
                };
                if on_way.late || now < on_way.until {
                    continue;
                }
                on_way.late = true;
                gpu.stay.stopped = true;
                let text = format!("{} does not answer while it is to move", process.peer.command);
                let told = Happening::new(Kind::Stalled, text).tenant(process.tenant);
                actions.push(Action::Tell(told.pid(process.peer.pid)));
                places.push(Place { id: process.tenant, slot: slot as u8 });
            }
        }
        for place in places {
            self.end_trip(now, place, actions);
        }
    }

    /// Units that are on their way off a card.
    pub(crate) fn leaving_units(&self, card: crate::Uuid) -> u64 {
        let mut sum = 0;
        for process in self.processes.values() {
            let Some(tenant) = self.tenants.get(&process.tenant) else { continue };
            for (gpu, own) in tenant.gpus.iter().zip(&process.gpus) {
                let leaves = matches!(own.stay.stage, Stage::Leaving(on_way) if !on_way.late);
                // Unused allowance is called back from those who have left.
                let returns = own.stay.stage == Stage::Out && own.recall.is_some();
                if gpu.uuid == card && (leaves || returns) {
                    sum += u64::from(own.allowed_units.saturating_sub(own.context_units));
                }
            }
        }
        sum
    }
}
