//! The watchdog: what the cards show against what was promised, twice in a row.
//!
//! A process that has more on a card than it was ever allowed, by more than a tolerance, got it by a way
//! that nobody counts. A process of a tenant (by its ancestors or its environment: the daemon looks) that
//! is on a card and never joined runs without the library; it is reported, and ended if the operator
//! chose that. No data decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use halfwarp_api::UNIT_BYTES;

use crate::{
    card::Uuid,
    event::{Action, Happening, Kind, Sample, Stray},
    state::State,
};

/// Looks in a row after which something is a finding.
const LOOKS: u8 = 2;
/// What a card may show beyond the promise: what drivers keep for themselves.
const TOLERANCE_BYTES: u64 = 64 << 20;
const TOLERANCE_PERCENT: u64 = 5;

/// A finding about a process on a card.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Finding {
    Uncounted,
    NeverJoined,
}

/// How often in a row each was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(BTreeMap<(Uuid, u32, Finding), u8>);

impl Watch {
    /// Whether it has now been seen often enough to be told, which it is once.
    fn sees(&mut self, key: (Uuid, u32, Finding)) -> bool {
        let seen = self.0.entry(key).or_default();
        *seen = seen.saturating_add(1);
        *seen == LOOKS
    }
}

impl State {
    /// Whether nobody here knows a process: those are who the daemon finds the ancestors of.
    #[must_use]
    pub fn is_stranger(&self, pid: u32) -> bool {
        let joined = self.processes.values().any(|process| process.peer.pid == pid);
        let absent = self.tenants.values().any(|tenant| tenant.absent.contains(&pid));
        let ended = self.cards.values().flat_map(|card| card.settling.values());
        !joined && !absent && !ended.into_iter().any(|settling| settling.pid == pid)
    }

    /// The tenant that a process has joined, or that lives for it.
    #[must_use]
    pub fn tenant_of_process(&self, pid: u32) -> Option<u64> {
        let joined = self.processes.values().find(|process| process.peer.pid == pid);
        let lives_for = || self.tenants.values().find(|t| t.runner.is_some_and(|r| r.pid == pid));
        joined.map(|process| process.tenant).or_else(|| lives_for().map(|tenant| tenant.id))
    }

    pub(crate) fn watched(&mut self, sample: &Sample, actions: &mut Vec<Action>) {
        let mut seen = BTreeSet::new();
        for (uuid, card) in &sample.cards {
            for (pid, bytes) in card.processes.iter().flatten() {
                let Some(bytes) = *bytes else { continue };
                let Some((tenant, allowed)) = self.allowed_bytes(*uuid, *pid) else { continue };
                let most = allowed + TOLERANCE_BYTES + allowed / 100 * TOLERANCE_PERCENT;
                let key = (*uuid, *pid, Finding::Uncounted);
                if bytes > most && seen.insert(key) && self.watch.sees(key) {
                    let text = "the card shows more than was ever counted for this process";
                    let told = Happening::new(Kind::Uncounted, text).tenant(tenant).pid(*pid);
                    actions.push(Action::Tell(told.gpu(*uuid).bytes(bytes - allowed)));
                }
            }
        }
        for stray in &sample.strays {
            self.stray(*stray, sample, &mut seen, actions);
        }
        // Of a card without data nothing is forgotten.
        self.watch.0.retain(|key, _| seen.contains(key) || !sample.cards.contains_key(&key.0));
    }

    fn stray(
        &mut self,
        stray: Stray,
        sample: &Sample,
        seen: &mut BTreeSet<(Uuid, u32, Finding)>,
        actions: &mut Vec<Action>,
    ) {
        let Stray { process, tenant } = stray;
        if !self.tenants.contains_key(&tenant) || !self.is_stranger(process.pid) {
            return;
        }
        for (uuid, card) in &sample.cards {
            let Some(bytes) = card.processes.as_ref().and_then(|list| list.get(&process.pid))
            else {
                continue;
            };
            let key = (*uuid, process.pid, Finding::NeverJoined);
            if !seen.insert(key) || !self.watch.sees(key) {
                continue;
            }
            let end = self.config.end_strays;
            let fate = if end { "; it is ended" } else { "" };
            let text = format!("a process of the tenant uses the GPU without the library{fate}");
            let mut told = Happening::new(Kind::NeverJoined, text).tenant(tenant).pid(process.pid);
            told.bytes = *bytes;
            actions.push(Action::Tell(told.gpu(*uuid)));
            if end {
                actions.push(Action::EndStray { process });
            }
        }
    }

    /// Of which tenant a pid is, and all it was promised on a card.
    fn allowed_bytes(&self, card: Uuid, pid: u32) -> Option<(u64, u64)> {
        let mut found = None;
        for process in self.processes.values().filter(|process| process.peer.pid == pid) {
            let tenant = self.tenants.get(&process.tenant)?;
            let here = tenant.gpus.iter().zip(&process.gpus).filter(|(gpu, _)| gpu.uuid == card);
            let units: u64 = here.map(|(_, own)| own.promised_units()).sum();
            let (_, bytes) = found.unwrap_or((tenant.id, 0));
            found = Some((tenant.id, bytes + units * UNIT_BYTES));
        }
        found
    }
}
