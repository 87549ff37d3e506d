//! Samples of the cards, and the two things they decide: when the bytes of an ended process are
//! free, and how much of a card is in hands that no promise of ours covers. No data decides
//! nothing.

use std::collections::BTreeMap;

use halfwarp_api::UNIT_BYTES;

use crate::{
    Nanos, SETTLE_NS,
    card::{Card, Settling, Uuid},
    event::{Action, CardSample, Happening, Kind, Sample},
    state::State,
};

/// Looks that must not show an ended process before its bytes count as gone. With the second, what
/// it left behind is in both of the figures that [`Card::unattributed_units`] compares.
const UNSEEN: u8 = 2;

impl State {
    /// A process ended: what it held stays taken on the card until samples no longer show it.
    /// NVML's own figure counts where it is larger than the page's, which the process wrote.
    pub(crate) fn begin_settling(
        &mut self,
        now: Nanos,
        tenant: u64,
        pid: u32,
        card: Uuid,
        held_units: u64,
    ) {
        let Some(card) = self.cards.get_mut(&card) else { return };
        let shown = card.sample.as_ref().and_then(|s| s.processes.as_ref()?.get(&pid).copied());
        let shown_units = shown.flatten().unwrap_or(0) / UNIT_BYTES;
        let units = held_units.max(shown_units);
        if units == 0 {
            return;
        }
        let settling = Settling { tenant, pid, units, since: now, unseen: 0, told: false };
        card.settling.insert(self.next_settling, settling);
        self.next_settling += 1;
        self.next_sample = self.next_sample.min(now);
    }

    pub(crate) fn sampled(&mut self, now: Nanos, sample: Sample, actions: &mut Vec<Action>) {
        for (uuid, seen) in &sample.cards {
            let promised = self.promised_by_pid(*uuid);
            let Some(card) = self.cards.get_mut(uuid) else { continue };
            let foreign = foreign_units(card, &promised, seen);
            card.foreign_units = match card.sample {
                Some(_) => [card.foreign_units[1], foreign],
                None => [foreign; 2],
            };
            card.settle(now, sample.asked_at, seen, actions);
            card.sample = Some(seen.clone());
        }
        self.contexts_sampled(&sample, actions);
        self.watched(&sample, actions);
        self.free_detached(&sample);
        if self.home_until.is_none() && self.tenants.values().any(|t| !t.absent.is_empty()) {
            self.forget_absent();
            self.end_what_is_done(now, actions);
        }
        for uuid in sample.cards.keys() {
            self.serve(now, *uuid, actions);
        }
    }

    fn promised_by_pid(&self, card: Uuid) -> BTreeMap<u32, u64> {
        let mut promised = BTreeMap::new();
        for process in self.processes.values() {
            let Some(tenant) = self.tenants.get(&process.tenant) else { continue };
            for (gpu, own) in tenant.gpus.iter().zip(&process.gpus) {
                if gpu.uuid == card {
                    *promised.entry(process.peer.pid).or_default() += own.promised_units();
                }
            }
        }
        promised
    }

    /// A process whose connection broke and that the card does not show either has left its memory, by
    /// exec for example: what was promised to it then goes back, also if it has joined again since.
    fn free_detached(&mut self, sample: &Sample) {
        for process in self.processes.values_mut().filter(|p| p.closed_at.is_some()) {
            let Some(tenant) = self.tenants.get_mut(&process.tenant) else { continue };
            for (gpu, own) in tenant.gpus.iter_mut().zip(&mut process.gpus) {
                let seen = sample.cards.get(&gpu.uuid).and_then(|c| c.processes.as_ref());
                let closed = process.closed_at.is_some_and(|at| sample.asked_at > at);
                if closed && seen.is_some_and(|list| !list.contains_key(&process.peer.pid)) {
                    gpu.allowed_units -= u64::from(std::mem::take(&mut own.carried_units));
                    if !process.connected {
                        gpu.allowed_units -= u64::from(std::mem::take(&mut own.allowed_units));
                    }
                }
            }
        }
    }
}

/// Units in use that neither a joined process was promised nor an ended one still blocks.
fn foreign_units(card: &Card, promised: &BTreeMap<u32, u64>, seen: &CardSample) -> u64 {
    let mut covered = promised.clone();
    for settling in card.settling.values() {
        *covered.entry(settling.pid).or_default() += settling.units;
    }
    let used_units = seen.used_bytes / UNIT_BYTES;
    let ours: u64 = match &seen.processes {
        None => covered.values().sum(),
        Some(list) => covered
            .iter()
            .filter_map(|(pid, units)| match list.get(pid)? {
                Some(bytes) => Some((bytes / UNIT_BYTES).min(*units)),
                None => Some(*units),
            })
            .sum(),
    };
    used_units.saturating_sub(ours)
}

impl Card {
    /// Lets go of what this sample, if it is younger than the end, no longer shows.
    fn settle(
        &mut self,
        now: Nanos,
        asked_at: Nanos,
        seen: &CardSample,
        actions: &mut Vec<Action>,
    ) {
        let uuid = self.facts.uuid;
        self.settling.retain(|_, settling| {
            if asked_at <= settling.since {
                return true;
            }
            let shown = seen.processes.as_ref().is_some_and(|p| p.contains_key(&settling.pid));
            settling.unseen = if shown { 0 } else { settling.unseen + 1 };
            let tell = |kind, text: &str| {
                let told = Happening::new(kind, text).tenant(settling.tenant).pid(settling.pid);
                Action::Tell(told.gpu(uuid).bytes(settling.units * UNIT_BYTES))
            };
            if settling.unseen >= UNSEEN {
                actions.push(tell(Kind::Settled, "the card no longer shows the ended process"));
                return false;
            }
            if shown && !settling.told && now.saturating_sub(settling.since) >= SETTLE_NS {
                actions.push(tell(
                    Kind::Unattributed,
                    "the card still shows an ended process; a child may hold its device open",
                ));
                settling.told = true;
            }
            true
        });
    }
}
