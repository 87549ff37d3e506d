//! The rows that the library answers itself: one function a row, named as the driver names it, with
//! the row's own parameters. A row marked `Hook` without a function here does not compile. A row that
//! the driver answers, but behind a gate, gets its function from the table's columns alone
//! (`forwarded`), as `real::call` does for the hooks.
//!
//! Every hook begins with [`joined`]: a process that has not joined (before `cuInit`, a forked child)
//! gets the driver's own answer, one whose join was refused an error. Null outputs and sizes of zero
//! are the driver's to judge, so they are passed on before anything is charged.
#![allow(non_snake_case, reason = "hooks bear the vendor's own names")]

mod array;
mod backed;
mod context;
mod current;
mod external;
mod graph;
mod info;
mod linear;
mod lookup;
mod module;
pub(crate) mod nvml;
mod pool;
mod start;
mod sync;
mod vmm;

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

use shim_cuda_headers::driver_table;
use shim_cuda_headers::*;

use halfwarp_books::Slot;

use crate::{life, process::Process, real::call};

/// What a hook does first.
enum Start {
    Joined(&'static Process),
    /// Answer this.
    Answer(CUresult),
    /// The driver answers.
    Driver,
}

fn start() -> Start {
    match (life::joined(), crate::process::refusal()) {
        (Some(process), _) => Start::Joined(process),
        (None, Some(code)) => Start::Answer(code),
        (None, None) => Start::Driver,
    }
}

/// The process, or return early with what [`start`] says.
macro_rules! joined {
    ($otherwise:expr) => {
        match crate::hooks::start() {
            crate::hooks::Start::Joined(process) => process,
            crate::hooks::Start::Answer(code) => return code,
            crate::hooks::Start::Driver => return $otherwise,
        }
    };
}
use joined;

/// The context current on this thread and the card it is on; `None` where the driver will say what
/// is wrong (no context, not initialised).
pub(crate) fn current(process: &Process) -> Option<(CUcontext, Slot)> {
    let mut context = CUcontext(0);
    // SAFETY: a writable handle.
    let code = unsafe { call::cuCtxGetCurrent(&raw mut context) };
    if !code.is_ok() || context.0 == 0 {
        return None;
    }
    if let Some(slot) = process.books().slot_of(context) {
        return Some((context, slot));
    }
    let mut device = 0;
    // SAFETY: a writable device.
    let code = unsafe { call::cuCtxGetDevice(&raw mut device) };
    let slot = process.slot_of(device).filter(|_| code.is_ok())?;
    Some((context, slot))
}

/// The file that answers rows of a class of memory.
macro_rules! by_memory {
    (Nothing $symbol:ident) => {
        nothing::$symbol
    };
    (Context $symbol:ident) => {
        context::$symbol
    };
    (Vmm $symbol:ident) => {
        vmm::$symbol
    };
    (Array $symbol:ident) => {
        array::$symbol
    };
    (External $symbol:ident) => {
        external::$symbol
    };
    (GraphMemory $symbol:ident) => {
        graph::$symbol
    };
    (Module $symbol:ident) => {
        module::$symbol
    };
    (Ipc $symbol:ident) => {
        backed::$symbol
    };
    (Pool $symbol:ident) => {
        pool::$symbol
    };
    ($memory:ident $symbol:ident) => {
        linear::$symbol
    };
}

macro_rules! hooks {
    ($($symbol:ident $asked:literal $version:literal $stream:ident $memory:ident $gate:ident
       $capture:ident $lifetime:ident $start:ident $answer:ident
       ($($arg:ident: $ty:ty),*);)*) => {
        /// Address of the hook for a row, or 0 for a row that the driver answers.
        pub(crate) fn address(row: DriverFn) -> usize {
            match row {
                $(DriverFn::$symbol => hooks!(
                    @address $answer $gate $lifetime $memory $symbol ($($ty),*)
                ),)*
            }
        }

        /// Rows that the driver answers behind a gate, or that tell of a stream, a function or a graph.
        #[allow(dead_code, reason = "most rows lead straight to the driver")]
        #[allow(unused_imports, reason = "the table decides which types appear")]
        #[allow(clippy::too_many_arguments, reason = "the vendor's own signatures")]
        mod forwarded {
            use core::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};
            use shim_cuda_headers::*;

            $(pub(super) unsafe extern "C" fn $symbol($($arg: $ty),*) -> CUresult {
                // SAFETY: the arguments are the caller's, passed on unchanged.
                unsafe { crate::real::call::$symbol($($arg),*) }
            })*
        }
    };
    (@address Forward Open MakesStream $memory:ident $symbol:ident ($($ty:ty),*)) => {
        hooks!(@forwarded $symbol ($($ty),*))
    };
    (@address Forward Open FreesStream $memory:ident $symbol:ident ($($ty:ty),*)) => {
        hooks!(@forwarded $symbol ($($ty),*))
    };
    (@address Forward Open FreesGraphExec $memory:ident $symbol:ident ($($ty:ty),*)) => {
        hooks!(@forwarded $symbol ($($ty),*))
    };
    (@address Forward Open FreesModule $memory:ident $symbol:ident ($($ty:ty),*)) => {
        hooks!(@forwarded $symbol ($($ty),*))
    };
    (@address Forward Open FreesLibrary $memory:ident $symbol:ident ($($ty:ty),*)) => {
        hooks!(@forwarded $symbol ($($ty),*))
    };
    (@address Forward Open $lifetime:ident $memory:ident $symbol:ident ($($ty:ty),*)) => { 0 };
    (@address Forward $gate:ident $lifetime:ident $memory:ident $symbol:ident ($($ty:ty),*)) => {
        hooks!(@forwarded $symbol ($($ty),*))
    };
    (@forwarded $symbol:ident ($($ty:ty),*)) => {{
        let wrapped: unsafe extern "C" fn($($ty),*) -> CUresult = forwarded::$symbol;
        wrapped as usize
    }};
    (@address Hook $gate:ident $lifetime:ident $memory:ident $symbol:ident ($($ty:ty),*)) => {{
        let hook: unsafe extern "C" fn($($ty),*) -> CUresult = by_memory!($memory $symbol);
        hook as usize
    }};
}

/// Rows that cost no memory.
mod nothing {
    pub(crate) use super::{
        backed::*, current::*, info::*, lookup::*, pool::nothing::*, start::*, sync::*,
        vmm::nothing::*,
    };
}

driver_table!(hooks);
