//! Copies: between host and device, in each direction, one to three dimensions.
//!
//! Host memory that the driver does not know ("pageable") is staged as the driver documents: a
//! short copy from it has been read when the call returns; a long one, and any to it, is done.

use crate::command::{Copy, Side, SideKind, Work};
use crate::entry::{Done, Sim};
use crate::space::{Access, SPACE};
use crate::stream::{self, Stream};
use crate::{array, context, raw};
use shim_cuda_headers::*;
use std::ffi::c_void;

/// Up to here a pageable source is copied aside.
const STAGED_BYTES: u64 = 64 << 10;

/// What an address must be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Must {
    /// Device memory, or host memory that the driver knows.
    Device,
    /// Any host address.
    Host,
    /// Whatever it is.
    Unified,
}

fn at<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

/// One end of a flat copy, if the address can be one. A captured copy may name memory that a
/// memory node will only bring.
pub(crate) fn side(base: u64, bytes: u64, must: Must, captured: bool) -> Result<Side, CUresult> {
    base.checked_add(bytes).ok_or(CUresult::INVALID_VALUE)?;
    if SPACE.allows(base, bytes, Access::Read) {
        return Ok(Side::flat(base, SideKind::Known));
    }
    match SPACE.find(base) {
        None if captured && must == Must::Device => Ok(Side::flat(base, SideKind::Known)),
        // Host memory of which only the beginning was registered is host memory still.
        Some(region) if region.is_device() => Err(CUresult::INVALID_VALUE),
        _ if must == Must::Device || base == 0 => Err(CUresult::INVALID_VALUE),
        _ => Ok(Side::flat(base, SideKind::Pageable)),
    }
}

/// Gives the stream a copy, and keeps the promises about host memory.
pub(crate) fn submit(stream: &Stream, mut copy: Copy, wait: bool) -> Done {
    let capturing = stream.is_capturing();
    let pageable = |side: &Side| matches!(side.kind, SideKind::Pageable);
    let mut wait = wait || pageable(&copy.to);
    if !capturing && pageable(&copy.from) && !wait {
        let flat = copy.height == 1 && copy.depth == 1;
        if flat && copy.width <= STAGED_BYTES {
            let source = std::ptr::with_exposed_provenance(copy.from.base as usize);
            let staged = raw::bytes_at(source, copy.width as usize)?;
            copy.from.kind = SideKind::Staged(staged.into());
        } else {
            wait = true;
        }
    }
    if wait && !capturing {
        stream.submit_and_wait(Work::Copy(copy))
    } else {
        stream.submit(Work::Copy(copy)).map(drop)
    }
}

fn flat(to: (u64, Must), from: (u64, Must), bytes: usize, stream: &Stream, wait: bool) -> Done {
    stream.context.engine.check()?;
    let width = bytes as u64;
    if width == 0 {
        return Ok(());
    }
    let captured = stream.is_capturing();
    let to = side(to.0, width, to.1, captured)?;
    let from = side(from.0, width, from.1, captured)?;
    submit(stream, Copy { to, from, width, height: 1, depth: 1 }, wait)
}

/// Copies that return when they are done: on the default stream, which must not capture.
fn now(to: (u64, Must), from: (u64, Must), bytes: usize) -> Done {
    let stream = stream::default()?;
    crate::capture::forbid_on(&stream)?;
    flat(to, from, bytes, &stream, true)
}

fn later(to: (u64, Must), from: (u64, Must), bytes: usize, stream: CUstream) -> Done {
    flat(to, from, bytes, &*stream::resolve(stream)?, false)
}

impl Sim {
    pub(crate) fn cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) -> Done {
        now((to, Must::Unified), (from, Must::Unified), bytes)
    }

    pub(crate) fn cuMemcpyAsync(
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> Done {
        later((to, Must::Unified), (from, Must::Unified), bytes, stream)
    }

    pub(crate) fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize) -> Done {
        now((to, Must::Device), (at(from), Must::Host), bytes)
    }

    pub(crate) fn cuMemcpyHtoDAsync_v2(
        to: CUdeviceptr,
        from: *const c_void,
        bytes: usize,
        stream: CUstream,
    ) -> Done {
        later((to, Must::Device), (at(from), Must::Host), bytes, stream)
    }

    pub(crate) fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) -> Done {
        now((at(to), Must::Host), (from, Must::Device), bytes)
    }

    pub(crate) fn cuMemcpyDtoHAsync_v2(
        to: *mut c_void,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> Done {
        later((at(to), Must::Host), (from, Must::Device), bytes, stream)
    }

    pub(crate) fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) -> Done {
        now((to, Must::Device), (from, Must::Device), bytes)
    }

    pub(crate) fn cuMemcpyDtoDAsync_v2(
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> Done {
        later((to, Must::Device), (from, Must::Device), bytes, stream)
    }

    pub(crate) fn cuMemcpyPeer(
        to: CUdeviceptr,
        at: CUcontext,
        from: CUdeviceptr,
        of: CUcontext,
        bytes: usize,
    ) -> Done {
        context::named(at)?;
        context::named(of)?;
        now((to, Must::Device), (from, Must::Device), bytes)
    }

    pub(crate) fn cuMemcpyPeerAsync(
        to: CUdeviceptr,
        at: CUcontext,
        from: CUdeviceptr,
        of: CUcontext,
        bytes: usize,
        stream: CUstream,
    ) -> Done {
        context::named(at)?;
        context::named(of)?;
        later((to, Must::Device), (from, Must::Device), bytes, stream)
    }

    pub(crate) fn cuMemcpy2D_v2(copy: *const CUDA_MEMCPY2D_v2) -> Done {
        let stream = stream::default()?;
        crate::capture::forbid_on(&stream)?;
        two_dimensional(copy, &stream, true)
    }

    pub(crate) fn cuMemcpy2DUnaligned_v2(copy: *const CUDA_MEMCPY2D_v2) -> Done {
        Self::cuMemcpy2D_v2(copy)
    }

    pub(crate) fn cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D_v2, stream: CUstream) -> Done {
        two_dimensional(copy, &*stream::resolve(stream)?, false)
    }
}

fn two_dimensional(copy: *const CUDA_MEMCPY2D_v2, stream: &Stream, wait: bool) -> Done {
    stream.context.engine.check()?;
    let copy = raw::get(copy)?;
    let (width, height) = (copy.width_in_bytes as u64, copy.height as u64);
    if width == 0 || height == 0 {
        return Ok(());
    }
    let captured = stream.is_capturing();
    let to = pitched(&copy.dst, width, height, captured)?;
    let from = pitched(&copy.src, width, height, captured)?;
    submit(stream, Copy { to, from, width, height, depth: 1 }, wait)
}

/// One end of a two-dimensional copy, in the header's numbers: 1 host, 2 device, 4 unified.
fn pitched(end: &Memcpy2dSide, width: u64, height: u64, captured: bool) -> Result<Side, CUresult> {
    let (base, must) = match end.memory_type {
        1 => (at(end.host), Must::Host),
        2 => (end.device, Must::Device),
        4 => (end.device, Must::Unified),
        3 => {
            let array = array::find(end.array)?;
            return array.side(end.x_in_bytes as u64, end.y as u64, width, height);
        }
        _ => return Err(CUresult::INVALID_VALUE),
    };
    let pitch = if end.pitch == 0 { width } else { end.pitch as u64 };
    let offset =
        pitch.checked_mul(end.y as u64).and_then(|rows| rows.checked_add(end.x_in_bytes as u64));
    let first =
        offset.and_then(|offset| base.checked_add(offset)).ok_or(CUresult::INVALID_VALUE)?;
    let bytes = pitch.checked_mul(height - 1).and_then(|rows| rows.checked_add(width));
    if pitch < width {
        return Err(CUresult::INVALID_VALUE);
    }
    let side = side(first, bytes.ok_or(CUresult::INVALID_VALUE)?, must, captured)?;
    Ok(Side { pitch, ..side })
}
