//! Forms of functions that no list has yet: what a driver that is newer than the table would answer a
//! look-up with. They are not exported, and do what the known form does.

use crate::entry::{self, Sim};
use shim_cuda_headers::{CUdeviceptr, CUresult, DriverFn};
use std::ffi::c_void;

extern "C" fn cuMemAlloc(address: *mut CUdeviceptr, bytes: usize) -> CUresult {
    entry::enter(DriverFn::cuMemAlloc_v2, || Sim::cuMemAlloc_v2(address, bytes))
}

/// Where the newer form of the function is, if there is one.
pub(crate) fn address(function: DriverFn) -> Option<*mut c_void> {
    (function == DriverFn::cuMemAlloc_v2).then_some(cuMemAlloc as *const () as *mut c_void)
}
