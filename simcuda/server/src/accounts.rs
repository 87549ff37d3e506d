//! Who holds how much of which card. Arithmetic only: no socket, no clock, no memory.
//!
//! A *session* is one connection of one process. Invariant: a card's `used` is the sum of what
//! its sessions hold plus the chunks that lie on it, and never more than its `total`.

use simcuda_protocol::{Charge, Process, Refusal, Usage};
use std::collections::{BTreeSet, HashMap};

/// Number of a session, never used twice.
pub(crate) type Session = u64;

#[derive(Debug)]
struct Card {
    total_bytes: u64,
    used_bytes: u64,
}

#[derive(Debug)]
struct Holder {
    pid: u32,
    held: HashMap<(u32, Charge), u64>,
}

impl Holder {
    fn on(&self, device: u32) -> u64 {
        self.held.iter().filter(|((d, _), _)| *d == device).map(|(_, bytes)| bytes).sum()
    }
}

#[derive(Debug)]
pub(crate) struct Accounts {
    cards: Vec<Card>,
    holders: HashMap<Session, Holder>,
}

impl Accounts {
    pub(crate) fn new(totals: impl Iterator<Item = u64>) -> Self {
        let cards = totals.map(|total_bytes| Card { total_bytes, used_bytes: 0 }).collect();
        Self { cards, holders: HashMap::new() }
    }

    pub(crate) fn open(&mut self, session: Session, pid: u32) {
        self.holders.insert(session, Holder { pid, held: HashMap::new() });
    }

    /// Everything that the session holds comes back at once. Says whose it was, if that process has
    /// no other session.
    pub(crate) fn close(&mut self, session: Session) -> Option<u32> {
        let holder = self.holders.remove(&session)?;
        for ((device, _), bytes) in holder.held {
            self.cards[device as usize].used_bytes -= bytes;
        }
        let pid = holder.pid;
        self.holders.values().all(|other| other.pid != pid).then_some(pid)
    }

    /// Processes that have a session, each once.
    pub(crate) fn pids(&self) -> BTreeSet<u32> {
        self.holders.values().map(|holder| holder.pid).collect()
    }

    /// Whose session it is, and how much that session has of the card with its chunks.
    pub(crate) fn held_with(
        &self,
        session: Session,
        device: u32,
        chunks: &[(Session, u64)],
    ) -> Option<(u32, u64)> {
        let holder = self.holders.get(&session)?;
        let shared: u64 = chunks.iter().filter(|(s, _)| *s == session).map(|(_, b)| b).sum();
        Some((holder.pid, holder.on(device) + shared))
    }

    /// Takes memory that belongs to no session: a chunk's.
    pub(crate) fn take(&mut self, device: u32, bytes: u64) -> Result<(), Refusal> {
        let card = self.cards.get_mut(device as usize).ok_or(Refusal::NoSuchDevice)?;
        if bytes > card.total_bytes - card.used_bytes {
            return Err(Refusal::OutOfMemory);
        }
        card.used_bytes += bytes;
        Ok(())
    }

    /// Gives back what `take` took.
    pub(crate) fn put_back(&mut self, device: u32, bytes: u64) {
        self.cards[device as usize].used_bytes -= bytes;
    }

    pub(crate) fn charge(
        &mut self,
        session: Session,
        device: u32,
        charge: Charge,
        bytes: u64,
    ) -> Result<(), Refusal> {
        self.take(device, bytes)?;
        match self.holders.get_mut(&session) {
            Some(holder) => *holder.held.entry((device, charge)).or_insert(0) += bytes,
            None => self.put_back(device, bytes),
        }
        Ok(())
    }

    pub(crate) fn release(
        &mut self,
        session: Session,
        device: u32,
        charge: Charge,
        bytes: u64,
    ) -> Result<(), Refusal> {
        let holder = self.holders.get_mut(&session).ok_or(Refusal::NotHeld)?;
        let held = holder.held.get_mut(&(device, charge)).ok_or(Refusal::NotHeld)?;
        *held = held.checked_sub(bytes).ok_or(Refusal::NotHeld)?;
        self.put_back(device, bytes);
        Ok(())
    }

    pub(crate) fn room(&self, device: u32) -> Result<(u64, u64), Refusal> {
        let card = self.cards.get(device as usize).ok_or(Refusal::NoSuchDevice)?;
        Ok((card.total_bytes - card.used_bytes, card.total_bytes))
    }

    /// `chunks` says which session answers for how many bytes of chunks on the device.
    pub(crate) fn usage(&self, device: u32, chunks: &[(Session, u64)]) -> Result<Usage, Refusal> {
        let card = self.cards.get(device as usize).ok_or(Refusal::NoSuchDevice)?;
        let mut by_pid: HashMap<u32, u64> = HashMap::new();
        for (session, holder) in &self.holders {
            let plain = holder.on(device);
            let shared: u64 = chunks.iter().filter(|(s, _)| s == session).map(|(_, b)| b).sum();
            if plain + shared > 0 {
                *by_pid.entry(holder.pid).or_insert(0) += plain + shared;
            }
        }
        let mut processes: Vec<_> =
            by_pid.into_iter().map(|(pid, used_bytes)| Process { pid, used_bytes }).collect();
        processes.sort_by_key(|process| process.pid);
        // More would not fit into a message.
        processes.truncate(2000);
        Ok(Usage { used_bytes: card.used_bytes, total_bytes: card.total_bytes, processes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_card() -> Accounts {
        let mut accounts = Accounts::new([100].into_iter());
        accounts.open(1, 11);
        accounts.open(2, 22);
        accounts
    }

    #[test]
    fn the_sum_of_all_sessions_never_passes_the_card() {
        let mut accounts = one_card();
        assert_eq!(accounts.charge(1, 0, Charge::Memory, 60), Ok(()));
        assert_eq!(accounts.charge(2, 0, Charge::Memory, 41), Err(Refusal::OutOfMemory));
        assert_eq!(accounts.charge(2, 0, Charge::Context, 40), Ok(()));
        assert_eq!(accounts.room(0), Ok((0, 100)));
    }

    #[test]
    fn no_size_makes_the_sum_wrap() {
        let mut accounts = one_card();
        assert_eq!(accounts.charge(1, 0, Charge::Memory, 1), Ok(()));
        assert_eq!(accounts.charge(1, 0, Charge::Memory, u64::MAX), Err(Refusal::OutOfMemory));
        assert_eq!(accounts.room(0), Ok((99, 100)));
    }

    #[test]
    fn what_was_not_held_cannot_be_given_back() {
        let mut accounts = one_card();
        accounts.charge(1, 0, Charge::Memory, 10).expect("room");
        assert_eq!(accounts.release(2, 0, Charge::Memory, 10), Err(Refusal::NotHeld));
        assert_eq!(accounts.release(1, 0, Charge::Memory, 11), Err(Refusal::NotHeld));
        assert_eq!(accounts.release(1, 0, Charge::Context, 1), Err(Refusal::NotHeld));
        assert_eq!(accounts.room(0), Ok((90, 100)));
    }

    #[test]
    fn a_closed_session_gives_all_back() {
        let mut accounts = one_card();
        accounts.charge(1, 0, Charge::Memory, 10).expect("room");
        accounts.charge(1, 0, Charge::Context, 20).expect("room");
        accounts.charge(2, 0, Charge::Memory, 30).expect("room");
        accounts.close(1);
        assert_eq!(accounts.room(0), Ok((70, 100)));
        let usage = accounts.usage(0, &[]).expect("a card");
        assert_eq!(usage.processes, [Process { pid: 22, used_bytes: 30 }]);
    }

    #[test]
    fn two_sessions_of_one_process_are_one_process() {
        let mut accounts = one_card();
        accounts.open(3, 11);
        accounts.charge(1, 0, Charge::Memory, 10).expect("room");
        accounts.charge(3, 0, Charge::Memory, 5).expect("room");
        let usage = accounts.usage(0, &[(3, 7)]).expect("a card");
        assert_eq!(usage.processes, [Process { pid: 11, used_bytes: 22 }]);
    }
}
