//! Memory that has an address of its own and is charged as asked for: linear, pitched, managed; and
//! the order of things, which arrays share.
//!
//! An allocation, in the order things happen:
//!
//! ```text
//!   charge          before the driver is asked, so that the sum never passes the limit
//!   the driver      refuses: the charge is given back and its code passed on
//!   enter           the books have the address (or handle)
//! ```
//!
//! And a free: taken out of the books, then the driver, then released; back into the books if the
//! driver says no.

use std::ffi::c_uint;

use halfwarp_api::{UNIT_BYTES, units, wire::NoteKind};
use halfwarp_books::{Allocation, Home, Mark, Place, Slot, Within};
use halfwarp_label as label;
use shim_cuda_headers::{CUdeviceptr, CUdeviceptr_v1, CUpointer_attribute, CUresult, DriverFn};

use super::{context, current, joined, pool};
use crate::{backing, process::Process, real::call, sys::Errno};

/// The driver backs managed memory in pieces of this size.
const MANAGED_GRANULE_BYTES: u64 = 2 << 20;
/// Rows of pitched memory begin at multiples of this on every card so far; what the driver really
/// chose is charged afterwards.
const PITCH_BYTES: u64 = 512;
/// The driver refuses every other size of an element.
const ELEMENT_BYTES: &[c_uint] = &[4, 8, 16];

/// Charges `bytes`, lets the driver allocate, and enters what it gave. `made` returns the driver's
/// code and the address or handle.
pub(super) fn allocate(
    process: &Process,
    function: DriverFn,
    bytes: u64,
    make: impl FnOnce() -> (CUresult, Place),
) -> CUresult {
    let Some((current, slot)) = current(process) else { return make().0 };
    let Some(units) = units(bytes).filter(|n| *n > 0) else {
        if bytes == 0 {
            return make().0;
        }
        return refuse(process, function, slot, bytes);
    };
    // A context that the runtime made behind our back is charged when it is first seen here.
    if context::seen(process, slot).is_err() || pool::charge(process, slot, units).is_err() {
        return refuse(process, function, slot, bytes);
    }
    label::charge_done();
    let before = process.books().now();
    let (code, place) = make();
    label::driver_allocated();
    if code.is_ok() {
        let allocation = Allocation { slot, units, within: Within::Context(current) };
        enter(process, place, allocation, before);
        label::allocation_entered();
    } else {
        process.release(slot, units);
    }
    code
}

/// Enters what the driver allocated, unless its context has ended since `before` and took it along.
fn enter(process: &Process, place: Place, allocation: Allocation, mut before: Mark) {
    loop {
        let mut books = process.books();
        if !books.has_ended_since(allocation.within, before) {
            let freed = books.enter(place, allocation);
            drop(books);
            process.note_unmovable();
            return context::release_all(process, freed);
        }
        before = books.now();
        drop(books);
        if !is_allocated(place) {
            return process.release(allocation.slot, allocation.units);
        }
    }
}

/// Whether the driver knows of memory at an address, whatever is current on this thread. An array's
/// handle can't be asked about once it may be gone: it counts as there, so that no byte goes uncounted.
pub(super) fn is_allocated(place: Place) -> bool {
    const MEMORY_TYPE: CUpointer_attribute = 2;
    let Place::Address(address) = place else { return true };
    let mut kind: c_uint = 0;
    // SAFETY: a writable value of the attribute's type.
    let code = unsafe { call::cuPointerGetAttribute((&raw mut kind).cast(), MEMORY_TYPE, address) };
    code != CUresult::INVALID_VALUE
}

/// Out of memory, with a note for the broker's event log.
pub(super) fn refuse(process: &Process, function: DriverFn, slot: Slot, bytes: u64) -> CUresult {
    process.note(NoteKind::OutOfMemory, slot, bytes, function as u64);
    CUresult::OUT_OF_MEMORY
}

/// Takes `place` out of the books, lets the driver free it, and releases its charge.
pub(super) fn free(
    process: &Process,
    place: impl Into<Place>,
    give: impl FnOnce() -> CUresult,
) -> CUresult {
    let place = place.into();
    let taken = process.books().take(place);
    label::free_taken();
    let code = give();
    process.note_unmovable();
    label::driver_freed();
    if let Some(entry) = taken {
        if code.is_ok() {
            if let Within::Pool(pool) = entry.allocation.within {
                let freed = process.books().pools.let_go(pool);
                context::release_all(process, freed);
            } else {
                process.release(entry.allocation.slot, entry.allocation.units);
            }
            label::free_released();
        } else {
            let freed = process.books().restore(place, entry);
            context::release_all(process, freed);
        }
    }
    code
}

/// Reads an address or handle that the driver has just written.
///
/// # Safety
/// `at` is the output that was passed to a call which succeeded.
pub(super) unsafe fn written<T: Into<Place>>(code: CUresult, at: *const T) -> (CUresult, Place) {
    if !code.is_ok() {
        return (code, Place::Address(0));
    }
    // SAFETY: the driver succeeded, so it has written here.
    (code, unsafe { at.read() }.into())
}

/// Allocates where memory is to be made so that it can be moved; `None` where the driver allocates.
fn movable(
    process: &Process,
    function: DriverFn,
    bytes: u64,
) -> Option<Result<CUdeviceptr, CUresult>> {
    let home = backing::home(process).filter(|_| bytes > 0)?;
    movable_in(process, function, home, bytes)
}

fn movable_in(
    process: &Process,
    function: DriverFn,
    home: Home,
    bytes: u64,
) -> Option<Result<CUdeviceptr, CUresult>> {
    let made = context::seen(process, home.slot)
        .and_then(|()| backing::allocate(process, home, bytes))
        .or_else(|code| match code {
            // Pools may have shrunk, and what was freed behind work may be there again.
            CUresult::OUT_OF_MEMORY
                if pool::settle_all(process, Some(home.slot)) || process.swap.is_freed_later() =>
            {
                process.wait_for_later();
                backing::allocate(process, home, bytes)
            }
            code => Err(code),
        });
    Some(made.map_err(|code| match code {
        CUresult::OUT_OF_MEMORY => refuse(process, function, home.slot, bytes),
        code => code,
    }))
}

/// Answers with an address.
///
/// # Safety
/// `out` is writable.
unsafe fn put<T>(out: *mut T, value: T) -> CUresult {
    // SAFETY: as the caller says.
    unsafe { out.write(value) };
    CUresult::SUCCESS
}

pub(crate) unsafe extern "C" fn cuMemAlloc_v2(out: *mut CUdeviceptr, bytes: usize) -> CUresult {
    let make = || {
        // SAFETY: the arguments are the caller's, passed on unchanged.
        let code = unsafe { call::cuMemAlloc_v2(out, bytes) };
        // SAFETY: the output just passed.
        unsafe { written(code, out) }
    };
    let process = joined!(make().0);
    let _errno = Errno::keep();
    if out.is_null() {
        return make().0;
    }
    if let Some(answer) = movable(process, DriverFn::cuMemAlloc_v2, bytes as u64) {
        // SAFETY: the caller's output, which is not null.
        return answer.map_or_else(|code| code, |at| unsafe { put(out, at) });
    }
    allocate(process, DriverFn::cuMemAlloc_v2, bytes as u64, make)
}

pub(crate) unsafe extern "C" fn cuMemAlloc(out: *mut CUdeviceptr_v1, bytes: c_uint) -> CUresult {
    let make = || {
        // SAFETY: the arguments are the caller's, passed on unchanged.
        let code = unsafe { call::cuMemAlloc(out, bytes) };
        // SAFETY: the output just passed.
        unsafe { written(code, out) }
    };
    let process = joined!(make().0);
    let _errno = Errno::keep();
    if out.is_null() {
        return make().0;
    }
    allocate(process, DriverFn::cuMemAlloc, bytes.into(), make)
}

pub(crate) unsafe extern "C" fn cuMemAllocManaged(
    out: *mut CUdeviceptr,
    bytes: usize,
    flags: c_uint,
) -> CUresult {
    let make = || {
        // SAFETY: the arguments are the caller's, passed on unchanged.
        let code = unsafe { call::cuMemAllocManaged(out, bytes, flags) };
        // SAFETY: the output just passed.
        unsafe { written(code, out) }
    };
    let process = joined!(make().0);
    let _errno = Errno::keep();
    if out.is_null() {
        return make().0;
    }
    let whole =
        (bytes as u64).div_ceil(MANAGED_GRANULE_BYTES).saturating_mul(MANAGED_GRANULE_BYTES);
    allocate(process, DriverFn::cuMemAllocManaged, whole, make)
}

pub(crate) unsafe extern "C" fn cuMemAllocPitch_v2(
    out: *mut CUdeviceptr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: c_uint,
) -> CUresult {
    let make = || {
        // SAFETY: the arguments are the caller's, passed on unchanged.
        let code = unsafe { call::cuMemAllocPitch_v2(out, pitch, width, height, element) };
        // SAFETY: the output just passed.
        unsafe { written(code, out) }
    };
    let process = joined!(make().0);
    let _errno = Errno::keep();
    if out.is_null() || pitch.is_null() {
        return make().0;
    }
    let row = (width as u64).div_ceil(PITCH_BYTES).saturating_mul(PITCH_BYTES);
    let guess = row.saturating_mul(height as u64);
    let function = DriverFn::cuMemAllocPitch_v2;
    let asked = if ELEMENT_BYTES.contains(&element) { guess } else { 0 };
    if let Some(answer) = movable(process, function, asked) {
        let Ok(address) = answer else { return answer.err().unwrap_or(CUresult::UNKNOWN) };
        // SAFETY: the caller's output, which is not null.
        unsafe { pitch.write(row as usize) };
        // SAFETY: as above.
        return unsafe { put(out, address) };
    }
    let code = allocate(process, function, guess, make);
    if !code.is_ok() {
        return code;
    }
    // SAFETY: the driver succeeded, so it has written both.
    let (address, chosen) = unsafe { (out.read(), pitch.read()) };
    let real = (chosen as u64).saturating_mul(height as u64);
    match recharge(process, address, real) {
        Ok(()) => code,
        Err(slot) => {
            // SAFETY: an allocation that the driver has just made and the program has not seen.
            free(process, address, || unsafe { call::cuMemFree_v2(address) });
            refuse(process, function, slot, real)
        }
    }
}

/// Corrects the charge of a fresh allocation to what the driver really took.
fn recharge(process: &Process, at: CUdeviceptr, bytes: u64) -> Result<(), Slot> {
    let at = Place::Address(at);
    let Some(mut entry) = process.books().take(at) else { return Ok(()) };
    let Allocation { slot, units: guess, .. } = entry.allocation;
    let real = units(bytes).unwrap_or(u32::MAX);
    let more = real.saturating_sub(guess);
    let fits = more == 0 || pool::charge(process, slot, more).is_ok();
    process.release(slot, guess.saturating_sub(real));
    entry.allocation.units = if fits { real } else { guess };
    let freed = process.books().restore(at, entry);
    context::release_all(process, freed);
    if fits { Ok(()) } else { Err(slot) }
}

pub(crate) unsafe extern "C" fn cuMemAllocPitch(
    out: *mut CUdeviceptr_v1,
    pitch: *mut c_uint,
    width: c_uint,
    height: c_uint,
    element: c_uint,
) -> CUresult {
    let make = || {
        // SAFETY: the arguments are the caller's, passed on unchanged.
        let code = unsafe { call::cuMemAllocPitch(out, pitch, width, height, element) };
        // SAFETY: the output just passed.
        unsafe { written(code, out) }
    };
    let process = joined!(make().0);
    let _errno = Errno::keep();
    if out.is_null() || pitch.is_null() {
        return make().0;
    }
    let row = u64::from(width).div_ceil(PITCH_BYTES) * PITCH_BYTES;
    let bytes = row.saturating_mul(height.into());
    allocate(process, DriverFn::cuMemAllocPitch, bytes, make)
}

pub(crate) unsafe extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> CUresult {
    // SAFETY: the argument is the caller's, passed on unchanged.
    let give = || unsafe { call::cuMemFree_v2(address) };
    let process = joined!(give());
    let _errno = Errno::keep();
    let code = backing::free(process, address).unwrap_or_else(|| free(process, address, give));
    // It may have waited for the card.
    pool::settle_all(process, None);
    code
}

pub(crate) unsafe extern "C" fn cuMemFree(address: CUdeviceptr_v1) -> CUresult {
    // SAFETY: the argument is the caller's, passed on unchanged.
    let give = || unsafe { call::cuMemFree(address) };
    let process = joined!(give());
    let _errno = Errno::keep();
    let code =
        backing::free(process, address.into()).unwrap_or_else(|| free(process, address, give));
    // It may have waited for the card.
    pool::settle_all(process, None);
    code
}

const _: () = assert!(UNIT_BYTES == 512 && PITCH_BYTES.is_multiple_of(UNIT_BYTES));
