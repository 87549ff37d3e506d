//! What accounting keeps of processes, also of those that have ended: the most that they held, and
//! how long they lived. Times come in as arguments.

use simcuda_protocol::control::Account;
use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Older ends are forgotten.
const KEPT: usize = 400;

#[derive(Debug)]
struct Entry {
    device: u32,
    account: Account,
    began: SystemTime,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    entries: VecDeque<Entry>,
}

impl History {
    /// The process holds so much of the card now.
    pub(crate) fn holds(&mut self, device: u32, pid: u32, bytes: u64, now: SystemTime) {
        let known = self.entries.iter_mut().rev().find(|entry| entry.is(device, pid));
        if let Some(entry) = known {
            entry.account.most_bytes = entry.account.most_bytes.max(bytes);
            return;
        }
        let started = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_us = u64::try_from(started.as_micros()).unwrap_or(u64::MAX);
        let account = Account { pid, most_bytes: bytes, started_us, lived_ms: 0, running: true };
        self.entries.push_back(Entry { device, account, began: now });
        while self.entries.len() > KEPT {
            let oldest_end = self.entries.iter().position(|entry| !entry.account.running);
            self.entries.remove(oldest_end.unwrap_or(0));
        }
    }

    /// The process has nothing any more.
    pub(crate) fn ended(&mut self, pid: u32, now: SystemTime) {
        for entry in self.entries.iter_mut().filter(|e| e.account.running && e.account.pid == pid) {
            entry.account.running = false;
            entry.account.lived_ms = entry.lived(now);
        }
    }

    pub(crate) fn of(&self, device: u32, now: SystemTime) -> Vec<Account> {
        let here = self.entries.iter().filter(|entry| entry.device == device);
        here.map(|entry| match entry.account {
            account if account.running => Account { lived_ms: entry.lived(now), ..account },
            account => account,
        })
        .collect()
    }
}

impl Entry {
    fn is(&self, device: u32, pid: u32) -> bool {
        self.account.running && self.device == device && self.account.pid == pid
    }

    fn lived(&self, now: SystemTime) -> u64 {
        let lived: Duration = now.duration_since(self.began).unwrap_or_default();
        u64::try_from(lived.as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_was_held_stays_after_the_end_and_a_new_life_is_a_new_account() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let mut history = History::default();
        history.holds(0, 7, 100, at(10));
        history.holds(0, 7, 300, at(11));
        history.holds(0, 7, 200, at(12));
        history.ended(7, at(13));
        history.holds(0, 7, 50, at(20));
        history.holds(1, 8, 1, at(20));
        let accounts = history.of(0, at(25));
        assert_eq!(accounts.len(), 2);
        assert_eq!(
            (accounts[0].most_bytes, accounts[0].lived_ms, accounts[0].running),
            (300, 3000, false)
        );
        assert_eq!(
            (accounts[1].most_bytes, accounts[1].lived_ms, accounts[1].running),
            (50, 5000, true)
        );
        assert_eq!(accounts[0].started_us, 10_000_000);
    }
}
