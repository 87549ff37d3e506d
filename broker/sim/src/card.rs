//! A card: queues of kernels by process and stream, and the driver's turns between processes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use halfwarp_broker_core::ClientId;

use crate::{Nanos, process::Kernel};

/// How long the driver lets one process run while another has work.
const SLICE_NS: Nanos = 2_000_000;
/// Granularity of the log.
pub(crate) const BIN_NS: Nanos = 1_000_000;

/// Flags that kernels have set, on any card.
pub(crate) type Flags = BTreeSet<u64>;

#[derive(Debug, Default)]
pub(crate) struct Card {
    queues: BTreeMap<ClientId, BTreeMap<u32, VecDeque<Kernel>>>,
    current: Option<ClientId>,
    slice_end: Nanos,
    at: Nanos,
    /// Time of the card by process and bin.
    pub(crate) log: BTreeMap<ClientId, Vec<u32>>,
}

impl Card {
    pub(crate) fn push(&mut self, client: ClientId, kernel: Kernel) {
        self.queues.entry(client).or_default().entry(kernel.stream).or_default().push_back(kernel);
    }

    pub(crate) fn queued(&self, client: ClientId) -> usize {
        self.queues.get(&client).map_or(0, |streams| streams.values().map(VecDeque::len).sum())
    }

    /// The process is gone, and its work with it.
    pub(crate) fn remove(&mut self, client: ClientId) {
        self.queues.remove(&client);
        if self.current == Some(client) {
            self.current = None;
        }
    }

    fn has_work(&self, client: ClientId) -> bool {
        self.queued(client) > 0
    }

    /// Runs up to `now`; who has finished kernels. What begins to run sets its flags.
    pub(crate) fn advance(&mut self, now: Nanos, flags: &mut Flags) -> Vec<(ClientId, Kernel)> {
        let ns = now - self.at;
        let from = std::mem::replace(&mut self.at, now);
        let mut finished = Vec::new();
        if let Some(client) = self.current {
            self.note(client, from, now);
            for stream in self.queues.get_mut(&client).into_iter().flat_map(BTreeMap::values_mut) {
                let Some(kernel) = stream.front_mut() else { continue };
                if kernel.needs.is_some_and(|flag| !flags.contains(&flag)) {
                    continue;
                }
                kernel.left_ns = kernel.left_ns.saturating_sub(ns);
                if kernel.left_ns == 0
                    && let Some(kernel) = stream.pop_front()
                {
                    finished.push((client, kernel));
                }
            }
        }
        self.turn(now, flags);
        finished
    }

    /// Whose turn it is.
    fn turn(&mut self, now: Nanos, flags: &mut Flags) {
        let ids: Vec<ClientId> =
            self.queues.keys().copied().filter(|c| self.has_work(*c)).collect();
        let stays = self.current.is_some_and(|c| self.has_work(c) && now < self.slice_end);
        if !stays {
            let after = ids.iter().find(|id| Some(**id) > self.current).or_else(|| ids.first());
            self.current = after.copied();
            self.slice_end = now + SLICE_NS;
        }
        let Some(streams) = self.current.and_then(|c| self.queues.get(&c)) else { return };
        let fronts = streams.values().filter_map(VecDeque::front);
        flags.extend(fronts.filter_map(|kernel| kernel.sets));
    }

    /// When something changes by itself, at the latest.
    pub(crate) fn next(&self, flags: &Flags) -> Option<Nanos> {
        let streams = self.queues.get(&self.current?)?;
        let fronts = streams.values().filter_map(VecDeque::front);
        let runs = |kernel: &&Kernel| kernel.needs.is_none_or(|flag| flags.contains(&flag));
        let first = fronts.filter(runs).map(|kernel| self.at + kernel.left_ns).min();
        let others = self.queues.keys().filter(|c| self.has_work(**c)).count() > 1;
        let slice = others.then_some(self.slice_end.max(self.at + 1));
        [first, slice].into_iter().flatten().min()
    }

    fn note(&mut self, client: ClientId, mut from: Nanos, to: Nanos) {
        let log = self.log.entry(client).or_default();
        while from < to {
            let bin = (from / BIN_NS) as usize;
            let end = to.min((bin as u64 + 1) * BIN_NS);
            if log.len() <= bin {
                log.resize(bin + 1, 0);
            }
            log[bin] += (end - from) as u32;
            from = end;
        }
    }
}
