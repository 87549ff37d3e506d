//! Grants. For each process and card the broker's book says how much the process is allowed; how much
//! more that can become is in [`crate::room`].
//!
//! Grows of a tenant on a card are answered in the order they came. One that does not fit first
//! has unused allowances called back ([`crate::recall`]).

use halfwarp_api::wire::{Denial, ToClient};

use crate::{
    GROW_NS, Nanos, SLACK_UNITS,
    card::Uuid,
    event::{Action, ClientId, PageRef},
    recall::Why,
    residency::Place,
    room::Room,
    state::State,
    tenant::{Pending, Stage, Tenant},
};

/// Grows that one process may have waiting; it has one for each thread at most.
const PENDING_MAX: usize = 65_536;

impl State {
    pub(crate) fn grow(
        &mut self,
        now: Nanos,
        at: PageRef,
        seq: u32,
        wanted_units: u32,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self.processes.get_mut(&at.client) else { return };
        let (id, pid) = (process.tenant, process.peer.pid);
        let Some(tenant) = self.tenants.get_mut(&id) else { return };
        let slot = usize::from(at.slot);
        let (Some(gpu), Some(own)) = (tenant.gpus.get_mut(slot), process.gpus.get_mut(slot)) else {
            let deny = ToClient::Deny { seq, gpu: at.slot, why: Denial::UnknownCard };
            actions.push(Action::Send { client: at.client, frame: deny });
            return;
        };
        if gpu.queue.len() >= PENDING_MAX {
            self.hostile(at.client, pid, "too many grows at once".to_owned(), actions);
            actions.push(Action::Close { client: at.client });
            return;
        }
        let pending =
            Pending { client: at.client, seq, wanted_units, since: now, stage: Stage::New };
        // What it asks for first after coming back is what it holds: nobody may be served before.
        let carried = u64::from(std::mem::take(&mut own.carried_units));
        gpu.allowed_units -= carried;
        if carried > 0 || own.returning {
            // After a restart nothing but its own word says what it holds.
            let covered_units = if carried > 0 { carried } else { wanted_units.into() };
            own.returning = false;
            gpu.queue.push_front(pending);
            tenant.absent.remove(&pid);
            let uuid = gpu.uuid;
            self.serve_slot(now, id, at.slot, Some(covered_units), actions);
            self.serve(now, uuid, actions);
        } else {
            gpu.queue.push_back(pending);
            self.serve_slot(now, id, at.slot, None, actions);
        }
    }

    pub(crate) fn serve_everywhere(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let cards: Vec<_> = self.cards.keys().copied().collect();
        for card in cards {
            self.serve(now, card, actions);
        }
    }

    pub(crate) fn serve_tenant(&mut self, now: Nanos, tenant: u64, actions: &mut Vec<Action>) {
        let Some(tenant) = self.tenants.get(&tenant) else { return };
        let cards: Vec<_> = tenant.gpus.iter().map(|gpu| gpu.uuid).collect();
        for card in cards {
            self.serve(now, card, actions);
        }
    }

    /// Room may have come free on a card: looks at everybody who waits for it.
    pub(crate) fn serve(&mut self, now: Nanos, card: Uuid, actions: &mut Vec<Action>) {
        for (tenant, slot) in self.slots_on(card) {
            self.serve_slot(now, tenant, slot, None, actions);
        }
    }

    /// Answers a tenant's grows on a card from the oldest on, until one has to wait.
    /// `home` says that the oldest is from a process that has come back, and how much it holds: the
    /// card has room for that, whatever the last sample says.
    fn serve_slot(
        &mut self,
        now: Nanos,
        id: u64,
        slot: u8,
        mut home: Option<u64>,
        actions: &mut Vec<Action>,
    ) {
        let at = usize::from(slot);
        while let Some(tenant) = self.tenants.get(&id) {
            let Some(head) = tenant.gpus.get(at).and_then(|gpu| gpu.queue.front()) else { return };
            if home.is_none() && !tenant.absent.is_empty() && self.home_until.is_some() {
                return;
            }
            if home.is_none() && self.is_away(Place { id, slot }) {
                if now < head.since.saturating_add(GROW_NS) {
                    return;
                }
                self.deny_because(id, slot, Denial::Card, actions);
                continue;
            }
            let mut room = self.room(tenant, at);
            let wanted = u64::from(head.wanted_units);
            if let Some(covered_units) = home.take() {
                // Exactly what is held, no slack; what the card showed of others is older than that.
                let gpu = &tenant.gpus[at];
                let left = u64::from(gpu.limit_units).saturating_sub(gpu.allowed_units);
                room.limit_units = left.min(wanted);
                room.unowed_units = room.unowed_units.max(covered_units);
                room.free_units = room.free_units.max(covered_units);
                room.ungiven_units = room.ungiven_units.max(covered_units);
            }
            if room.fits(wanted) {
                self.grant(now, id, slot, room, actions);
                continue;
            }
            if wanted > tenant.gpus[at].limit_units.into() || tenant.lending.ended {
                self.deny(id, slot, room, actions);
                continue;
            }
            match &head.stage {
                Stage::New => {
                    let pages = self.pages_to_read(tenant, slot, room);
                    self.set_stage(id, slot, Stage::Reading);
                    self.read_pages(Why::Slack { tenant: id, slot }, pages, actions);
                    return;
                }
                Stage::Reading => return,
                Stage::Recalled { until, from } if now < *until && !from.is_empty() => return,
                Stage::Recalled { .. } => self.wait_or_deny(now, (id, slot), room, actions),
                Stage::Waiting { until } if now < *until => {
                    return self.reclaim(now, id, slot, actions);
                }
                // Nobody of ours has it: the driver decides.
                Stage::Waiting { .. }
                    if room.is_owed(wanted)
                        && wanted <= self.ungiven_units(tenant.gpus[at].uuid) =>
                {
                    self.grant(now, id, slot, room, actions);
                }
                Stage::Waiting { .. } if room.is_owed(wanted) => {
                    self.break_guarantee(id, slot, actions);
                }
                Stage::Waiting { .. } => {
                    self.tell_no_room(id, slot, actions);
                    self.deny(id, slot, room, actions);
                }
            }
        }
    }

    pub(crate) fn set_stage(&mut self, id: u64, slot: u8, stage: Stage) {
        let gpu = self.tenants.get_mut(&id).and_then(|t| t.gpus.get_mut(usize::from(slot)));
        if let Some(head) = gpu.and_then(|gpu| gpu.queue.front_mut()) {
            head.stage = stage;
        }
    }

    /// Grants the oldest grow of a slot: what was wanted, and while the limit is far some slack, so
    /// that the next small allocations need no round trip.
    fn grant(&mut self, now: Nanos, id: u64, slot: u8, room: Room, actions: &mut Vec<Action>) {
        let at = usize::from(slot);
        let Some(tenant) = self.tenants.get(&id) else { return };
        let card = tenant.gpus[at].uuid;
        let on_card = |t: &&Tenant| t.gpus.iter().any(|gpu| gpu.uuid == card);
        let sharers: usize = self.tenants.values().filter(on_card).map(|t| t.processes.len()).sum();
        let reserve = |processes: usize| SLACK_UNITS * processes as u64;
        let spare = room
            .limit_units
            .saturating_sub(reserve(tenant.processes.len()))
            .min(room.card_units().saturating_sub(reserve(sharers)));

        let Some(tenant) = self.tenants.get_mut(&id) else { return };
        let Some(head) = tenant.gpus[at].queue.pop_front() else { return };
        let Some(process) = self.processes.get_mut(&head.client) else { return };
        let wanted = u64::from(head.wanted_units);
        let rounded = wanted.next_multiple_of(SLACK_UNITS);
        let units = if rounded <= spare { rounded } else { wanted };
        let units = u32::try_from(units).unwrap_or(head.wanted_units);
        let gpu = &mut tenant.gpus[at];
        gpu.allowed_units += u64::from(units);
        if gpu.allowed_units > gpu.request_units.into() {
            gpu.lent_at = now;
        }
        let waited = matches!(head.stage, Stage::Waiting { .. });
        if waited {
            gpu.residence.in_since = now;
        }
        process.gpus[at].allowed_units += units;
        let frame = ToClient::Grant { seq: head.seq, gpu: slot, units };
        actions.push(Action::Send { client: head.client, frame });
        if waited {
            self.grow_has_room(now, card, id);
        }
    }

    pub(crate) fn deny(&mut self, id: u64, slot: u8, room: Room, actions: &mut Vec<Action>) {
        let gpu = self.tenants.get(&id).and_then(|t| t.gpus.get(usize::from(slot)));
        let Some(head) = gpu.and_then(|gpu| gpu.queue.front()) else { return };
        let above_limit = u64::from(head.wanted_units) > room.limit_units;
        let why = if above_limit { Denial::Limit } else { Denial::Card };
        self.deny_because(id, slot, why, actions);
    }

    pub(crate) fn deny_because(
        &mut self,
        id: u64,
        slot: u8,
        why: Denial,
        actions: &mut Vec<Action>,
    ) {
        let gpu = self.tenants.get_mut(&id).and_then(|t| t.gpus.get_mut(usize::from(slot)));
        let Some(gpu) = gpu else { return };
        let Some(head) = gpu.queue.pop_front() else { return };
        gpu.denied = Some(why);
        let frame = ToClient::Deny { seq: head.seq, gpu: slot, why };
        actions.push(Action::Send { client: head.client, frame });
    }

    /// A client is gone or silent: nobody waits for its answers, and it waits for none.
    pub(crate) fn drop_grows_of(&mut self, client: ClientId) {
        for gpu in self.tenants.values_mut().flat_map(|t| &mut t.gpus) {
            gpu.queue.retain(|pending| pending.client != client);
            if let Some(Stage::Recalled { from, .. }) = gpu.queue.front_mut().map(|p| &mut p.stage)
            {
                from.retain(|page| page.client != client);
            }
        }
    }
}
