//! What a context costs. The client charged an estimate; NVML shows what the process really uses,
//! and what the ledger holds besides the charge is taken off. A figure counts only if the ledger
//! stood still from before the sample until after it; otherwise the look is repeated, and when the
//! time is up the charge stays.

use halfwarp_api::{UNIT_BYTES, wire::ToClient};

use crate::{
    CONTEXT_NS, Nanos,
    event::{Action, Happening, Kind, PageRef, Sample},
    recall::Why,
    state::State,
    tenant::Measuring,
};

/// Contexts are charged in steps of this.
const STEP_BYTES: u64 = 2 << 20;

impl State {
    pub(crate) fn context_made(
        &mut self,
        now: Nanos,
        at: PageRef,
        seq: u32,
        charged_units: u32,
        actions: &mut Vec<Action>,
    ) {
        let Some(gpu) = self.process_gpu(at) else {
            return answer(at, seq, charged_units, actions);
        };
        gpu.context_units = charged_units;
        let until = now + CONTEXT_NS;
        let measuring = Measuring { seq, charged_units, until, before: None, used_bytes: None };
        if let Some(former) = gpu.measuring.replace(measuring) {
            answer(at, former.seq, former.charged_units, actions);
        }
        self.read_pages(Why::Context { at }, vec![at], actions);
    }

    /// The ledger word was read: before a sample, or after the one that showed the process.
    pub(crate) fn context_read(&mut self, now: Nanos, at: PageRef, actions: &mut Vec<Action>) {
        let Some(gpu) = self.process_gpu(at) else { return };
        let held = gpu.held_units();
        let Some(measuring) = &mut gpu.measuring else { return };
        match (measuring.before, measuring.used_bytes) {
            (Some((before, _)), Some(used)) if before == held => self.measured(at, used, actions),
            _ => {
                measuring.before = Some((held, now));
                measuring.used_bytes = None;
                actions.push(Action::Sample);
            }
        }
    }

    /// A sample came: whoever waits for it reads the ledger once more.
    pub(crate) fn contexts_sampled(&mut self, sample: &Sample, actions: &mut Vec<Action>) {
        let mut again = false;
        let mut reads = Vec::new();
        for (client, process) in &mut self.processes {
            let Some(tenant) = self.tenants.get(&process.tenant) else { continue };
            for (slot, (gpu, own)) in tenant.gpus.iter().zip(&mut process.gpus).enumerate() {
                let Some(measuring) = &mut own.measuring else { continue };
                let young = measuring.before.is_some_and(|(_, at)| sample.asked_at >= at);
                let card = sample.cards.get(&gpu.uuid).filter(|_| young);
                let shown = card.and_then(|c| c.processes.as_ref()?.get(&process.peer.pid));
                measuring.used_bytes = shown.copied().flatten();
                match measuring.used_bytes {
                    Some(_) => reads.push(PageRef { client: *client, slot: slot as u8 }),
                    None => again = true,
                }
            }
        }
        for at in reads {
            self.read_pages(Why::Context { at }, vec![at], actions);
        }
        if again {
            actions.push(Action::Sample);
        }
    }

    fn measured(&mut self, at: PageRef, used_bytes: u64, actions: &mut Vec<Action>) {
        let Some(process) = self.processes.get_mut(&at.client) else { return };
        let (id, pid) = (process.tenant, process.peer.pid);
        let Some(own) = process.gpus.get_mut(usize::from(at.slot)) else { return };
        let held = own.held_units();
        let Some(measuring) = own.measuring.take() else { return };
        let besides = u64::from(held.saturating_sub(measuring.charged_units)) * UNIT_BYTES;
        let card = self.tenants.get(&id).and_then(|t| t.gpus.get(usize::from(at.slot)));
        let card = card.and_then(|gpu| self.cards.get_mut(&gpu.uuid));
        // Less in use than the ledger holds: NVML is behind, and this is no measurement.
        let (Some(card), true) = (card, used_bytes >= besides) else {
            return answer(at, measuring.seq, measuring.charged_units, actions);
        };
        let bytes = (used_bytes - besides).next_multiple_of(STEP_BYTES);
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX);
        own.context_units = units;
        // What exists can't be refused: the client adds it to held and allowed alike.
        let more = units.saturating_sub(measuring.charged_units);
        let more = more.min(u32::MAX - own.allowed_units);
        own.allowed_units += more;
        if let Some(gpu) =
            self.tenants.get_mut(&id).and_then(|t| t.gpus.get_mut(usize::from(at.slot)))
        {
            gpu.allowed_units += u64::from(more);
            gpu.forced_units += u64::from(more);
        }
        let changed = card.context_units.replace(units) != Some(units);
        if changed {
            actions.push(Action::Save);
        }
        let text = format!("a context costs {} MiB", bytes >> 20);
        let told = Happening::new(Kind::ContextMeasured, text).tenant(id).pid(pid);
        actions.push(Action::Tell(told.gpu(card.facts.uuid).bytes(bytes)));
        answer(at, measuring.seq, units, actions);
    }

    /// Time is up for some: their charge stays.
    pub(crate) fn give_up_measuring(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        for (client, process) in &mut self.processes {
            for (slot, gpu) in process.gpus.iter_mut().enumerate() {
                if let Some(m) = gpu.measuring.take_if(|m| now >= m.until) {
                    let at = PageRef { client: *client, slot: slot as u8 };
                    answer(at, m.seq, m.charged_units, actions);
                }
            }
        }
    }
}

fn answer(at: PageRef, seq: u32, units: u32, actions: &mut Vec<Action>) {
    let frame = ToClient::Overhead { seq, gpu: at.slot, units };
    actions.push(Action::Send { client: at.client, frame });
}
