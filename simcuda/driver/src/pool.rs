//! Stream-ordered allocation: pools that keep what was freed, up to a threshold, until the
//! program synchronises.
//!
//! What a pool reserves is charged to the card, used or not. An allocation is there when the call
//! returns; its release happens when its stream comes to it.

use crate::arena::{Arena, GRAIN_BYTES};
use crate::blocks::{self, BLOCK_BYTES};
use crate::command::Work;
use crate::entry::Done;
use crate::graph_memory::GraphBlock;
use crate::registry::Registry;
use crate::space::{Access, Kind, Region, SPACE};
use crate::stream::Stream;
use crate::{graph_memory, process, shared_blocks};
use shim_cuda_headers::*;
use simcuda_protocol::Charge;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) static POOLS: Registry<Pool> = Registry::new(0x50);

/// The pool that each device began with, and the one that it uses now.
pub(crate) static OF_DEVICE: Mutex<BTreeMap<i32, (usize, usize)>> = Mutex::new(BTreeMap::new());

/// A pool grows by this much, if the card has it.
const GROWTH_BYTES: u64 = 32 << 20;

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) device: i32,
    pub(crate) max_bytes: u64,
    /// Other processes may be given its memory; then it has a name that they know it by.
    pub(crate) shared_as: Option<u64>,
    /// It is another process's: nothing is allocated from it here.
    pub(crate) imported: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) arena: Arena,
    pub(crate) threshold_bytes: u64,
    pub(crate) reserved_high: u64,
    pub(crate) used_high: u64,
    /// Attributes 1, 2 and 3: what may be reused when.
    pub(crate) reuse: [u32; 3],
    /// What streams will free. The same stream may have it again at once; it is not freed then.
    pending: Vec<Pending>,
    /// Devices with access besides its own.
    pub(crate) peers: BTreeMap<i32, u32>,
    /// Released to die with its last allocation.
    pub(crate) closing: bool,
}

/// An allocation that a stream was told to free.
#[derive(Debug)]
struct Pending {
    stream: usize,
    base: u64,
    span: u64,
    /// The region's number: the same memory may be allocated and freed again before its turn comes.
    id: u64,
}

impl Pool {
    pub(crate) fn new(device: i32, max_bytes: u64, shared_as: Option<u64>, imported: bool) -> Self {
        let state = State { reuse: [1; 3], ..State::default() };
        Self { device, max_bytes, shared_as, imported, state: Mutex::new(state) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for an allocation of the stream: where, and how much of it there is.
    fn take(&self, stream: usize, span: u64) -> Result<(u64, u64), CUresult> {
        let mut state = self.state();
        let fits = |pending: &Pending| pending.stream == stream && pending.span >= span;
        if let Some(at) = state.pending.iter().position(fits) {
            let again = state.pending.remove(at);
            return Ok((again.base, again.span));
        }
        let base = match state.arena.take(span) {
            Some(base) => base,
            None => {
                self.grow(&mut state, span)?;
                state.arena.take(span).ok_or(CUresult::UNKNOWN)?
            }
        };
        state.used_high = state.used_high.max(state.arena.used_bytes());
        state.reserved_high = state.reserved_high.max(state.arena.reserved_bytes());
        Ok((base, span))
    }

    fn take_chunk(&self, bytes: u64) -> Result<u64, CUresult> {
        match self.shared_as {
            Some(_) => shared_blocks::take(self.device, bytes),
            None => blocks::take(self.device, bytes, Charge::Memory),
        }
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
            let mut taken = self.take_chunk(bytes);
            if taken == Err(CUresult::OUT_OF_MEMORY) {
                self.shrink(state, 0);
                taken = self.take_chunk(bytes);
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
    pub(crate) fn shrink(&self, state: &mut State, keep: u64) {
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
        let chunks = {
            let mut state = pool.state();
            state.pending.clear();
            state.arena.drain()
        };
        for (chunk, bytes) in chunks {
            blocks::give(device, chunk, bytes, Charge::Memory);
        }
    }
}

/// The stream was told to free it; says nothing of when.
pub(crate) fn will_free(pool: usize, stream: usize, region: &Region) -> Done {
    let found = POOLS.get(pool).ok_or(CUresult::INVALID_VALUE)?;
    let mut state = found.state();
    if state.pending.iter().any(|pending| pending.id == region.id) {
        return Err(CUresult::INVALID_VALUE);
    }
    let Region { base, span, id, .. } = *region;
    state.pending.push(Pending { stream, base, span, id });
    Ok(())
}

/// The stream has come to a freeing: whether the memory is to be given back now, and has not been
/// allocated again.
pub(crate) fn frees(pool: usize, id: u64) -> bool {
    let Some(found) = POOLS.get(pool) else { return true };
    let mut state = found.state();
    let at = state.pending.iter().position(|pending| pending.id == id);
    at.map(|at| state.pending.remove(at)).is_some()
}

pub(crate) fn find(pool: CUmemoryPool) -> Result<Arc<Pool>, CUresult> {
    POOLS.get(pool.0).filter(|pool| !pool.state().closing).ok_or(CUresult::INVALID_VALUE)
}

/// The device's own pool and the one it uses; made when first asked for.
pub(crate) fn of_device(device: i32) -> Result<(usize, usize), CUresult> {
    process::card(device)?;
    let mut pools = OF_DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(*pools.entry(device).or_insert_with(|| {
        let handle = POOLS.add(Pool::new(device, 0, None, false));
        (handle, handle)
    }))
}

pub(crate) fn allocate(stream: &Stream, handle: usize, bytes: usize) -> Result<u64, CUresult> {
    stream.context.engine.check()?;
    if bytes == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let pool = find(CUmemoryPool(handle))?;
    if pool.imported {
        return Err(CUresult::INVALID_VALUE);
    }
    let size = bytes as u64;
    if stream.is_capturing() {
        return capture(stream, pool.device, size);
    }
    let span = size.checked_next_multiple_of(GRAIN_BYTES).ok_or(CUresult::OUT_OF_MEMORY)?;
    let (base, span) = pool.take(stream.handle, span)?;
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
