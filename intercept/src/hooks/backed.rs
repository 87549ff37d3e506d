//! Questions about memory that we made so that it can be moved: answered for the *allocation*, as for
//! plain memory, whether its bytes are on the card or not; and what a driver gives out about memory
//! that makes it impossible to move. Everything else is the driver's to answer.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use halfwarp_api::wire::Reason;
use halfwarp_books::Seen;
use shim_cuda_headers::{
    CUcontext, CUdeviceptr, CUdeviceptr_v1, CUipcMemHandle_v1, CUmemAccessDesc_v1, CUmemLocation,
    CUmemRangeHandleType, CUmemoryPool, CUpointer_attribute, CUresult,
};

use super::{current, joined};
use crate::{
    backing,
    process::Process,
    real::call,
    swap::{Peer, covers},
    sys::Errno,
};

/// `CU_POINTER_ATTRIBUTE_*`.
mod attribute {
    pub(super) const CONTEXT: u32 = 1;
    pub(super) const MEMORY_TYPE: u32 = 2;
    pub(super) const DEVICE_POINTER: u32 = 3;
    pub(super) const HOST_POINTER: u32 = 4;
    pub(super) const P2P_TOKENS: u32 = 5;
    pub(super) const SYNC_MEMOPS: u32 = 6;
    pub(super) const BUFFER_ID: u32 = 7;
    pub(super) const IS_MANAGED: u32 = 8;
    pub(super) const DEVICE_ORDINAL: u32 = 9;
    pub(super) const IS_LEGACY_IPC_CAPABLE: u32 = 10;
    pub(super) const RANGE_START: u32 = 11;
    pub(super) const RANGE_SIZE: u32 = 12;
    pub(super) const MAPPED: u32 = 13;
    pub(super) const ALLOWED_HANDLE_TYPES: u32 = 14;
    pub(super) const IS_RDMA_CAPABLE: u32 = 15;
    pub(super) const ACCESS_FLAGS: u32 = 16;
    pub(super) const MEMPOOL_HANDLE: u32 = 17;
    pub(super) const MAPPING_SIZE: u32 = 18;
    pub(super) const MAPPING_BASE: u32 = 19;
    pub(super) const MEMORY_BLOCK_ID: u32 = 20;
}

const DEVICE_MEMORY: c_uint = 2;
const READ_WRITE: c_uint = 3;
/// Numbers of ours are apart from the driver's, which count from one.
const OUR_NUMBERS: u64 = 1 << 48;

fn seen(process: &Process, address: CUdeviceptr) -> Option<Seen> {
    if process.movable { process.swap.backing().find(address) } else { None }
}

/// Writes an attribute of an allocation of ours; `None` where the driver is to answer.
///
/// # Safety
/// `to` is writable for the attribute's type.
unsafe fn write(
    process: &Process,
    to: *mut c_void,
    which: CUpointer_attribute,
    address: CUdeviceptr,
    of: &Seen,
) -> Option<CUresult> {
    macro_rules! put {
        ($ty:ty, $value:expr) => {{
            // SAFETY: writable for the attribute's type, as the caller says.
            unsafe { to.cast::<$ty>().write($value) };
            Some(CUresult::SUCCESS)
        }};
    }
    match which {
        attribute::CONTEXT => put!(CUcontext, of.home.context),
        attribute::MEMORY_TYPE => put!(c_uint, DEVICE_MEMORY),
        attribute::DEVICE_POINTER => put!(u64, address),
        attribute::HOST_POINTER => Some(CUresult::INVALID_VALUE),
        attribute::BUFFER_ID | attribute::MEMORY_BLOCK_ID => put!(u64, OUR_NUMBERS | of.number),
        attribute::IS_MANAGED | attribute::IS_LEGACY_IPC_CAPABLE => put!(c_uint, 0),
        attribute::DEVICE_ORDINAL => put!(c_int, of.home.device),
        attribute::RANGE_START | attribute::MAPPING_BASE => put!(u64, of.base),
        attribute::RANGE_SIZE | attribute::MAPPING_SIZE => put!(usize, of.bytes as usize),
        attribute::MAPPED => put!(c_uint, 1),
        attribute::ALLOWED_HANDLE_TYPES => put!(c_ulonglong, 0),
        attribute::ACCESS_FLAGS => put!(c_uint, READ_WRITE),
        attribute::MEMPOOL_HANDLE => put!(CUmemoryPool, CUmemoryPool(0)),
        // Asked by those who let other devices at the card's memory.
        attribute::P2P_TOKENS => {
            process.note_lasting(of.home.slot, Reason::Rdma);
            None
        }
        attribute::SYNC_MEMOPS | attribute::IS_RDMA_CAPABLE if process.swap.is_away() => {
            put!(c_uint, 0)
        }
        _ => None,
    }
}

pub(crate) unsafe extern "C" fn cuPointerGetAttribute(
    to: *mut c_void,
    which: CUpointer_attribute,
    address: CUdeviceptr,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let ask = || unsafe { call::cuPointerGetAttribute(to, which, address) };
    let process = joined!(ask());
    let _errno = Errno::keep();
    let Some(of) = seen(process, address).filter(|_| !to.is_null()) else { return ask() };
    // SAFETY: the caller's output for this attribute.
    unsafe { write(process, to, which, address, &of) }.unwrap_or_else(ask)
}

pub(crate) unsafe extern "C" fn cuPointerGetAttributes(
    count: c_uint,
    which: *mut CUpointer_attribute,
    to: *mut *mut c_void,
    address: CUdeviceptr,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let ask = || unsafe { call::cuPointerGetAttributes(count, which, to, address) };
    let process = joined!(ask());
    let _errno = Errno::keep();
    let known = seen(process, address).filter(|_| !which.is_null() && !to.is_null());
    let Some(of) = known else { return ask() };
    // The driver first: it answers what we do not, and says what is wrong with the arguments.
    let code = ask();
    if !code.is_ok() {
        return code;
    }
    for at in 0..count as usize {
        // SAFETY: as many of both as the caller says; the driver has read them.
        let (which, to) = unsafe { (which.add(at).read(), to.add(at).read()) };
        if which != attribute::HOST_POINTER {
            // SAFETY: the caller's output for this attribute.
            unsafe { write(process, to, which, address, &of) };
        }
    }
    code
}

pub(crate) unsafe extern "C" fn cuPointerSetAttribute(
    from: *const c_void,
    which: CUpointer_attribute,
    address: CUdeviceptr,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let code = unsafe { call::cuPointerSetAttribute(from, which, address) };
    let process = joined!(code);
    if let Some(of) = seen(process, address).filter(|_| which == attribute::SYNC_MEMOPS) {
        let _errno = Errno::keep();
        process.note_lasting(of.home.slot, Reason::Rdma);
    }
    code
}

pub(crate) unsafe extern "C" fn cuMemGetAddressRange_v2(
    base: *mut CUdeviceptr,
    size: *mut usize,
    address: CUdeviceptr,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let ask = || unsafe { call::cuMemGetAddressRange_v2(base, size, address) };
    let process = joined!(ask());
    let _errno = Errno::keep();
    let (Some(of), Some(_)) = (seen(process, address), current(process)) else { return ask() };
    if !base.is_null() {
        // SAFETY: the caller's output.
        unsafe { base.write(of.base) };
    }
    if !size.is_null() {
        // SAFETY: as above.
        unsafe { size.write(of.bytes as usize) };
    }
    CUresult::SUCCESS
}

pub(crate) unsafe extern "C" fn cuMemGetAddressRange(
    base: *mut CUdeviceptr_v1,
    size: *mut c_uint,
    address: CUdeviceptr_v1,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let ask = || unsafe { call::cuMemGetAddressRange(base, size, address) };
    let process = joined!(ask());
    let _errno = Errno::keep();
    let (Some(of), Some(_)) = (seen(process, address.into()), current(process)) else {
        return ask();
    };
    if !base.is_null() {
        // SAFETY: the caller's output; the address it asked with fits, so its base does.
        unsafe { base.write(of.base as CUdeviceptr_v1) };
    }
    if !size.is_null() {
        // SAFETY: as above.
        unsafe { size.write(c_uint::try_from(of.bytes).unwrap_or(c_uint::MAX)) };
    }
    CUresult::SUCCESS
}

/// Memory of ours has no handle of this kind: the driver would refuse with a code of its own, after
/// which programs take the memory for broken. Any other is given out, and can't be moved after that.
pub(crate) unsafe extern "C" fn cuIpcGetMemHandle(
    handle: *mut CUipcMemHandle_v1,
    address: CUdeviceptr,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let ask = || unsafe { call::cuIpcGetMemHandle(handle, address) };
    let process = joined!(ask());
    let _errno = Errno::keep();
    if seen(process, address).is_some() {
        return CUresult::NOT_SUPPORTED;
    }
    let code = ask();
    note_import(process, code);
    code
}

/// Memory of another process has come into this one, or has gone out.
fn note_import(process: &Process, code: CUresult) {
    if let (true, Some((_, slot))) = (code.is_ok(), current(process))
        && process.swap.is_on(slot)
    {
        process.note_lasting(slot, Reason::Ipc);
    }
}

/// The forms of opening such a handle.
macro_rules! opens {
    ($($symbol:ident)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(
            out: *mut CUdeviceptr,
            handle: CUipcMemHandle_v1,
            flags: c_uint,
        ) -> CUresult {
            // SAFETY: the arguments are the caller's, passed on unchanged.
            let code = unsafe { call::$symbol(out, handle, flags) };
            let process = joined!(code);
            let _errno = Errno::keep();
            note_import(process, code);
            code
        }
    )*};
}

opens! { cuIpcOpenMemHandle cuIpcOpenMemHandle_v2 }

/// A descriptor for other devices: it stands for the memory as it is now.
pub(crate) unsafe extern "C" fn cuMemGetHandleForAddressRange(
    to: *mut c_void,
    address: CUdeviceptr,
    bytes: usize,
    kind: CUmemRangeHandleType,
    flags: c_ulonglong,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let ask = || unsafe { call::cuMemGetHandleForAddressRange(to, address, bytes, kind, flags) };
    let process = joined!(ask());
    let _errno = Errno::keep();
    // Before the driver is asked: what it gives must not be of memory that moves.
    if let Some(of) = seen(process, address) {
        process.note_lasting(of.home.slot, Reason::Rdma);
    }
    ask()
}

/// Memory that was not made by this interface can't be changed by it.
pub(crate) unsafe extern "C" fn cuMemSetAccess(
    address: CUdeviceptr,
    bytes: usize,
    wanted: *const CUmemAccessDesc_v1,
    count: usize,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let set = || unsafe { call::cuMemSetAccess(address, bytes, wanted, count) };
    let process = joined!(set());
    let _errno = Errno::keep();
    if covers(process, address, bytes as u64) { CUresult::INVALID_VALUE } else { set() }
}

pub(crate) unsafe extern "C" fn cuMemGetAccess(
    flags: *mut c_ulonglong,
    at: *const CUmemLocation,
    address: CUdeviceptr,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let ask = || unsafe { call::cuMemGetAccess(flags, at, address) };
    let process = joined!(ask());
    let _errno = Errno::keep();
    let known = seen(process, address).filter(|_| process.swap.is_away() && !flags.is_null());
    if known.is_none() {
        return ask();
    }
    // SAFETY: the caller's output.
    unsafe { flags.write(READ_WRITE.into()) };
    CUresult::SUCCESS
}

pub(crate) unsafe extern "C" fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let code = unsafe { call::cuCtxEnablePeerAccess(peer, flags) };
    let process = joined!(code);
    let _errno = Errno::keep();
    let Some((by, slot)) = current(process).filter(|_| code.is_ok()) else { return code };
    let Some(device) = process.device_of(slot) else { return code };
    process.swap.add_peer(Peer { of: peer, by, device });
    // What is away gets it when it comes back.
    let mapped = process.swap.backing().mapped_in(peer);
    for (at, bytes) in mapped {
        backing::allow(at, bytes, &[device]);
    }
    code
}

pub(crate) unsafe extern "C" fn cuCtxDisablePeerAccess(peer: CUcontext) -> CUresult {
    // SAFETY: the argument is the caller's, passed on unchanged.
    let code = unsafe { call::cuCtxDisablePeerAccess(peer) };
    let process = joined!(code);
    let _errno = Errno::keep();
    if let Some((by, _)) = current(process).filter(|_| code.is_ok()) {
        process.swap.remove_peer(peer, by);
    }
    code
}
