//! Fills (`cuMemset…`): elements of 1, 2 or 4 bytes, in one or two dimensions.

use crate::command::{Fill, Work};
use crate::entry::{Done, Sim};
use crate::space::{Access, SPACE};
use crate::stream;
use shim_cuda_headers::{CUdeviceptr, CUresult, CUstream};
use std::ffi::{c_uchar, c_uint, c_ushort};

/// What is filled with what.
struct Job {
    base: u64,
    pitch: usize,
    value: u32,
    element_bytes: u64,
    width: usize,
    height: usize,
}

fn submit(job: &Job, stream: CUstream, wait: bool) -> Done {
    let stream = stream::resolve(stream)?;
    stream.context.engine.check()?;
    let size = job.element_bytes;
    if !job.base.is_multiple_of(size) || !(job.pitch as u64).is_multiple_of(size) {
        return Err(CUresult::INVALID_VALUE);
    }
    if job.width == 0 || job.height == 0 {
        return Ok(());
    }
    let row = size.checked_mul(job.width as u64).ok_or(CUresult::INVALID_VALUE)?;
    let rows = (job.pitch as u64).checked_mul(job.height as u64 - 1);
    let bytes = rows.and_then(|rows| rows.checked_add(row)).ok_or(CUresult::INVALID_VALUE)?;
    // In a capture the memory may be a node's that is not there yet.
    if !stream.is_capturing() && !SPACE.allows(job.base, bytes, Access::ReadWrite) {
        return Err(CUresult::INVALID_VALUE);
    }
    let work = Work::Fill(Fill {
        base: job.base,
        value: job.value,
        element_bytes: size,
        width: job.width as u64,
        height: job.height as u64,
        pitch: job.pitch as u64,
    });
    if wait { stream.submit_and_wait(work) } else { stream.submit(work).map(drop) }
}

fn flat(base: u64, value: u32, element_bytes: u64, width: usize) -> Job {
    Job { base, pitch: 0, value, element_bytes, width, height: 1 }
}

/// The calls without a stream work on the default stream. They wait for the fill, which the driver
/// need not do: a program cannot tell, but for its time.
const DEFAULT: CUstream = CUstream(0);

impl Sim {
    pub(crate) fn cuMemsetD8_v2(at: CUdeviceptr, value: c_uchar, count: usize) -> Done {
        submit(&flat(at, value.into(), 1, count), DEFAULT, true)
    }

    pub(crate) fn cuMemsetD16_v2(at: CUdeviceptr, value: c_ushort, count: usize) -> Done {
        submit(&flat(at, value.into(), 2, count), DEFAULT, true)
    }

    pub(crate) fn cuMemsetD32_v2(at: CUdeviceptr, value: c_uint, count: usize) -> Done {
        submit(&flat(at, value, 4, count), DEFAULT, true)
    }

    pub(crate) fn cuMemsetD8Async(
        at: CUdeviceptr,
        value: c_uchar,
        count: usize,
        stream: CUstream,
    ) -> Done {
        submit(&flat(at, value.into(), 1, count), stream, false)
    }

    pub(crate) fn cuMemsetD16Async(
        at: CUdeviceptr,
        value: c_ushort,
        count: usize,
        stream: CUstream,
    ) -> Done {
        submit(&flat(at, value.into(), 2, count), stream, false)
    }

    pub(crate) fn cuMemsetD32Async(
        at: CUdeviceptr,
        value: c_uint,
        count: usize,
        stream: CUstream,
    ) -> Done {
        submit(&flat(at, value, 4, count), stream, false)
    }

    pub(crate) fn cuMemsetD2D8_v2(
        base: CUdeviceptr,
        pitch: usize,
        value: c_uchar,
        width: usize,
        height: usize,
    ) -> Done {
        submit(
            &Job { base, pitch, value: value.into(), element_bytes: 1, width, height },
            DEFAULT,
            true,
        )
    }

    pub(crate) fn cuMemsetD2D16_v2(
        base: CUdeviceptr,
        pitch: usize,
        value: c_ushort,
        width: usize,
        height: usize,
    ) -> Done {
        submit(
            &Job { base, pitch, value: value.into(), element_bytes: 2, width, height },
            DEFAULT,
            true,
        )
    }

    pub(crate) fn cuMemsetD2D32_v2(
        base: CUdeviceptr,
        pitch: usize,
        value: c_uint,
        width: usize,
        height: usize,
    ) -> Done {
        submit(&Job { base, pitch, value, element_bytes: 4, width, height }, DEFAULT, true)
    }

    pub(crate) fn cuMemsetD2D8Async(
        base: CUdeviceptr,
        pitch: usize,
        value: c_uchar,
        width: usize,
        height: usize,
        stream: CUstream,
    ) -> Done {
        submit(
            &Job { base, pitch, value: value.into(), element_bytes: 1, width, height },
            stream,
            false,
        )
    }

    pub(crate) fn cuMemsetD2D16Async(
        base: CUdeviceptr,
        pitch: usize,
        value: c_ushort,
        width: usize,
        height: usize,
        stream: CUstream,
    ) -> Done {
        submit(
            &Job { base, pitch, value: value.into(), element_bytes: 2, width, height },
            stream,
            false,
        )
    }

    pub(crate) fn cuMemsetD2D32Async(
        base: CUdeviceptr,
        pitch: usize,
        value: c_uint,
        width: usize,
        height: usize,
        stream: CUstream,
    ) -> Done {
        submit(&Job { base, pitch, value, element_bytes: 4, width, height }, stream, false)
    }
}
