//! What a warp does that looks like waiting, and for how long it had better sleep instead. Without
//! this a spin on the clock would burn as much of the host as it models, and a flag that another
//! kernel sets would be asked for a million times. A sleeping strand lets all others run; when all
//! sleep, the implementer of `Memory` passes the time.

/// Clock reads in a row sleep this long, then ever longer up to the cap.
const FIRST_SPIN_NS: u64 = 200;
/// How far a spin may overshoot; of a long one, this part of what it has taken so far.
const SPIN_CAP_NS: u64 = 20_000;
const SPIN_CAP_PART: u64 = 500;

/// Loads of the same value from the same place after which it is taken for a wait: ordered loads
/// and those with sleep between, plain ones, and exchanges that change nothing anybody sees.
const ORDERED_LOADS: u32 = 4;
const PLAIN_LOADS: u32 = 4096;
const EXCHANGES: u32 = 64;

const FIRST_POLL_NS: u64 = 1_000;
const POLL_CAP_NS: u64 = 50_000;

/// What kind of access looked at memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Ordered,
    Exchange,
}

#[derive(Default)]
pub(crate) struct Waits {
    /// Next sleep before a clock read; 0 before the first.
    spin_ns: u64,
    /// The sleep is over, the read is due.
    due: bool,
    spun_from_ns: u64,
    seen: (u64, u64),
    times: u32,
    poll_ns: u64,
    slept: bool,
}

impl Waits {
    /// The clock is to be read; how long to sleep first, if at all. Whoever sleeps asks again then.
    pub(crate) fn before_clock(&mut self, now_ns: u64) -> Option<u64> {
        if self.spin_ns == 0 {
            (self.spin_ns, self.spun_from_ns) = (FIRST_SPIN_NS, now_ns);
            return None;
        }
        self.due = !self.due;
        if !self.due {
            return None;
        }
        let cap_ns = (now_ns.saturating_sub(self.spun_from_ns) / SPIN_CAP_PART).max(SPIN_CAP_NS);
        let sleep_ns = self.spin_ns;
        self.spin_ns = (sleep_ns + sleep_ns / 4).min(cap_ns);
        Some(sleep_ns)
    }

    /// Memory that others can see was changed: whoever does that does not only wait.
    pub(crate) fn stored(&mut self) {
        self.spin_ns = self.spin_ns.min(FIRST_SPIN_NS);
        self.times = 0;
    }

    pub(crate) fn slept(&mut self) {
        self.slept = true;
    }

    /// Memory that others can change was looked at; how long to sleep if this is a wait.
    pub(crate) fn looked(&mut self, address: u64, value: u64, look: Look) -> Option<u64> {
        self.spin_ns = self.spin_ns.min(FIRST_SPIN_NS);
        let slept = std::mem::take(&mut self.slept);
        if self.seen != (address, value) {
            self.seen = (address, value);
            (self.times, self.poll_ns) = (0, FIRST_POLL_NS);
            return None;
        }
        self.times = self.times.saturating_add(1);
        let patience = match look {
            Look::Exchange => EXCHANGES,
            Look::Plain if !slept => PLAIN_LOADS,
            Look::Plain | Look::Ordered => ORDERED_LOADS,
        };
        if self.times < patience {
            return None;
        }
        let sleep_ns = self.poll_ns;
        self.poll_ns = (sleep_ns + sleep_ns / 2).min(POLL_CAP_NS);
        Some(sleep_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spin_of_a_millisecond_is_less_than_a_hundred_reads_and_ends_in_time() {
        let (mut waits, mut now_ns, mut reads) = (Waits::default(), 5_000, 0);
        while now_ns < 1_005_000 {
            if let Some(sleep_ns) = waits.before_clock(now_ns) {
                now_ns += sleep_ns;
                assert_eq!(waits.before_clock(now_ns), None);
            }
            reads += 1;
        }
        assert!(reads < 100 && now_ns < 1_025_000, "{reads} reads until {now_ns}");
    }

    #[test]
    fn a_value_that_changes_is_no_wait() {
        let mut waits = Waits::default();
        for round in 0..1000 {
            assert_eq!(waits.looked(64, round, Look::Ordered), None);
        }
        for round in 0..8 {
            let waiting = waits.looked(64, 7, Look::Ordered).is_some();
            assert_eq!(waiting, round >= ORDERED_LOADS, "round {round}");
        }
    }
}
