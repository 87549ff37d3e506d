//! What each thread of the program knows at hand, so that passing an open gate costs a few loads: a
//! block of bytes that stage one keeps in every thread, at one distance from the thread's pointer.
//! Zero in a new thread.
//!
//! All of it is a copy of something that may change (a re-join brings other pages, a context ends, a
//! fork wipes everything), so it carries the epoch it was copied in, inverted: a new thread's zero
//! then stands for no epoch, and nor does the zero that a forked child finds in the wiped page.

use std::{
    cell::Cell,
    ptr::null,
    sync::atomic::{AtomicIsize, AtomicU32, Ordering},
};

use halfwarp_api::shm::{BrokerGpu, BrokerPage};
use halfwarp_gate::stage::THREAD_BYTES;
use shim_cuda_headers::CUcontext;

use crate::contexts::Context;

/// One thread's block.
#[repr(C)]
pub(crate) struct Here {
    /// The epoch, inverted, in which `slot` and `only` are right and enough for an open gate.
    quick: Cell<u64>,
    /// This thread's announcement.
    slot: Cell<*const AtomicU32>,
    /// The words about the only card of this process.
    only: Cell<*const BrokerGpu>,
    /// The epoch, inverted, in which the rest is right.
    known: Cell<u64>,
    page: Cell<*const BrokerPage>,
    /// This thread found no slot of its own: `slot` is the one that all such threads share.
    shares: Cell<bool>,
    /// The current context, or null where it must be asked for.
    context: Cell<*const Context>,
    /// The last stream that was asked about, and its context.
    stream: Cell<usize>,
    stream_context: Cell<*const Context>,
}

const _: () = assert!(size_of::<Here>() <= THREAD_BYTES);

static DISTANCE: AtomicIsize = AtomicIsize::new(0);

/// Takes the distance that stage one gives.
pub(crate) fn adopt(distance: isize) {
    DISTANCE.store(distance, Ordering::Relaxed);
}

/// This thread's block.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn here() -> &'static Here {
    let pointer: *const u8;
    // SAFETY: on x86-64 the first word at a thread's pointer is that pointer itself.
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
    }
    let block = pointer.wrapping_offset(DISTANCE.load(Ordering::Relaxed));
    // SAFETY: stage one's bytes in this thread, aligned, zeroed at its start, there while it runs;
    // zero is valid for every field, and no other thread reaches them.
    unsafe { &*block.cast::<Here>() }
}

impl Here {
    /// The slot and the only card's words, if they are right in this epoch and all there is to know.
    #[inline(always)]
    pub(crate) fn quick(&self, epoch: u64) -> Option<(&'static AtomicU32, &'static BrokerGpu)> {
        if self.quick.get() != !epoch {
            return None;
        }
        // SAFETY: set together with the epoch, to words in pages that are never unmapped.
        Some(unsafe { (&*self.slot.get(), &*self.only.get()) })
    }

    pub(crate) fn is_known(&self, epoch: u64) -> bool {
        self.known.get() == !epoch
    }

    /// Takes what is right in `epoch`. `only`: the one card of a process that sees no other.
    pub(crate) fn learn(
        &self,
        epoch: u64,
        slot: &'static AtomicU32,
        shares: bool,
        page: &'static BrokerPage,
        only: Option<&'static BrokerGpu>,
    ) {
        self.slot.set(slot);
        self.shares.set(shares);
        self.page.set(page);
        self.only.set(only.map_or(null(), |words| words));
        self.context.set(null());
        self.stream.set(0);
        self.known.set(!epoch);
        self.quick.set(if shares || only.is_none() { 0 } else { !epoch });
    }

    /// The announcement's word and whether it is shared; after [`Self::learn`].
    pub(crate) fn slot(&self) -> (&'static AtomicU32, bool) {
        // SAFETY: `learn` has set it, to a word in a page that is never unmapped.
        (unsafe { &*self.slot.get() }, self.shares.get())
    }

    /// The broker's page; after [`Self::learn`].
    pub(crate) fn page(&self) -> &'static BrokerPage {
        // SAFETY: as above.
        unsafe { &*self.page.get() }
    }

    /// The current context, where it is known.
    pub(crate) fn context(&self) -> Option<&'static Context> {
        // SAFETY: null, or a `Context`, none of which is ever freed.
        unsafe { self.context.get().as_ref() }
    }

    pub(crate) fn set_context(&self, context: Option<&'static Context>) {
        self.context.set(context.map_or(null(), |context| context));
    }

    /// The program has changed this thread's current context: the next gated call looks again.
    pub(crate) fn forget_context(&self) {
        self.context.set(null());
        self.quick.set(0);
    }

    /// The program makes `next` current: nothing changes if it is already.
    pub(crate) fn context_changes(&self, next: CUcontext) {
        if self.context().is_none_or(|context| context.handle() != next) {
            self.forget_context();
        }
    }

    /// The context of a stream, if it was the last that was asked about.
    pub(crate) fn context_of(&self, stream: usize) -> Option<&'static Context> {
        let is_it = self.stream.get() == stream && stream != 0;
        // SAFETY: as in `context`.
        if is_it { unsafe { self.stream_context.get().as_ref() } } else { None }
    }

    pub(crate) fn set_context_of(&self, stream: usize, context: &'static Context) {
        self.stream.set(stream);
        self.stream_context.set(context);
    }

    /// The quick way is open again, as far as `learn` found one.
    pub(crate) fn reopen(&self, epoch: u64) {
        if !self.shares.get() && !self.only.get().is_null() {
            self.quick.set(!epoch);
        }
    }
}
