//! A kernel's own time. As a rule it is modelled: instructions and sleeps move it, the host's clock
//! does not, and the kernel is carried out at once; waiting for its end comes afterwards.
//!
//! A kernel that waits for others *lives*: its time is the host's clock, and when its turn on the
//! engine is over it stands still until the next one. So does one that takes much longer to carry out
//! here than it would on a card, if others wait for the engine.

use crate::clock;
use crate::compute::Seat;
use std::cell::Cell;

/// How long a kernel that does not live may go on after its turn.
const PATIENCE_NS: u64 = 20_000_000;
/// How far its time may be ahead of the clock: it is endless perhaps, and must not burn the host.
const MOST_AHEAD_NS: u64 = 2_000_000_000;
/// What a living kernel gets of each turn at least, if the turn came too late.
const LEAST_RUN_NS: u64 = 300_000;

#[derive(Debug)]
pub(crate) struct KernelClock<'a> {
    seat: &'a Seat<'a>,
    instruction_ns: f64,
    slept_ns: Cell<u64>,
    instructions: Cell<u64>,
    lives: Cell<bool>,
    resumed_ns: Cell<u64>,
}

impl<'a> KernelClock<'a> {
    pub(crate) fn new(seat: &'a Seat<'a>, instruction_ns: f64) -> Self {
        Self {
            seat,
            instruction_ns,
            slept_ns: Cell::new(0),
            instructions: Cell::new(0),
            lives: Cell::new(false),
            resumed_ns: Cell::new(clock::now_ns()),
        }
    }

    fn modelled_ns(&self) -> u64 {
        self.slept_ns.get() + (self.instructions.get() as f64 * self.instruction_ns) as u64
    }

    pub(crate) fn now_ns(&self) -> u64 {
        let modelled_ns = self.seat.start_ns + self.modelled_ns();
        if self.lives.get() { modelled_ns.max(clock::now_ns()) } else { modelled_ns }
    }

    /// What the kernel has taken of the engine.
    pub(crate) fn taken_ns(&self) -> u64 {
        let modelled_ns = self.modelled_ns();
        if self.lives.get() {
            modelled_ns.max(self.seat.had_ns(clock::now_ns()))
        } else {
            modelled_ns
        }
    }

    pub(crate) fn executed(&self, instructions: u64) {
        self.instructions.set(self.instructions.get().saturating_add(instructions));
    }

    pub(crate) fn lives(&self) -> bool {
        self.lives.get()
    }

    /// From now on the clock is the kernel's time. If it is ahead, it waits first.
    pub(crate) fn live(&self) {
        if !self.lives.replace(true) {
            self.seat.reach(self.modelled_ns());
            self.resumed_ns.set(clock::now_ns());
        }
    }

    /// Passes time; the caller holds on to nothing. `stop` ends it.
    pub(crate) fn sleep(&self, ns: u64, stop: impl Fn() -> bool) {
        if self.lives.get() {
            clock::pass_until(clock::now_ns().saturating_add(ns), || stop() || self.must_pause());
            return;
        }
        self.slept_ns.set(self.slept_ns.get().saturating_add(ns));
        if self.now_ns() > clock::now_ns().saturating_add(MOST_AHEAD_NS) {
            self.live();
        }
    }

    /// Whether the kernel must stand still until its next turn.
    pub(crate) fn must_pause(&self) -> bool {
        let now_ns = clock::now_ns();
        let ran_ns = now_ns.saturating_sub(self.resumed_ns.get());
        let enough_ns = if self.lives.get() { LEAST_RUN_NS } else { PATIENCE_NS };
        ran_ns > enough_ns && self.seat.is_over(now_ns)
    }

    /// Stands still; the caller holds on to nothing.
    pub(crate) fn pause(&self) {
        self.lives.set(true);
        self.seat.pause();
        self.resumed_ns.set(clock::now_ns());
    }
}
