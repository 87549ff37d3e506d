//! May this call go on now? Two gates a card, both words in the broker's page: may the process touch
//! the card's memory (`residency`), may it submit compute (`lease`).
//!
//! A launch, in the order things happen:
//!
//! ```text
//!   quick       what this thread has at hand is right, it has a slot of its own, one card
//!     announce    a store and a fence
//!     open?       both gates open, nothing metered     <- nearly always all
//!   enter       cold: whatever else there is to know, then the same again; at a closed gate
//!     want        the broker is told, once a closing
//!     sleep       on the gate's word, at most 250 ms at a time, with nothing announced
//!   the driver
//!   withdraw
//! ```
//!
//! A lease gate counts as open when the broker has not been heard of for a second, and both do when
//! the program has begun to end: nobody would open them. Nothing waits here with a lock of ours held.

use std::{
    ffi::c_uint,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
    time::Duration,
};

use halfwarp_api::{
    GPUS,
    shm::{AnnounceSlot, BrokerGpu, BrokerPage, SLOTS},
    wire::ToBroker,
};
use halfwarp_books::Slot;
use halfwarp_gate::{
    bans::Bans,
    pass::{self, Announcement},
};
use halfwarp_label as label;
use shim_cuda_headers::{CUcontext, CUresult, CUstream};

use crate::{
    contexts::{Context, Contexts},
    facts::{Facts, LEGACY, PER_THREAD},
    hooks, life,
    metering::{Admitted, Meter},
    process::Process,
    real::{self, bare},
    sys::{Errno, Uncancelled},
    thread::{self, Here},
    wait::{self, Bell},
};

/// The longest sleep at a gate before it is looked at again.
const LOOK: Duration = Duration::from_millis(250);
/// From one look to the next while memory is away and no gate says so.
const AWAY: Duration = Duration::from_millis(2);
/// A broker that has called itself alive until so long ago is gone, or stopped.
const DESERTED_NS: u64 = 1_000_000_000;

/// What this process knows of its gates.
#[derive(Debug)]
pub(crate) struct Gates {
    pub(crate) contexts: Contexts,
    /// Calls of ours on the program's own threads: none while anything is captured.
    pub(crate) guests: Bans,
    pub(crate) bell: Bell,
    cards: [Card; GPUS],
    /// Our thread is in the driver, or about to be.
    attending: AtomicBool,
}

/// What it knows of one card's gates.
#[derive(Debug, Default)]
pub(crate) struct Card {
    /// Threads that wait at the lease gate.
    waiting: AtomicU32,
    /// The lease number for which the broker was told that we wait, plus one.
    wanted: AtomicU64,
    /// The residency number for which the broker was told that we wait, plus one.
    memory_wanted: AtomicU64,
    pub(crate) meter: Meter,
    /// Launches under a bound; wraps.
    pub(crate) launches: AtomicU32,
    /// The lease number for which our thread was told of launches, plus one.
    rung: AtomicU64,
}

impl Card {
    /// Threads that wait at the lease gate.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }
}

impl Gates {
    pub(crate) fn new(bell: Bell) -> Self {
        Self {
            contexts: Contexts::default(),
            guests: Bans::new(),
            bell,
            cards: Default::default(),
            attending: AtomicBool::new(false),
        }
    }

    /// Our thread is about to call the driver, or has done.
    pub(crate) fn set_attending(&self, attending: bool) {
        self.attending.store(attending, Ordering::SeqCst);
    }

    /// Whether our thread may be in the driver.
    pub(crate) fn is_attending(&self) -> bool {
        self.attending.load(Ordering::SeqCst)
    }

    pub(crate) fn card(&self, slot: Slot) -> Option<&Card> {
        self.cards.get(usize::from(slot.0))
    }

    /// Another broker: what the last one was told, this one was not.
    pub(crate) fn forget_what_was_said(&self) {
        for card in &self.cards {
            card.wanted.store(0, Ordering::Relaxed);
            card.memory_wanted.store(0, Ordering::Relaxed);
            card.rung.store(0, Ordering::Relaxed);
        }
    }
}

/// A call that touches device memory.
#[inline(always)]
pub(crate) fn memory(call: impl FnOnce() -> CUresult) -> CUresult {
    let epoch = life::epoch();
    if let Some((slot, card)) = thread::here().quick(epoch) {
        let before = pass::announce(slot, Announcement::MEMORY);
        if pass::is_open(&card.residency_gate) && is_still(epoch) {
            let code = call();
            pass::withdraw(slot, before);
            return code;
        }
        pass::withdraw(slot, before);
    }
    memory_slow(call)
}

#[cold]
#[inline(never)]
fn memory_slow(call: impl FnOnce() -> CUresult) -> CUresult {
    match enter(None) {
        Ok(entered) => {
            let code = call();
            leave(entered);
            code
        }
        Err(code) => code.unwrap_or_else(call),
    }
}

/// Whether what the thread knew before it announced itself is still right. Asked after the gates: who
/// moved memory has begun another epoch before they opened.
#[inline(always)]
fn is_still(epoch: u64) -> bool {
    fence(Ordering::Acquire);
    life::epoch() == epoch
}

/// A launch.
#[inline(always)]
pub(crate) fn launch(facts: impl FnOnce() -> Facts, call: impl FnOnce() -> CUresult) -> CUresult {
    let epoch = life::epoch();
    if let Some((slot, card)) = thread::here().quick(epoch) {
        let before = pass::announce(slot, Announcement::launch(None));
        if pass::is_open(&card.residency_gate)
            && pass::is_open(&card.lease_gate)
            && card.bound_ns.load(Ordering::Relaxed) == 0
            && is_still(epoch)
        {
            let code = call();
            pass::withdraw(slot, before);
            return code;
        }
        pass::withdraw(slot, before);
    }
    launch_slow(facts, call)
}

#[cold]
#[inline(never)]
fn launch_slow(facts: impl FnOnce() -> Facts, call: impl FnOnce() -> CUresult) -> CUresult {
    let facts = facts();
    match enter(Some(&facts)) {
        Ok(entered) => {
            let code = call();
            finish(entered, code);
            code
        }
        Err(code) => code.unwrap_or_else(call),
    }
}

/// A call that has passed its gates and is announced.
#[derive(Debug)]
struct Entered {
    /// On which card it is metered, and what the meter said.
    metered: Option<(Slot, Admitted)>,
    slot: &'static AtomicU32,
    shares: bool,
    what: Announcement,
    before: u32,
}

/// A gate that is closed.
#[derive(Clone, Copy, Debug)]
struct Closed {
    slot: Slot,
    lease: bool,
}

/// Passes the gates, however long that takes. An error is what to answer in place of the driver, or
/// `None` where the driver answers with no gate before it (no tenant's process, or not yet).
#[cold]
#[inline(never)]
fn enter(facts: Option<&Facts>) -> Result<Entered, Option<CUresult>> {
    let Some(process) = life::joined() else { return Err(crate::process::refusal()) };
    let _errno = Errno::keep();
    let here = thread::here();
    loop {
        refresh(process, here);
        let card = facts.and_then(|facts| card_of(process, here, facts));
        let mut entered = announce(here, facts.map(|_| Announcement::launch(card.map(|c| c.0))));
        let closed = look(process, here.page(), facts.map(|_| card));
        let passes = match (closed, facts) {
            (None, _) => true,
            // What is captured is no work yet.
            (Some(Closed { lease: true, .. }), Some(facts)) if is_capturing(facts.stream) => {
                leave(entered);
                entered = announce(here, None);
                look(process, here.page(), None).is_none()
            }
            _ => false,
        };
        let bounded = closed.is_none().then_some(facts).flatten();
        if passes && bounded.is_none_or(|facts| meter(process, here, facts, card, &mut entered)) {
            if bounded.is_some() {
                tell_of_launch(process, here.page(), card);
            }
            if process.movable {
                process.swap.note_touch();
            }
            label::gate_passed();
            return Ok(entered);
        }
        leave(entered);
        if passes {
            make_room(process, here, card);
        }
        if let Some(closed) = closed {
            sleep_at(process, here.page(), closed);
        }
    }
}

fn announce(here: &Here, launch: Option<Announcement>) -> Entered {
    let what = launch.unwrap_or(Announcement::MEMORY);
    let (slot, shares) = here.slot();
    let before = if shares {
        pass::announce_shared(slot, what);
        0
    } else {
        pass::announce(slot, what)
    };
    Entered { metered: None, slot, shares, what, before }
}

/// Under a bound: whether a launch fits below it; from then on it counts. A launch on several cards,
/// or one that nothing is known of, is not metered.
fn meter(
    process: &Process,
    here: &Here,
    facts: &Facts,
    card: Option<Slot>,
    entered: &mut Entered,
) -> bool {
    let Some(slot) = card else { return true };
    let bound = here.page().gpus.get(usize::from(slot.0)).map(|gpu| &gpu.bound_ns);
    let bound_ns = bound.map_or(0, |bound| bound.load(Ordering::Relaxed));
    if bound_ns == 0 || process.gates.guests.is_banned() || wait::is_ending() {
        return true;
    }
    let Some(context) = context_of(process, here, facts.stream) else { return true };
    let Some(card) = process.gates.card(slot) else { return true };
    let Some(admitted) = card.meter.admit(facts, context, bound_ns) else { return false };
    card.meter.begin(process, here, &admitted);
    entered.metered = Some((slot, admitted));
    true
}

/// A launch did not fit below the bound.
fn make_room(process: &Process, here: &Here, card: Option<Slot>) {
    if let Some(card) = card.and_then(|slot| process.gates.card(slot)) {
        card.meter.make_room(process, here);
    }
}

/// The driver has returned from a launch.
fn finish(entered: Entered, code: CUresult) {
    if let (Some((slot, admitted)), Some(process)) = (&entered.metered, life::joined()) {
        let _errno = Errno::keep();
        if let Some(card) = process.gates.card(*slot) {
            card.meter.end(process, thread::here(), admitted, code);
        }
    }
    leave(entered);
}

fn leave(entered: Entered) {
    if entered.shares {
        pass::withdraw_shared(entered.slot, entered.what);
    } else {
        pass::withdraw(entered.slot, entered.before);
    }
}

/// The first gate that is closed for this call. Device memory is one: whichever card a call names,
/// it may touch the memory of any. `launch`: on one card, or (`Some(None)`) on any.
fn look(process: &Process, page: &BrokerPage, launch: Option<Option<Slot>>) -> Option<Closed> {
    if wait::is_ending() {
        return None;
    }
    let gate = |slot: Slot| page.gpus.get(usize::from(slot.0));
    let shut = |slot: &Slot| gate(*slot).is_some_and(|gpu| !pass::is_open(&gpu.residency_gate));
    if let Some(slot) = process.slots().iter().copied().find(shut) {
        return Some(Closed { slot, lease: false });
    }
    // A broker that has just come may not know that memory is away.
    if process.swap.is_away() {
        let away = |slot: &Slot| process.swap.backing().swapped_bytes(*slot) > 0;
        let slot =
            process.slots().iter().copied().find(away).or_else(|| process.slots().first().copied());
        return slot.map(|slot| Closed { slot, lease: false });
    }
    let shut = |slot: &Slot| gate(*slot).is_some_and(|gpu| !pass::is_open(&gpu.lease_gate));
    let slot = match launch? {
        Some(slot) => Some(slot).filter(shut),
        None => process.slots().iter().copied().find(shut),
    }?;
    (!is_deserted(page)).then_some(Closed { slot, lease: true })
}

/// Whether the broker has gone, or does not run.
fn is_deserted(page: &BrokerPage) -> bool {
    wait::now_ns() > page.alive_until_ns.load(Ordering::Relaxed).saturating_add(DESERTED_NS)
}

/// Sleeps at a gate until it opens, or for a while.
fn sleep_at(process: &Process, page: &BrokerPage, closed: Closed) {
    let _whole = Uncancelled::begin();
    let slot = usize::from(closed.slot.0);
    let (Some(gpu), Some(card)) = (page.gpus.get(slot), process.gates.card(closed.slot)) else {
        return;
    };
    let gate = if closed.lease { &gpu.lease_gate } else { &gpu.residency_gate };
    if closed.lease {
        card.waiting.fetch_add(1, Ordering::Relaxed);
        want(process, gpu, card, closed.slot);
    } else {
        want_memory(process, gpu, card, closed.slot);
        if pass::is_open(gate) && process.swap.is_away() {
            std::thread::sleep(AWAY);
        }
    }
    let seen = gate.load(Ordering::Acquire);
    if seen != pass::OPEN && !wait::is_ending() {
        label::gate_waiting();
        wait::while_equal(gate, seen, LOOK);
    }
    if closed.lease {
        card.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells the broker that a thread waits, once for each lease number.
fn want(process: &Process, gpu: &BrokerGpu, card: &Card, slot: Slot) {
    let lease = gpu.lease.load(Ordering::Acquire);
    let said = card.wanted.swap(u64::from(lease) + 1, Ordering::Relaxed);
    if said == u64::from(lease) + 1 {
        return;
    }
    // A broker that does not read must not hold the program up.
    if process.line.send_now(&ToBroker::Want { gpu: slot.0, lease }.encode()).is_err() {
        card.wanted.store(0, Ordering::Relaxed);
    }
    label::want_sent();
}

/// Tells the broker that a thread waits for memory, once for each residency number.
fn want_memory(process: &Process, gpu: &BrokerGpu, card: &Card, slot: Slot) {
    let residency = gpu.residency.load(Ordering::Acquire);
    let said = card.memory_wanted.swap(u64::from(residency) + 1, Ordering::Relaxed);
    if said == u64::from(residency) + 1 {
        return;
    }
    // A broker that does not read must not hold the program up.
    if process.line.send_now(&ToBroker::WantMemory { gpu: slot.0, residency }.encode()).is_err() {
        card.memory_wanted.store(0, Ordering::Relaxed);
    }
    label::want_memory_sent();
}

/// Under a bound somebody wants to know when the launches end: our thread looks.
fn tell_of_launch(process: &Process, page: &BrokerPage, card: Option<Slot>) {
    for slot in process.slots().iter().filter(|slot| card.is_none_or(|card| card == **slot)) {
        let (Some(gpu), Some(card)) =
            (page.gpus.get(usize::from(slot.0)), process.gates.card(*slot))
        else {
            continue;
        };
        if gpu.bound_ns.load(Ordering::Relaxed) == 0 {
            continue;
        }
        card.launches.fetch_add(1, Ordering::Relaxed);
        let lease = u64::from(gpu.lease.load(Ordering::Relaxed)) + 1;
        if card.rung.load(Ordering::Relaxed) != lease {
            card.rung.store(lease, Ordering::Relaxed);
            process.gates.bell.ring();
        }
    }
}

/// Brings what this thread has at hand up to date.
pub(crate) fn refresh(process: &Process, here: &Here) {
    let epoch = life::epoch();
    if !here.is_known(epoch) {
        let pages = process.pages();
        let (slot, shares) = claim(&pages.client.slots);
        let only = match process.slots() {
            // While memory is away nobody passes quickly.
            _ if process.swap.is_away() => None,
            [slot] => pages.broker.gpus.get(usize::from(slot.0)),
            _ => None,
        };
        here.learn(epoch, slot, shares, pages.broker, only);
    }
    if here.context().is_none() {
        here.set_context(current(process));
    }
    here.reopen(epoch);
}

/// A slot for this thread: the one it had, a fresh one, one whose thread has ended, or the one that
/// all others share.
fn claim(slots: &'static [AnnounceSlot; SLOTS]) -> (&'static AtomicU32, bool) {
    let own = wait::own_tid();
    let [single @ .., shared] = slots;
    let tid = |slot: &AnnounceSlot| slot.tid.load(Ordering::Relaxed);
    let mine = single.iter().find(|slot| tid(slot) == own);
    let take = |slot: &&AnnounceSlot, from: u32| {
        slot.tid.compare_exchange(from, own, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    let found =
        mine.or_else(|| single.iter().find(|slot| tid(slot) == 0 && take(slot, 0))).or_else(|| {
            single.iter().find(|slot| {
                let tid = tid(slot);
                !wait::is_alive(tid) && take(slot, tid)
            })
        });
    match found {
        Some(slot) => {
            if mine.is_none() {
                // What its last thread died in is over.
                slot.announced.store(0, Ordering::Relaxed);
            }
            (&slot.announced, false)
        }
        None => (&shared.announced, true),
    }
}

/// The context that is current on this thread.
fn current(process: &Process) -> Option<&'static Context> {
    let mut handle = CUcontext(0);
    // SAFETY: a writable handle.
    let code = unsafe { bare::cuCtxGetCurrent(&raw mut handle) };
    if !code.is_ok() || handle.0 == 0 {
        return None;
    }
    if let Some(known) = process.gates.contexts.find(handle) {
        return Some(known);
    }
    let (handle, slot) = hooks::current(process)?;
    Some(process.gates.contexts.learn(handle, slot))
}

/// The context of a stream, as this thread means it.
pub(crate) fn context_of(
    process: &Process,
    here: &Here,
    stream: usize,
) -> Option<&'static Context> {
    if stream == LEGACY || stream == PER_THREAD {
        if here.context().is_none() {
            here.set_context(current(process));
        }
        return here.context();
    }
    if let Some(known) = here.context_of(stream) {
        return Some(known);
    }
    let mut handle = CUcontext(0);
    // SAFETY: a writable handle; the stream is the caller's.
    let code = unsafe { bare::cuStreamGetCtx(CUstream(stream), &raw mut handle) };
    if !code.is_ok() || handle.0 == 0 {
        return None;
    }
    let contexts = &process.gates.contexts;
    let context = match contexts.find(handle) {
        Some(known) => known,
        None => contexts.learn(handle, slot_of(process, handle, stream)?),
    };
    here.set_context_of(stream, context);
    Some(context)
}

/// The card of a context that nobody has learnt yet.
fn slot_of(process: &Process, handle: CUcontext, stream: usize) -> Option<Slot> {
    if let [only] = process.slots() {
        return Some(*only);
    }
    if let Some(slot) = process.books().slot_of(handle) {
        return Some(slot);
    }
    let mut device = 0;
    // SAFETY: a writable device; the stream is the caller's. (Absent before 12.8: an error.)
    let code = unsafe { bare::cuStreamGetDevice(CUstream(stream), &raw mut device) };
    if code.is_ok() { process.slot_of(device) } else { None }
}

/// The card that a launch is for; `None` if that can't be told.
fn card_of(process: &Process, here: &Here, facts: &Facts) -> Option<Slot> {
    match process.slots() {
        [only] => Some(*only),
        // A launch that names no stream of its own may be for several cards.
        _ if facts.function == 0 && facts.graph == 0 => None,
        _ => context_of(process, here, facts.stream).map(Context::slot),
    }
}

/// Whether a stream is captured now. The legacy stream can't be, and must not be asked about while
/// another is.
pub(crate) fn is_capturing(stream: usize) -> bool {
    let mut status: c_uint = 0;
    if stream == LEGACY {
        return false;
    }
    // SAFETY: a writable status; the stream is the caller's.
    let code = unsafe { bare::cuStreamIsCapturing(CUstream(stream), &raw mut status) };
    code.is_ok() && status != 0
}

/// A graph that could be launched is gone, or (0) functions are.
pub(crate) fn forgotten(graph: usize, call: impl FnOnce() -> CUresult) -> CUresult {
    let code = call();
    if let Some(process) = life::joined().filter(|_| code.is_ok()) {
        for card in &process.gates.cards {
            match graph {
                0 => card.meter.forget_functions(),
                _ => card.meter.forget_graph(graph),
            }
        }
    }
    code
}

/// Whether the driver has `cuCtxRecordEvent` (r555).
pub(crate) fn has_context_events() -> bool {
    real::has(shim_cuda_headers::DriverFn::cuCtxRecordEvent)
}
