//! Processes that come, come back, or go, where memory is elsewhere than on the card. What an earlier
//! broker or connection knew is gone; a process that has host copies says so, and guards them itself
//! until it is heard.

use crate::{
    Nanos,
    event::{Action, ClientId, PageRef},
    state::State,
};

use super::{ResidencyWords, Stage, Stay, moves::Place};

impl State {
    /// The stays of a process that joins: beside others that have left, or in a suspended tenant, its
    /// gates are closed from the first. `former`: of its broken connection.
    pub(crate) fn first_stays(&self, id: u64, former: &[Stay]) -> Vec<Stay> {
        let Some(tenant) = self.tenants.get(&id) else { return Vec::new() };
        let each = (0..tenant.gpus.len()).map(|slot| {
            let place = Place { id, slot: slot as u8 };
            let before = former.get(slot);
            let beside = self.connected_at(place);
            let away = |at: &PageRef| self.stay(*at).is_some_and(|s| s.stage != Stage::In);
            let closed = self.is_held(place)
                || beside.iter().any(away)
                || before.is_some_and(|stay| stay.stage != Stage::In);
            let swapped_units = before.map_or(0, |stay| stay.swapped_units);
            Stay {
                stage: if closed { Stage::Out } else { Stage::In },
                words: ResidencyWords { closed, number: closed.into() },
                swapped_units,
                orphan_units: swapped_units,
                left_behind: closed && self.is_held(place),
                ..Stay::default()
            }
        });
        each.collect()
    }

    /// Nobody else may open the gates of a process that has come back.
    pub(crate) fn has_joined_stays(&mut self, now: Nanos, client: ClientId) {
        for at in self.pages_of_client(client) {
            let Some(place) = self.place_of(at) else { continue };
            let gpu = self.place_gpu_mut(place);
            let moving = gpu.is_some_and(|gpu| gpu.residence.trip.is_some());
            let swapped = self.stay(at).is_some_and(|stay| stay.swapped_units > 0);
            if swapped && !moving && !self.is_held(place) {
                self.want_back(now, place);
            }
        }
        self.close_none_alone(now, client);
    }

    /// A gate that is closed for a connection that broke, with nothing moved, has nobody to open it.
    fn close_none_alone(&mut self, now: Nanos, client: ClientId) {
        for at in self.pages_of_client(client) {
            let Some(place) = self.place_of(at) else { continue };
            let out = self.stay(at).is_some_and(|stay| stay.stage == Stage::Out);
            let alone = self.connected_at(place).iter().all(|other| other.client == client);
            if out && alone && !self.is_held(place) {
                self.want_back(now, place);
            }
        }
    }

    /// A process that came back has memory in host copies.
    pub(crate) fn comes_swapped(
        &mut self,
        now: Nanos,
        at: PageRef,
        swapped: u32,
        actions: &mut Vec<Action>,
    ) {
        let Some(place) = self.place_of(at) else { return };
        let Some(stay) = self.stay(at) else { return };
        if matches!(stay.stage, Stage::Leaving(_) | Stage::Arriving(_)) || swapped == 0 {
            return;
        }
        self.set_swapped(at, swapped);
        self.set_stage_at(at, Stage::Out, actions);
        if let Some(stay) = self.stay_mut(at) {
            stay.orphan_units = stay.swapped_units;
        }
        if !self.is_held(place) {
            self.want_back(now, place);
        }
    }

    /// A process can't be moved or answer any more: its end, or its connection's.
    pub(crate) fn moves_no_more(&mut self, at: PageRef) {
        let Some(stay) = self.stay_mut(at) else { return };
        if matches!(stay.stage, Stage::Leaving(_) | Stage::Arriving(_)) {
            stay.stage = Stage::Out;
        }
        // Chunks of a broken connection are not asked for again.
        stay.chunks.clear();
        stay.orphan_units = stay.swapped_units;
        (stay.wants, stay.stopped) = (false, false);
    }

    /// The others go on without it.
    pub(crate) fn go_on_without(
        &mut self,
        now: Nanos,
        places: &[Place],
        actions: &mut Vec<Action>,
    ) {
        for place in places {
            if self.place_gpu(*place).is_some_and(|gpu| gpu.residence.trip.is_some()) {
                self.end_trip(now, *place, actions);
            }
            self.note_suspension(now, place.id, actions);
        }
    }
}
