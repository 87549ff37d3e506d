//! Contexts: each costs device memory, charged by estimate before the driver is asked, then set to
//! what the card shows; and plain allocations end with the context they were made in.

use std::ffi::{c_int, c_uint};

use halfwarp_books::{Freed, Mark, Slot};
use halfwarp_label as label;
use shim_cuda_headers::{
    CUcontext, CUctxCreateParams, CUdevice, CUexecAffinityParam, CUresult, DriverFn,
};

use super::{
    joined,
    linear::{is_allocated, refuse},
    pool,
};
use crate::{backing, capture, process::Process, real::call, sys::Errno, thread};

/// Releases what the books say is free.
pub(super) fn release_all(process: &Process, freed: impl IntoIterator<Item = Freed>) {
    for (slot, units) in freed {
        process.release(slot, units);
    }
}

/// Sets a fresh charge to what the context really costs.
fn settle(process: &Process, slot: Slot, serial: u64) {
    process.settle_context(slot, serial);
    label::context_settled();
}

/// A context on this card was met that no call of ours has made: charge what it costs.
pub(super) fn seen(process: &Process, slot: Slot) -> Result<(), CUresult> {
    if let Some(serial) = process.charge_overhead(slot, false)? {
        settle(process, slot, serial);
    }
    Ok(())
}

/// Charges, lets the driver make a context on `device`, and enters it.
fn make(
    process: &Process,
    function: DriverFn,
    device: CUdevice,
    primary: bool,
    out: *mut CUcontext,
    create: impl FnOnce() -> CUresult,
) -> CUresult {
    let Some(slot) = process.slot_of(device).filter(|_| !out.is_null()) else { return create() };
    let Ok(charged) = process.charge_overhead(slot, true) else {
        let units = process.context_units(slot);
        return refuse(process, function, slot, halfwarp_api::bytes(units));
    };
    label::context_charged();
    let code = create();
    // Most forms make it current.
    thread::here().forget_context();
    label::driver_made_context();
    if !code.is_ok() {
        let freed = process.books().end_overhead(slot);
        release_all(process, freed);
        return code;
    }
    // SAFETY: the driver succeeded, so it has written the context.
    let context = unsafe { out.read() };
    let freed = process.books().enter_context(context, slot, primary.then_some(device));
    release_all(process, freed);
    if let Some(serial) = charged {
        settle(process, slot, serial);
    }
    code
}

pub(crate) unsafe extern "C" fn cuDevicePrimaryCtxRetain(
    out: *mut CUcontext,
    device: CUdevice,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let create = || unsafe { call::cuDevicePrimaryCtxRetain(out, device) };
    let process = joined!(create());
    let _errno = Errno::keep();
    make(process, DriverFn::cuDevicePrimaryCtxRetain, device, true, out, create)
}

/// The forms of `cuCtxCreate`, which differ in what stands between output and flags.
macro_rules! creates {
    ($($symbol:ident ($($arg:ident: $ty:ty),*);)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(
            out: *mut CUcontext,
            $($arg: $ty,)*
            flags: c_uint,
            device: CUdevice,
        ) -> CUresult {
            // SAFETY: the arguments are the caller's, passed on unchanged.
            let create = || unsafe { call::$symbol(out, $($arg,)* flags, device) };
            let process = joined!(create());
            let _errno = Errno::keep();
            make(process, DriverFn::$symbol, device, false, out, create)
        }
    )*};
}

creates! {
    cuCtxCreate();
    cuCtxCreate_v2();
    cuCtxCreate_v3(affinities: *mut CUexecAffinityParam, count: c_int);
    cuCtxCreate_v4(params: *mut CUctxCreateParams);
}

/// The last context of this process on a card is gone, and with it what its pools held.
fn left(process: &Process, overhead: Option<Freed>) {
    release_all(process, overhead);
    if let Some((slot, _)) = overhead {
        let freed = process.books().pools.end_closing(slot);
        release_all(process, freed);
        pool::settle_all(process, Some(slot));
    }
}

/// Enters the end of what was in a context before `mark`; of what was entered since, the driver says
/// whether it is still there.
fn end(process: &Process, context: CUcontext, mark: Mark, latest: u64) {
    backing::end_context(process, context, latest);
    process.note_unmovable();
    let (freed, unsure) = process.books().end_context(context, mark);
    release_all(process, freed);
    for (place, entry) in unsure {
        if !is_allocated(place) {
            let freed = process.books().forget(place, entry);
            release_all(process, freed);
        }
    }
}

/// The forms of `cuCtxDestroy`.
macro_rules! destroys {
    ($($symbol:ident)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(context: CUcontext) -> CUresult {
            // SAFETY: the argument is the caller's, passed on unchanged.
            let destroy = || unsafe { call::$symbol(context) };
            let process = joined!(destroy());
            let _errno = Errno::keep();
            let mark = process.books().mark();
            let latest = process.swap.backing().latest();
            let ending = capture::begin_end(process, Some(context));
            let code = destroy();
            capture::finish_end(process, ending, code.is_ok());
            if code.is_ok() {
                end(process, context, mark, latest);
                // If the handle stands for a later one already, that has taken its place.
                let freed = process.books().leave_context(context, mark).ok().flatten();
                left(process, freed);
            }
            code
        }
    )*};
}

destroys! { cuCtxDestroy cuCtxDestroy_v2 }

/// Whether a device's primary context exists. A driver that can't say has none that comes back.
fn is_active(device: CUdevice) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: two writable numbers.
    let code = unsafe { call::cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active) };
    code.is_ok() && active != 0
}

/// A primary context was given up or reset by a call that began after `mark`. The driver says
/// whether it is gone: one that others have retained is not, or is there anew.
fn primary_ended(process: &Process, device: CUdevice, was_reset: Option<Mark>, latest: u64) {
    /// Another thread may retain it each time.
    const LOOKS: usize = 16;
    let Some(context) = process.books().primary_of(device) else { return };
    if let Some(mark) = was_reset {
        end(process, context, mark, latest);
    }
    for _ in 0..LOOKS {
        let mark = process.books().mark();
        if is_active(device) {
            return;
        }
        end(process, context, mark, latest);
        let freed = process.books().leave_context(context, mark);
        if let Ok(freed) = freed {
            return left(process, freed);
        }
    }
}

/// The forms of releasing a primary context once, and of resetting it.
macro_rules! primary_ends {
    ($($symbol:ident $resets:literal;)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(device: CUdevice) -> CUresult {
            // SAFETY: the argument is the caller's, passed on unchanged.
            let give_up = || unsafe { call::$symbol(device) };
            let process = joined!(give_up());
            let _errno = Errno::keep();
            let mark = process.books().mark();
            let latest = process.swap.backing().latest();
            let primary = process.books().primary_of(device);
            let ending = capture::begin_end(process, primary);
            let code = give_up();
            let gone = code.is_ok() && ($resets || last_release(process, device));
            capture::finish_end(process, ending, gone);
            if gone {
                primary_ended(process, device, $resets.then_some(mark), latest);
            }
            code
        }
    )*};
}

/// Counts a release of a primary context; whether it was the last.
fn last_release(process: &Process, device: CUdevice) -> bool {
    let mut books = process.books();
    books.primary_of(device).is_some_and(|context| books.release_context(context))
}

primary_ends! {
    cuDevicePrimaryCtxRelease false;
    cuDevicePrimaryCtxRelease_v2 false;
    cuDevicePrimaryCtxReset true;
    cuDevicePrimaryCtxReset_v2 true;
}
