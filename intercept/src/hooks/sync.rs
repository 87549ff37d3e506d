//! Where a program waits for the card, pools give back what they keep beyond their threshold: the
//! driver is asked how far each has shrunk. A process without pools pays one load.

use shim_cuda_headers::{CUcontext, CUevent, CUresult, CUstream};

use super::{joined, pool};
use crate::{real::call, sys::Errno};

macro_rules! synchronises {
    ($($symbol:ident ($($arg:ident: $ty:ty)?);)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol($($arg: $ty)?) -> CUresult {
            // SAFETY: the arguments are the caller's, passed on unchanged.
            let code = unsafe { call::$symbol($($arg)?) };
            let process = joined!(code);
            if process.swap.is_freed_later() {
                let _errno = Errno::keep();
                process.wait_for_later();
            }
            if process.has_pools() {
                let _errno = Errno::keep();
                pool::settle_all(process, None);
            }
            code
        }
    )*};
}

synchronises! {
    cuCtxSynchronize();
    cuCtxSynchronize_v2(context: CUcontext);
    cuEventSynchronize(event: CUevent);
    cuStreamSynchronize(stream: CUstream);
    cuStreamSynchronize_ptsz(stream: CUstream);
}
