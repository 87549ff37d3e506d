//! Changes of a running tenant's request and limit. A limit lowered below what is held takes nothing
//! away: nothing new is given until less is held, and what was allowed and is not used is called back.

use halfwarp_api::UNIT_BYTES;
use halfwarp_rest::{Bytes, TenantChange};

use crate::{
    Nanos, RECALL_NS,
    admit::{Reason, Rejection},
    event::{Action, PageRef},
    residency::Place,
    state::State,
    tenant::Tenant,
};

/// Request and limit on one card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Amounts {
    pub(crate) request_units: u32,
    pub(crate) limit_units: u32,
}

impl State {
    /// What a change makes of each card of a tenant, by slot; nothing where it leaves memory alone.
    pub(crate) fn amounts(
        &self,
        tenant: &Tenant,
        to: &TenantChange,
    ) -> Result<Vec<Amounts>, Rejection> {
        if to.memory.is_empty() {
            return Ok(Vec::new());
        }
        let (given, cards) = (to.memory.len(), tenant.gpus.len());
        if given > 1 && given != cards {
            let message = format!("{given} amounts of memory were given for {cards} cards");
            let help = "give one amount for all cards, or one for each";
            return Err(Rejection::new(Reason::MemoryCount, message, help));
        }
        let units = |bytes: Bytes| u32::try_from(bytes.0 / UNIT_BYTES).unwrap_or(u32::MAX);
        let each = tenant.gpus.iter().enumerate().map(|(slot, gpu)| {
            let Some(card) = self.cards.get(&gpu.uuid) else {
                let message = format!("there is no GPU {} any more", gpu.uuid);
                return Err(Rejection::new(Reason::NoSuchGpu, message, "`halfwarp gpus` lists"));
            };
            let wish = if given == 1 { to.memory.first() } else { to.memory.get(slot) };
            let (request, limit) = self.memory_on(card, wish, Some((tenant, gpu)))?;
            Ok(Amounts { request_units: units(request), limit_units: units(limit) })
        });
        each.collect()
    }

    /// Gives a tenant its new amounts.
    pub(crate) fn resize(
        &mut self,
        now: Nanos,
        id: u64,
        amounts: &[Amounts],
        actions: &mut Vec<Action>,
    ) {
        for (slot, amounts) in amounts.iter().enumerate() {
            let swapped = self.swapped_units(Place { id, slot: slot as u8 });
            let Some(tenant) = self.tenants.get_mut(&id) else { return };
            let Some(gpu) = tenant.gpus.get_mut(slot) else { return };
            gpu.request_units = amounts.request_units;
            gpu.limit_units = amounts.limit_units;
            gpu.excess_units = gpu.excess_units.max(gpu.allowed_units + swapped);
            if gpu.allowed_units > amounts.request_units.into() {
                gpu.lent_at = now;
            }
            let (over, card) = (gpu.allowed_units > amounts.limit_units.into(), gpu.uuid);
            let clients: Vec<_> = tenant.processes.iter().copied().collect();
            for client in clients {
                let (slot, limit_units) = (slot as u8, amounts.limit_units);
                actions.push(Action::Limit { at: PageRef { client, slot }, limit_units });
                if over {
                    self.call_back(now, PageRef { client, slot }, actions);
                }
            }
            self.ease(id, slot as u8, actions);
            self.serve(now, card, actions);
        }
    }

    /// What tenants were allowed above their requests and do not use is called back, so that a request
    /// finds all the room there is.
    pub(crate) fn call_loans_back(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let lent = |tenant: &Tenant| -> Vec<PageRef> {
            let slots = tenant.gpus.iter().enumerate();
            let lent = slots.filter(|(_, gpu)| gpu.allowed_units > gpu.request_units.into());
            let pages = lent.flat_map(|(slot, _)| {
                tenant.processes.iter().map(move |c| PageRef { client: *c, slot: slot as u8 })
            });
            pages.collect()
        };
        let pages: Vec<_> = self.tenants.values().flat_map(lent).collect();
        for at in pages {
            self.call_back(now, at, actions);
        }
    }

    /// Asks a process for what it was allowed and does not use, unless it is asked already.
    pub(crate) fn call_back(&mut self, now: Nanos, at: PageRef, actions: &mut Vec<Action>) {
        let asked = |gpu: &crate::tenant::ProcessGpu| {
            gpu.allowed_units == 0 || gpu.recall.is_some_and(|recall| now < recall.until)
        };
        let connected = self.processes.get(&at.client).is_some_and(|p| p.connected);
        if connected && self.process_gpu(at).is_some_and(|gpu| !asked(gpu)) {
            self.send_recall(at, now + RECALL_NS, actions);
        }
    }
}
