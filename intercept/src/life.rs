//! What a fork leaves of us. The pointer to everything this process knows lives in one private page
//! that the kernel wipes in a forked child: the child reads "not joined" without any handler having
//! run, and joins afresh at its own `cuInit`. Nothing of the parent's is freed or unlocked there.

use std::{
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering},
    },
};

use crate::{process::Process, sys};

/// What a forked child reads as nothing.
#[repr(C)]
struct Page {
    joined: AtomicPtr<Process>,
    /// A thread is joining.
    joining: AtomicBool,
    /// What threads know at hand is right while this stands; 0 before a join and in a forked child.
    epoch: AtomicU64,
}

/// The page's address never changes; its content is wiped by a fork.
struct Wiped(*const Page);

// SAFETY: the page is never unmapped and its content is atomics.
unsafe impl Send for Wiped {}
// SAFETY: as above.
unsafe impl Sync for Wiped {}

static PAGE: OnceLock<Option<Wiped>> = OnceLock::new();
/// The page once more, for those who come on every launch; before it is made, one that says nothing.
static AT_HAND: AtomicPtr<Page> = AtomicPtr::new((&raw const NOTHING).cast_mut());
static NOTHING: Page = Page {
    joined: AtomicPtr::new(ptr::null_mut()),
    joining: AtomicBool::new(false),
    epoch: AtomicU64::new(0),
};
/// A forked child goes on counting, so that no epoch of its parent's is one of its own.
static LAST_EPOCH: AtomicU64 = AtomicU64::new(0);

fn page() -> Option<&'static Page> {
    let wiped = PAGE
        .get_or_init(|| sys::page_wiped_on_fork(4096).map(|page| Wiped(page.cast_const().cast())));
    // SAFETY: a live page of ours, zero-filled (null and false) when made or wiped.
    wiped.as_ref().map(|w| unsafe { &*w.0 })
}

/// Makes the page. Called when stage one asks for the driver, before threads of ours exist; false
/// where the kernel cannot wipe a page on fork (before 4.14).
pub(crate) fn prepare() -> bool {
    let Some(page) = page() else { return false };
    AT_HAND.store(ptr::from_ref(page).cast_mut(), Ordering::Release);
    true
}

/// The epoch of what threads know at hand.
#[inline(always)]
pub(crate) fn epoch() -> u64 {
    // SAFETY: `NOTHING` or the page, both there for ever and never written but as atomics.
    let page = unsafe { &*AT_HAND.load(Ordering::Relaxed) };
    // PAIRS(epoch): acquires what `begin_epoch` released.
    page.epoch.load(Ordering::Acquire)
}

/// Something has changed that threads have copies of: they look again.
pub(crate) fn begin_epoch() {
    if let Some(page) = page() {
        // PAIRS(epoch): releases what changed.
        page.epoch.store(LAST_EPOCH.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// What this process knows since it joined, or `None` before that and in a forked child.
#[inline]
pub(crate) fn joined() -> Option<&'static Process> {
    // PAIRS(joined): acquires what `set_joined` released.
    let process = page()?.joined.load(Ordering::Acquire);
    // SAFETY: null, or a leaked `Process` that is never freed.
    unsafe { process.as_ref() }
}

/// Whether this thread is to join: one at a time, and none once the process has joined.
pub(crate) fn begin_join() -> bool {
    page().is_some_and(|page| !page.joining.swap(true, Ordering::Acquire))
}

/// That thread is done, and has published what it learnt if it joined.
pub(crate) fn end_join() {
    if let Some(page) = page() {
        page.joining.store(false, Ordering::Release);
    }
}

/// Publishes what was learnt by joining; kept for ever.
pub(crate) fn set_joined(process: &'static Process) {
    if let Some(page) = page() {
        // PAIRS(joined): releases the process to every thread.
        page.joined.store(ptr::from_ref(process).cast_mut(), Ordering::Release);
        begin_epoch();
    }
}
