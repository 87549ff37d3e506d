//! What a fork leaves of us. The pointer to everything this process knows lives in one private page
//! that the kernel wipes in a forked child: the child reads "not joined" without any handler having
//! run, and joins afresh at its own `cuInit`. Nothing of the parent's is freed or unlocked there.

use std::{
    ptr::null_mut,
    sync::{
        OnceLock,
        atomic::{AtomicPtr, Ordering},
    },
};

use crate::{process::Process, sys};

/// The page's address never changes; its content is wiped by a fork.
struct Wiped(*const AtomicPtr<Process>);

// SAFETY: the page is never unmapped and its content is an atomic.
unsafe impl Send for Wiped {}
// SAFETY: as above.
unsafe impl Sync for Wiped {}

static PAGE: OnceLock<Option<Wiped>> = OnceLock::new();

fn page() -> Option<&'static AtomicPtr<Process>> {
    let wiped = PAGE
        .get_or_init(|| sys::page_wiped_on_fork(4096).map(|page| Wiped(page.cast_const().cast())));
    // SAFETY: a live page of ours, zero-filled (a null pointer) when made or wiped.
    wiped.as_ref().map(|w| unsafe { &*w.0 })
}

/// Makes the page. Called when stage one asks for the driver, before threads of ours exist; false
/// where the kernel cannot wipe a page on fork (before 4.14).
pub(crate) fn prepare() -> bool {
    page().is_some()
}

/// What this process knows since it joined, or `None` before that and in a forked child.
#[inline]
pub(crate) fn joined() -> Option<&'static Process> {
    // PAIRS(joined): acquires what `set_joined` released.
    let process = page()?.load(Ordering::Acquire);
    // SAFETY: null, or a leaked `Process` that is never freed.
    unsafe { process.as_ref() }
}

/// Publishes what was learnt by joining; kept for ever. If another thread was faster, its stays.
pub(crate) fn set_joined(process: Box<Process>) -> Option<&'static Process> {
    let new = Box::into_raw(process);
    // PAIRS(joined): releases the process to every thread.
    let set = page()?.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
    match set {
        // SAFETY: leaked just now, never freed.
        Ok(_) => unsafe { new.as_ref() },
        // SAFETY: the pointer that another thread leaked in the same way.
        Err(theirs) => unsafe { theirs.as_ref() },
    }
}
