//! The contexts that this process works in, learnt from the threads that use them: which card each is
//! on, whether calls of ours are allowed in it now, and what of ours lies in it.
//!
//! An entry is never freed, only used again for a later context: a thread may still hold a reference
//! to one that has ended. Whoever calls the driver for a context has begun with [`Bans::begin`], and
//! the end of a context bans first, so an entry's handle is a live context for as long as that call
//! takes. No lock is held across a call of the driver.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};

use halfwarp_books::Slot;
use halfwarp_gate::bans::Bans;
use shim_cuda_headers::{CUcontext, CUevent, CUstream};

use crate::{life, wait};

/// How long a capture or the end of a context waits for calls of ours, which are short.
const PATIENCE: Duration = Duration::from_secs(1);

/// Which capture: the stream it began on and, for a per-thread stream, whose.
pub(crate) type Origin = (usize, u32);

/// One context.
#[derive(Debug, Default)]
pub(crate) struct Context {
    handle: AtomicUsize,
    slot: AtomicU8,
    pub(crate) bans: Bans,
    own: Mutex<Own>,
}

/// What lies in a context.
#[derive(Debug, Default)]
struct Own {
    /// Events of ours that are not in use: those that only mark, and those that take the time.
    marks: Vec<CUevent>,
    timers: Vec<CUevent>,
    /// The program's streams that the legacy stream does not wait for.
    streams: Vec<CUstream>,
    captures: Vec<Origin>,
}

/// What an event is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Mark,
    Time,
}

impl Context {
    pub(crate) fn handle(&self) -> CUcontext {
        CUcontext(self.handle.load(Ordering::Relaxed))
    }

    pub(crate) fn slot(&self) -> Slot {
        Slot(self.slot.load(Ordering::Relaxed))
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event that lies ready.
    pub(crate) fn take_event(&self, what: Use) -> Option<CUevent> {
        let mut own = self.own();
        match what {
            Use::Mark => own.marks.pop(),
            Use::Time => own.timers.pop(),
        }
    }

    /// An event is not in use any more. One of a context that has ended is gone with it.
    pub(crate) fn give_event(&self, of: CUcontext, what: Use, event: CUevent) {
        let mut own = self.own();
        if self.handle() != of {
            return;
        }
        match what {
            Use::Mark => own.marks.push(event),
            Use::Time => own.timers.push(event),
        }
    }

    pub(crate) fn enter_stream(&self, stream: CUstream) {
        self.own().streams.push(stream);
    }

    pub(crate) fn leave_stream(&self, stream: CUstream) {
        self.own().streams.retain(|other| *other != stream);
    }

    /// The live streams that the legacy stream does not wait for.
    pub(crate) fn streams(&self) -> Vec<CUstream> {
        self.own().streams.clone()
    }

    /// No call of ours is under way, and none begins until [`Bans::lift`].
    pub(crate) fn ban(&self) {
        self.bans.ban();
        let until = wait::now_ns() + PATIENCE.as_nanos() as u64;
        while !self.bans.is_quiet() && wait::now_ns() < until {
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// A capture has begun; its ban stands until it ends.
    pub(crate) fn enter_capture(&self, origin: Origin) {
        self.own().captures.push(origin);
    }

    /// The capture that began there has ended. Whether there was one.
    pub(crate) fn leave_capture(&self, origin: Origin) -> bool {
        let mut own = self.own();
        let at = own.captures.iter().position(|other| *other == origin);
        if let Some(at) = at {
            own.captures.swap_remove(at);
            self.bans.lift();
        }
        at.is_some()
    }

    /// Captures on the per-thread streams of threads that have ended can't end any other way. How many
    /// there were.
    pub(crate) fn leave_captures_of_the_dead(&self) -> usize {
        let mut own = self.own();
        let before = own.captures.len();
        own.captures.retain(|(_, tid)| *tid == 0 || wait::is_alive(*tid));
        let gone = before - own.captures.len();
        (0..gone).for_each(|_| self.bans.lift());
        gone
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Contexts(Mutex<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    live: Vec<&'static Context>,
    spare: Vec<&'static Context>,
}

impl Contexts {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of a context, if it is known.
    pub(crate) fn find(&self, handle: CUcontext) -> Option<&'static Context> {
        self.shelf().live.iter().copied().find(|context| context.handle() == handle)
    }

    /// The entry of a context on a card, made now if it is not known.
    pub(crate) fn learn(&self, handle: CUcontext, slot: Slot) -> &'static Context {
        let mut shelf = self.shelf();
        if let Some(known) = shelf.live.iter().copied().find(|c| c.handle() == handle) {
            return known;
        }
        let context = shelf.spare.pop().unwrap_or_else(|| Box::leak(Box::default()));
        context.slot.store(slot.0, Ordering::Relaxed);
        context.handle.store(handle.0, Ordering::Relaxed);
        shelf.live.push(context);
        context
    }

    /// The contexts on a card.
    pub(crate) fn on(&self, slot: Slot) -> Vec<&'static Context> {
        self.shelf().live.iter().copied().filter(|context| context.slot() == slot).collect()
    }

    /// A context is about to end: no call of ours is in it from here on.
    pub(crate) fn begin_end(&self, handle: CUcontext) -> Option<&'static Context> {
        let context = self.find(handle)?;
        context.ban();
        Some(context)
    }

    /// It has ended, or has not. How many captures have ended with it.
    pub(crate) fn finish_end(&self, context: &'static Context, gone: bool) -> usize {
        let mut captures = 0;
        if gone {
            let mut shelf = self.shelf();
            shelf.live.retain(|other| !std::ptr::eq(*other, context));
            captures = {
                let mut own = context.own();
                context.handle.store(0, Ordering::Relaxed);
                std::mem::take(&mut *own).captures.len()
            };
            (0..captures).for_each(|_| context.bans.lift());
            shelf.spare.push(context);
            life::begin_epoch();
        }
        context.bans.lift();
        captures
    }
}
