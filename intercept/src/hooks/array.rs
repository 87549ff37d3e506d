//! Arrays, plain and mipmapped: device memory without an address, charged as linear memory is
//! ([`super::linear`]) and freed by handle or with its context.
//!
//! How a card lays an array out is the driver's secret, and of an array that has memory it does not
//! tell. So before anything is charged it is asked about a twin: the same array without memory
//! (`CUDA_ARRAY3D_DEFERRED_MAPPING`), which costs nothing. Where there is no such twin, an estimate
//! stands. Arrays that the program itself makes without memory cost nothing: what is mapped behind
//! them is charged by its handle.

use std::ffi::c_uint;

use halfwarp_books::Place;
use halfwarp_gate::array::{DEFERRED_MAPPING, Shape};
use shim_cuda_headers::{
    CUDA_ARRAY_DESCRIPTOR_v1, CUDA_ARRAY_DESCRIPTOR_v2, CUDA_ARRAY_MEMORY_REQUIREMENTS_v1,
    CUDA_ARRAY3D_DESCRIPTOR_v1, CUDA_ARRAY3D_DESCRIPTOR_v2, CUarray, CUmipmappedArray, CUresult,
    DriverFn,
};

use super::{
    joined,
    linear::{allocate, free, written},
};
use crate::{
    process::Process,
    real::{self, call},
    sys::Errno,
};

/// The forms of an array's descriptor, in the largest of them.
trait Described: Copy {
    fn in_full(self) -> CUDA_ARRAY3D_DESCRIPTOR_v2;
}

impl Described for CUDA_ARRAY3D_DESCRIPTOR_v2 {
    fn in_full(self) -> CUDA_ARRAY3D_DESCRIPTOR_v2 {
        self
    }
}

impl Described for CUDA_ARRAY3D_DESCRIPTOR_v1 {
    fn in_full(self) -> CUDA_ARRAY3D_DESCRIPTOR_v2 {
        let Self { width, height, depth, format, num_channels, flags } = self;
        let [width, height, depth] = [width, height, depth].map(|side| side as usize);
        CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, depth, format, num_channels, flags }
    }
}

impl Described for CUDA_ARRAY_DESCRIPTOR_v2 {
    fn in_full(self) -> CUDA_ARRAY3D_DESCRIPTOR_v2 {
        let Self { width, height, format, num_channels } = self;
        CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, depth: 0, format, num_channels, flags: 0 }
    }
}

impl Described for CUDA_ARRAY_DESCRIPTOR_v1 {
    fn in_full(self) -> CUDA_ARRAY3D_DESCRIPTOR_v2 {
        let Self { width, height, format, num_channels } = self;
        let (width, height) = (width as usize, height as usize);
        CUDA_ARRAY_DESCRIPTOR_v2 { width, height, format, num_channels }.in_full()
    }
}

/// Charges what the array takes and lets the driver make it. `levels` is a mipmapped array's.
fn create(
    process: &Process,
    function: DriverFn,
    described: CUDA_ARRAY3D_DESCRIPTOR_v2,
    levels: Option<c_uint>,
    make: impl FnOnce() -> (CUresult, Place),
) -> CUresult {
    let shape = Shape {
        width: described.width as u64,
        height: described.height as u64,
        depth: described.depth as u64,
        format: described.format,
        channels: described.num_channels,
        flags: described.flags,
        levels: levels.unwrap_or(1),
    };
    if !shape.takes_memory() {
        return make().0;
    }
    let bytes = said_by_driver(described, levels).unwrap_or_else(|| shape.estimated_bytes());
    allocate(process, function, bytes, make)
}

/// What the driver says such an array takes, if it can say so.
fn said_by_driver(
    mut described: CUDA_ARRAY3D_DESCRIPTOR_v2,
    levels: Option<c_uint>,
) -> Option<u64> {
    let question = match levels {
        None => DriverFn::cuArrayGetMemoryRequirements,
        Some(_) => DriverFn::cuMipmappedArrayGetMemoryRequirements,
    };
    let mut device = 0;
    // SAFETY: a writable device.
    if !real::has(question) || !unsafe { call::cuCtxGetDevice(&raw mut device) }.is_ok() {
        return None;
    }
    described.flags |= DEFERRED_MAPPING;
    let mut said = CUDA_ARRAY_MEMORY_REQUIREMENTS_v1::default();
    let code = if let Some(levels) = levels {
        let mut twin = CUmipmappedArray(0);
        // SAFETY: a writable handle and a readable descriptor.
        let made =
            unsafe { call::cuMipmappedArrayCreate(&raw mut twin, &raw const described, levels) };
        if !made.is_ok() {
            return None;
        }
        // SAFETY: writable figures, and the array just made.
        let code =
            unsafe { call::cuMipmappedArrayGetMemoryRequirements(&raw mut said, twin, device) };
        // SAFETY: the array just made, which nobody else knows.
        unsafe { call::cuMipmappedArrayDestroy(twin) };
        code
    } else {
        let mut twin = CUarray(0);
        // SAFETY: a writable handle and a readable descriptor.
        let made = unsafe { call::cuArray3DCreate_v2(&raw mut twin, &raw const described) };
        if !made.is_ok() {
            return None;
        }
        // SAFETY: writable figures, and the array just made.
        let code = unsafe { call::cuArrayGetMemoryRequirements(&raw mut said, twin, device) };
        // SAFETY: the array just made, which nobody else knows.
        unsafe { call::cuArrayDestroy(twin) };
        code
    };
    // A size of nothing is no answer.
    Some(said.size as u64).filter(|bytes| code.is_ok() && *bytes > 0)
}

/// The forms of making an array.
macro_rules! creates {
    ($($symbol:ident $handle:ident $descriptor:ident ($($levels:ident: $ty:ty)?);)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(
            out: *mut $handle,
            descriptor: *const $descriptor,
            $($levels: $ty,)?
        ) -> CUresult {
            let make = || {
                // SAFETY: the arguments are the caller's, passed on unchanged.
                let code = unsafe { call::$symbol(out, descriptor $(, $levels)?) };
                // SAFETY: the output just passed.
                unsafe { written(code, out) }
            };
            let process = joined!(make().0);
            let _errno = Errno::keep();
            if out.is_null() || descriptor.is_null() {
                return make().0;
            }
            // SAFETY: not null, and the driver is about to read it as well.
            let described = unsafe { descriptor.read() }.in_full();
            let levels = creates!(@levels $($levels)?);
            create(process, DriverFn::$symbol, described, levels, make)
        }
    )*};
    (@levels) => { None };
    (@levels $levels:ident) => { Some($levels) };
}

creates! {
    cuArrayCreate CUarray CUDA_ARRAY_DESCRIPTOR_v1 ();
    cuArrayCreate_v2 CUarray CUDA_ARRAY_DESCRIPTOR_v2 ();
    cuArray3DCreate CUarray CUDA_ARRAY3D_DESCRIPTOR_v1 ();
    cuArray3DCreate_v2 CUarray CUDA_ARRAY3D_DESCRIPTOR_v2 ();
    cuMipmappedArrayCreate CUmipmappedArray CUDA_ARRAY3D_DESCRIPTOR_v2 (levels: c_uint);
}

/// The forms of destroying one. A level of a mipmapped array is not in the books.
macro_rules! destroys {
    ($($symbol:ident $handle:ident;)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(array: $handle) -> CUresult {
            // SAFETY: the argument is the caller's, passed on unchanged.
            let give = || unsafe { call::$symbol(array) };
            let process = joined!(give());
            let _errno = Errno::keep();
            free(process, array, give)
        }
    )*};
}

destroys! {
    cuArrayDestroy CUarray;
    cuMipmappedArrayDestroy CUmipmappedArray;
}
