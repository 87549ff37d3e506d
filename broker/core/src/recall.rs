//! Reading pages and calling unused allowances back. What a page says only decides whom to ask; how
//! much came back is what the process itself returns, and until then the units stay promised to it.
//! One that does not answer in time counts as using all it was allowed, and is not asked again
//! before it has answered.

use std::collections::BTreeSet;

use halfwarp_api::wire::ToClient;

use crate::{
    Nanos, RECALL_NS,
    event::{Action, PageRef, PageWord},
    residency::Place,
    room::Room,
    state::State,
    tenant::{ProcessGpu, Recall, Stage, Tenant},
};

/// What a read of pages is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// The oldest grow of this slot does not fit.
    Slack { tenant: u64, slot: u8 },
    /// A client asked for its tenant's figures.
    Figures { at: PageRef, seq: u32 },
    /// The pages say that nothing is left; see [`crate::exhausted`].
    Exhausted { tenant: u64, slot: u8 },
    /// A context is being measured.
    Context { at: PageRef },
}

impl State {
    pub(crate) fn read_pages(&mut self, why: Why, pages: Vec<PageRef>, actions: &mut Vec<Action>) {
        let number = self.next_read;
        self.next_read += 1;
        self.reads.insert(number, why);
        actions.push(Action::ReadPages { number, pages });
    }

    pub(crate) fn pages_read(
        &mut self,
        now: Nanos,
        number: u64,
        words: &[PageWord],
        actions: &mut Vec<Action>,
    ) {
        for PageWord { at, word } in words {
            if let Some(gpu) = self.process_gpu(*at) {
                gpu.word = *word;
            }
        }
        match self.reads.remove(&number) {
            Some(Why::Slack { tenant, slot }) => self.recall(now, tenant, slot, actions),
            Some(Why::Figures { at, seq }) => self.figures(at, seq, actions),
            Some(Why::Exhausted { tenant, slot }) => self.exhausted_read(tenant, slot, actions),
            Some(Why::Context { at }) => self.context_read(now, at, actions),
            None => {}
        }
    }

    pub(crate) fn process_gpu(&mut self, at: PageRef) -> Option<&mut ProcessGpu> {
        self.processes.get_mut(&at.client)?.gpus.get_mut(usize::from(at.slot))
    }

    /// Pages of a tenant's processes on one card.
    fn pages_of_tenant(tenant: &Tenant, slot: u8) -> impl Iterator<Item = PageRef> + '_ {
        tenant.processes.iter().map(move |client| PageRef { client: *client, slot })
    }

    /// Where slack would help: in the tenant's own processes, and if it is the card that is full
    /// also in those of tenants that have more than their request.
    pub(crate) fn pages_to_read(&self, tenant: &Tenant, slot: u8, room: Room) -> Vec<PageRef> {
        let gpu = &tenant.gpus[usize::from(slot)];
        let mut pages: Vec<_> = Self::pages_of_tenant(tenant, slot).collect();
        let head = gpu.queue.front().map_or(0, |head| u64::from(head.wanted_units));
        if head > room.card_units() {
            for (other, slot) in self.slots_on(gpu.uuid) {
                let Some(other) = self.tenants.get(&other).filter(|t| t.id != tenant.id) else {
                    continue;
                };
                let gpu = &other.gpus[usize::from(slot)];
                if gpu.allowed_units > gpu.request_units.into() {
                    pages.extend(Self::pages_of_tenant(other, slot));
                }
            }
        }
        pages
    }

    /// The pages are read: calls slack back from whoever shows some, or denies at once when all of
    /// it together would not do.
    fn recall(&mut self, now: Nanos, id: u64, slot: u8, actions: &mut Vec<Action>) {
        let Some(tenant) = self.tenants.get(&id) else { return };
        let at = usize::from(slot);
        let Some(gpu) = tenant.gpus.get(at) else { return };
        let Some(head) = gpu.queue.front().filter(|head| matches!(head.stage, Stage::Reading))
        else {
            return;
        };
        let (card, wanted) = (gpu.uuid, u64::from(head.wanted_units));
        let room = self.room(tenant, at);
        let (mut ask, mut wait) = (Vec::new(), BTreeSet::new());
        let (mut own_units, mut others_units) = (0, 0);
        for page in self.pages_to_read(tenant, slot, room) {
            let Some(process) = self.processes.get(&page.client).filter(|p| p.connected) else {
                continue;
            };
            let gpu = &process.gpus[usize::from(page.slot)];
            match gpu.recall {
                Some(recall) if now < recall.until => _ = wait.insert(page),
                Some(_) => {}
                None if gpu.slack_units() == 0 => {}
                None => {
                    let own = process.tenant == id;
                    *(if own { &mut own_units } else { &mut others_units }) +=
                        u64::from(gpu.slack_units());
                    ask.push(page);
                }
            }
        }
        let enough = wanted <= room.limit_units + own_units
            && wanted <= room.card_units() + own_units + others_units;
        if wait.is_empty() && (ask.is_empty() || !enough && !room.is_owed(wanted)) {
            self.wait_or_deny(now, (id, slot), room, actions);
            if wanted > room.limit_units + own_units {
                self.exhaust(id, slot, room.limit_units + own_units, actions);
            }
        } else {
            wait.extend(ask.iter().copied());
            let until = now + RECALL_NS;
            self.set_stage(id, slot, Stage::Recalled { until, from: wait });
            for page in ask {
                self.send_recall(page, until, actions);
            }
        }
        self.serve(now, card, actions);
    }

    pub(crate) fn send_recall(&mut self, page: PageRef, until: Nanos, actions: &mut Vec<Action>) {
        let seq = self.next_recall;
        self.next_recall = seq.wrapping_add(1);
        if let Some(gpu) = self.process_gpu(page) {
            gpu.recall = Some(Recall { seq, until });
            let frame = ToClient::Recall { seq, gpu: page.slot };
            actions.push(Action::Send { client: page.client, frame });
        }
    }

    /// A process gives allowance back.
    pub(crate) fn returned(
        &mut self,
        now: Nanos,
        at: PageRef,
        seq: u32,
        units: u32,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self.processes.get_mut(&at.client) else { return };
        let (id, pid) = (process.tenant, process.peer.pid);
        let slot = usize::from(at.slot);
        let gpu = self.tenants.get_mut(&id).and_then(|t| t.gpus.get_mut(slot));
        let (Some(gpu), Some(own)) = (gpu, process.gpus.get_mut(slot)) else { return };
        let given = units.min(own.allowed_units);
        own.allowed_units -= given;
        gpu.allowed_units -= u64::from(given);
        let card = gpu.uuid;
        if own.recall.is_some_and(|recall| recall.seq == seq) {
            own.recall = None;
            self.heard_from(card, at);
        }
        self.ease(id, at.slot, actions);
        if given < units {
            let text = format!("{units} units came back where {given} had been granted");
            self.hostile(at.client, pid, text, actions);
        }
        self.serve(now, card, actions);
    }

    /// Whoever waits for this page's answer has it.
    fn heard_from(&mut self, card: crate::Uuid, page: PageRef) {
        let gpus = self.tenants.values_mut().flat_map(|t| &mut t.gpus);
        for gpu in gpus.filter(|gpu| gpu.uuid == card) {
            if let Some(Stage::Recalled { from, .. }) = gpu.queue.front_mut().map(|p| &mut p.stage)
            {
                from.remove(&page);
            }
        }
    }

    pub(crate) fn ask(&mut self, at: PageRef, seq: u32, actions: &mut Vec<Action>) {
        let process = self.processes.get(&at.client);
        let Some(tenant) = process.and_then(|p| self.tenants.get(&p.tenant)) else { return };
        if usize::from(at.slot) >= tenant.gpus.len() {
            return self.figures(at, seq, actions);
        }
        let pages = Self::pages_of_tenant(tenant, at.slot).collect();
        self.read_pages(Why::Figures { at, seq }, pages, actions);
    }

    /// The tenant's limit and use, as all views have them; both 0 for a card that it has not.
    fn figures(&mut self, at: PageRef, seq: u32, actions: &mut Vec<Action>) {
        let Some(process) = self.processes.get(&at.client) else { return };
        let Some(tenant) = self.tenants.get(&process.tenant) else { return };
        let gpu = tenant.gpus.get(usize::from(at.slot));
        let limit = gpu.map_or(0, |gpu| gpu.limit_units);
        let held = u32::try_from(self.held_units(tenant, at.slot)).unwrap_or(u32::MAX);
        let frame = ToClient::Figures { seq, gpu: at.slot, limit, held };
        actions.push(Action::Send { client: at.client, frame });
    }

    /// What a tenant's processes hold of a card by their pages, each checked against the book, and in
    /// host copies: a move does not change it.
    pub(crate) fn held_units(&self, tenant: &Tenant, slot: u8) -> u64 {
        let swapped = self.swapped_units(Place { id: tenant.id, slot });
        self.held_on_card(tenant, slot) + swapped
    }

    pub(crate) fn held_on_card(&self, tenant: &Tenant, slot: u8) -> u64 {
        let processes = tenant.processes.iter().filter_map(|c| self.processes.get(c));
        let gpus = processes.filter_map(|p| p.gpus.get(usize::from(slot)));
        gpus.map(|gpu| u64::from(gpu.held_units())).sum()
    }
}
