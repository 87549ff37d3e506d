//! Memory without an address: physical handles, and where they are mapped. Charged when a handle is
//! made, released when neither a handle nor a mapping refers to it any more (the driver's own rule).

use std::ffi::{c_ulonglong, c_void};

use halfwarp_api::units;
use shim_cuda_headers::{
    CUdeviceptr, CUmemAllocationHandleType, CUmemAllocationProp_v1, CUmemGenericAllocationHandle,
    CUresult, DriverFn,
};

use super::{context, joined, linear::refuse, pool};
use crate::{real::call, swap::covers, sys::Errno};

/// `CU_MEM_LOCATION_TYPE_DEVICE`; every other kind is host memory, which costs the tenant nothing,
/// and its number is not a card's.
const LOCATION_DEVICE: u32 = 1;

pub(crate) unsafe extern "C" fn cuMemCreate(
    handle: *mut CUmemGenericAllocationHandle,
    size: usize,
    prop: *const CUmemAllocationProp_v1,
    flags: c_ulonglong,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let make = || unsafe { call::cuMemCreate(handle, size, prop, flags) };
    let process = joined!(make());
    let _errno = Errno::keep();
    if handle.is_null() || prop.is_null() || size == 0 {
        return make();
    }
    // SAFETY: not null, and the driver is about to read it as well.
    let location = unsafe { (*prop).location };
    let slot = process.slot_of(location.id).filter(|_| location.kind == LOCATION_DEVICE);
    let Some(slot) = slot else { return make() };
    let charged = units(size as u64).filter(|n| pool::charge(process, slot, *n).is_ok());
    let Some(charged) = charged else {
        return refuse(process, DriverFn::cuMemCreate, slot, size as u64);
    };
    let code = make();
    if code.is_ok() {
        // SAFETY: the driver succeeded, so it has written the handle.
        let handle = unsafe { handle.read() };
        process.books().enter_handle(handle, slot, charged);
        process.note_unmovable();
    } else {
        process.release(slot, charged);
    }
    code
}

pub(crate) unsafe extern "C" fn cuMemRelease(handle: CUmemGenericAllocationHandle) -> CUresult {
    // SAFETY: the argument is the caller's, passed on unchanged.
    let give = || unsafe { call::cuMemRelease(handle) };
    let process = joined!(give());
    let _errno = Errno::keep();
    let physical = process.books().physical_of(handle);
    let code = give();
    if let (Some(id), true) = (physical, code.is_ok()) {
        let freed = process.books().release_handle(handle, id);
        context::release_all(process, freed);
        process.note_unmovable();
    }
    code
}

pub(crate) unsafe extern "C" fn cuMemRetainAllocationHandle(
    handle: *mut CUmemGenericAllocationHandle,
    address: *mut c_void,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let retain = || unsafe { call::cuMemRetainAllocationHandle(handle, address) };
    let process = joined!(retain());
    let _errno = Errno::keep();
    let at = address.expose_provenance() as CUdeviceptr;
    if covers(process, at, 1) {
        // Plain memory has no handle.
        return CUresult::INVALID_VALUE;
    }
    let physical = process.books().begin_retain(at);
    let code = retain();
    let Some(id) = physical else { return code };
    let freed = if code.is_ok() {
        // SAFETY: the driver succeeded, so it has written the handle.
        let handle = unsafe { handle.read() };
        process.books().enter_retained(handle, id)
    } else {
        process.books().drop_reference(id)
    };
    context::release_all(process, freed);
    code
}

/// An import of what the tenant already holds costs nothing more; memory of another tenant can't
/// be told from it here and is counted where it was made.
pub(crate) unsafe extern "C" fn cuMemImportFromShareableHandle(
    handle: *mut CUmemGenericAllocationHandle,
    os_handle: *mut c_void,
    kind: CUmemAllocationHandleType,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    unsafe { call::cuMemImportFromShareableHandle(handle, os_handle, kind) }
}

pub(crate) unsafe extern "C" fn cuMemMap(
    address: CUdeviceptr,
    size: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: c_ulonglong,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let map = || unsafe { call::cuMemMap(address, size, offset, handle, flags) };
    let process = joined!(map());
    let _errno = Errno::keep();
    let physical = process.books().begin_map(handle);
    let code = map();
    let Some(id) = physical else { return code };
    let freed = if code.is_ok() {
        process.books().enter_mapping(address, size, id)
    } else {
        process.books().drop_mapping(id)
    };
    context::release_all(process, freed);
    code
}

pub(crate) unsafe extern "C" fn cuMemUnmap(address: CUdeviceptr, size: usize) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let unmap = || unsafe { call::cuMemUnmap(address, size) };
    let process = joined!(unmap());
    let _errno = Errno::keep();
    if covers(process, address, size as u64) {
        return CUresult::INVALID_VALUE;
    }
    let mapped = process.books().mapped_in(address, size);
    let code = unmap();
    if code.is_ok() {
        let freed = process.books().unmap(&mapped);
        context::release_all(process, freed);
        process.note_unmovable();
    }
    code
}

/// Rows that cost nothing, by the table.
pub(crate) mod nothing {
    use super::{
        CUmemAllocationHandleType, CUmemGenericAllocationHandle, CUresult, Errno, c_ulonglong,
        c_void, call, joined,
    };

    /// What was exported lives as long as anybody anywhere has the descriptor, which nobody can
    /// follow: it is this process's until this process ends.
    pub(crate) unsafe extern "C" fn cuMemExportToShareableHandle(
        out: *mut c_void,
        handle: CUmemGenericAllocationHandle,
        kind: CUmemAllocationHandleType,
        flags: c_ulonglong,
    ) -> CUresult {
        // SAFETY: the arguments are the caller's, passed on unchanged.
        let export = || unsafe { call::cuMemExportToShareableHandle(out, handle, kind, flags) };
        let process = joined!(export());
        let _errno = Errno::keep();
        // Before the driver is asked: another thread may release the handle meanwhile.
        let physical = process.books().begin_export(handle);
        let code = export();
        if let (Some(id), false) = (physical, code.is_ok()) {
            let freed = process.books().export_failed(id);
            super::context::release_all(process, freed);
        }
        code
    }
}
