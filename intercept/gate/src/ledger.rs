//! The ledger word of one process on one card: how many units it holds and how many it is allowed
//! to hold, in one 64-bit word, so that "is there room" and "take it" are one step.
//!
//! ```text
//! bit 63                    32 31                     0
//!     allowed (from the broker) held (by this process)      in units of 512 bytes
//! ```
//!
//! An allocation, in the order things happen:
//!
//! ```text
//!   reserve(word, n)      one load, one compare-and-swap     <- the whole cost below `allowed`
//!     Err(Short)          the caller asks the broker to grow; the answer is applied by
//!     admit(word, g, n)   one compare-and-swap: raise by g and take n for the asker
//!   … the driver …
//!   release(word, n)      one subtraction, also when the driver refused
//! ```
//!
//! Only the process itself changes its word; the broker reads it as a hint and never relies on it.
//! `allowed` is lowered by [`give_back`] alone, never below `held`, and the broker is told.
//! Orderings are relaxed throughout: the word orders nothing but itself, and what a program does
//! with memory it was given is ordered by the driver.

use crate::atomic::{AtomicU64, Ordering::Relaxed};

/// Both halves of a ledger word, in units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    pub held: u32,
    pub allowed: u32,
}

/// There was no room below `allowed`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Short;

impl Ledger {
    /// The halves of `word`.
    #[must_use]
    pub const fn of(word: u64) -> Self {
        Self { held: word as u32, allowed: (word >> 32) as u32 }
    }

    /// The word with these halves.
    #[must_use]
    pub const fn word(self) -> u64 {
        (self.allowed as u64) << 32 | self.held as u64
    }

    /// Units that could be reserved without asking.
    #[must_use]
    pub const fn slack(self) -> u32 {
        self.allowed.saturating_sub(self.held)
    }
}

/// Applies `change` until no other thread came between; `change` returns the new halves, or `None`
/// to leave the word alone.
fn step(word: &AtomicU64, change: impl Fn(Ledger) -> Option<Ledger>) -> Option<Ledger> {
    let mut seen = word.load(Relaxed);
    loop {
        let new = change(Ledger::of(seen))?;
        match word.compare_exchange_weak(seen, new.word(), Relaxed, Relaxed) {
            Ok(_) => return Some(new),
            Err(now) => seen = now,
        }
    }
}

/// Takes `units` if they fit below `allowed`.
///
/// # Errors
/// [`Short`] if they do not; nothing was changed.
#[inline]
pub fn reserve(word: &AtomicU64, units: u32) -> Result<(), Short> {
    step(word, |l| {
        let held = l.held.checked_add(units).filter(|held| *held <= l.allowed)?;
        Some(Ledger { held, ..l })
    })
    .map(drop)
    .ok_or(Short)
}

/// Gives `units` that were reserved back to the process's own slack. Saturates at nothing held.
#[inline]
pub fn release(word: &AtomicU64, units: u32) {
    let _ = step(word, |l| Some(Ledger { held: l.held.saturating_sub(units), ..l }));
}

/// The broker's grant arrived: raises `allowed` by `granted` and takes `wanted` for the thread that
/// asked, in one step, so that no other thread can take what was granted to it. Whether it fitted.
pub fn admit(word: &AtomicU64, granted: u32, wanted: u32) -> bool {
    let mut seen = word.load(Relaxed);
    loop {
        let l = Ledger::of(seen);
        let allowed = l.allowed.saturating_add(granted);
        let taken = l.held.checked_add(wanted).filter(|held| *held <= allowed);
        let new = Ledger { allowed, held: taken.unwrap_or(l.held) };
        match word.compare_exchange_weak(seen, new.word(), Relaxed, Relaxed) {
            Ok(_) => return taken.is_some(),
            Err(now) => seen = now,
        }
    }
}

/// `units` have left the card for the host: they are neither held nor allowed any more.
pub fn leave(word: &AtomicU64, units: u32) {
    let _ = step(word, |l| {
        let held = l.held.saturating_sub(units);
        Some(Ledger { held, allowed: l.allowed.saturating_sub(units).max(held) })
    });
}

/// Lowers `allowed` to what is held and returns the units given back.
pub fn give_back(word: &AtomicU64) -> u32 {
    let mut seen = word.load(Relaxed);
    loop {
        let l = Ledger::of(seen);
        let new = Ledger { allowed: l.held.min(l.allowed), ..l };
        match word.compare_exchange_weak(seen, new.word(), Relaxed, Relaxed) {
            Ok(_) => return l.allowed - new.allowed,
            Err(now) => seen = now,
        }
    }
}

/// A charge made by estimate turns out to be `actual`: the difference becomes slack, or, where it is
/// more, is added to both halves (the broker counts it in the same way; what exists can't be refused).
pub fn correct(word: &AtomicU64, charged: u32, actual: u32) {
    let _ = step(word, |l| {
        let more = actual.saturating_sub(charged);
        let less = charged.saturating_sub(actual);
        Some(Ledger {
            held: l.held.saturating_add(more).saturating_sub(less),
            allowed: l.allowed.saturating_add(more),
        })
    });
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word(held: u32, allowed: u32) -> AtomicU64 {
        AtomicU64::new(Ledger { held, allowed }.word())
    }

    fn now(word: &AtomicU64) -> Ledger {
        Ledger::of(word.load(Relaxed))
    }

    #[test]
    fn the_last_unit_can_be_had_and_not_one_more() {
        let w = word(9, 10);
        assert_eq!(reserve(&w, 1), Ok(()));
        assert_eq!(reserve(&w, 1), Err(Short));
        assert_eq!(reserve(&w, u32::MAX), Err(Short), "no argument makes the sum wrap");
        assert_eq!(now(&w), Ledger { held: 10, allowed: 10 });
    }

    #[test]
    fn a_grant_is_taken_by_the_thread_that_asked_for_it() {
        let w = word(10, 10);
        assert!(admit(&w, 5, 5));
        assert_eq!(now(&w), Ledger { held: 15, allowed: 15 });
        assert!(admit(&w, 20, 5), "a grant may be larger than what was wanted");
        assert_eq!(now(&w), Ledger { held: 20, allowed: 35 });
        assert!(!admit(&w, 0, 16), "an empty grant gives only what slack there is");
        assert!(admit(&w, 0, 15));
    }

    #[test]
    fn slack_goes_back_and_what_is_held_stays() {
        let w = word(3, 10);
        assert_eq!(give_back(&w), 7);
        assert_eq!(give_back(&w), 0);
        assert_eq!(now(&w), Ledger { held: 3, allowed: 3 });
    }

    #[test]
    fn an_estimate_is_corrected_in_both_directions() {
        let w = word(10, 12);
        correct(&w, 10, 4);
        assert_eq!(now(&w), Ledger { held: 4, allowed: 12 });
        correct(&w, 4, 20);
        assert_eq!(now(&w), Ledger { held: 20, allowed: 28 });
    }

    proptest! {
        #[test]
        fn held_never_passes_allowed(
            steps in prop::collection::vec((0u8..4, 0u32..2000, 0u32..2000), 0..200),
        ) {
            let w = word(0, 1000);
            let mut held: Vec<u32> = Vec::new();
            for (kind, a, b) in steps {
                match kind {
                    0 => if reserve(&w, a).is_ok() { held.push(a) },
                    1 => if let Some(units) = held.pop() { release(&w, units) },
                    2 => if admit(&w, a.max(b), b) { held.push(b) },
                    _ => { give_back(&w); }
                }
                let l = now(&w);
                prop_assert!(l.held <= l.allowed);
                prop_assert_eq!(u64::from(l.held), held.iter().map(|u| u64::from(*u)).sum::<u64>());
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::{sync::Arc, thread};

    #[test]
    fn two_threads_never_take_the_last_unit_twice() {
        loom::model(|| {
            let word = Arc::new(AtomicU64::new(Ledger { held: 0, allowed: 1 }.word()));
            let other = Arc::clone(&word);
            let theirs = thread::spawn(move || reserve(&other, 1).is_ok());
            let ours = reserve(&word, 1).is_ok();
            let theirs = theirs.join().expect("no panic");
            assert!(ours ^ theirs);
        });
    }

    #[test]
    fn slack_is_given_back_or_taken_never_both() {
        loom::model(|| {
            let word = Arc::new(AtomicU64::new(Ledger { held: 0, allowed: 4 }.word()));
            let other = Arc::clone(&word);
            let taker = thread::spawn(move || reserve(&other, 3).is_ok());
            let returned = give_back(&word);
            let taken = taker.join().expect("no panic");
            let l = Ledger::of(word.load(Relaxed));
            assert!(l.held <= l.allowed);
            assert_eq!(l.allowed + returned, 4);
            assert_eq!(l.held, if taken { 3 } else { 0 });
        });
    }
}
