//! The calls about pools and stream-ordered allocation.

use crate::command::Work;
use crate::entry::{Done, Sim};
use crate::pool::{self, OF_DEVICE, POOLS, Pool, allocate, find, of_device};
use crate::space::Kind;
use crate::{freeing, graph_memory, pool_share, process, raw, stream};
use shim_cuda_headers::*;
use std::ffi::c_void;
use std::sync::PoisonError;

const PINNED: u32 = 1;
const ON_DEVICE: u32 = 1;
const POSIX_FD: u32 = 1;
const READ_WRITE: u32 = 3;

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
        if let Kind::Pool(pool) = region.kind {
            pool::will_free(pool, stream.handle, &region)?;
        }
        if let Kind::Graph = region.kind {
            let block = graph_memory::at(address).ok_or(CUresult::INVALID_VALUE)?;
            block.close()?;
            return stream.submit(Work::End(block)).map(drop);
        }
        stream.submit(Work::Free { base: region.base, id: region.id }).map(drop)
    }

    pub(crate) fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice) -> Done {
        raw::put(pool, CUmemoryPool(of_device(device)?.0))
    }

    pub(crate) fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice) -> Done {
        raw::put(pool, CUmemoryPool(of_device(device)?.1))
    }

    pub(crate) fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) -> Done {
        of_device(device)?;
        let wanted = find(pool)?;
        if wanted.device != device {
            return Err(CUresult::INVALID_DEVICE);
        }
        if wanted.imported {
            return Err(CUresult::INVALID_VALUE);
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
        if props.handle_types & !POSIX_FD != 0 {
            return Err(CUresult::NOT_SUPPORTED);
        }
        process::card(props.location.id)?;
        let shared_as = (props.handle_types == POSIX_FD).then(pool_share::fresh_name);
        let made = Pool::new(props.location.id, props.max_size as u64, shared_as, false);
        raw::put(pool, CUmemoryPool(POOLS.add(made)))
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
            9 => return raw::put(value.cast::<u32>(), PINNED),
            10 => return raw::put(value.cast::<u32>(), u32::from(found.shared_as.is_some())),
            11 => return raw::put(value.cast::<i32>(), found.device),
            12 => return raw::put(value.cast::<u32>(), ON_DEVICE),
            13 => found.max_bytes,
            14 => return raw::put(value.cast::<i32>(), 0),
            _ => return Err(CUresult::INVALID_VALUE),
        };
        raw::put(value.cast::<u64>(), bytes)
    }

    /// Partial: remembered, changes nothing.
    pub(crate) fn cuMemPoolSetAccess(
        pool: CUmemoryPool,
        access: *const CUmemAccessDesc_v1,
        count: usize,
    ) -> Done {
        let found = find(pool)?;
        let wanted = raw::get_all(access, count)?;
        for wanted in &wanted {
            process::card(wanted.location.id)?;
            // The device that owns the pool cannot be shut out of it.
            let own = wanted.location.id == found.device && wanted.flags != READ_WRITE;
            if wanted.location.kind != ON_DEVICE
                || own
                || ![0, 1, READ_WRITE].contains(&wanted.flags)
            {
                return Err(CUresult::INVALID_VALUE);
            }
        }
        let peers = wanted.iter().map(|wanted| (wanted.location.id, wanted.flags));
        found.state().peers.extend(peers);
        Ok(())
    }

    /// Partial: says what was set.
    pub(crate) fn cuMemPoolGetAccess(
        access: *mut CUmemAccess_flags,
        pool: CUmemoryPool,
        at: *mut CUmemLocation,
    ) -> Done {
        let found = find(pool)?;
        let at = raw::get(at)?;
        if at.kind != ON_DEVICE {
            return Err(CUresult::INVALID_VALUE);
        }
        process::card(at.id)?;
        let other = found.state().peers.get(&at.id).copied().unwrap_or(0);
        raw::put(access, if at.id == found.device { READ_WRITE } else { other })
    }

    /// The pool of a place: devices have one, hosts here have none.
    pub(crate) fn cuMemGetDefaultMemPool(
        pool: *mut CUmemoryPool,
        at: *mut CUmemLocation,
        kind: CUmemAllocationType,
    ) -> Done {
        Self::cuDeviceGetDefaultMemPool(pool, place(at, kind)?)
    }

    pub(crate) fn cuMemGetMemPool(
        pool: *mut CUmemoryPool,
        at: *mut CUmemLocation,
        kind: CUmemAllocationType,
    ) -> Done {
        Self::cuDeviceGetMemPool(pool, place(at, kind)?)
    }

    pub(crate) fn cuMemSetMemPool(
        at: *mut CUmemLocation,
        kind: CUmemAllocationType,
        pool: CUmemoryPool,
    ) -> Done {
        Self::cuDeviceSetMemPool(place(at, kind)?, pool)
    }
}

fn place(at: *mut CUmemLocation, kind: CUmemAllocationType) -> Result<CUdevice, CUresult> {
    match raw::get(at)? {
        CUmemLocation { kind: ON_DEVICE, id } if kind == PINNED => process::card(id).map(|_| id),
        CUmemLocation { kind: ON_DEVICE..=4, .. } => Err(CUresult::NOT_SUPPORTED),
        _ => Err(CUresult::INVALID_VALUE),
    }
}
