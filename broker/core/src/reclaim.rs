//! Getting a guaranteed amount back from those who borrowed it. Unused allowances have been called back
//! by now ([`crate::recall`]); what is left is to wait for bytes that are about to come free, and, only
//! where the operator allowed it, to end a tenant that holds more than its request: never one within
//! it, the least important first, of equals the one that borrowed last, and no more than needed.
//!
//! A grow that is owed to its tenant waits; if the bytes do not come in time, that is a broken guarantee,
//! which is counted.

use halfwarp_api::{UNIT_BYTES, wire::Denial};

use crate::{
    END_GRACE_NS, GROW_NS, Nanos, SETTLE_WAIT_NS,
    card::Uuid,
    event::{Action, Happening, Kind},
    residency::Place,
    room::Room,
    state::State,
    tenant::{Stage, Tenant},
};

/// What a tenant may be made to give back, and how far that has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lending {
    /// The operator allowed ending it.
    pub(crate) may_end: bool,
    /// It was told to end; at this time it is killed.
    pub(crate) kill_at: Option<Nanos>,
    /// It is being ended for others: it gets nothing any more.
    pub(crate) ended: bool,
}

impl State {
    /// No slack is left and the oldest grow of this slot does not fit: it is denied, or, if its tenant
    /// is owed it, waits.
    pub(crate) fn wait_or_deny(
        &mut self,
        now: Nanos,
        (id, slot): (u64, u8),
        room: Room,
        actions: &mut Vec<Action>,
    ) {
        let tenant = self.tenants.get(&id);
        let head = tenant.and_then(|t| t.gpus.get(usize::from(slot))?.queue.front());
        let owed = head.is_some_and(|head| room.is_owed(head.wanted_units.into()));
        let ended = tenant.is_none_or(|t| t.lending.ended);
        let wanted = head.map_or(0, |head| u64::from(head.wanted_units));
        let others_may_move = wanted <= room.limit_units
            && tenant.is_some_and(|tenant| self.is_worth_waiting(tenant, slot, wanted));
        if !owed && !others_may_move || ended {
            return self.deny(id, slot, room, actions);
        }
        let card = tenant.map(|t| t.gpus[usize::from(slot)].uuid);
        let settles = card.is_some_and(|card| wanted <= self.ungiven_units(card));
        let patience = if settles { SETTLE_WAIT_NS } else { GROW_NS };
        self.set_stage(id, slot, Stage::Waiting { until: now + patience });
        self.reclaim(now, id, slot, actions);
    }

    /// Ends tenants so that the oldest grow of this slot fits, if anybody is to be ended for it.
    pub(crate) fn reclaim(&mut self, now: Nanos, id: u64, slot: u8, actions: &mut Vec<Action>) {
        let Some(gpu) = self.tenants.get(&id).and_then(|t| t.gpus.get(usize::from(slot))) else {
            return;
        };
        let Some(head) = gpu.queue.front() else { return };
        let (card, wanted) = (gpu.uuid, u64::from(head.wanted_units));
        let coming = self.coming_units(card);
        let missing = wanted.saturating_sub(self.ungiven_units(card) + coming);
        // Nobody is ended for what others can move away for.
        if missing == 0 || self.can_be_helped(now, Place { id, slot }, wanted) {
            return;
        }
        for victim in self.victims(card, id, missing) {
            self.end_for(now, victim, id, card, actions);
        }
    }

    /// Units that will be free without anybody's help: of tenants told to end.
    fn coming_units(&self, card: Uuid) -> u64 {
        let ending = self.tenants.values().filter(|t| t.lending.ended).flat_map(|t| &t.gpus);
        let ending = ending.filter(|gpu| gpu.uuid == card).map(|gpu| gpu.allowed_units);
        ending.sum()
    }

    /// Who is to be ended so that `missing` units come free on a card: nobody where that would not do.
    fn victims(&self, card: Uuid, for_id: u64, missing: u64) -> Vec<u64> {
        let held = |tenant: &Tenant| {
            let here = tenant.gpus.iter().find(|gpu| gpu.uuid == card)?;
            let borrows = here.allowed_units > here.request_units.into();
            borrows.then_some((here.allowed_units, here.lent_at))
        };
        let may = |t: &&Tenant| t.id != for_id && t.lending.may_end && !t.lending.ended;
        let mut may: Vec<_> = self.tenants.values().filter(may).collect();
        may.retain(|tenant| held(tenant).is_some());
        may.sort_by_key(|t| {
            let lent_at = held(t).map_or(0, |(_, at)| at);
            (t.priority, std::cmp::Reverse(lent_at), std::cmp::Reverse(t.id))
        });
        let units = |id: &u64| self.tenants.get(id).and_then(held).map_or(0, |(units, _)| units);
        let (mut chosen, mut sum) = (Vec::new(), 0);
        for tenant in may {
            if sum >= missing {
                break;
            }
            sum += units(&tenant.id);
            chosen.push(tenant.id);
        }
        if missing == 0 || sum < missing {
            return Vec::new();
        }
        // The last one alone may have made the others' end needless.
        let mut kept: Vec<u64> = Vec::new();
        for at in (0..chosen.len()).rev() {
            let without = sum - units(&chosen[at]);
            if without >= missing { sum = without } else { kept.push(chosen[at]) }
        }
        kept
    }

    fn end_for(
        &mut self,
        now: Nanos,
        victim: u64,
        owner: u64,
        card: Uuid,
        actions: &mut Vec<Action>,
    ) {
        let owner_name = self.tenants.get(&owner).map_or("", |t| &t.name).to_owned();
        let Some(tenant) = self.tenants.get_mut(&victim) else { return };
        tenant.ending = true;
        tenant.lending.ended = true;
        tenant.lending.kill_at = Some(now + END_GRACE_NS);
        let here = tenant.gpus.iter().find(|gpu| gpu.uuid == card);
        let above = here.map_or(0, |gpu| gpu.allowed_units - u64::from(gpu.request_units));
        let text = format!(
            "{} is ended: it borrowed above its request what {owner_name} (tenant {owner}) is owed",
            tenant.name
        );
        let told = Happening::new(Kind::Reclaimed, text).tenant(victim).gpu(card);
        let each = tenant.processes.iter();
        actions.extend(each.map(|client| Action::Signal { client: *client, kill: false }));
        actions.push(Action::Tell(told.bytes(above * UNIT_BYTES)));
        actions.push(Action::Save);
        self.count_reclaim();
        self.deny_all_of(victim, actions);
    }

    /// Nothing more is given to a tenant that is being ended.
    fn deny_all_of(&mut self, id: u64, actions: &mut Vec<Action>) {
        let Some(tenant) = self.tenants.get(&id) else { return };
        let slots: Vec<_> = (0..tenant.gpus.len()).collect();
        for slot in slots {
            while let Some(tenant) = self.tenants.get(&id)
                && !tenant.gpus[slot].queue.is_empty()
            {
                let room = self.room(tenant, slot);
                self.deny(id, slot as u8, room, actions);
            }
        }
    }

    /// Tenants that did not end when they were told are killed.
    pub(crate) fn kill_overdue(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        for tenant in self.tenants.values_mut() {
            if tenant.lending.kill_at.take_if(|at| now >= *at).is_some() {
                let each = tenant.processes.iter();
                actions.extend(each.map(|client| Action::Signal { client: *client, kill: true }));
            }
        }
    }

    /// The bytes that a tenant is owed did not come in time.
    pub(crate) fn break_guarantee(&mut self, id: u64, slot: u8, actions: &mut Vec<Action>) {
        let tenant = self.tenants.get(&id);
        let Some(gpu) = tenant.and_then(|t| t.gpus.get(usize::from(slot))) else { return };
        let Some(head) = gpu.queue.front() else { return };
        let text = "guaranteed memory could not be had in time: it is stuck in other hands";
        let told = Happening::new(Kind::GuaranteeBroken, text).tenant(id).gpu(gpu.uuid);
        actions.push(Action::Tell(told.bytes(u64::from(head.wanted_units) * UNIT_BYTES)));
        self.count_broken_guarantee();
        self.deny_because(id, slot, Denial::Stuck, actions);
    }
}
