//! What one party was entitled to on one card and what it got: in nanoseconds of the card's time.
//!
//! Three figures decide, each for its own question. `lag`: who is next within a class (entitled minus
//! received, while it asked). `room`: may a capped party run at all. `owed`: has a lower class been
//! kept from its guaranteed share for so long that it goes before a higher one.

use crate::Nanos;

/// Debts and claims are remembered up to this.
const MEMORY_NS: f64 = 10e9;
/// Marks for the received share, this far apart and this many.
const MARK_NS: Nanos = 1_000_000_000;
const MARKS: usize = 10;

#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// While it asks: comparable with others of its class on the card. While it does not: against
    /// the mean of that class when it left.
    pub(crate) lag_ns: f64,
    pub(crate) room_ns: f64,
    pub(crate) owed_ns: f64,
    /// Whether it asks for the card or has it, by the books.
    pub(crate) asking: bool,
    pub(crate) received_ns: f64,
    pub(crate) entitled_ns: f64,
    marks: std::collections::VecDeque<(Nanos, f64, f64)>,
}

/// What passes on a card for one party.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub(crate) ns: f64,
    /// Part of the card that it is entitled to, or would be if it asked.
    pub(crate) rate: f64,
    pub(crate) share: f64,
    pub(crate) limit: f64,
    /// What it had of the time.
    pub(crate) received_ns: f64,
    pub(crate) lease_ns: f64,
}

impl Account {
    pub(crate) fn pass(&mut self, now: Nanos, passed: Passed) {
        let Passed { ns, rate, share, limit, received_ns, lease_ns } = passed;
        self.received_ns += received_ns;
        // Whoever asks and is kept out by another's long kernel catches up; whoever does not ask
        // saves nothing.
        let most = if self.asking && limit < 1.0 { MEMORY_NS } else { 0.0 };
        self.room_ns = (self.room_ns + limit * ns - received_ns).clamp(-MEMORY_NS, most);
        if self.asking {
            self.entitled_ns += rate * ns;
            self.lag_ns += rate * ns - received_ns;
            self.owed_ns = (self.owed_ns + share * ns - received_ns).clamp(-lease_ns, MEMORY_NS);
        } else if self.lag_ns < 0.0 {
            // Debts are repaid by not running, whether it asks or not.
            self.lag_ns = (self.lag_ns + rate * ns).min(0.0);
        }
        if self.marks.back().is_none_or(|(at, ..)| now.saturating_sub(*at) >= MARK_NS) {
            self.marks.push_back((now, self.received_ns, self.entitled_ns));
            if self.marks.len() > MARKS {
                self.marks.pop_front();
            }
        }
    }

    /// It asks from now on; `others` are the lags of its class. Its lag against the mean stays what
    /// it was, so whoever leaves for a moment takes its debt along and brings it back.
    pub(crate) fn enter(&mut self, others: &[f64]) {
        self.asking = true;
        if others.is_empty() {
            return;
        }
        let (count, sum) = (others.len() as f64, others.iter().sum::<f64>());
        self.lag_ns = self.lag_ns * (count + 1.0) / count + sum / count;
    }

    /// It asks no more. Of what it did not use it keeps one lease.
    pub(crate) fn leave(&mut self, others: &[f64], lease_ns: f64) {
        self.asking = false;
        let sum = self.lag_ns + others.iter().sum::<f64>();
        let mean = sum / (others.len() as f64 + 1.0);
        self.lag_ns = (self.lag_ns - mean).clamp(-MEMORY_NS, lease_ns);
        self.owed_ns = self.owed_ns.min(lease_ns);
        self.room_ns = self.room_ns.min(0.0);
    }

    /// Nobody competes on the card any more.
    pub(crate) fn forgive(&mut self) {
        (self.lag_ns, self.room_ns, self.owed_ns, self.asking) = (0.0, 0.0, 0.0, false);
    }

    /// Parts of the card received and entitled to over the last ten seconds or less.
    pub(crate) fn recently(&self, now: Nanos) -> Option<(f64, f64)> {
        let (at, received, entitled) = self.marks.front()?;
        let ns = now.saturating_sub(*at) as f64;
        (ns > 0.0).then(|| ((self.received_ns - received) / ns, (self.entitled_ns - entitled) / ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(account: &mut Account, ns: f64, rate: f64, received_ns: f64) {
        let passed = Passed { ns, rate, share: rate, limit: rate, received_ns, lease_ns: 100e6 };
        account.pass(0, passed);
    }

    #[test]
    fn a_debt_survives_a_moment_s_absence_and_is_repaid_by_waiting() {
        let mut account = Account::default();
        account.enter(&[0.0]);
        pass(&mut account, 500e6, 0.25, 500e6);
        let (before, other) = (account.lag_ns, 375e6);
        assert_eq!(before, -375e6);
        account.leave(&[other], 100e6);
        account.enter(&[other]);
        assert!((account.lag_ns - before).abs() < 1.0, "{}", account.lag_ns);
        account.leave(&[other], 100e6);
        pass(&mut account, 1000e6, 0.25, 0.0);
        assert!((account.lag_ns + 125e6).abs() < 1.0, "{}", account.lag_ns);
        pass(&mut account, 10_000e6, 0.25, 0.0);
        assert_eq!(account.lag_ns, 0.0, "nothing is earned by not asking");
    }

    #[test]
    fn a_newcomer_stands_in_the_middle_of_its_class() {
        let mut account = Account::default();
        account.enter(&[5e9, 7e9]);
        assert_eq!(account.lag_ns, 6e9);
    }

    #[test]
    fn of_what_was_not_used_one_lease_is_kept() {
        let mut account = Account::default();
        account.enter(&[]);
        pass(&mut account, 5_000e6, 1.0, 0.0);
        account.leave(&[0.0], 100e6);
        assert_eq!(account.lag_ns, 100e6);
        assert_eq!(account.room_ns, 0.0);
    }
}
