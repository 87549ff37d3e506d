//! Stream-ordered allocation: pools that keep what was freed, up to a threshold, until the
//! program synchronises.
//!
//! What a pool reserves is charged to the card, used or not. An allocation is there when the call
//! returns; its release happens when its stream comes to it.

use crate::arena::{Arena, GRAIN_BYTES};
use crate::blocks::{self, BLOCK_BYTES};
use crate::command::Work;
use crate::entry::{Done, Sim};
use crate::graph_memory::GraphBlock;
use crate::registry::Registry;
use crate::space::{Access, Kind, Region, SPACE};
use crate::stream::{self, Stream};
use crate::{freeing, graph_memory, process, raw};
use shim_cuda_headers::*;
use simcuda_protocol::Charge;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static POOLS: Registry<Pool> = Registry::new(0x50);

/// The pool that each device began with, and the one that it uses now.
static OF_DEVICE: Mutex<BTreeMap<i32, (usize, usize)>> = Mutex::new(BTreeMap::new());

/// A pool grows by this much, if the card has it.
const GROWTH_BYTES: u64 = 32 << 20;

const PINNED: u32 = 1;
const ON_DEVICE: u32 = 1;

#[derive(Debug)]
pub(crate) struct Pool {
    device: i32,
    max_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    arena: Arena,
    threshold_bytes: u64,
    reserved_high: u64,
    used_high: u64,
    /// Attributes 1, 2 and 3: what may be reused when.
    reuse: [u32; 3],
    /// Released to die with its last allocation.
    closing: bool,
}

impl Pool {
    fn new(device: i32, max_bytes: u64) -> Self {
        let state = State { reuse: [1; 3], ..State::default() };
        Self { device, max_bytes, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, span: u64) -> Result<u64, CUresult> {
        let mut state = self.state();
        let base = match state.arena.take(span) {
            Some(base) => base,
            None => {
                self.grow(&mut state, span)?;
                state.arena.take(span).ok_or(CUresult::UNKNOWN)?
            }
        };
        state.used_high = state.used_high.max(state.arena.used_bytes());
        state.reserved_high = state.reserved_high.max(state.arena.reserved_bytes());
        Ok(base)
    }

    fn grow(&self, state: &mut State, span: u64) -> Result<(), CUresult> {
        let exact = span.checked_next_multiple_of(BLOCK_BYTES).ok_or(CUresult::OUT_OF_MEMORY)?;
        let reserved = state.arena.reserved_bytes();
        let fits =
            |bytes: u64| self.max_bytes == 0 || reserved.saturating_add(bytes) <= self.max_bytes;
        for bytes in [exact.max(GROWTH_BYTES), exact] {
            if !fits(bytes) {
                continue;
            }
            let mut taken = blocks::take(self.device, bytes, Charge::Memory);
            if taken == Err(CUresult::OUT_OF_MEMORY) {
                self.shrink(state, 0);
                taken = blocks::take(self.device, bytes, Charge::Memory);
            }
            match taken {
                Ok(base) => {
                    state.arena.add_chunk(base, bytes);
                    return Ok(());
                }
                Err(CUresult::OUT_OF_MEMORY) => {}
                Err(other) => return Err(other),
            }
        }
        Err(CUresult::OUT_OF_MEMORY)
    }

    /// Returns unused chunks while more than `keep` bytes are reserved.
    fn shrink(&self, state: &mut State, keep: u64) {
        for (chunk, bytes) in state.arena.unused() {
            if state.arena.reserved_bytes() <= keep {
                return;
            }
            state.arena.remove_chunk(chunk);
            blocks::give(self.device, chunk, bytes, Charge::Memory);
        }
    }
}

/// Gives the memory of a region back to its pool; the region has left the table.
pub(crate) fn give_back(pool: usize, region: &Region) {
    let Some(found) = POOLS.get(pool) else { return };
    SPACE.settle();
    let mut state = found.state();
    state.arena.give(region.base, region.span);
    if state.closing {
        found.shrink(&mut state, 0);
        if state.arena.reserved_bytes() == 0 {
            drop(state);
            POOLS.remove(pool);
        }
    }
}

/// A synchronising call: pools of the device keep no more than their threshold.
pub(crate) fn shrink_all(device: i32) {
    for pool in POOLS.all().iter().filter(|pool| pool.device == device) {
        let mut state = pool.state();
        let keep = state.threshold_bytes;
        pool.shrink(&mut state, keep);
    }
}

/// The process has no context on the device any more: what its pools hold is gone.
pub(crate) fn empty_all(device: i32) {
    let of_it = |region: &Region| matches!(region.kind, Kind::Pool(_)) && region.device == device;
    SPACE.remove_all(of_it);
    SPACE.settle();
    for pool in POOLS.all().iter().filter(|pool| pool.device == device) {
        let chunks = pool.state().arena.drain();
        for (chunk, bytes) in chunks {
            blocks::give(device, chunk, bytes, Charge::Memory);
        }
    }
}

fn find(pool: CUmemoryPool) -> Result<Arc<Pool>, CUresult> {
    POOLS.get(pool.0).filter(|pool| !pool.state().closing).ok_or(CUresult::INVALID_VALUE)
}

/// The device's own pool and the one it uses; made when first asked for.
fn of_device(device: i32) -> Result<(usize, usize), CUresult> {
    process::card(device)?;
    let mut pools = OF_DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(*pools.entry(device).or_insert_with(|| {
        let handle = POOLS.add(Pool::new(device, 0));
        (handle, handle)
    }))
}

fn allocate(stream: &Stream, handle: usize, bytes: usize) -> Result<u64, CUresult> {
    stream.context.engine.check()?;
    if bytes == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let pool = find(CUmemoryPool(handle))?;
    let size = bytes as u64;
    if stream.is_capturing() {
        return capture(stream, pool.device, size);
    }
    let span = size.checked_next_multiple_of(GRAIN_BYTES).ok_or(CUresult::OUT_OF_MEMORY)?;
    let base = pool.take(span)?;
    SPACE.insert(Region {
        base,
        size,
        span,
        kind: Kind::Pool(handle),
        context: stream.context.handle,
        device: pool.device,
        access: Access::ReadWrite,
        id: SPACE.fresh_id(),
    });
    Ok(base)
}

/// While a stream captures, its allocations are nodes with memory of their graph.
fn capture(stream: &Stream, device: i32, size: u64) -> Result<u64, CUresult> {
    let block = graph_memory::register(GraphBlock::new(device, stream.context.handle, size)?);
    let base = block.base;
    stream.submit(Work::Begin(block))?;
    Ok(base)
}

impl Sim {
    pub(crate) fn cuMemAllocAsync(
        address: *mut CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> Done {
        let stream = stream::resolve(stream)?;
        if address.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let (_, pool) = of_device(stream.context.device)?;
        raw::put(address, allocate(&stream, pool, bytes)?)
    }

    pub(crate) fn cuMemAllocFromPoolAsync(
        address: *mut CUdeviceptr,
        bytes: usize,
        pool: CUmemoryPool,
        stream: CUstream,
    ) -> Done {
        let stream = stream::resolve(stream)?;
        if address.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(address, allocate(&stream, pool.0, bytes)?)
    }

    pub(crate) fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) -> Done {
        let stream = stream::resolve(stream)?;
        stream.context.engine.check()?;
        if address == 0 {
            return Ok(());
        }
        if stream.is_capturing() {
            let block = graph_memory::at(address).ok_or(CUresult::INVALID_VALUE)?;
            return stream.submit(Work::End(block)).map(drop);
        }
        let region = freeing::freeable(address)?;
        if let Kind::Graph = region.kind {
            let block = graph_memory::at(address).ok_or(CUresult::INVALID_VALUE)?;
            block.close()?;
            return stream.submit(Work::End(block)).map(drop);
        }
        stream.submit(Work::Free { base: region.base }).map(drop)
    }

    pub(crate) fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice) -> Done {
        raw::put(pool, CUmemoryPool(of_device(device)?.0))
    }

    pub(crate) fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice) -> Done {
        raw::put(pool, CUmemoryPool(of_device(device)?.1))
    }

    pub(crate) fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) -> Done {
        of_device(device)?;
        if find(pool)?.device != device {
            return Err(CUresult::INVALID_DEVICE);
        }
        let mut pools = OF_DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, used)) = pools.get_mut(&device) {
            *used = pool.0;
        }
        Ok(())
    }

    pub(crate) fn cuMemPoolCreate(
        pool: *mut CUmemoryPool,
        props: *const CUmemPoolProps_v1,
    ) -> Done {
        let props = raw::get(props)?;
        if pool.is_null() || props.alloc_type != PINNED || props.location.kind != ON_DEVICE {
            return Err(CUresult::INVALID_VALUE);
        }
        if props.handle_types != 0 {
            return Err(CUresult::NOT_SUPPORTED);
        }
        process::card(props.location.id)?;
        raw::put(pool, CUmemoryPool(POOLS.add(Pool::new(props.location.id, props.max_size as u64))))
    }

    pub(crate) fn cuMemPoolDestroy(pool: CUmemoryPool) -> Done {
        let found = find(pool)?;
        let mut pools = OF_DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((own, used)) = pools.get_mut(&found.device) {
            if *own == pool.0 {
                return Err(CUresult::INVALID_VALUE);
            }
            if *used == pool.0 {
                *used = *own;
            }
        }
        drop(pools);
        let mut state = found.state();
        found.shrink(&mut state, 0);
        state.closing = true;
        if state.arena.reserved_bytes() == 0 {
            drop(state);
            POOLS.remove(pool.0);
        }
        Ok(())
    }

    pub(crate) fn cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize) -> Done {
        let found = find(pool)?;
        let mut state = found.state();
        found.shrink(&mut state, keep as u64);
        Ok(())
    }

    pub(crate) fn cuMemPoolSetAttribute(
        pool: CUmemoryPool,
        attribute: CUmemPool_attribute,
        value: *mut c_void,
    ) -> Done {
        let found = find(pool)?;
        let mut state = found.state();
        match attribute {
            1..=3 => state.reuse[attribute as usize - 1] = raw::get(value.cast::<u32>())?,
            4 => state.threshold_bytes = raw::get(value.cast::<u64>())?,
            // High-water marks can only be set to zero, which is: to what is now.
            6 | 8 => {
                if raw::get(value.cast::<u64>())? != 0 {
                    return Err(CUresult::INVALID_VALUE);
                }
                if attribute == 6 {
                    state.reserved_high = state.arena.reserved_bytes();
                } else {
                    state.used_high = state.arena.used_bytes();
                }
            }
            _ => return Err(CUresult::INVALID_VALUE),
        }
        Ok(())
    }

    pub(crate) fn cuMemPoolGetAttribute(
        pool: CUmemoryPool,
        attribute: CUmemPool_attribute,
        value: *mut c_void,
    ) -> Done {
        let found = find(pool)?;
        let state = found.state();
        let bytes = match attribute {
            1..=3 => return raw::put(value.cast::<u32>(), state.reuse[attribute as usize - 1]),
            4 => state.threshold_bytes,
            5 => state.arena.reserved_bytes(),
            6 => state.reserved_high,
            7 => state.arena.used_bytes(),
            8 => state.used_high,
            _ => return Err(CUresult::INVALID_VALUE),
        };
        raw::put(value.cast::<u64>(), bytes)
    }

    pub(crate) fn cuMemPoolSetAccess(
        pool: CUmemoryPool,
        access: *const CUmemAccessDesc_v1,
        count: usize,
    ) -> Done {
        let own = find(pool)?.device;
        for wanted in raw::get_all(access, count)? {
            process::card(wanted.location.id)?;
            // The device that owns the pool cannot be shut out of it.
            if wanted.location.kind != ON_DEVICE || wanted.location.id == own && wanted.flags != 3 {
                return Err(CUresult::INVALID_VALUE);
            }
        }
        Ok(())
    }

    pub(crate) fn cuMemPoolGetAccess(
        access: *mut CUmemAccess_flags,
        pool: CUmemoryPool,
        at: *mut CUmemLocation,
    ) -> Done {
        find(pool)?;
        let at = raw::get(at)?;
        process::card(at.id)?;
        raw::put(access, 3)
    }
}
