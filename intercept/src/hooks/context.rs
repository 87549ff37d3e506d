//! Contexts: each costs device memory, charged by estimate before the driver is asked, then set to
//! what the card shows; and plain allocations end with the context they were made in.

use std::ffi::{c_int, c_uint};

use halfwarp_label as label;
use shim_cuda_headers::{
    CUcontext, CUctxCreateParams, CUdevice, CUexecAffinityParam, CUresult, DriverFn,
};

use super::{joined, linear::refuse};
use crate::{
    books::Freed,
    process::{Process, Slot},
    real::call,
    sys::Errno,
};

/// Releases what the books say is free.
pub(super) fn release_all(process: &Process, freed: impl IntoIterator<Item = Freed>) {
    for (slot, units) in freed {
        process.release(slot, units);
    }
}

/// Charges a card's context overhead if this process has none there yet. Whether it was charged now.
fn charge_overhead(process: &Process, slot: Slot) -> Result<bool, CUresult> {
    let estimate = process.context_units(slot);
    if !process.books().first_context(slot, estimate) {
        return Ok(false);
    }
    if let Err(code) = process.charge(slot, estimate) {
        process.books().no_overhead(slot);
        return Err(code);
    }
    Ok(true)
}

/// Sets a fresh charge to what the context really costs.
fn settle(process: &Process, slot: Slot) {
    let measured = process.settle_context(slot, process.context_units(slot));
    process.books().overhead_is(slot, measured);
    label::context_settled();
}

/// A context on this card was met that no call of ours has made: charge what it costs.
pub(super) fn seen(process: &Process, slot: Slot) -> Result<(), CUresult> {
    if charge_overhead(process, slot)? {
        settle(process, slot);
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
    let Ok(charged) = charge_overhead(process, slot) else {
        let units = process.context_units(slot);
        return refuse(process, function, slot, halfwarp_api::bytes(units));
    };
    label::context_charged();
    let code = create();
    label::driver_made_context();
    if !code.is_ok() {
        if charged {
            let freed = process.books().no_overhead(slot);
            release_all(process, freed);
        }
        return code;
    }
    // SAFETY: the driver succeeded, so it has written the context.
    let context = unsafe { out.read() };
    process.books().enter_context(context, slot, primary.then_some(device));
    if charged {
        settle(process, slot);
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

/// The forms of `cuCtxDestroy`.
macro_rules! destroys {
    ($($symbol:ident)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(context: CUcontext) -> CUresult {
            // SAFETY: the argument is the caller's, passed on unchanged.
            let code = unsafe { call::$symbol(context) };
            let process = joined!(code);
            let _errno = Errno::keep();
            if code.is_ok() {
                let freed = process.books().leave_context(context, true);
                release_all(process, freed);
            }
            code
        }
    )*};
}

destroys! { cuCtxDestroy cuCtxDestroy_v2 }

/// The forms of releasing a primary context once, and of resetting it.
macro_rules! primary_ends {
    ($($symbol:ident $all:literal;)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(device: CUdevice) -> CUresult {
            // SAFETY: the argument is the caller's, passed on unchanged.
            let code = unsafe { call::$symbol(device) };
            let process = joined!(code);
            let _errno = Errno::keep();
            if code.is_ok() {
                let mut books = process.books();
                let context = books.primary_of(device);
                let freed = context.map(|c| books.leave_context(c, $all)).unwrap_or_default();
                drop(books);
                release_all(process, freed);
            }
            code
        }
    )*};
}

primary_ends! {
    cuDevicePrimaryCtxRelease false;
    cuDevicePrimaryCtxRelease_v2 false;
    cuDevicePrimaryCtxReset true;
    cuDevicePrimaryCtxReset_v2 true;
}
