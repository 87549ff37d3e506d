//! What else is asked about devices: old properties, texture sizes, atomics over links, affinity;
//! and the oldest way of counting a context's users.

use crate::context::{self, CONTEXTS};
use crate::entry::{Done, Sim};
use crate::{attributes, process, raw};
use shim_cuda_headers::*;
use std::ffi::c_uint;

impl Sim {
    /// `CUdevprop`: fourteen numbers that are attributes too.
    pub(crate) fn cuDeviceGetProperties(to: *mut CUdevprop_v1, device: CUdevice) -> Done {
        const ATTRIBUTES: [u32; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
        let card = process::card(device)?;
        let numbers = ATTRIBUTES.map(|attribute| attributes::value(card, attribute).unwrap_or(0));
        raw::put(to.cast(), numbers)
    }

    pub(crate) fn cuDeviceGetTexture1DLinearMaxWidth(
        width: *mut usize,
        format: CUarray_format,
        channels: c_uint,
        device: CUdevice,
    ) -> Done {
        const MOST_TEXELS: usize = 1 << 28;
        process::card(device)?;
        if crate::array::channel_bytes(format).is_none() || ![1, 2, 4].contains(&channels) {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(width, MOST_TEXELS)
    }

    /// No link of these machines carries atomics.
    pub(crate) fn cuDeviceGetP2PAtomicCapabilities(
        capabilities: *mut c_uint,
        operations: *const CUatomicOperation,
        count: c_uint,
        from: CUdevice,
        to: CUdevice,
    ) -> Done {
        process::card(from)?;
        process::card(to)?;
        if from == to {
            return Err(CUresult::INVALID_DEVICE);
        }
        no_atomics(capabilities, operations, count)
    }

    pub(crate) fn cuDeviceGetHostAtomicCapabilities(
        capabilities: *mut c_uint,
        operations: *const CUatomicOperation,
        count: c_uint,
        device: CUdevice,
    ) -> Done {
        process::card(device)?;
        no_atomics(capabilities, operations, count)
    }

    /// Refused: there is no affinity.
    pub(crate) fn cuCtxGetExecAffinity(_: *mut CUexecAffinityParam, _: CUexecAffinityType) -> Done {
        context::current()?;
        Err(CUresult::UNSUPPORTED_EXEC_AFFINITY)
    }

    /// One more user of the current context.
    pub(crate) fn cuCtxAttach(to: *mut CUcontext, flags: c_uint) -> Done {
        let context = context::current()?;
        if to.is_null() || flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        context.attached(|users| users.checked_add(1));
        raw::put(to, CUcontext(context.handle))
    }

    /// One user less; without any the context ends, if it is the thread's current one.
    pub(crate) fn cuCtxDetach(context: CUcontext) -> Done {
        let found = CONTEXTS.get(context.0).ok_or(CUresult::INVALID_CONTEXT)?;
        if context::current_handle() != context.0 || found.primary {
            return Err(CUresult::INVALID_CONTEXT);
        }
        match found.attached(|users| users.checked_sub(1)) {
            Some(_) => Ok(()),
            None => Self::cuCtxDestroy_v2(context),
        }
    }
}

fn no_atomics(to: *mut c_uint, operations: *const CUatomicOperation, count: c_uint) -> Done {
    const LAST_OPERATION: CUatomicOperation = 12;
    let operations = raw::get_all(operations, count as usize)?;
    if operations.is_empty() || operations.iter().any(|operation| *operation > LAST_OPERATION) {
        return Err(CUresult::INVALID_VALUE);
    }
    (0..operations.len()).try_for_each(|index| raw::put_at(to, index, 0))
}
