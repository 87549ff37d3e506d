//! Memory of other APIs (Vulkan, D3D, NvSci) that is imported: charged with the size that the program
//! gives, on the current context's card, until it is destroyed. It may lie elsewhere or be counted by
//! whoever made it; what this tenant can use is this tenant's.

use std::ffi::c_void;

use shim_cuda_headers::{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1, CUexternalMemory, CUresult, DriverFn,
};

use super::{
    joined,
    linear::{allocate, free, written},
};
use crate::{real::call, sys::Errno};

/// The head of `CUDA_EXTERNAL_MEMORY_HANDLE_DESC`.
#[repr(C)]
struct Description {
    kind: u32,
    handle: [*mut c_void; 2],
    bytes: u64,
}

pub(crate) unsafe extern "C" fn cuImportExternalMemory(
    out: *mut CUexternalMemory,
    description: *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1,
) -> CUresult {
    let import = || {
        // SAFETY: the arguments are the caller's, passed on unchanged.
        let code = unsafe { call::cuImportExternalMemory(out, description) };
        // SAFETY: the output just passed.
        unsafe { written(code, out) }
    };
    let process = joined!(import().0);
    let _errno = Errno::keep();
    if out.is_null() || description.is_null() {
        return import().0;
    }
    // SAFETY: not null, and the driver is about to read it as well; it begins so.
    let bytes = unsafe { (*description.cast::<Description>()).bytes };
    allocate(process, DriverFn::cuImportExternalMemory, bytes, import)
}

pub(crate) unsafe extern "C" fn cuDestroyExternalMemory(memory: CUexternalMemory) -> CUresult {
    // SAFETY: the argument is the caller's, passed on unchanged.
    let give = || unsafe { call::cuDestroyExternalMemory(memory) };
    let process = joined!(give());
    let _errno = Errno::keep();
    free(process, memory, give)
}
