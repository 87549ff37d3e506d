//! Memory nodes of graphs: an address that is fixed when the node is made, memory behind it from
//! a launch on, until a node or a call frees it. Memory that is free again stays reserved for the
//! next launch, until it is trimmed or the last graph with the node is gone.

use crate::blocks::{self, BLOCK_BYTES};
use crate::entry::{Done, Sim};
use crate::space::{Access, Kind, Region, SPACE};
use crate::{pages, process, raw};
use rustix::fd::AsFd;
use shim_cuda_headers::*;
use simcuda_protocol::Charge;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// All blocks that exist, by address.
static BLOCKS: Mutex<BTreeMap<u64, Weak<GraphBlock>>> = Mutex::new(BTreeMap::new());
/// Blocks in use: they outlive their graphs.
static LIVE: Mutex<BTreeMap<u64, Arc<GraphBlock>>> = Mutex::new(BTreeMap::new());
/// Most bytes that were used and reserved at once, by device.
static HIGH: Mutex<BTreeMap<i32, Sums>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    used: u64,
    reserved: u64,
}

#[derive(Debug)]
pub(crate) struct GraphBlock {
    pub(crate) base: u64,
    pub(crate) size: u64,
    bytes: u64,
    pub(crate) device: i32,
    context: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Charged, with memory behind it.
    reserved: bool,
    /// Launches that took it and whose end has not come.
    uses: u32,
    /// Taken by a launch that does not free it, and not freed since.
    open: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GraphBlock {
    pub(crate) fn new(device: i32, context: usize, size: u64) -> Result<Self, CUresult> {
        let bytes = size.checked_next_multiple_of(BLOCK_BYTES).ok_or(CUresult::OUT_OF_MEMORY)?;
        let base = pages::reserve(bytes, BLOCK_BYTES, 0).map_err(|_| CUresult::OUT_OF_MEMORY)?;
        Ok(Self { base, size, bytes, device, context, state: Mutex::default() })
    }

    /// At a launch: the card must have room. `freed` says whether the launch gives it back.
    pub(crate) fn obtain(self: &Arc<Self>, freed: bool) -> Result<(), CUresult> {
        let mut state = lock(&self.state);
        if !state.reserved {
            let pattern = blocks::pattern()?;
            blocks::charge(self.device, self.bytes, Charge::Memory)?;
            if pages::fill_private(self.base, self.bytes, pattern.as_fd()).is_err() {
                blocks::release(self.device, self.bytes, Charge::Memory);
                return Err(CUresult::OUT_OF_MEMORY);
            }
            state.reserved = true;
        }
        if state.uses == 0 {
            self.appear();
        }
        state.uses += 1;
        state.open |= !freed;
        drop(state);
        lock(&LIVE).insert(self.base, Arc::clone(self));
        let now = sums(self.device);
        let mut high = lock(&HIGH);
        let high = high.entry(self.device).or_default();
        high.used = high.used.max(now.used);
        high.reserved = high.reserved.max(now.reserved);
        Ok(())
    }

    fn appear(&self) {
        SPACE.insert(Region {
            base: self.base,
            size: self.size,
            span: self.bytes,
            kind: Kind::Graph,
            context: self.context,
            device: self.device,
            access: Access::ReadWrite,
            id: SPACE.fresh_id(),
        });
    }

    /// Whether a launch took it and nothing frees it.
    pub(crate) fn is_open(&self) -> bool {
        lock(&self.state).open
    }

    /// Its freeing was asked for; only one may.
    pub(crate) fn close(&self) -> Done {
        if std::mem::take(&mut lock(&self.state).open) {
            Ok(())
        } else {
            Err(CUresult::INVALID_VALUE)
        }
    }

    /// A stream has come to the node that takes: what it takes has been there since the launch.
    pub(crate) fn begin(&self) {}

    /// A stream has come to where it is freed.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.state);
        state.uses = state.uses.saturating_sub(1);
        if state.uses > 0 {
            return;
        }
        SPACE.remove(self.base, |region| region.kind == Kind::Graph);
        drop(state);
        lock(&LIVE).remove(&self.base);
    }

    /// Gives the card its memory back, if nothing uses it.
    fn trim(&self) {
        let mut state = lock(&self.state);
        if state.reserved && state.uses == 0 {
            SPACE.settle();
            if pages::empty(self.base, self.bytes).is_ok() {
                state.reserved = false;
                blocks::release(self.device, self.bytes, Charge::Memory);
            }
        }
    }
}

impl Drop for GraphBlock {
    fn drop(&mut self) {
        SPACE.remove(self.base, |region| region.kind == Kind::Graph);
        SPACE.settle();
        let _ = pages::release(self.base, self.bytes);
        if self.state.get_mut().unwrap_or_else(PoisonError::into_inner).reserved {
            blocks::release(self.device, self.bytes, Charge::Memory);
        }
    }
}

/// Makes a block known by its address.
pub(crate) fn register(block: GraphBlock) -> Arc<GraphBlock> {
    let block = Arc::new(block);
    let mut blocks = lock(&BLOCKS);
    blocks.retain(|_, block| block.strong_count() > 0);
    blocks.insert(block.base, Arc::downgrade(&block));
    block
}

/// The block whose address this is.
pub(crate) fn at(base: u64) -> Option<Arc<GraphBlock>> {
    lock(&BLOCKS).get(&base)?.upgrade()
}

/// The block at the address was freed at once, its region is gone.
pub(crate) fn ended(base: u64) {
    // Dropped outside the lock: the end of a block asks the machine.
    let gone = lock(&LIVE).remove(&base);
    if let Some(block) = gone {
        let mut state = lock(&block.state);
        state.open = false;
        state.uses = 0;
    }
}

/// The context ends, and what its graphs use with it.
pub(crate) fn forget_all(context: usize) {
    let gone: Vec<_> = {
        let mut live = lock(&LIVE);
        let of_it: Vec<u64> =
            live.values().filter(|b| b.context == context).map(|b| b.base).collect();
        of_it.into_iter().filter_map(|base| live.remove(&base)).collect()
    };
    for block in &gone {
        SPACE.remove(block.base, |region| region.kind == Kind::Graph);
        let mut state = lock(&block.state);
        state.open = false;
        state.uses = 0;
    }
}

fn of_device(device: i32) -> Vec<Arc<GraphBlock>> {
    let all: Vec<_> = lock(&BLOCKS).values().filter_map(Weak::upgrade).collect();
    all.into_iter().filter(|block| block.device == device).collect()
}

fn sums(device: i32) -> Sums {
    let mut sums = Sums::default();
    for block in of_device(device) {
        let state = lock(&block.state);
        sums.used += if state.uses > 0 { block.bytes } else { 0 };
        sums.reserved += if state.reserved { block.bytes } else { 0 };
    }
    sums
}

impl Sim {
    pub(crate) fn cuDeviceGraphMemTrim(device: CUdevice) -> Done {
        process::card(device)?;
        of_device(device).iter().for_each(|block| block.trim());
        Ok(())
    }

    /// By the header's numbers: used now, used at most, reserved now, reserved at most.
    pub(crate) fn cuDeviceGetGraphMemAttribute(
        device: CUdevice,
        attribute: CUgraphMem_attribute,
        value: *mut c_void,
    ) -> Done {
        process::card(device)?;
        let now = sums(device);
        let high = lock(&HIGH).get(&device).copied().unwrap_or_default();
        let bytes = match attribute {
            0 => now.used,
            1 => high.used,
            2 => now.reserved,
            3 => high.reserved,
            _ => return Err(CUresult::INVALID_VALUE),
        };
        raw::put(value.cast::<u64>(), bytes)
    }

    /// The marks can be set to zero, which is: to what is now.
    pub(crate) fn cuDeviceSetGraphMemAttribute(
        device: CUdevice,
        attribute: CUgraphMem_attribute,
        value: *mut c_void,
    ) -> Done {
        process::card(device)?;
        if raw::get(value.cast::<u64>())? != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let now = sums(device);
        let mut high = lock(&HIGH);
        let high = high.entry(device).or_default();
        match attribute {
            1 => high.used = now.used,
            3 => high.reserved = now.reserved,
            _ => return Err(CUresult::INVALID_VALUE),
        }
        Ok(())
    }
}
