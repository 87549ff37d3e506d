//! The rows that the library answers itself: one function a row, named as the driver names it, with
//! the row's own parameters. A row marked `Hook` without a function here does not compile.
//!
//! Every hook begins with [`joined`]: a process that has not joined (before `cuInit`, a forked child)
//! gets the driver's own answer, one whose join was refused an error. Null outputs and sizes of zero
//! are the driver's to judge, so they are passed on before anything is charged.
#![allow(non_snake_case, reason = "hooks bear the vendor's own names")]

mod array;
mod context;
mod info;
mod linear;
mod lookup;
mod module;
pub(crate) mod nvml;
mod pool;
mod start;
mod sync;
mod vmm;

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

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
fn current(process: &Process) -> Option<(CUcontext, Slot)> {
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
    (Module $symbol:ident) => {
        module::$symbol
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
                $(DriverFn::$symbol => hooks!(@address $answer $memory $symbol ($($ty),*)),)*
            }
        }
    };
    (@address Forward $memory:ident $symbol:ident ($($ty:ty),*)) => { 0 };
    (@address Hook $memory:ident $symbol:ident ($($ty:ty),*)) => {{
        let hook: unsafe extern "C" fn($($ty),*) -> CUresult = by_memory!($memory $symbol);
        hook as usize
    }};
}

/// Rows that cost no memory.
mod nothing {
    pub(crate) use super::{
        info::*, lookup::*, pool::nothing::*, start::*, sync::*, vmm::nothing::*,
    };
}

driver_table!(hooks);
