//! When calls of our own are not allowed in a context: while one of its streams is captured (they
//! would make the capture worthless), and while it is being destroyed.
//!
//! One word for each context: how many bans stand (upper half) and how many calls of ours are under
//! way (lower half). Whoever bans waits until the second is zero; those calls are short.
//!
//! ```text
//!   a call of ours                        the program captures, or destroys
//!     begin: no ban? ours += 1              ban:  bans += 1
//!     … the driver …                        … until ours is 0 …
//!     end:   ours -= 1                      … the driver …
//!                                           lift: bans -= 1      (the capture has ended)
//! ```

use crate::atomic::{AtomicU64, Ordering};

const BAN: u64 = 1 << 32;

/// The word of one context.
#[derive(Debug, Default)]
pub struct Bans(AtomicU64);

impl Bans {
    /// With no ban.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// A call of ours may begin, and has begun, unless a ban stands.
    #[must_use]
    pub fn begin(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen < BAN {
            // PAIRS(bans): acquires what the last ban's holder did.
            match self.0.compare_exchange_weak(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// That call is over.
    pub fn end(&self) {
        // PAIRS(bans): releases what our call did to whoever waits in `is_quiet`.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// No further call of ours begins. The caller waits for [`Self::is_quiet`].
    pub fn ban(&self) {
        self.0.fetch_add(BAN, Ordering::Relaxed);
    }

    /// A ban is over. One too many changes nothing.
    pub fn lift(&self) {
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen >= BAN {
            match self.0.compare_exchange_weak(
                seen,
                seen - BAN,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether no call of ours is under way.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        // PAIRS(bans): acquires what our calls did.
        self.0.load(Ordering::Acquire) as u32 == 0
    }

    /// Whether a ban stands.
    #[must_use]
    pub fn is_banned(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= BAN
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_ours_begins_while_a_ban_stands() {
        let bans = Bans::new();
        assert!(bans.begin());
        bans.ban();
        assert!(!bans.begin() && !bans.is_quiet(), "the call that had begun is still under way");
        bans.end();
        assert!(bans.is_quiet() && bans.is_banned());
        bans.ban();
        bans.lift();
        assert!(!bans.begin(), "two captures were open, one has ended");
        bans.lift();
        assert!(bans.begin());
    }

    #[test]
    fn an_end_without_a_beginning_changes_nothing() {
        let bans = Bans::new();
        bans.lift();
        assert!(!bans.is_banned() && bans.begin());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::atomic::AtomicU32;
    use loom::{sync::Arc, thread};

    #[test]
    fn a_capture_and_a_call_of_ours_never_overlap() {
        loom::model(|| {
            let shared = Arc::new((Bans::new(), AtomicU32::new(0)));
            let other = Arc::clone(&shared);
            let ours = thread::spawn(move || {
                let (bans, inside) = &*other;
                if bans.begin() {
                    assert_eq!(inside.swap(1, Ordering::Relaxed), 0, "both are inside");
                    inside.store(0, Ordering::Relaxed);
                    bans.end();
                }
            });
            let (bans, inside) = &*shared;
            bans.ban();
            while !bans.is_quiet() {
                thread::yield_now();
            }
            assert_eq!(inside.swap(2, Ordering::Relaxed), 0, "both are inside");
            inside.store(0, Ordering::Relaxed);
            bans.lift();
            ours.join().expect("no panic");
        });
    }
}
