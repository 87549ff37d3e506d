//! What may be asked of an address: pointer attributes, and the hints about managed memory.

use crate::entry::{Done, Sim};
use crate::space::{Access, Kind, Region, SPACE};
use crate::{raw, vmm};
use shim_cuda_headers::*;
use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `CU_MEMORYTYPE_*`.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;

/// `CU_POINTER_ATTRIBUTE_*`, as far as they have a value here.
const CONTEXT: u32 = 1;
const MEMORY_TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const HOST_POINTER: u32 = 4;
const P2P_TOKENS: u32 = 5;
const SYNC_MEMOPS: u32 = 6;
const BUFFER_ID: u32 = 7;
const IS_MANAGED: u32 = 8;
const DEVICE_ORDINAL: u32 = 9;
const IS_LEGACY_IPC_CAPABLE: u32 = 10;
const RANGE_START: u32 = 11;
const RANGE_SIZE: u32 = 12;
const MAPPED: u32 = 13;
const ALLOWED_HANDLE_TYPES: u32 = 14;
const IS_GPU_DIRECT_RDMA_CAPABLE: u32 = 15;
const ACCESS_FLAGS: u32 = 16;
const MEMPOOL_HANDLE: u32 = 17;
const MAPPING_SIZE: u32 = 18;
const MAPPING_BASE: u32 = 19;
const MEMORY_BLOCK_ID: u32 = 20;
const HW_DECOMPRESS_CAPABLE: u32 = 21;
const LOCALITY_DOMAIN: u32 = 22;
const LAST: u32 = 22;

/// Allocations whose copies were asked to wait, by the region's number.
static SYNCHRONOUS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn synchronous() -> MutexGuard<'static, BTreeSet<u64>> {
    SYNCHRONOUS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(to: *mut c_void, attribute: u32, region: &Region) -> Done {
    let address = |value: u64| raw::put(to.cast::<u64>(), value);
    let flag = |value: bool| raw::put(to.cast::<c_uint>(), c_uint::from(value));
    let mapped = vmm::mapped_at(region.base);
    let shareable = mapped.as_ref().is_some_and(|(physical, _, _)| physical.shareable);
    match attribute {
        CONTEXT => raw::put(to.cast::<CUcontext>(), CUcontext(region.context)),
        MEMORY_TYPE => {
            raw::put(to.cast::<c_uint>(), if region.is_device() { DEVICE } else { HOST })
        }
        SYNC_MEMOPS => flag(synchronous().contains(&region.id)),
        BUFFER_ID | MEMORY_BLOCK_ID => address(region.id),
        IS_MANAGED => flag(region.kind == Kind::Managed),
        DEVICE_ORDINAL => raw::put(to.cast::<c_int>(), region.device),
        IS_LEGACY_IPC_CAPABLE => flag(region.kind == Kind::Linear),
        IS_GPU_DIRECT_RDMA_CAPABLE => flag(false),
        RANGE_START | MAPPING_BASE => address(region.base),
        RANGE_SIZE => raw::put(to.cast::<usize>(), region.size as usize),
        MAPPING_SIZE => raw::put(to.cast::<usize>(), region.span as usize),
        MAPPED => flag(true),
        ALLOWED_HANDLE_TYPES => raw::put(to.cast::<c_ulonglong>(), c_ulonglong::from(shareable)),
        ACCESS_FLAGS => raw::put(
            to.cast::<c_uint>(),
            match region.access {
                Access::None => 0,
                Access::Read => 1,
                Access::ReadWrite => 3,
            },
        ),
        MEMPOOL_HANDLE => {
            let pool = match region.kind {
                Kind::Pool(pool) | Kind::Imported(pool) => pool,
                _ => 0,
            };
            raw::put(to.cast::<CUmemoryPool>(), CUmemoryPool(pool))
        }
        HW_DECOMPRESS_CAPABLE => flag(false),
        LOCALITY_DOMAIN => raw::put(to.cast::<c_int>(), 0),
        P2P_TOKENS => Err(CUresult::NOT_SUPPORTED),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

fn write_of(to: *mut c_void, attribute: u32, pointer: CUdeviceptr) -> Done {
    let region = SPACE.find(pointer).ok_or(CUresult::INVALID_VALUE)?;
    match attribute {
        DEVICE_POINTER => raw::put(to.cast::<u64>(), pointer),
        // The host can use managed memory and its own, not that of a card.
        HOST_POINTER if region.is_device() && region.kind != Kind::Managed => {
            Err(CUresult::INVALID_VALUE)
        }
        HOST_POINTER => raw::put(to.cast::<u64>(), pointer),
        _ => write(to, attribute, &region),
    }
}

/// Where values are written for an address that the driver knows nothing of.
fn write_nothing(to: *mut c_void, attribute: u32) -> Done {
    match attribute {
        DEVICE_ORDINAL => raw::put(to.cast::<c_int>(), -2),
        MEMORY_TYPE
        | SYNC_MEMOPS
        | IS_MANAGED
        | IS_LEGACY_IPC_CAPABLE
        | MAPPED
        | ACCESS_FLAGS
        | IS_GPU_DIRECT_RDMA_CAPABLE => raw::put(to.cast::<c_uint>(), 0),
        1..=LAST => raw::put(to.cast::<u64>(), 0),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

impl Sim {
    pub(crate) fn cuPointerGetAttribute(
        to: *mut c_void,
        attribute: CUpointer_attribute,
        pointer: CUdeviceptr,
    ) -> Done {
        if to.is_null() || attribute == 0 || attribute > LAST {
            return Err(CUresult::INVALID_VALUE);
        }
        write_of(to, attribute, pointer)
    }

    pub(crate) fn cuPointerGetAttributes(
        count: c_uint,
        attributes: *mut CUpointer_attribute,
        to: *mut *mut c_void,
        pointer: CUdeviceptr,
    ) -> Done {
        for index in 0..count as usize {
            let (attribute, to) = (raw::get_at(attributes, index)?, raw::get_at(to, index)?);
            // Unlike the call for one, this succeeds for any address, with nothing for an answer.
            if write_of(to, attribute, pointer).is_err() {
                write_nothing(to, attribute)?;
            }
        }
        Ok(())
    }

    /// Partial: remembered, changes nothing.
    pub(crate) fn cuPointerSetAttribute(
        from: *const c_void,
        attribute: CUpointer_attribute,
        pointer: CUdeviceptr,
    ) -> Done {
        let region = SPACE.find(pointer).ok_or(CUresult::INVALID_VALUE)?;
        let wanted = raw::get(from.cast::<c_uint>())?;
        if attribute != SYNC_MEMOPS || wanted > 1 {
            return Err(CUresult::INVALID_VALUE);
        }
        if wanted == 1 {
            synchronous().insert(region.id);
        } else {
            synchronous().remove(&region.id);
        }
        Ok(())
    }
}
