//! What processes say about their memory. Hints about themselves, and bounded: what a process claims to
//! have in host copies is at most what it could have.

use halfwarp_api::{
    UNIT_BYTES,
    wire::{Reason, ToBroker},
};

use crate::{
    Nanos,
    event::{Action, ClientId, Happening, Kind, PageRef},
    state::State,
};

use super::{DEBT_UNITS, Stage, moves::Place};

impl State {
    /// What is said about memory that moves.
    pub(crate) fn frame_of_memory(
        &mut self,
        now: Nanos,
        client: ClientId,
        frame: ToBroker,
        actions: &mut Vec<Action>,
    ) {
        let page = |slot| PageRef { client, slot };
        match frame {
            ToBroker::Reasons { gpu, reasons } => self.has_reasons(page(gpu), reasons, actions),
            ToBroker::ChunkGone { chunk } => self.chunk_gone(now, client, chunk, actions),
            ToBroker::Left { seq, gpu, units } => self.left(now, page(gpu), seq, units, actions),
            ToBroker::SwapEnded { seq, gpu, outcome, swapped, taken } => {
                let end = (outcome, swapped, taken);
                self.swap_ended(now, page(gpu), seq, end, actions);
            }
            ToBroker::SwappedFreed { gpu, units } => self.swapped_freed(page(gpu), units),
            ToBroker::WantMemory { gpu, .. } => self.wants_memory(now, page(gpu)),
            _ => {}
        }
    }

    pub(crate) fn place_of(&self, at: PageRef) -> Option<Place> {
        let id = self.processes.get(&at.client)?.tenant;
        let tenant = self.tenants.get(&id)?;
        (usize::from(at.slot) < tenant.gpus.len()).then_some(Place { id, slot: at.slot })
    }

    /// Units that have left the card: room for others at once.
    pub(crate) fn left(
        &mut self,
        now: Nanos,
        at: PageRef,
        seq: u32,
        units: u32,
        actions: &mut Vec<Action>,
    ) {
        let drain_ns = self.config.swap.drain_ns;
        let Some(own) = self.process_gpu(at) else { return };
        let Stage::Leaving(on_way) = &mut own.stay.stage else { return };
        if on_way.seq != seq {
            return;
        }
        on_way.until = now + drain_ns;
        let units = units.min(own.allowed_units);
        own.stay.swapped_units += units;
        self.take_allowance(at, units);
        let Some(place) = self.place_of(at) else { return };
        if let Some(trip) = self.trip_mut(place) {
            trip.units += u64::from(units);
        }
        if let Some(card) = self.place_gpu(place).map(|gpu| gpu.uuid) {
            self.serve(now, card, actions);
        }
    }

    /// What a process says it has in host copies, as far as that can be.
    pub(crate) fn set_swapped(&mut self, at: PageRef, units: u32) {
        let Some(place) = self.place_of(at) else { return };
        let Some(gpu) = self.place_gpu(place) else { return };
        let own = self.stay(at).map_or(0, |stay| u64::from(stay.swapped_units));
        let others = self.swapped_units(place) - own;
        let most = u64::from(gpu.limit_units).max(gpu.excess_units) + gpu.forced_units + DEBT_UNITS;
        let left = most.saturating_sub(gpu.allowed_units + others).max(own);
        let units = u64::from(units).min(left);
        if let Some(stay) = self.stay_mut(at) {
            stay.swapped_units = u32::try_from(units).unwrap_or(u32::MAX);
        }
    }

    /// The program freed memory that was swapped.
    pub(crate) fn swapped_freed(&mut self, at: PageRef, units: u32) {
        if let Some(stay) = self.stay_mut(at) {
            stay.swapped_units = stay.swapped_units.saturating_sub(units);
            stay.orphan_units = stay.orphan_units.min(stay.swapped_units);
        }
    }

    /// A thread waits at a closed gate. An old number is no matter: if the gate is closed it waits
    /// there still.
    pub(crate) fn wants_memory(&mut self, now: Nanos, at: PageRef) {
        let Some(stay) = self.stay_mut(at) else { return };
        if stay.stage == Stage::In {
            return;
        }
        stay.wants = true;
        let Some(place) = self.place_of(at) else { return };
        let outward = self.place_gpu(place).and_then(|gpu| gpu.residence.trip).map(|t| t.outward);
        if outward.is_none() && !self.is_held(place) {
            self.want_back(now, place);
        }
    }

    pub(crate) fn has_reasons(&mut self, at: PageRef, reasons: u32, actions: &mut Vec<Action>) {
        let Some(stay) = self.stay_mut(at) else { return };
        let before = std::mem::replace(&mut stay.reasons, reasons);
        let Some(place) = self.place_of(at) else { return };
        let Some(gpu) = self.place_gpu(place) else { return };
        let lent = gpu.allowed_units.saturating_sub(gpu.request_units.into());
        if before == 0 && reasons != 0 && lent > 0 {
            let names = self.reason_names(place).join(", ");
            let text = format!("it can't be moved now ({names}): what it borrowed is stuck");
            let mut told = Happening::new(Kind::LoanStuck, text).tenant(place.id);
            told.gpu = Some(gpu.uuid);
            actions.push(Action::Tell(told.bytes(lent * UNIT_BYTES)));
        }
    }

    /// Why a tenant's memory on a card can't be moved, by name.
    pub(crate) fn reason_names(&self, place: Place) -> Vec<&'static str> {
        let tenant = self.tenants.get(&place.id);
        let processes = tenant.into_iter().flat_map(|t| &t.processes);
        let gpus =
            processes.filter_map(|c| self.processes.get(c)?.gpus.get(usize::from(place.slot)));
        let bits = gpus.fold(0, |bits, gpu| {
            bits | gpu.stay.reasons | u32::from(gpu.stay.stopped) << Reason::Stopped as u32
        });
        let named = Reason::ALL.iter().filter(|reason| bits >> **reason as u32 & 1 == 1);
        let mut names: Vec<_> = named.map(|reason| reason.text()).collect();
        let known = Reason::ALL.iter().fold(0, |bits, reason| bits | 1 << *reason as u32);
        if bits & !known != 0 {
            names.push("other");
        }
        names
    }
}
