//! Linear memory: plain, pitched and managed allocations of a context, and how much is free.

use crate::arena::GRAIN_BYTES;
use crate::blocks::{self, BLOCK_BYTES};
use crate::context::{self, Context};
use crate::entry::{Done, Sim};
use crate::space::{Access, Kind, Region, SPACE};
use crate::{freeing, pages, raw};
use shim_cuda_headers::{CUdeviceptr, CUresult};
use simcuda_protocol::{Charge, Reply, Request};
use std::ffi::c_uint;
use std::sync::PoisonError;

const PITCH_BYTES: usize = 512;

/// Allocates `size` bytes for the context; below a block's size they share one.
pub(crate) fn allocate(
    context: &Context,
    size: u64,
    kind: Kind,
    why: Charge,
) -> Result<u64, CUresult> {
    let span = span(size).ok_or(CUresult::OUT_OF_MEMORY)?;
    let base = if size < BLOCK_BYTES {
        small(context, span)?
    } else {
        blocks::take(context.device, span, why)?
    };
    SPACE.insert(Region {
        base,
        size,
        span,
        kind,
        context: context.handle,
        device: context.device,
        access: Access::ReadWrite,
        id: SPACE.fresh_id(),
    });
    Ok(base)
}

/// What an allocation of `size` bytes takes of a card.
pub(crate) fn span(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(if size < BLOCK_BYTES { GRAIN_BYTES } else { BLOCK_BYTES })
}

fn small(context: &Context, span: u64) -> Result<u64, CUresult> {
    let mut arena = context.arena.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(base) = arena.take(span) {
        return Ok(base);
    }
    let chunk = blocks::take(context.device, BLOCK_BYTES, Charge::Memory)?;
    arena.add_chunk(chunk, BLOCK_BYTES);
    arena.take(span).ok_or(CUresult::UNKNOWN)
}

/// Gives the memory of a region back that has left the table.
pub(crate) fn give_back(context: &Context, region: &Region, why: Charge) {
    SPACE.settle();
    if region.size >= BLOCK_BYTES {
        blocks::give(region.device, region.base, region.span, why);
        return;
    }
    let mut arena = context.arena.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((chunk, bytes)) = arena.give(region.base, region.span) {
        arena.remove_chunk(chunk);
        blocks::give(region.device, chunk, bytes, Charge::Memory);
    }
}

/// The context ends, and all its allocations with it.
pub(crate) fn free_all(context: &Context) {
    let of_it = |region: &Region| {
        region.context == context.handle
            && matches!(region.kind, Kind::Linear | Kind::Managed | Kind::Array)
    };
    let regions = SPACE.remove_all(of_it);
    SPACE.settle();
    for region in regions.iter().filter(|region| region.size >= BLOCK_BYTES) {
        blocks::give(region.device, region.base, region.span, Charge::Memory);
    }
    let chunks = context.arena.lock().unwrap_or_else(PoisonError::into_inner).drain();
    for (chunk, bytes) in chunks {
        blocks::give(context.device, chunk, bytes, Charge::Memory);
    }
}

impl Sim {
    pub(crate) fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Done {
        let context = context::working()?;
        if free.is_null() || total.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let device = crate::process::card(context.device)?.number;
        let (Reply::Room { free_bytes, total_bytes }, _) = blocks::ask(&Request::Room { device })?
        else {
            return Err(CUresult::UNKNOWN);
        };
        raw::put(free, free_bytes as usize)?;
        raw::put(total, total_bytes as usize)
    }

    pub(crate) fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> Done {
        let context = context::working()?;
        if address.is_null() || bytes == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(address, allocate(&context, bytes as u64, Kind::Linear, Charge::Memory)?)
    }

    pub(crate) fn cuMemAllocPitch_v2(
        address: *mut CUdeviceptr,
        pitch: *mut usize,
        width: usize,
        height: usize,
        element: c_uint,
    ) -> Done {
        let context = context::working()?;
        if address.is_null()
            || pitch.is_null()
            || width == 0
            || height == 0
            || ![4, 8, 16].contains(&element)
        {
            return Err(CUresult::INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(PITCH_BYTES).ok_or(CUresult::OUT_OF_MEMORY)?;
        let bytes = row.checked_mul(height).ok_or(CUresult::OUT_OF_MEMORY)?;
        raw::put(address, allocate(&context, bytes as u64, Kind::Linear, Charge::Memory)?)?;
        raw::put(pitch, row)
    }

    pub(crate) fn cuMemAllocManaged(
        address: *mut CUdeviceptr,
        bytes: usize,
        flags: c_uint,
    ) -> Done {
        let context = context::working()?;
        // Attached to all streams, or to the host; never both or neither.
        if address.is_null() || bytes == 0 || !(1..=2).contains(&flags) {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(address, allocate(&context, bytes as u64, Kind::Managed, Charge::Memory)?)
    }

    pub(crate) fn cuMemFree_v2(address: CUdeviceptr) -> Done {
        let context = context::current()?;
        if address == 0 {
            return Ok(());
        }
        context.engine.check()?;
        freeing::free_waiting(address)
    }

    pub(crate) fn cuMemGetAddressRange_v2(
        base: *mut CUdeviceptr,
        size: *mut usize,
        address: CUdeviceptr,
    ) -> Done {
        context::current()?;
        let region = SPACE.find(address).filter(Region::is_device).ok_or(CUresult::NOT_FOUND)?;
        if address >= region.base + region.size {
            return Err(CUresult::NOT_FOUND);
        }
        raw::put_if_wanted(base, region.base);
        raw::put_if_wanted(size, region.size as usize);
        Ok(())
    }
}

/// Host memory that is mapped for the program, not for a card.
pub(crate) fn host_pages(bytes: u64) -> Result<u64, CUresult> {
    pages::host(bytes).map_err(|_| CUresult::OUT_OF_MEMORY)
}
