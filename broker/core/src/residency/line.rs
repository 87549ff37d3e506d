//! The line of those who ask for memory that is not free on a card: tenants that want back, and grows
//! that wait. Who has waited longest is first; room is kept for it while others move for it, and who
//! can't be helped as things are does not hold up the rest.

use halfwarp_api::UNIT_BYTES;

use crate::{
    GROW_NS, Nanos,
    card::Uuid,
    event::{Action, Happening, Kind, PageRef},
    state::State,
    tenant::{Stage as Pending, Tenant},
};

use super::{
    Claim,
    moves::{Phase, Place},
    victims::Plan,
};

/// Somebody in the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asker {
    pub(crate) place: Place,
    pub(crate) since: Nanos,
    pub(crate) units: u64,
    /// It wants back; else it is a grow.
    pub(crate) returns: bool,
}

impl State {
    pub(crate) fn serve_line(&mut self, now: Nanos, card: Uuid, actions: &mut Vec<Action>) {
        let before = self.residency.claims.remove(&card);
        // Each round lets one tenant in.
        for _ in 0..=self.tenants.len() {
            if !self.serve_first(now, card, before, actions) {
                break;
            }
        }
    }

    /// Lets the first in that fits, or makes room for the first that can be helped. Whether to look
    /// again.
    fn serve_first(
        &mut self,
        now: Nanos,
        card: Uuid,
        before: Option<Claim>,
        actions: &mut Vec<Action>,
    ) -> bool {
        for asker in self.askers(now, card) {
            if asker.returns && self.lacks(&asker) == 0 {
                self.keep_switch(card, before, asker.place.id);
                self.begin_in(now, asker.place, actions);
                return true;
            }
            let plan = self.plan(now, card, &asker);
            if let Some(gpu) = self.place_gpu_mut(asker.place) {
                gpu.residence.hopeless = asker.returns && matches!(plan, Plan::Hopeless);
            }
            match plan {
                Plan::Hopeless => continue,
                Plan::Later(at) => {
                    self.residency.look_at(at);
                    return false;
                }
                Plan::Coming | Plan::Out(_) => {}
            }
            let same = before.filter(|claim| claim.tenant == asker.place.id);
            let since = same.map_or(now, |claim| claim.since);
            let claim = Claim { tenant: asker.place.id, units: asker.units, since };
            self.residency.claims.insert(card, claim);
            if let Plan::Out(victims) = plan {
                self.call_slack_back(now, card, actions);
                for victim in victims {
                    self.begin_out(now, victim, actions);
                }
            }
            return false;
        }
        false
    }

    /// Remembers since when room was made for a tenant that now has it.
    fn keep_switch(&mut self, card: Uuid, before: Option<Claim>, tenant: u64) {
        if let Some(claim) = before.filter(|claim| claim.tenant == tenant) {
            self.residency.switching.insert(card, claim);
        }
    }

    /// A tenant has the room that was made for it.
    pub(crate) fn has_switched(&mut self, now: Nanos, card: Uuid, tenant: u64) {
        let claim = self.residency.switching.remove(&card);
        if let Some(claim) = claim.filter(|claim| claim.tenant == tenant) {
            let took = now.saturating_sub(claim.since);
            let known = self.residency.switch_ns.entry(card).or_insert(took);
            *known = *known / 2 + took / 2;
        }
    }

    /// A grow that waited was granted.
    pub(crate) fn grow_has_room(&mut self, now: Nanos, card: Uuid, tenant: u64) {
        let claim = self.residency.claims.get(&card).copied();
        if claim.is_some_and(|claim| claim.tenant == tenant) {
            self.residency.claims.remove(&card);
            self.keep_switch(card, claim, tenant);
            self.has_switched(now, card, tenant);
        }
    }

    /// Unused allowances are in the way.
    fn call_slack_back(&mut self, now: Nanos, card: Uuid, actions: &mut Vec<Action>) {
        for (id, slot) in self.slots_on(card) {
            let clients = self.tenants.get(&id).map(|t| t.processes.clone()).unwrap_or_default();
            for client in clients {
                self.call_back(now, PageRef { client, slot }, actions);
            }
        }
    }

    /// Those who ask, longest waiting first.
    pub(crate) fn askers(&mut self, now: Nanos, card: Uuid) -> Vec<Asker> {
        let mut askers = Vec::new();
        for (id, slot) in self.slots_on(card) {
            let place = Place { id, slot };
            self.note_grows_of_absent(now, place);
            let Some(tenant) = self.tenants.get(&id) else { continue };
            let gpu = &tenant.gpus[usize::from(slot)];
            if let Some(since) = gpu.residence.wanted_since
                && !self.is_held(place)
                && gpu.residence.trip.is_none()
            {
                let attempt_at = gpu.residence.attempt_at;
                match self.phase(place) {
                    Phase::Moving => {}
                    Phase::In => {
                        if let Some(gpu) = self.place_gpu_mut(place) {
                            gpu.residence.wanted_since = None;
                        }
                    }
                    Phase::Out if now < attempt_at && !self.is_whole(place) => {
                        self.residency.look_at(attempt_at);
                    }
                    Phase::Out => {
                        let units = self.returning_units(place);
                        askers.push(Asker { place, since, units, returns: true });
                    }
                }
            }
            if self.is_away(place) {
                continue;
            }
            let Some(tenant) = self.tenants.get(&id).filter(|t| !t.lending.ended) else { continue };
            let head = tenant.gpus[usize::from(slot)].queue.front();
            if let Some(head) = head.filter(|head| matches!(head.stage, Pending::Waiting { .. })) {
                let units = u64::from(head.wanted_units);
                askers.push(Asker { place, since: head.since, units, returns: false });
            }
        }
        askers.sort_by_key(|asker| (asker.since, asker.place.id));
        askers
    }

    /// Who asks for more while it is away wants back first.
    fn note_grows_of_absent(&mut self, now: Nanos, place: Place) {
        let head = self.place_gpu(place).and_then(|gpu| gpu.queue.front());
        let Some(since) = head.map(|head| head.since) else { return };
        if !self.is_away(place) {
            return;
        }
        self.residency.look_at(since.saturating_add(GROW_NS).max(now + 1));
        if self.phase(place) == Phase::Out && !self.is_held(place) {
            self.want_back(now, place);
        }
    }

    /// Nothing of it is in host copies: its gates can open.
    fn is_whole(&self, place: Place) -> bool {
        self.returning_units(place) == 0
    }

    fn returning_units(&self, place: Place) -> u64 {
        let each = self.connected_at(place).into_iter();
        each.filter_map(|at| Some(u64::from(self.stay(at)?.swapped_units))).sum()
    }

    /// Units that are missing for somebody to be served.
    pub(crate) fn lacks(&self, asker: &Asker) -> u64 {
        let Some(tenant) = self.tenants.get(&asker.place.id) else { return 0 };
        let room = self.room(tenant, usize::from(asker.place.slot));
        let owed =
            if asker.returns { asker.units <= room.own_units } else { room.is_owed(asker.units) };
        let there = if owed { room.ungiven_units } else { room.free_units };
        asker.units.saturating_sub(there)
    }

    /// Whether a grow that finds no room may find some once others have moved, even if they can't now.
    pub(crate) fn is_worth_waiting(&self, tenant: &Tenant, slot: u8, wanted: u64) -> bool {
        let gpu = &tenant.gpus[usize::from(slot)];
        let card = gpu.uuid;
        let others = self.swap_places().filter(|place| place.id != tenant.id);
        let here = others.filter(|place| self.place_gpu(*place).is_some_and(|g| g.uuid == card));
        let here = here.filter(|place| self.reason_names(*place).is_empty());
        let could: u64 = here.map(|place| self.resident_units(place)).sum();
        could > 0 && wanted <= self.free_units(card) + could
    }

    /// What a tenant has on a card that could leave it.
    pub(crate) fn resident_units(&self, place: Place) -> u64 {
        let tenant = self.tenants.get(&place.id);
        let processes = tenant.into_iter().flat_map(|t| &t.processes);
        let gpus =
            processes.filter_map(|c| self.processes.get(c)?.gpus.get(usize::from(place.slot)));
        gpus.map(|gpu| u64::from(gpu.allowed_units.saturating_sub(gpu.context_units))).sum()
    }

    /// A grow has waited in vain for others to move.
    pub(crate) fn tell_no_room(&self, id: u64, slot: u8, actions: &mut Vec<Action>) {
        let place = Place { id, slot };
        let Some(gpu) = self.place_gpu(place) else { return };
        let wanted = gpu.queue.front().map_or(0, |head| u64::from(head.wanted_units)) * UNIT_BYTES;
        let card = gpu.uuid;
        let others = self.swap_places().filter(|p| p.id != id);
        let others = others.filter(|p| self.place_gpu(*p).is_some_and(|g| g.uuid == card));
        let there: u64 = others.map(|p| self.resident_units(p)).sum::<u64>() * UNIT_BYTES;
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        let text = format!(
            "{} were wanted and {} are free; others could leave with {}, but of the host pool of {} \
             {} are left",
            mib(wanted),
            mib(self.free_units(card) * UNIT_BYTES),
            mib(there),
            mib(self.config.swap.pool_bytes),
            mib(self.pool_left_bytes()),
        );
        let told = Happening::new(Kind::NoRoom, text).tenant(id).gpu(card);
        actions.push(Action::Tell(told.bytes(wanted)));
    }
}
