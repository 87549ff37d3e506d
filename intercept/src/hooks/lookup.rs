//! `cuGetProcAddress`: the program gets the export of stage one for the very row that the driver
//! would have answered with, never a newer or older form of the name.
//!
//! Which row that is follows from the table (n-th version of the name, stream flag). Whether this
//! driver agrees is asked of the driver itself: its answer to the version *asked* must equal its
//! answer to the row's *own* version. If not, the driver knows a form that the table does not; it is
//! passed through and counted.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    sync::atomic::{AtomicUsize, Ordering},
};

use halfwarp_api::wire::NoteKind;
use halfwarp_books::Slot;
use shim_cuda_headers::{CUdriverProcAddressQueryResult, CUresult, DriverFn};

use crate::{
    life,
    real::{self, call},
    sys::Errno,
};

/// The driver's answer to each row's own version, 0 until asked; it never changes.
static OWN_ANSWER: [AtomicUsize; DriverFn::COUNT] =
    [const { AtomicUsize::new(0) }; DriverFn::COUNT];

/// Puts our export in place of the driver's answer, where there is one for it.
///
/// # Safety
/// `symbol` and `out` are as in a call of `cuGetProcAddress` that has just succeeded.
unsafe fn replace(symbol: *const c_char, out: *mut *mut c_void, version: c_int, flags: u64) {
    if symbol.is_null() || out.is_null() {
        return;
    }
    // SAFETY: the driver has just read the same text.
    let asked = unsafe { CStr::from_ptr(symbol) }.to_bytes();
    // SAFETY: the driver succeeded, so it has written here.
    let answer = unsafe { out.read() } as usize;
    let version = u32::try_from(version).unwrap_or(0);
    let Some(row) = DriverFn::answering(asked, version, flags & real::PER_THREAD != 0) else {
        return;
    };
    if answer == 0 {
        return;
    }
    if own_answer(row, symbol, flags) != answer {
        note_unknown(row, version);
        return;
    }
    if let Some(stub) = real::stub(row) {
        // SAFETY: the caller's output, which the driver has just written to.
        unsafe { out.write(stub as *mut c_void) };
    }
}

/// What the driver answers for the row's own version.
fn own_answer(row: DriverFn, symbol: *const c_char, flags: u64) -> usize {
    let Some(known) = OWN_ANSWER.get(row as usize) else { return 0 };
    let seen = known.load(Ordering::Relaxed);
    if seen != 0 {
        return seen;
    }
    // SAFETY: the caller's text, which the driver has read before.
    let name = unsafe { CStr::from_ptr(symbol) };
    let address = real::proc_address(name, row.row().version, flags);
    known.store(address, Ordering::Relaxed);
    address
}

#[cold]
fn note_unknown(row: DriverFn, version: u32) {
    if let Some(process) = life::joined() {
        process.note(NoteKind::UnknownFunction, Slot(0), version.into(), row as u64);
    }
}

pub(crate) unsafe extern "C" fn cuGetProcAddress(
    symbol: *const c_char,
    out: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let code = unsafe { call::cuGetProcAddress(symbol, out, version, flags) };
    let _errno = Errno::keep();
    if code.is_ok() {
        // SAFETY: the call just made succeeded.
        unsafe { replace(symbol, out, version, flags) };
    }
    code
}

pub(crate) unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    out: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let code = unsafe { call::cuGetProcAddress_v2(symbol, out, version, flags, status) };
    let _errno = Errno::keep();
    if code.is_ok() {
        // SAFETY: the call just made succeeded.
        unsafe { replace(symbol, out, version, flags) };
    }
    code
}
