//! Our thread's part in leases: to say when the work that passed a gate has ended, and when a turn is
//! not needed any more. Everything here is looked at, never waited for: our thread has frames to read.
//!
//! A drain, in the order things happen:
//!
//! ```text
//!   the frame        the gate is closed; a deadline comes with it
//!   slots            nobody is between the gate and the driver any more
//!   marks            an event behind all work, in every context of the card
//!   looks            until every mark is passed, or the deadline is
//!   Drained
//! ```
//!
//! A context with an open capture gets no mark: there the closed gate alone ends the turn.

use std::{sync::atomic::Ordering, time::Duration};

use halfwarp_api::{
    GPUS,
    shm::{ClientPage, SLOTS},
    wire::ToBroker,
};
use halfwarp_books::Slot;
use halfwarp_gate::pass;
use halfwarp_label as label;
use shim_cuda_headers::CUstreamCaptureMode;

use crate::{
    gates,
    mark::{Marks, State},
    process::Process,
    real::bare,
    wait,
};

/// From one look at a drain to the next: at first, and at most. A thread wakes tens of microseconds
/// late, so a shorter sleep would only burn time.
const FIRST_LOOK: Duration = Duration::from_micros(20);
const LAST_LOOK: Duration = Duration::from_micros(500);
/// A process that has launched nothing for so long may be idle. Gaps between the launches of a busy
/// program are tens of microseconds; the broker takes a turn away unasked after 5 ms.
const QUIET_NS: u64 = 1_000_000;
/// From one look for idleness to the next while launches come.
const IDLE_LOOK: Duration = Duration::from_millis(2);
const QUIET_LOOK: Duration = Duration::from_micros(500);

/// A drain under way.
#[derive(Debug)]
struct Drain {
    seq: u32,
    slot: Slot,
    until_ns: u64,
    /// `None` while threads are between the gate and the driver.
    marks: Option<Marks>,
    look: Duration,
}

/// What is known of a card's idleness.
#[derive(Debug, Default)]
struct Quiet {
    /// The lease number for which we said so, or need not look further, plus one.
    settled: u64,
    /// The lease number, plus one, and the launches that were seen last, and since when.
    turn: u64,
    launches: u32,
    since_ns: u64,
    marks: Option<Marks>,
}

/// Our thread's memory.
#[derive(Debug, Default)]
pub(crate) struct Attendant {
    drains: Vec<Drain>,
    quiet: [Quiet; GPUS],
    /// The pages before the last re-join: a thread may be passing by them still.
    former: Option<&'static ClientPage>,
    current: Option<&'static ClientPage>,
    relaxed: bool,
}

impl Attendant {
    /// The broker asks for a drain.
    pub(crate) fn begin_drain(&mut self, seq: u32, slot: Slot, within_ns: u64) {
        label::drain_asked();
        // It told us after it had closed the gate.
        pass::closed();
        let until_ns = wait::now_ns().saturating_add(within_ns);
        self.drains.push(Drain { seq, slot, until_ns, marks: None, look: FIRST_LOOK });
    }

    /// Another broker: nobody waits for our answers.
    pub(crate) fn forget(&mut self, process: &Process) {
        for drain in self.drains.drain(..) {
            drain.marks.into_iter().for_each(Marks::abandon);
        }
        for quiet in &mut self.quiet {
            quiet.marks.take().into_iter().for_each(Marks::abandon);
            *quiet = Quiet::default();
        }
        self.note_pages(process);
    }

    fn note_pages(&mut self, process: &Process) {
        let now = process.pages().client;
        if self.current.is_none_or(|known| !std::ptr::eq(known, now)) {
            self.former = self.current.replace(now);
        }
    }

    /// Goes on with everything; how long to sleep at most before the next step.
    pub(crate) fn step(&mut self, process: &Process) -> Option<Duration> {
        if wait::is_ending() {
            return None;
        }
        self.note_pages(process);
        let mut next = None;
        let mut sooner = |look: Duration| next = Some(next.map_or(look, |n: Duration| n.min(look)));
        let mut drains = std::mem::take(&mut self.drains);
        drains.retain_mut(|drain| match self.step_drain(process, drain) {
            Some(done) => {
                answer(process, drain, done);
                false
            }
            None => {
                sooner(drain.look);
                drain.look = (drain.look * 2).min(LAST_LOOK);
                true
            }
        });
        self.drains = drains;
        for slot in process.slots() {
            if let Some(look) = self.step_quiet(process, *slot) {
                sooner(look);
            }
        }
        next
    }

    /// Whether a drain has come to its end, and how.
    fn step_drain(&mut self, process: &Process, drain: &mut Drain) -> Option<bool> {
        let late = wait::now_ns() >= drain.until_ns;
        if drain.marks.is_none() && !self.is_passing(drain.slot) {
            self.relax();
            drain.marks = Some(Marks::set(process, drain.slot));
            label::drain_marked();
        }
        match drain.marks.as_mut().map(Marks::look) {
            Some(State::Passed | State::Captured) => Some(true),
            _ => late.then_some(false),
        }
    }

    /// Whether a thread is between the gate and the driver's return.
    fn is_passing(&self, slot: Slot) -> bool {
        let passing = |page: &ClientPage| {
            let [single @ .., shared] = &page.slots;
            let _: &[_; SLOTS - 1] = single;
            single.iter().any(|thread| {
                pass::is_launching(&thread.announced, slot.0)
                    && wait::is_alive(thread.tid.load(Ordering::Relaxed))
            }) || pass::is_launching_shared(&shared.announced)
        };
        [self.current, self.former].into_iter().flatten().any(passing)
    }

    /// Calls of ours on this thread break no capture of the program's.
    fn relax(&mut self) {
        const RELAXED: CUstreamCaptureMode = 2;
        if !self.relaxed {
            let mut mode = RELAXED;
            // SAFETY: a readable and writable mode.
            unsafe { bare::cuThreadExchangeStreamCaptureMode(&raw mut mode) };
            self.relaxed = true;
        }
    }

    /// Looks whether a card's turn is not needed any more; when to look again, if at all.
    fn step_quiet(&mut self, process: &Process, slot: Slot) -> Option<Duration> {
        let page = process.pages().broker;
        let gpu = page.gpus.get(usize::from(slot.0))?;
        let card = process.gates.card(slot)?;
        let lease = gpu.lease.load(Ordering::Acquire);
        let open = pass::is_open(&gpu.lease_gate) && gpu.bound_ns.load(Ordering::Relaxed) != 0;
        let quiet = self.quiet.get_mut(usize::from(slot.0))?;
        if !open || quiet.settled == u64::from(lease) + 1 {
            quiet.marks.take().into_iter().for_each(Marks::abandon);
            return None;
        }
        let (now, launches) = (wait::now_ns(), card.launches.load(Ordering::Relaxed));
        let turn = u64::from(lease) + 1;
        // A launch that waits for room below the bound is no gap, however late its thread wakes.
        if quiet.launches != launches || quiet.turn != turn || card.meter.is_waited_for() {
            quiet.marks.take().into_iter().for_each(Marks::abandon);
            (quiet.launches, quiet.turn, quiet.since_ns) = (launches, turn, now);
            return Some(IDLE_LOOK);
        }
        if now - quiet.since_ns < QUIET_NS {
            return Some(QUIET_LOOK);
        }
        if self.is_passing(slot) {
            return Some(IDLE_LOOK);
        }
        self.relax();
        let quiet = self.quiet.get_mut(usize::from(slot.0))?;
        let state = quiet.marks.get_or_insert_with(|| Marks::set(process, slot)).look();
        match state {
            State::Running => Some(IDLE_LOOK),
            // Work beside an open capture can't be seen.
            State::Captured => {
                quiet.marks = None;
                Some(IDLE_LOOK)
            }
            State::Passed => {
                quiet.marks = None;
                if card.launches.load(Ordering::Relaxed) != launches || card.meter.is_waited_for() {
                    return Some(IDLE_LOOK);
                }
                let idle = ToBroker::Idle { gpu: slot.0, lease };
                // A broker that does not read is told later, or finds out by itself.
                if process.line.send_now(&idle.encode()).is_ok() {
                    quiet.settled = u64::from(lease) + 1;
                    label::idle_sent();
                    return None;
                }
                Some(IDLE_LOOK)
            }
        }
    }
}

/// Answers a drain.
fn answer(process: &Process, drain: &mut Drain, done: bool) {
    drain.marks.take().into_iter().for_each(Marks::abandon);
    let waiting = process.gates.card(drain.slot).map_or(0, gates::Card::waiting);
    let (seq, gpu) = (drain.seq, drain.slot.0);
    // If it can't be sent the broker is gone, and with it the question.
    let _ = process.line.send(&ToBroker::Drained { seq, gpu, done, waiting }.encode());
    label::drained_sent();
}
