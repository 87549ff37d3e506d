//! Which context is current: the driver's business. The thread's copy of it is dropped, and the next
//! call that passes a gate asks the driver anew.

use shim_cuda_headers::{CUcontext, CUresult};

use crate::{real::call, thread};

pub(crate) unsafe extern "C" fn cuCtxSetCurrent(context: CUcontext) -> CUresult {
    thread::here().context_changes(context);
    // SAFETY: the argument is the caller's, passed on unchanged.
    unsafe { call::cuCtxSetCurrent(context) }
}

/// The forms of pushing and popping.
macro_rules! stacks {
    ($($symbol:ident $argument:ty;)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(context: $argument) -> CUresult {
            thread::here().forget_context();
            // SAFETY: the argument is the caller's, passed on unchanged.
            unsafe { call::$symbol(context) }
        }
    )*};
}

stacks! {
    cuCtxPushCurrent CUcontext;
    cuCtxPushCurrent_v2 CUcontext;
    cuCtxPopCurrent *mut CUcontext;
    cuCtxPopCurrent_v2 *mut CUcontext;
}
