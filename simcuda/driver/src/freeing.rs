//! Giving memory back: the driver lets a program use another call than it was obtained by, at
//! once or in the order of a stream.

use crate::context::{self, CONTEXTS};
use crate::entry::Done;
use crate::space::{Kind, Region, SPACE};
use crate::{graph_memory, linear, pool, pool_share};
use shim_cuda_headers::CUresult;
use simcuda_protocol::Charge;

/// Whether `cuMemFree` and `cuMemFreeAsync` take it.
pub(crate) fn is_freeable(region: &Region) -> bool {
    matches!(region.kind, Kind::Linear | Kind::Managed | Kind::Pool(_) | Kind::Graph)
        || pool_share::is_pointer(region.kind)
}

/// Frees at once, after all work of the region's context that may use it.
pub(crate) fn free_waiting(base: u64) -> Done {
    let region = SPACE.find(base).filter(|region| region.base == base && is_freeable(region));
    let region = region.ok_or(CUresult::INVALID_VALUE)?;
    if let Some(context) = CONTEXTS.get(region.context) {
        context.engine.wait_idle();
    }
    // Two threads may free the same memory at the same time: one of them is wrong.
    let same = |other: &Region| other.id == region.id;
    let gone = SPACE.remove(base, same).ok_or(CUresult::INVALID_VALUE)?;
    release(&gone);
    Ok(())
}

/// Frees the memory of an array, which is idle.
pub(crate) fn free_array(base: u64) {
    if let Some(gone) = SPACE.remove(base, |region| region.kind == Kind::Array) {
        release(&gone);
    }
}

/// Frees what a stream has come to: the region of this number, if it is there still.
pub(crate) fn free_now(base: u64, id: u64) {
    let Some(region) = SPACE.find(base).filter(|region| region.id == id) else { return };
    // Its stream may have been given the same memory again just now.
    if let Kind::Pool(pool) = region.kind
        && !pool::frees(pool, id)
    {
        return;
    }
    if let Some(gone) = SPACE.remove(base, |region| region.id == id && is_freeable(region)) {
        release(&gone);
    }
}

fn release(region: &Region) {
    match region.kind {
        Kind::Pool(pool) => pool::give_back(pool, region),
        Kind::Imported(_) => {
            // Opened twice, it is closed twice.
            let _ = pool_share::release(region.base);
        }
        // The memory stays with its graph.
        Kind::Graph => graph_memory::ended(region.base),
        _ => {
            if let Some(context) = CONTEXTS.get(region.context) {
                linear::give_back(&context, region, Charge::Memory);
            }
        }
    }
}

/// The region that a stream is to free, which must be the start of an allocation.
pub(crate) fn freeable(base: u64) -> Result<Region, CUresult> {
    context::current()?;
    SPACE
        .find(base)
        .filter(|region| region.base == base && is_freeable(region))
        .ok_or(CUresult::INVALID_VALUE)
}
