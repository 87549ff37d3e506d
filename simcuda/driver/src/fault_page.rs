//! The page that the machine's server shares: one word of it says whether anything is to be asked.
//!
//! Its address is kept in an atomic; until there is a page, a word of our own stands in for it.
#![allow(unsafe_code, reason = "reading memory that the server writes")]

use rustix::fd::AsFd;
use rustix::mm::{MapFlags, ProtFlags};
use simcuda_protocol::control::Word;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

const PAGE_BYTES: usize = 4096;

/// 0, or what was found when the driver was loaded.
static OWN: AtomicU32 = AtomicU32::new(0);
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const OWN).cast_mut());

/// The word as it is now.
pub(crate) fn word() -> Word {
    let at = WORD.load(Ordering::Relaxed);
    // SAFETY: `at` is the static above or the start of a page that `map` has mapped for good; both
    // are readable and aligned for as long as this library is there.
    let word = unsafe { &*at };
    Word(word.load(Ordering::Relaxed))
}

/// Stands in for the page until it is mapped: calls must be asked about.
pub(crate) fn expect_faults() {
    OWN.store(Word::default().next(Word::CALLS).0, Ordering::Relaxed);
}

/// Maps the server's page, once; a second page would never be given back.
pub(crate) fn map(file: &impl AsFd) -> rustix::io::Result<()> {
    // SAFETY: a new mapping at an address that the kernel chooses disturbs nothing.
    let at = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            PAGE_BYTES,
            ProtFlags::READ,
            MapFlags::SHARED,
            file,
            0,
        )
    }?;
    WORD.store(at.cast(), Ordering::Relaxed);
    Ok(())
}

/// Whether there is a page.
pub(crate) fn is_mapped() -> bool {
    WORD.load(Ordering::Relaxed) != (&raw const OWN).cast_mut()
}
