//! Pages of this process that stand for device memory: reserving addresses, putting memory behind
//! them, moving it, taking it away.
//!
//! Memory that only this process sees is a private copy-on-write mapping of the machine's pattern
//! file, repeated as often as needed: it costs nothing until written and is never anybody else's.
//! No page is inherited by a forked child, as on a card.
#![allow(unsafe_code, reason = "mapping memory at chosen addresses")]

use rustix::io::Result;
use rustix::mm::{
    Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap, mmap_anonymous, mremap_fixed, munmap,
};
use simcuda_protocol::PATTERN_FILE_BYTES;
use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Reserves addresses with nothing behind them; a multiple of `align`, at `hint` if that is free.
pub(crate) fn reserve(bytes: u64, align: u64, hint: u64) -> Result<u64> {
    let wanted = bytes + align;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at a place of the kernel's choice touches no memory in use; without
    // MAP_FIXED the hint is only a hint.
    let start =
        unsafe { mmap_anonymous(pointer(hint), wanted as usize, ProtFlags::empty(), flags)? };
    let start = start as u64;
    let base = start.next_multiple_of(align);
    release(start, base - start)?;
    release(base + bytes, start + wanted - base - bytes)?;
    Ok(base)
}

/// Gives addresses back to the system, with whatever is behind them.
pub(crate) fn release(base: u64, bytes: u64) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the range was reserved by `reserve` and its owner gives it up; commands that were
    // under way have left it (`Space::settle`).
    unsafe { munmap(pointer(base), bytes as usize) }
}

/// Puts fresh private memory behind reserved addresses.
pub(crate) fn fill_private(base: u64, bytes: u64, pattern: BorrowedFd<'_>) -> Result<()> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    for (at, length) in pieces(base, bytes) {
        // SAFETY: the range lies in a reservation of ours that nothing uses.
        unsafe {
            mmap(
                pointer(at),
                length as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
                pattern,
                0,
            )?
        };
    }
    keep_from_children(base, bytes)
}

/// Puts shared memory behind reserved addresses.
pub(crate) fn fill_shared(base: u64, bytes: u64, memory: BorrowedFd<'_>) -> Result<()> {
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: the range lies in a reservation of ours that nothing uses.
    unsafe {
        mmap(pointer(base), bytes as usize, ProtFlags::READ | ProtFlags::WRITE, flags, memory, 0)?
    };
    keep_from_children(base, bytes)
}

/// Leaves the addresses reserved and takes away what is behind them.
pub(crate) fn empty(base: u64, bytes: u64) -> Result<()> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: the range is a mapping of ours whose owner gives it up (as in `release`).
    unsafe { mmap_anonymous(pointer(base), bytes as usize, ProtFlags::empty(), flags)? };
    Ok(())
}

/// Moves private memory from one reservation to another, contents included; what is left behind
/// is reserved and empty.
pub(crate) fn move_private(from: u64, to: u64, bytes: u64) -> Result<()> {
    for (at, length) in pieces(from, bytes) {
        let target = to + (at - from);
        // SAFETY: both ranges are reservations of ours and stay so (the source is not unmapped, or
        // another thread could be given its addresses); the target holds nothing in use, and
        // commands have left the source.
        unsafe {
            mremap_fixed(
                pointer(at),
                length as usize,
                length as usize,
                MremapFlags::MAYMOVE | MremapFlags::DONTUNMAP,
                pointer(target),
            )?
        };
    }
    empty(from, bytes)
}

/// The pieces in which private memory is mapped: each is one mapping, which can be moved whole.
fn pieces(base: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..bytes)
        .step_by(PATTERN_FILE_BYTES as usize)
        .map(move |offset| (base + offset, (bytes - offset).min(PATTERN_FILE_BYTES)))
}

fn keep_from_children(base: u64, bytes: u64) -> Result<()> {
    // SAFETY: the advice changes what a fork copies, not what this process sees.
    unsafe { madvise(pointer(base), bytes as usize, Advice::LinuxDontFork) }
}

/// Copies between addresses of this process; ranges may overlap.
pub(crate) fn copy(to: u64, from: u64, bytes: u64) {
    // SAFETY: each side is either device memory that was checked to be mapped and stays so until
    // the command leaves it, or host memory that the program's contract promises until then.
    unsafe { std::ptr::copy(pointer(from).cast::<u8>(), pointer(to).cast::<u8>(), bytes as usize) };
}

/// Fills with a repeated element of 1, 2 or 4 bytes.
pub(crate) fn fill(to: u64, element: &[u8], count: u64) {
    if let [byte] = element {
        // SAFETY: checked to be mapped for `count` bytes, as in `copy`.
        unsafe { std::ptr::write_bytes(pointer(to).cast::<u8>(), *byte, count as usize) };
        return;
    }
    for index in 0..count {
        let at = to + index * element.len() as u64;
        // SAFETY: checked to be mapped for `count` elements, as in `copy`.
        unsafe {
            std::ptr::copy_nonoverlapping(element.as_ptr(), pointer(at).cast::<u8>(), element.len())
        };
    }
}

/// A word of 4 or 8 bytes as it is now, however the program's threads change it.
pub(crate) fn load(address: u64, bytes: u32) -> u64 {
    if bytes == 4 {
        // SAFETY: checked to be mapped, as in `copy`; the driver demands that it is aligned.
        return u64::from(
            unsafe { AtomicU32::from_ptr(pointer(address).cast()) }.load(Ordering::SeqCst),
        );
    }
    // SAFETY: as above.
    unsafe { AtomicU64::from_ptr(pointer(address).cast()) }.load(Ordering::SeqCst)
}

/// Stores a word of 4 or 8 bytes at once.
pub(crate) fn store(address: u64, bytes: u32, value: u64) {
    if bytes == 4 {
        // SAFETY: checked to be mapped, as in `copy`; the driver demands that it is aligned.
        unsafe { AtomicU32::from_ptr(pointer(address).cast()) }
            .store(value as u32, Ordering::SeqCst);
    } else {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(pointer(address).cast()) }.store(value, Ordering::SeqCst);
    }
}

/// Memory of the host for the program, zero as the system gives it.
pub(crate) fn host(bytes: u64) -> Result<u64> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at a place of the kernel's choice touches no memory in use.
    let start =
        unsafe { mmap_anonymous(std::ptr::null_mut(), bytes as usize, access, MapFlags::PRIVATE)? };
    Ok(start as u64)
}
