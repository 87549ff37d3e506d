//! "Check, then launch" against "close, then drain": how a thread passes a gate, and how whoever
//! closed it knows that nobody is still passing.
//!
//! ```text
//!   a thread                              whoever closes
//!     slot = what it is about to do         gate = closed
//!     fence                                 fence
//!     gate open?                            every slot clear?
//!       yes: the driver, then slot = 0        yes: what passed has reached the driver
//!       no:  slot = 0, wait                   no:  look again
//! ```
//!
//! Of the two fences one comes first: either the thread sees the closed gate or the closer sees its
//! slot. The fences are what loom checks; the loads and stores around them are relaxed.
//!
//! A slot's word says what its thread does and where, so that a long call which only touches memory
//! does not hold up the end of a lease. The last slot is shared by all threads that found no slot of
//! their own; its word is a pair of counters.

use crate::atomic::{AtomicU32, Ordering, fence};

/// The value of an open gate's word.
pub const OPEN: u32 = 0;

/// What a thread announces. In bits 0 to 7 the kind, above them the card's slot plus one, or 0 for
/// every card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announcement(u32);

const RESIDENCY: u32 = 1;
const LEASE: u32 = 2;
const KIND: u32 = 0xff;

impl Announcement {
    /// A call that touches device memory, on whichever card.
    pub const MEMORY: Self = Self(RESIDENCY);

    /// A launch on a card, or on several (`None`).
    #[must_use]
    pub const fn launch(card: Option<u8>) -> Self {
        match card {
            Some(card) => Self(LEASE | (card as u32 + 1) << 8),
            None => Self(LEASE),
        }
    }

    const fn is_launch(self) -> bool {
        self.0 & KIND == LEASE
    }

    /// How much of the shared slot's word one thread is.
    const fn shared(self) -> u32 {
        if self.is_launch() { 1 << 16 } else { 1 }
    }
}

/// Announces in a thread's own slot, before the gate is looked at. Returns what the slot said: a
/// signal handler may have come between the thread's own check and its call.
#[inline(always)]
pub fn announce(slot: &AtomicU32, what: Announcement) -> u32 {
    let before = slot.load(Ordering::Relaxed);
    slot.store(what.0, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    before
}

/// The call has returned, or is not made.
#[inline(always)]
pub fn withdraw(slot: &AtomicU32, before: u32) {
    // What the call did comes before: whoever sees the slot clear sees the launch in its stream.
    slot.store(before, Ordering::Release);
}

/// As [`announce`], in the slot that threads share.
pub fn announce_shared(slot: &AtomicU32, what: Announcement) {
    slot.fetch_add(what.shared(), Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// As [`withdraw`], in the slot that threads share.
pub fn withdraw_shared(slot: &AtomicU32, what: Announcement) {
    slot.fetch_sub(what.shared(), Ordering::Release);
}

/// Whether a gate's word lets a thread pass that has announced itself.
#[inline(always)]
pub fn is_open(gate: &AtomicU32) -> bool {
    gate.load(Ordering::Relaxed) == OPEN
}

/// Called by whoever closed a gate, or was told of it, before slots are looked at.
pub fn closed() {
    fence(Ordering::SeqCst);
}

/// Whether the thread of this slot is about to launch on a card.
#[must_use]
pub fn is_launching(slot: &AtomicU32, card: u8) -> bool {
    let said = Announcement(slot.load(Ordering::Acquire));
    said.is_launch()
        && (said == Announcement::launch(None) || said == Announcement::launch(Some(card)))
}

/// Whether the thread of this slot is between a gate and the driver, with whatever call: device memory
/// is one.
#[must_use]
pub fn is_inside(slot: &AtomicU32) -> bool {
    slot.load(Ordering::Acquire) != 0
}

/// Whether a thread without a slot of its own is about to launch, on whichever card.
#[must_use]
pub fn is_launching_shared(slot: &AtomicU32) -> bool {
    slot.load(Ordering::Acquire) >> 16 != 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_launch_holds_up_its_own_card_and_no_other() {
        let slot = AtomicU32::new(0);
        let before = announce(&slot, Announcement::launch(Some(3)));
        assert!(is_launching(&slot, 3) && !is_launching(&slot, 2));
        withdraw(&slot, before);
        assert!(!is_launching(&slot, 3));
        announce(&slot, Announcement::launch(None));
        assert!(is_launching(&slot, 0) && is_launching(&slot, 15), "on several cards at once");
    }

    #[test]
    fn a_call_that_touches_memory_does_not_hold_up_a_lease() {
        let slot = AtomicU32::new(0);
        announce(&slot, Announcement::MEMORY);
        assert!((0..16).all(|card| !is_launching(&slot, card)));
        announce_shared(&slot, Announcement::MEMORY);
    }

    #[test]
    fn a_call_within_a_call_leaves_the_outer_one_announced() {
        let slot = AtomicU32::new(0);
        let outer = announce(&slot, Announcement::launch(Some(0)));
        let inner = announce(&slot, Announcement::MEMORY);
        withdraw(&slot, inner);
        assert!(is_launching(&slot, 0));
        withdraw(&slot, outer);
        assert!(!is_launching(&slot, 0));
    }

    #[test]
    fn threads_that_share_a_slot_are_counted() {
        let slot = AtomicU32::new(0);
        let launch = Announcement::launch(Some(1));
        announce_shared(&slot, launch);
        announce_shared(&slot, launch);
        announce_shared(&slot, Announcement::MEMORY);
        withdraw_shared(&slot, launch);
        assert!(is_launching_shared(&slot));
        withdraw_shared(&slot, launch);
        assert!(!is_launching_shared(&slot));
        withdraw_shared(&slot, Announcement::MEMORY);
        assert_eq!(slot.load(Ordering::Relaxed), 0);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::{sync::Arc, thread};

    struct Card {
        gate: AtomicU32,
        slots: [AtomicU32; 2],
        shared: AtomicU32,
        /// Launches that the driver has got.
        launched: AtomicU32,
        /// Set by the closer once it has seen every slot clear.
        drained: AtomicU32,
    }

    fn card() -> Arc<Card> {
        Arc::new(Card {
            gate: AtomicU32::new(OPEN),
            slots: [AtomicU32::new(0), AtomicU32::new(0)],
            shared: AtomicU32::new(0),
            launched: AtomicU32::new(0),
            drained: AtomicU32::new(0),
        })
    }

    /// The driver: a launch that comes after the drain is what must not be.
    fn launch(card: &Card) {
        assert_eq!(card.drained.load(Ordering::Relaxed), 0, "a launch after the drain");
        card.launched.fetch_add(1, Ordering::Relaxed);
    }

    fn pass(card: &Card, slot: &AtomicU32) -> bool {
        let before = announce(slot, Announcement::launch(Some(0)));
        let open = is_open(&card.gate);
        if open {
            launch(card);
        }
        withdraw(slot, before);
        open
    }

    fn close_and_drain(card: &Card) -> u32 {
        card.gate.store(1, Ordering::Relaxed);
        closed();
        while card.slots.iter().any(|slot| is_launching(slot, 0))
            || is_launching_shared(&card.shared)
        {
            thread::yield_now();
        }
        let seen = card.launched.load(Ordering::Relaxed);
        card.drained.store(1, Ordering::Relaxed);
        seen
    }

    #[test]
    fn no_launch_comes_after_the_drain_and_the_drain_sees_every_launch() {
        loom::model(|| {
            let card = card();
            let threads: Vec<_> = (0..2)
                .map(|i| {
                    let card = Arc::clone(&card);
                    thread::spawn(move || u32::from(pass(&card, &card.slots[i])))
                })
                .collect();
            let seen = close_and_drain(&card);
            let passed: u32 = threads.into_iter().map(|t| t.join().expect("no panic")).sum();
            assert_eq!(seen, passed);
        });
    }

    #[test]
    fn a_thread_without_a_slot_of_its_own_is_seen_as_well() {
        loom::model(|| {
            let card = card();
            let other = Arc::clone(&card);
            let thread = thread::spawn(move || {
                announce_shared(&other.shared, Announcement::launch(Some(0)));
                let open = is_open(&other.gate);
                if open {
                    launch(&other);
                }
                withdraw_shared(&other.shared, Announcement::launch(Some(0)));
                u32::from(open)
            });
            let seen = close_and_drain(&card);
            assert_eq!(seen, thread.join().expect("no panic"));
        });
    }
}
