//! Copies from array to array, and in three dimensions between any two kinds of memory.

use crate::command::{Copy, Side};
use crate::copy::{Must, side, submit};
use crate::entry::{Done, Sim};
use crate::stream::{self, Stream};
use crate::{array, capture, raw};
use shim_cuda_headers::*;

/// Bytes to a row, rows to a slice, slices.
#[derive(Clone, Copy)]
struct Extent {
    width: u64,
    height: u64,
    depth: u64,
}

pub(crate) fn three_dimensional(copy: &CUDA_MEMCPY3D_v2, stream: &Stream, wait: bool) -> Done {
    stream.context.engine.check()?;
    match of(copy, stream.is_capturing())? {
        Some(copy) => submit(stream, copy, wait),
        None => Ok(()),
    }
}

/// The copy that the structure describes, if it is any.
pub(crate) fn of(copy: &CUDA_MEMCPY3D_v2, captured: bool) -> Result<Option<Copy>, CUresult> {
    let (width, height, depth) =
        (copy.width_in_bytes as u64, copy.height as u64, copy.depth as u64);
    if width == 0 || height == 0 || depth == 0 {
        return Ok(None);
    }
    let extent = Extent { width, height, depth };
    let to = end(&copy.dst, extent, captured)?;
    let from = end(&copy.src, extent, captured)?;
    Ok(Some(Copy { to, from, width, height, depth }))
}

/// One end, in the header's numbers: 1 host, 2 device, 3 array, 4 unified.
fn end(end: &Memcpy3dSide, extent: Extent, captured: bool) -> Result<Side, CUresult> {
    if end.lod != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    match end.memory_type {
        1 => {
            let host = end.host.expose_provenance() as u64;
            pitched(end, host, Must::Host, extent, captured)
        }
        2 => pitched(end, end.device, Must::Device, extent, captured),
        3 => of_array(end, extent),
        4 => pitched(end, end.device, Must::Unified, extent, captured),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

fn of_array(end: &Memcpy3dSide, extent: Extent) -> Result<Side, CUresult> {
    let array = array::find(end.array)?;
    let (y, z) = (end.y as u64, end.z as u64);
    let fits = |from: u64, count: u64, most: u64| {
        from.checked_add(count).is_some_and(|reach| reach <= most)
    };
    let slices = array.descriptor.depth.max(1) as u64;
    if !fits(y, extent.height, array.rows()) || !fits(z, extent.depth, slices) {
        return Err(CUresult::INVALID_VALUE);
    }
    let first = z * array.rows() + y;
    let side = array.side(end.x_in_bytes as u64, first, extent.width, extent.height)?;
    Ok(Side { layer: array.rows() * array.layout.pitch, ..side })
}

fn pitched(
    end: &Memcpy3dSide,
    base: u64,
    must: Must,
    extent: Extent,
    captured: bool,
) -> Result<Side, CUresult> {
    let pitch = if end.pitch == 0 { extent.width } else { end.pitch as u64 };
    let rows = if end.height == 0 { extent.height } else { end.height as u64 };
    if pitch < extent.width || rows < extent.height {
        return Err(CUresult::INVALID_VALUE);
    }
    let at = |z: u64, y: u64, x: u64| {
        z.checked_mul(rows)?.checked_add(y)?.checked_mul(pitch)?.checked_add(x)
    };
    let start = at(end.z as u64, end.y as u64, end.x_in_bytes as u64)
        .and_then(|offset| base.checked_add(offset));
    let bytes = at(extent.depth - 1, extent.height - 1, extent.width);
    let layer = pitch.checked_mul(rows);
    let (Some(start), Some(bytes), Some(layer)) = (start, bytes, layer) else {
        return Err(CUresult::INVALID_VALUE);
    };
    let side = side(start, bytes, must, captured)?;
    Ok(Side { pitch, layer, ..side })
}

impl Sim {
    pub(crate) fn cuMemcpyAtoA_v2(
        to: CUarray,
        to_offset: usize,
        from: CUarray,
        from_offset: usize,
        bytes: usize,
    ) -> Done {
        let stream = stream::default()?;
        capture::forbid_on(&stream)?;
        stream.context.engine.check()?;
        let width = bytes as u64;
        if width == 0 {
            return Ok(());
        }
        let to = array::find(to)?.side(to_offset as u64, 0, width, 1)?;
        let from = array::find(from)?.side(from_offset as u64, 0, width, 1)?;
        submit(&stream, Copy { to, from, width, height: 1, depth: 1 }, true)
    }

    pub(crate) fn cuMemcpy3D_v2(copy: *const CUDA_MEMCPY3D_v2) -> Done {
        let stream = stream::default()?;
        capture::forbid_on(&stream)?;
        three_dimensional(&raw::get(copy)?, &stream, true)
    }

    pub(crate) fn cuMemcpy3DAsync_v2(copy: *const CUDA_MEMCPY3D_v2, stream: CUstream) -> Done {
        three_dimensional(&raw::get(copy)?, &*stream::resolve(stream)?, false)
    }
}
