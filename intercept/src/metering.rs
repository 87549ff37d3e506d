//! What this process has in flight on a card, while the broker bounds it: launches are let go by their
//! estimate, and events that take the time say when they have ended and how long they took.
//!
//! Launches of one thread on one stream are measured together, a few at a time:
//!
//! ```text
//!   admit     fits below the bound?              no: look, sleep a little, with nothing announced
//!   begin     the first of a batch: an event before it
//!   the driver
//!   end       the batch is worth it: an event behind it
//!   look      (a later launch, of whichever thread) the oldest event passed? learn, make room
//! ```
//!
//! A batch that is late, by its estimate, counts no more: its kernel may wait for the very launch
//! that is held here. Nothing is recorded or asked while anything is captured; such launches go
//! unmeasured. The lock is never held across a call of the driver.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use halfwarp_gate::{
    durations::{Durations, Key, SETS, Set},
    flight::Flight,
};
use shim_cuda_headers::{CUcontext, CUevent, CUresult, CUstream};

use crate::{
    contexts::{Context, Use},
    facts::Facts,
    gates::is_capturing,
    process::Process,
    real::bare,
    sys::Uncancelled,
    thread::Here,
    wait,
};

/// Most launches between two events.
const BATCH: u32 = 8;
/// A batch is measured when it is worth this part of the bound.
const PART: u64 = 8;
/// Late: three times the estimate and this much; without an estimate so long.
const GRACE_NS: u64 = 50_000_000;
const UNKNOWN_GRACE_NS: u64 = 250_000_000;
/// A thread that goes first and has not asked for so long has ended.
const FIRST_NS: u64 = 100_000_000;
/// Between two looks of a launch that does not fit.
const LOOK: Duration = Duration::from_micros(50);

/// One card's meter.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Made when the first launch is bounded.
    durations: Option<Durations<Vec<Set>>>,
    flight: Flight,
    /// The thread that goes first, and when it last asked: of launches that do not fit the first one
    /// is not overtaken, or one that must run alone would never run.
    first: Option<(u32, u64)>,
    /// In the order in which they began.
    batches: VecDeque<Batch>,
    next: u64,
}

#[derive(Debug)]
struct Batch {
    number: u64,
    tid: u32,
    stream: usize,
    context: &'static Context,
    handle: CUcontext,
    begin: Option<CUevent>,
    /// There once nothing more is added.
    end: Option<CUevent>,
    /// Nothing more is added, also where no event could be recorded.
    closed: bool,
    /// Somebody looks at it.
    looked_at: bool,
    launches: u32,
    cost_ns: u64,
    /// It was late, and counts no more.
    late: bool,
    grace_ns: u64,
    last_ns: u64,
    parts: Vec<(Key, u32, u64)>,
}

/// What is added to a batch.
#[derive(Clone, Copy, Debug)]
struct Launch {
    key: Key,
    cost_ns: u64,
    grace_ns: u64,
    now: u64,
    /// It is to be measured at once.
    worth_one: bool,
}

/// A launch that was let go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    batch: u64,
    key: Key,
    cost_ns: u64,
    context: &'static Context,
    stream: usize,
    begins: bool,
    ends: bool,
}

fn key_of(facts: &Facts) -> Key {
    if facts.graph != 0 {
        return Key::graph(facts.graph);
    }
    let (threads, shared_bytes) = facts.size();
    Key::kernel(facts.function, threads, shared_bytes)
}

impl Meter {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a launch go if it fits below the bound.
    pub(crate) fn admit(
        &self,
        facts: &Facts,
        context: &'static Context,
        bound_ns: u32,
    ) -> Option<Admitted> {
        let (key, now, tid) = (key_of(facts), wait::now_ns(), wait::own_tid());
        let mut state = self.state();
        state.drop_late(now, bound_ns);
        let fresh = |at: u64| now.saturating_sub(at) < FIRST_NS;
        if state.first.is_some_and(|(other, at)| other != tid && fresh(at)) {
            return None;
        }
        let estimate = state.durations().estimate_ns(key);
        let admitted = state.flight.admit(estimate, bound_ns);
        state.first = admitted.is_none().then_some((tid, now));
        let cost_ns = admitted?;
        let handle = context.handle();
        let stream = facts.stream;
        let same = |batch: &&mut Batch| {
            !batch.closed
                && batch.tid == tid
                && batch.stream == stream
                && batch.handle == handle
                && !batch.late
        };
        let known = state.batches.iter_mut().rev().find(same);
        let begins = known.is_none();
        let grace_ns = estimate.map_or(UNKNOWN_GRACE_NS, |ns| 3 * ns);
        let launch = Launch { key, cost_ns, grace_ns, now, worth_one: estimate.is_none() };
        let (batch, ends) = match known {
            Some(batch) => batch.add(&launch, bound_ns),
            None => {
                let number = state.next;
                state.next += 1;
                let mut batch = Batch::new(number, tid, stream, context);
                let added = batch.add(&launch, bound_ns);
                state.batches.push_back(batch);
                added
            }
        };
        Some(Admitted { batch, key, cost_ns, context, stream, begins, ends })
    }

    /// Whether a thread has a launch that did not fit yet.
    pub(crate) fn is_waited_for(&self) -> bool {
        let now = wait::now_ns();
        self.state().first.is_some_and(|(_, at)| now.saturating_sub(at) < FIRST_NS)
    }

    /// The launch is about to be made.
    pub(crate) fn begin(&self, process: &Process, here: &Here, admitted: &Admitted) {
        if !admitted.begins {
            return;
        }
        let event = record(process, here, admitted.context, admitted.stream);
        if let Some(batch) = self.state().batch(admitted.batch) {
            batch.begin = event;
        }
    }

    /// The driver has returned.
    pub(crate) fn end(&self, process: &Process, here: &Here, admitted: &Admitted, code: CUresult) {
        if !code.is_ok() {
            self.state().take_back(admitted);
        }
        if !admitted.ends {
            return;
        }
        let event = record(process, here, admitted.context, admitted.stream);
        self.state().close(admitted.batch, event);
    }

    /// A launch did not fit: measures what this thread has left open, looks at what may have ended,
    /// and sleeps a little if nothing has.
    pub(crate) fn make_room(&self, process: &Process, here: &Here) {
        let _whole = Uncancelled::begin();
        let tid = wait::own_tid();
        let open: Vec<_> = {
            let state = self.state();
            let own = state.batches.iter().filter(|batch| !batch.closed && batch.tid == tid);
            own.map(|batch| (batch.number, batch.context, batch.stream)).collect()
        };
        for (number, context, stream) in open {
            let event = record(process, here, context, stream);
            self.state().close(number, event);
        }
        if !self.look(process) {
            std::thread::sleep(LOOK);
        }
    }

    /// Looks at the oldest batch that can be asked about. Whether it had ended.
    pub(crate) fn look(&self, process: &Process) -> bool {
        let Some((number, context, handle, begin, end)) = self.state().oldest() else {
            return false;
        };
        let took = measure(process, context, handle, begin, end);
        let mut state = self.state();
        match took {
            Took::Running => {
                if let Some(batch) = state.batch(number) {
                    batch.looked_at = false;
                }
                false
            }
            Took::Ended(ns) => {
                let Some(batch) = state.remove(number) else { return false };
                if let Some(ns) = ns {
                    state.learn(&batch, ns);
                }
                drop(state);
                for event in [batch.begin, batch.end].into_iter().flatten() {
                    context.give_event(handle, Use::Time, event);
                }
                true
            }
        }
    }

    /// A graph is gone: its handle may come again.
    pub(crate) fn forget_graph(&self, handle: usize) {
        if let Some(durations) = &mut self.state().durations {
            durations.forget(Key::graph(handle));
        }
    }

    /// Functions are gone: their handles may come again.
    pub(crate) fn forget_functions(&self) {
        if let Some(durations) = &mut self.state().durations {
            durations.forget_all();
        }
    }
}

impl Batch {
    fn new(number: u64, tid: u32, stream: usize, context: &'static Context) -> Self {
        Self {
            number,
            tid,
            stream,
            context,
            handle: context.handle(),
            begin: None,
            end: None,
            closed: false,
            looked_at: false,
            launches: 0,
            cost_ns: 0,
            late: false,
            grace_ns: 0,
            last_ns: 0,
            parts: Vec::new(),
        }
    }

    /// Adds a launch; this batch's number, and whether it is worth an event now.
    fn add(&mut self, launch: &Launch, bound_ns: u32) -> (u64, bool) {
        self.launches += 1;
        self.cost_ns += launch.cost_ns;
        self.grace_ns += launch.grace_ns;
        self.last_ns = launch.now;
        match self.parts.iter_mut().find(|(known, ..)| *known == launch.key) {
            Some((_, count, cost)) => {
                *count += 1;
                *cost += launch.cost_ns;
            }
            None => self.parts.push((launch.key, 1, launch.cost_ns)),
        }
        let worth = launch.worth_one
            || self.launches >= BATCH
            || self.cost_ns >= u64::from(bound_ns) / PART;
        (self.number, worth)
    }
}

impl State {
    fn durations(&mut self) -> &mut Durations<Vec<Set>> {
        self.durations.get_or_insert_with(|| Durations::new(vec![Set::NEW; SETS]))
    }

    fn batch(&mut self, number: u64) -> Option<&mut Batch> {
        self.batches.iter_mut().find(|batch| batch.number == number)
    }

    fn remove(&mut self, number: u64) -> Option<Batch> {
        let at = self.batches.iter().position(|batch| batch.number == number)?;
        let batch = self.batches.remove(at)?;
        if !batch.late {
            self.flight.land(batch.cost_ns, batch.launches);
        }
        Some(batch)
    }

    /// The driver refused a launch.
    fn take_back(&mut self, admitted: &Admitted) {
        let Some(batch) = self.batch(admitted.batch) else { return };
        batch.launches = batch.launches.saturating_sub(1);
        batch.cost_ns = batch.cost_ns.saturating_sub(admitted.cost_ns);
        if let Some((_, count, cost)) =
            batch.parts.iter_mut().find(|(key, ..)| *key == admitted.key)
        {
            *count = count.saturating_sub(1);
            *cost = cost.saturating_sub(admitted.cost_ns);
        }
        if !batch.late {
            self.flight.land(admitted.cost_ns, 1);
        }
    }

    /// Nothing more is added to a batch. One that has no event behind it can't be asked about: it
    /// counts until it is late.
    fn close(&mut self, number: u64, end: Option<CUevent>) {
        if let Some(batch) = self.batch(number) {
            batch.closed = true;
            batch.end = end;
        }
    }

    /// The oldest batch with an event behind it that nobody looks at now.
    #[allow(clippy::type_complexity, reason = "what `measure` takes, in its order")]
    fn oldest(&mut self) -> Option<(u64, &'static Context, CUcontext, Option<CUevent>, CUevent)> {
        let batch = self.batches.iter_mut().find(|b| b.end.is_some() && !b.looked_at)?;
        batch.looked_at = true;
        Some((batch.number, batch.context, batch.handle, batch.begin, batch.end?))
    }

    /// What is late counts no more; what can't be asked about is dropped then.
    fn drop_late(&mut self, now: u64, bound_ns: u32) {
        let mut landed = Vec::new();
        for batch in &mut self.batches {
            let grace = batch.grace_ns + if batch.closed { GRACE_NS } else { u64::from(bound_ns) };
            if !batch.late && now.saturating_sub(batch.last_ns) > grace {
                batch.late = true;
                landed.push((batch.cost_ns, batch.launches));
            }
        }
        for (cost_ns, launches) in landed {
            self.flight.land(cost_ns, launches);
        }
        self.batches.retain(|batch| {
            let kept = !batch.late || batch.end.is_some();
            if let Some(event) = batch.begin.filter(|_| !kept) {
                batch.context.give_event(batch.handle, Use::Time, event);
            }
            kept
        });
    }

    /// Shares what a batch took among its launches, by their estimates.
    fn learn(&mut self, batch: &Batch, took_ns: u64) {
        let whole = batch.cost_ns.max(1);
        for (key, count, cost_ns) in &batch.parts {
            let part = u128::from(took_ns) * u128::from(*cost_ns) / u128::from(whole);
            if let Some(each) = part.checked_div(u128::from(*count)) {
                self.durations().learn(*key, u64::try_from(each).unwrap_or(u64::MAX));
            }
        }
    }
}

/// What became of a batch.
enum Took {
    Running,
    /// It has ended, and took so long if that could be told.
    Ended(Option<u64>),
}

/// Asks for a batch's events.
fn measure(
    process: &Process,
    context: &'static Context,
    handle: CUcontext,
    begin: Option<CUevent>,
    end: CUevent,
) -> Took {
    let asked = guest_call(process, context, handle, || {
        // SAFETY: an event of ours in a context that has not ended.
        let code = unsafe { bare::cuEventQuery(end) };
        if code == CUresult::NOT_READY {
            return Took::Running;
        }
        let mut took_ms = 0.0_f32;
        let timed = begin.filter(|_| code.is_ok()).filter(|begin| {
            // SAFETY: a writable number, and two events of ours that have been passed.
            unsafe { bare::cuEventElapsedTime(&raw mut took_ms, *begin, end) }.is_ok()
        });
        Took::Ended(timed.map(|_| (f64::from(took_ms) * 1e6) as u64))
    });
    match asked {
        Some(took) => took,
        // While something is captured nothing is asked; a context that has ended took it all along.
        None if context.handle() == handle => Took::Running,
        None => Took::Ended(None),
    }
}

/// A call of ours on a thread of the program's, where it may be made.
fn guest_call<R>(
    process: &Process,
    context: &'static Context,
    handle: CUcontext,
    call: impl FnOnce() -> R,
) -> Option<R> {
    if wait::is_ending() || !process.gates.guests.begin() {
        return None;
    }
    let mut done = None;
    if context.bans.begin() {
        if context.handle() == handle {
            done = Some(call());
        }
        context.bans.end();
    }
    process.gates.guests.end();
    done
}

/// Records an event that takes the time on a stream of this thread's.
fn record(
    process: &Process,
    here: &Here,
    context: &'static Context,
    stream: usize,
) -> Option<CUevent> {
    let handle = context.handle();
    guest_call(process, context, handle, || {
        if is_capturing(stream) {
            return None;
        }
        let event = context.take_event(Use::Time).or_else(|| make_event(here, context))?;
        let stream = CUstream(stream);
        // SAFETY: a stream that the program is launching on, and an event of its context.
        let code = unsafe { bare::cuEventRecord(event, stream) };
        if code.is_ok() {
            return Some(event);
        }
        context.give_event(handle, Use::Time, event);
        None
    })
    .flatten()
}

/// A new event, made in `context`, whichever is current.
fn make_event(here: &Here, context: &'static Context) -> Option<CUevent> {
    let other = here.context().is_none_or(|current| !std::ptr::eq(current, context));
    // SAFETY: a live context: its end would wait for us.
    if other && !unsafe { bare::cuCtxPushCurrent_v2(context.handle()) }.is_ok() {
        return None;
    }
    let mut event = CUevent(0);
    // SAFETY: a writable event.
    let made = unsafe { bare::cuEventCreate(&raw mut event, 0) }.is_ok();
    if other {
        let mut popped = CUcontext(0);
        // SAFETY: what was pushed above is on top.
        unsafe { bare::cuCtxPopCurrent_v2(&raw mut popped) };
    }
    made.then_some(event)
}
