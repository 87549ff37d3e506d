//! What programs do: each is asked for its next step when it has done the one before.

use std::fmt::Debug;

use crate::{Nanos, random::Random};

/// A program's step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    Launch {
        slot: u8,
        ns: Nanos,
        needs: Option<u64>,
        sets: Option<u64>,
    },
    /// Waits for all that this process has on its cards.
    Sync,
    /// Waits for what this thread has launched.
    SyncStream,
    SleepUntil(Nanos),
    /// From `since` until now is the time of one request.
    Request {
        since: Nanos,
    },
    End,
}

impl Op {
    #[must_use]
    pub const fn launch(ns: Nanos) -> Self {
        Self::Launch { slot: 0, ns, needs: None, sets: None }
    }
}

pub trait Load: Debug {
    fn next(&mut self, now: Nanos, random: &mut Random) -> Op;
}

/// Launches without end, and with `each` waits for each kernel.
#[derive(Clone, Debug)]
pub struct Busy {
    pub low_ns: Nanos,
    pub high_ns: Nanos,
    pub each: bool,
    launched: bool,
}

impl Busy {
    #[must_use]
    pub const fn of(ns: Nanos) -> Self {
        Self { low_ns: ns, high_ns: ns, each: false, launched: false }
    }

    #[must_use]
    pub const fn between(low_ns: Nanos, high_ns: Nanos) -> Self {
        Self { low_ns, high_ns, each: false, launched: false }
    }

    #[must_use]
    pub const fn synchronous(ns: Nanos) -> Self {
        Self { low_ns: ns, high_ns: ns, each: true, launched: false }
    }
}

impl Load for Busy {
    fn next(&mut self, _now: Nanos, random: &mut Random) -> Op {
        if self.each && std::mem::replace(&mut self.launched, false) {
            return Op::Sync;
        }
        self.launched = true;
        Op::launch(random.between(self.low_ns, self.high_ns))
    }
}

/// Requests that arrive by chance: some kernels each, then a wait for them.
#[derive(Clone, Debug)]
pub struct Requests {
    pub mean_pause_ns: Nanos,
    pub kernels: u32,
    pub low_ns: Nanos,
    pub high_ns: Nanos,
    /// Arrives whether the one before is done or not.
    arrives: Nanos,
    step: u32,
}

impl Requests {
    #[must_use]
    pub const fn new(mean_pause_ns: Nanos, kernels: u32, low_ns: Nanos, high_ns: Nanos) -> Self {
        Self { mean_pause_ns, kernels, low_ns, high_ns, arrives: 0, step: 0 }
    }
}

impl Load for Requests {
    fn next(&mut self, now: Nanos, random: &mut Random) -> Op {
        let step = self.step;
        self.step = (step + 1) % (self.kernels + 3);
        if step == 0 {
            self.arrives += random.pause(self.mean_pause_ns as f64);
            return Op::SleepUntil(self.arrives.max(now));
        }
        if step <= self.kernels {
            return Op::launch(random.between(self.low_ns, self.high_ns));
        }
        if step == self.kernels + 1 { Op::Sync } else { Op::Request { since: self.arrives } }
    }
}

/// Steps of many kernels with a pause on the host after each.
#[derive(Clone, Debug)]
pub struct Training {
    pub kernels: u32,
    pub ns: Nanos,
    pub pause_ns: Nanos,
    step: u32,
}

impl Training {
    #[must_use]
    pub const fn new(kernels: u32, ns: Nanos, pause_ns: Nanos) -> Self {
        Self { kernels, ns, pause_ns, step: 0 }
    }
}

impl Load for Training {
    fn next(&mut self, now: Nanos, _random: &mut Random) -> Op {
        let step = self.step;
        self.step = (step + 1) % (self.kernels + 2);
        if step < self.kernels {
            return Op::launch(self.ns);
        }
        if step == self.kernels { Op::Sync } else { Op::SleepUntil(now + self.pause_ns) }
    }
}

/// One of two whose kernels wait for each other: each sets its flag by running and needs the other's.
#[derive(Clone, Debug)]
pub struct Pair {
    pub slot: u8,
    pub ns: Nanos,
    /// 0 or 1: which of the two.
    pub side: u64,
    /// Tells several pairs apart.
    pub pair: u64,
    pub jitter_ns: Nanos,
    round: u64,
    step: u8,
}

impl Pair {
    #[must_use]
    pub const fn new(slot: u8, pair: u64, side: u64, ns: Nanos, jitter_ns: Nanos) -> Self {
        Self { slot, ns, side, pair, jitter_ns, round: 0, step: 0 }
    }

    const fn flag(&self, side: u64) -> u64 {
        (self.pair << 40) + (self.round << 1) + side
    }
}

impl Load for Pair {
    fn next(&mut self, now: Nanos, random: &mut Random) -> Op {
        let step = self.step;
        self.step = (step + 1) % 3;
        match step {
            0 => Op::SleepUntil(now + random.between(0, self.jitter_ns)),
            1 => {
                let (sets, needs) = (self.flag(self.side), self.flag(1 - self.side));
                self.round += 1;
                Op::Launch { slot: self.slot, ns: self.ns, needs: Some(needs), sets: Some(sets) }
            }
            _ => Op::SyncStream,
        }
    }
}
