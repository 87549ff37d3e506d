//! Copies in batches, copies with attributes, and three-dimensional copies between devices.

use crate::array_copy::three_dimensional;
use crate::command::Copy;
use crate::copy::{self, Must};
use crate::entry::{Done, Sim};
use crate::layout::{BatchCopy, BatchOperand, CopyAttributes, CopyParams, CopySide};
use crate::stream::{self, Stream};
use crate::{array, array_copy, capture, context, raw};
use shim_cuda_headers::*;
use std::ffi::c_ulonglong;

/// `CU_MEMCPY_SRC_ACCESS_ORDER_*`: when the source may be read.
const DURING_CALL: u32 = 2;
const ANY_ORDER: u32 = 3;
const KNOWN_FLAGS: u32 = 1;
const NO_INDEX: usize = usize::MAX;

fn check(order: u32, flags: u32) -> Done {
    let known = (1..=ANY_ORDER).contains(&order) && flags & !KNOWN_FLAGS == 0;
    if known { Ok(()) } else { Err(CUresult::INVALID_VALUE) }
}

/// These calls have no default stream: the legacy one is refused.
fn resolve(stream: CUstream) -> Result<std::sync::Arc<Stream>, CUresult> {
    let found = stream::resolve(stream)?;
    if found.handle == crate::engine::LEGACY {
        return Err(CUresult::INVALID_VALUE);
    }
    found.context.engine.check()?;
    Ok(found)
}

/// A flat copy between any two addresses, if both can be ends of one.
fn flat(to: u64, from: u64, bytes: usize, stream: &Stream) -> Result<Copy, CUresult> {
    let width = bytes as u64;
    if width == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let captured = stream.is_capturing();
    let to = copy::side(to, width, Must::Unified, captured)?;
    let from = copy::side(from, width, Must::Unified, captured)?;
    Ok(Copy { to, from, width, height: 1, depth: 1 })
}

/// One operation of a batch of any shape, in the words of the ordinary copy.
fn shaped(op: &BatchCopy, stream: &Stream) -> Result<Copy, CUresult> {
    check(op.source_order, op.flags)?;
    let element = element_bytes(&op.from)?.max(element_bytes(&op.to)?);
    let [width, height, depth] = op.extent;
    let params = CopyParams {
        src: side(&op.from, element, op.extent)?,
        dst: side(&op.to, element, op.extent)?,
        width_in_bytes: width.checked_mul(element).ok_or(CUresult::INVALID_VALUE)?,
        height,
        depth,
    };
    array_copy::of(&params.of_driver(), stream.is_capturing())?.ok_or(CUresult::INVALID_VALUE)
}

/// Sizes count the array's elements; between two pointers they count bytes.
fn element_bytes(operand: &BatchOperand) -> Result<usize, CUresult> {
    match operand.kind {
        1 => Ok(1),
        2 => Ok(array::find(CUarray(operand.words[0]))?.element_bytes() as usize),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

fn side(operand: &BatchOperand, element: usize, extent: [usize; 3]) -> Result<CopySide, CUresult> {
    let [first, a, b, c] = operand.words;
    if operand.kind == 2 {
        let x_in_bytes = a.checked_mul(element).ok_or(CUresult::INVALID_VALUE)?;
        let memory_type = 3;
        return Ok(CopySide {
            memory_type,
            array: first,
            x_in_bytes,
            y: b,
            z: c,
            ..CopySide::default()
        });
    }
    // A length of 0 is as long as what is copied.
    let row = if a == 0 { extent[0] } else { a };
    let rows = if b == 0 { extent[1] } else { b };
    let pitch = row.checked_mul(element).ok_or(CUresult::INVALID_VALUE)?;
    let device = first as u64;
    Ok(CopySide { memory_type: 4, device, pitch, height: rows, ..CopySide::default() })
}

/// Which attributes are whose: the n-th set is for the copies from its index on.
fn orders(
    count: usize,
    attributes: *mut CUmemcpyAttributes_v1,
    firsts: *mut usize,
    sets: usize,
) -> Result<Vec<u32>, CUresult> {
    let attributes: Vec<CopyAttributes> = raw::get_all(attributes.cast(), sets)?;
    let firsts = raw::get_all(firsts, sets)?;
    let rising = firsts.windows(2).all(|pair| pair[0] < pair[1]);
    if firsts.first() != Some(&0) || !rising || sets > count {
        return Err(CUresult::INVALID_VALUE);
    }
    attributes.iter().try_for_each(|one| check(one.source_order, one.flags))?;
    let set_of = |index| firsts.partition_point(|first| *first <= index) - 1;
    Ok((0..count).map(|index| attributes[set_of(index)].source_order).collect())
}

/// Gives the stream all copies; nothing if one of them is impossible, which `failed` then says.
fn submit(
    copies: impl Iterator<Item = Result<Copy, CUresult>>,
    orders: &[u32],
    failed: *mut usize,
    stream: &Stream,
) -> Done {
    let mut ready = Vec::new();
    for (index, copy) in copies.enumerate() {
        match copy {
            Ok(copy) => ready.push(copy),
            Err(code) => {
                raw::put_if_wanted(failed, index);
                return Err(code);
            }
        }
    }
    for (copy, order) in ready.into_iter().zip(orders) {
        copy::submit(stream, copy, *order == DURING_CALL)?;
    }
    Ok(())
}

fn peer(params: *const CUDA_MEMCPY3D_PEER_v1) -> Result<CopyParams, CUresult> {
    // The reserved word of each side is its context here.
    let params: CopyParams = raw::get(params.cast())?;
    for side in [&params.src, &params.dst] {
        if side.memory_type == 2 || side.memory_type == 3 {
            context::named(CUcontext(side.reserved))?;
        }
    }
    Ok(params)
}

impl Sim {
    #[allow(clippy::too_many_arguments, reason = "the vendor's own signature")]
    pub(crate) fn cuMemcpyBatchAsync(
        to: *mut CUdeviceptr,
        from: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        attributes: *mut CUmemcpyAttributes_v1,
        firsts: *mut usize,
        sets: usize,
        failed: *mut usize,
        stream: CUstream,
    ) -> Done {
        raw::put_if_wanted(failed, NO_INDEX);
        let stream = resolve(stream)?;
        if count == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let (to, from) = (raw::get_all(to, count)?, raw::get_all(from, count)?);
        let sizes = raw::get_all(sizes, count)?;
        let orders = orders(count, attributes, firsts, sets)?;
        let copies = (0..count).map(|at| flat(to[at], from[at], sizes[at], &stream));
        submit(copies, &orders, failed, &stream)
    }

    #[allow(clippy::too_many_arguments, reason = "the vendor's own signature")]
    pub(crate) fn cuMemcpyBatchAsync_v2(
        to: *mut CUdeviceptr,
        from: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        attributes: *mut CUmemcpyAttributes_v1,
        firsts: *mut usize,
        sets: usize,
        stream: CUstream,
    ) -> Done {
        let failed = std::ptr::null_mut();
        Self::cuMemcpyBatchAsync(to, from, sizes, count, attributes, firsts, sets, failed, stream)
    }

    pub(crate) fn cuMemcpyWithAttributesAsync(
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        attributes: *mut CUmemcpyAttributes_v1,
        stream: CUstream,
    ) -> Done {
        let stream = resolve(stream)?;
        let asked: CopyAttributes = raw::get(attributes.cast())?;
        check(asked.source_order, asked.flags)?;
        copy::submit(&stream, flat(to, from, bytes, &stream)?, asked.source_order == DURING_CALL)
    }

    pub(crate) fn cuMemcpy3DBatchAsync(
        count: usize,
        ops: *mut CUDA_MEMCPY3D_BATCH_OP_v1,
        failed: *mut usize,
        flags: c_ulonglong,
        stream: CUstream,
    ) -> Done {
        raw::put_if_wanted(failed, NO_INDEX);
        let stream = resolve(stream)?;
        if count == 0 || flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let ops: Vec<BatchCopy> = raw::get_all(ops.cast(), count)?;
        let orders: Vec<u32> = ops.iter().map(|op| op.source_order).collect();
        submit(ops.iter().map(|op| shaped(op, &stream)), &orders, failed, &stream)
    }

    pub(crate) fn cuMemcpy3DBatchAsync_v2(
        count: usize,
        ops: *mut CUDA_MEMCPY3D_BATCH_OP_v1,
        flags: c_ulonglong,
        stream: CUstream,
    ) -> Done {
        Self::cuMemcpy3DBatchAsync(count, ops, std::ptr::null_mut(), flags, stream)
    }

    pub(crate) fn cuMemcpy3DWithAttributesAsync(
        op: *mut CUDA_MEMCPY3D_BATCH_OP_v1,
        flags: c_ulonglong,
        stream: CUstream,
    ) -> Done {
        Self::cuMemcpy3DBatchAsync(1, op, std::ptr::null_mut(), flags, stream)
    }

    pub(crate) fn cuMemcpy3DPeer(copy: *const CUDA_MEMCPY3D_PEER_v1) -> Done {
        let stream = stream::default()?;
        capture::forbid_on(&stream)?;
        three_dimensional(&peer(copy)?.of_driver(), &stream, true)
    }

    pub(crate) fn cuMemcpy3DPeerAsync(
        copy: *const CUDA_MEMCPY3D_PEER_v1,
        stream: CUstream,
    ) -> Done {
        three_dimensional(&peer(copy)?.of_driver(), &*stream::resolve(stream)?, false)
    }
}
