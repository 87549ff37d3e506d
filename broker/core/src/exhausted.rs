//! The word in each page that says what need not be asked for: asks of that many units or more are
//! refused in the process itself, and what is released comes back to the broker at once, so that the word
//! can go as soon as it is not true any more.
//!
//! It is set when a tenant's limit refused a grow and its processes show no slack that would do, or when
//! its limit was lowered below what it was allowed. A process that released before it saw the word
//! is seen by reading the pages once more after it is set.

use crate::{
    event::{Action, PageRef},
    recall::Why,
    state::State,
};

impl State {
    /// A grow was refused by the limit with this much left for others.
    pub(crate) fn exhaust(
        &mut self,
        id: u64,
        slot: u8,
        left_units: u64,
        actions: &mut Vec<Action>,
    ) {
        let word = u32::try_from(left_units + 1).unwrap_or(0);
        self.set_exhausted(id, slot, word, actions);
        let pages = self.pages_of(id, slot);
        self.read_pages(Why::Exhausted { tenant: id, slot }, pages, actions);
    }

    /// The pages were read after the word was set.
    pub(crate) fn exhausted_read(&mut self, id: u64, slot: u8, actions: &mut Vec<Action>) {
        let Some(tenant) = self.tenants.get(&id) else { return };
        let at = usize::from(slot);
        let Some(word) = tenant.gpus.get(at).map(|gpu| gpu.exhausted) else { return };
        let processes = tenant.processes.iter().filter_map(|client| self.processes.get(client));
        let slack: u64 = processes.map(|p| u64::from(p.gpus[at].slack_units())).sum();
        let left = self.room(tenant, at).limit_units + slack;
        if word > 0 && left >= word.into() {
            self.set_exhausted(id, slot, u32::try_from(left + 1).unwrap_or(0), actions);
        }
    }

    /// The tenant was given a higher limit, or holds less: only what is above its limit now counts.
    pub(crate) fn ease(&mut self, id: u64, slot: u8, actions: &mut Vec<Action>) {
        let gpu = self.tenants.get(&id).and_then(|t| t.gpus.get(usize::from(slot)));
        let over = gpu.is_some_and(|gpu| gpu.allowed_units > gpu.limit_units.into());
        self.set_exhausted(id, slot, over.into(), actions);
    }

    /// A process that has just joined has a page of its own.
    pub(crate) fn tell_exhausted(&self, id: u64, actions: &mut Vec<Action>) {
        let Some(tenant) = self.tenants.get(&id) else { return };
        for (slot, gpu) in tenant.gpus.iter().enumerate().filter(|(_, gpu)| gpu.exhausted > 0) {
            let each = self.pages_of(id, slot as u8).into_iter();
            actions.extend(each.map(|at| Action::Exhausted { at, units: gpu.exhausted }));
        }
    }

    fn set_exhausted(&mut self, id: u64, slot: u8, word: u32, actions: &mut Vec<Action>) {
        let pages = self.pages_of(id, slot);
        let gpu = self.tenants.get_mut(&id).and_then(|t| t.gpus.get_mut(usize::from(slot)));
        let Some(gpu) = gpu.filter(|gpu| gpu.exhausted != word) else { return };
        gpu.exhausted = word;
        actions.extend(pages.into_iter().map(|at| Action::Exhausted { at, units: word }));
    }

    fn pages_of(&self, id: u64, slot: u8) -> Vec<PageRef> {
        let processes = self.tenants.get(&id).into_iter().flat_map(|t| &t.processes);
        processes.map(|client| PageRef { client: *client, slot }).collect()
    }
}
