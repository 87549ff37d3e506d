//! What the program is told about memory: its tenant's limit and what is left of it, in place of the
//! card's figures. The driver is asked first, so codes and null outputs are its own.

use std::ffi::c_uint;

use halfwarp_api::bytes;
use shim_cuda_headers::{CUdevice, CUresult};

use super::{current, joined, pool};
use crate::{process::Process, real::call, sys::Errno};

/// Free and total bytes of the current context's card, as the tenant has them; `None` where the
/// driver's figures stand, because the tenant's limit is the whole card of `physical` bytes.
fn tenant_figures(process: &Process, physical: u64) -> Option<(u64, u64)> {
    let (_, slot) = current(process)?;
    if bytes(process.limit_units(slot)) >= physical {
        return None;
    }
    pool::settle_all(process, Some(slot));
    let (limit, held) = process.figures(slot);
    Some((bytes(limit.saturating_sub(held)), bytes(limit)))
}

/// The current context's card, in bytes.
fn physical_bytes() -> u64 {
    let (mut free, mut total) = (0_usize, 0_usize);
    // SAFETY: two writable numbers.
    let code = unsafe { call::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
    if code.is_ok() { total as u64 } else { u64::MAX }
}

/// Writes `value` where the program wants it, if it wants it.
///
/// # Safety
/// `to` is null or writable.
unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's output, which the driver has just written to.
        unsafe { to.write(value) };
    }
}

pub(crate) unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let code = unsafe { call::cuMemGetInfo_v2(free, total) };
    let process = joined!(code);
    let _errno = Errno::keep();
    if !code.is_ok() {
        return code;
    }
    if let Some((ours, limit)) = tenant_figures(process, physical_bytes()) {
        // SAFETY: null or the caller's output.
        unsafe { put(free, ours as usize) };
        // SAFETY: as above.
        unsafe { put(total, limit as usize) };
    }
    code
}

pub(crate) unsafe extern "C" fn cuMemGetInfo(free: *mut c_uint, total: *mut c_uint) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let code = unsafe { call::cuMemGetInfo(free, total) };
    let process = joined!(code);
    let _errno = Errno::keep();
    if !code.is_ok() {
        return code;
    }
    if let Some((ours, limit)) = tenant_figures(process, physical_bytes()) {
        let narrow = |bytes: u64| c_uint::try_from(bytes).unwrap_or(c_uint::MAX);
        // SAFETY: null or the caller's output.
        unsafe { put(free, narrow(ours)) };
        // SAFETY: as above.
        unsafe { put(total, narrow(limit)) };
    }
    code
}

pub(crate) unsafe extern "C" fn cuDeviceTotalMem_v2(total: *mut usize, dev: CUdevice) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let code = unsafe { call::cuDeviceTotalMem_v2(total, dev) };
    let process = joined!(code);
    if let Some(slot) = process.slot_of(dev).filter(|_| code.is_ok()) {
        let limit = bytes(process.limit_units(slot));
        // SAFETY: the driver succeeded, so it has written here.
        let physical = unsafe { total.read() } as u64;
        // SAFETY: the caller's output.
        unsafe { total.write(limit.min(physical) as usize) };
    }
    code
}

pub(crate) unsafe extern "C" fn cuDeviceTotalMem(total: *mut c_uint, dev: CUdevice) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let code = unsafe { call::cuDeviceTotalMem(total, dev) };
    let process = joined!(code);
    if let Some(slot) = process.slot_of(dev).filter(|_| code.is_ok()) {
        let limit = bytes(process.limit_units(slot));
        // SAFETY: the driver succeeded, so it has written here.
        let physical = unsafe { total.read() };
        // SAFETY: the caller's output.
        unsafe { total.write(c_uint::try_from(limit).unwrap_or(c_uint::MAX).min(physical)) };
    }
    code
}
