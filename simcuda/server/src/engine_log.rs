//! Who had which engine of one card and for how long: the newest entries, and sums that outlive them.

use simcuda_protocol::engines::{Engine, Entry, MOST_ENTRIES, Total};
use std::collections::{BTreeMap, VecDeque};

/// Entries that are kept of each engine.
const KEPT: usize = 8192;

#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<Entry>,
    /// Number of the first one.
    first: u64,
}

#[derive(Debug, Default)]
struct Sum {
    used_ns: u64,
    count: u64,
}

#[derive(Debug, Default)]
pub(crate) struct EngineLog {
    rings: [Ring; 3],
    sums: BTreeMap<(u32, Engine), Sum>,
    /// The entry that may still change: number, engine, process, use so far.
    open: Option<(u64, Engine, u32, u64)>,
}

impl EngineLog {
    /// A new entry; says its number, by which `settle` finds it if it is the last of its engine.
    pub(crate) fn add(&mut self, pid: u32, engine: Engine, start_ns: u64, used_ns: u64) -> u64 {
        let sum = self.sums.entry((pid, engine)).or_default();
        sum.used_ns += used_ns;
        sum.count += 1;
        let ring = &mut self.rings[engine as usize];
        ring.entries.push_back(Entry { pid, engine, start_ns, used_ns });
        if ring.entries.len() > KEPT {
            ring.entries.pop_front();
            ring.first += 1;
        }
        let number = ring.first + ring.entries.len() as u64 - 1;
        if engine == Engine::Compute {
            self.open = Some((number, engine, pid, used_ns));
        }
        number
    }

    /// The entry's use is known better: all of it up to now. Only the newest turn can change.
    pub(crate) fn settle(&mut self, number: u64, used_ns: u64) {
        let Some((open, engine, pid, so_far_ns)) = &mut self.open else { return };
        if *open != number {
            return;
        }
        if let Some(sum) = self.sums.get_mut(&(*pid, *engine)) {
            sum.used_ns = sum.used_ns + used_ns - *so_far_ns;
        }
        *so_far_ns = used_ns;
        if let Some(entry) = self.rings[*engine as usize].entries.back_mut() {
            entry.used_ns = used_ns;
        }
    }

    /// The entry's use went on for so long.
    pub(crate) fn extend(&mut self, number: u64, more_ns: u64) {
        if let Some((_, _, _, so_far_ns)) = self.open {
            self.settle(number, so_far_ns + more_ns);
        }
    }

    pub(crate) fn entries(&self, engine: Engine) -> Vec<Entry> {
        let entries = &self.rings[engine as usize].entries;
        let skipped = entries.len().saturating_sub(MOST_ENTRIES);
        entries.iter().skip(skipped).copied().collect()
    }

    /// The sums; `more` is use of the compute engine that is not in the log yet.
    pub(crate) fn totals(&self, more: Option<(u32, u64)>) -> Vec<Total> {
        let total = |(&(pid, engine), sum): (&(u32, Engine), &Sum)| {
            let under_way = more.filter(|(p, _)| *p == pid && engine == Engine::Compute);
            let used_ns = sum.used_ns + under_way.map_or(0, |(_, ns)| ns);
            Total { pid, engine, used_ns, count: sum.count }
        };
        // Of processes that came and went, the message holds the latest.
        let skipped = self.sums.len().saturating_sub(MOST_ENTRIES);
        self.sums.iter().map(total).skip(skipped).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_outlive_the_entries_they_are_of() {
        let mut log = EngineLog::default();
        for turn in 0..3 * KEPT as u64 {
            let number = log.add(7, Engine::Compute, turn * 10, 0);
            log.settle(number, 4);
            log.settle(number, 6);
        }
        let totals = log.totals(Some((7, 5)));
        let count = 3 * KEPT as u64;
        assert_eq!(
            totals,
            [Total { pid: 7, engine: Engine::Compute, used_ns: count * 6 + 5, count }]
        );
        let entries = log.entries(Engine::Compute);
        assert_eq!(entries.len(), MOST_ENTRIES);
        assert!(entries.iter().all(|entry| entry.used_ns == 6));
        assert_eq!(entries.last().expect("some").start_ns, (count - 1) * 10);
    }

    #[test]
    fn only_the_newest_turn_can_change() {
        let mut log = EngineLog::default();
        let old = log.add(1, Engine::Compute, 0, 0);
        log.settle(old, 3);
        log.add(2, Engine::Compute, 3, 0);
        log.add(2, Engine::CopyIn, 3, 9);
        log.settle(old, 100);
        assert_eq!(log.totals(None).iter().map(|t| t.used_ns).collect::<Vec<_>>(), [3, 0, 9]);
    }
}
