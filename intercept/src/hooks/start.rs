//! `cuInit`: the driver first, then the broker. The order matters in a forked child of an initialised
//! process, where the driver says no and nothing is to be joined. Between the two the look-up rule is
//! tried on this driver ([`rule`]).

use std::ffi::c_uint;

use shim_cuda_headers::CUresult;

use crate::{open, process, real::call, rule, sys::Errno};

pub(crate) unsafe extern "C" fn cuInit(flags: c_uint) -> CUresult {
    // SAFETY: the argument is the caller's, passed on unchanged.
    let code = unsafe { call::cuInit(flags) };
    let _errno = Errno::keep();
    match open::identity() {
        Some(identity) if code.is_ok() => match rule::holds() {
            Ok(()) => process::join_now(identity).err().unwrap_or(code),
            Err(refused) => refused,
        },
        _ => code,
    }
}
