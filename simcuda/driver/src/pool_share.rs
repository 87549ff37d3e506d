//! Pools whose memory other processes may be given: a descriptor stands for the pool, 64 bytes for
//! an allocation from it.

use crate::entry::{Done, Sim};
use crate::pool::{POOLS, Pool, find};
use crate::space::{Kind, SPACE};
use crate::{context, ipc, process, raw, shared_blocks};
use rustix::fd::{IntoRawFd, OwnedFd};
use rustix::fs::MemfdFlags;
use shim_cuda_headers::*;
use std::ffi::{c_int, c_ulonglong, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

const POSIX_FD: u32 = 1;
const MAGIC: u64 = 0x5349_4D50_4F4F_4C30;

/// What the descriptor of a pool reads as.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct PoolWords {
    magic: u64,
    name: u64,
    /// The machine's number of the device.
    device: u64,
    max_bytes: u64,
}

/// What stands for an allocation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct PointerWords {
    magic: u64,
    name: u64,
    token: u64,
    offset: u64,
    size: u64,
    rest: [u64; 3],
}

const _: () = assert!(size_of::<PointerWords>() == 64);

/// A name for a pool that no other process gives one of its own.
pub(crate) fn fresh_name() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    u64::from(std::process::id()) << 32 | LAST.fetch_add(1, Ordering::Relaxed)
}

fn written(words: &PoolWords) -> rustix::io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("simcuda-pool", MemfdFlags::CLOEXEC)?;
    let words = [words.magic, words.name, words.device, words.max_bytes];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    rustix::io::write(&file, &bytes)?;
    Ok(file)
}

fn read(file: &OwnedFd) -> Result<PoolWords, CUresult> {
    let mut bytes = [0; 32];
    let read = rustix::io::pread(file, &mut bytes, 0).map_err(|_| CUresult::INVALID_VALUE)?;
    let words: PoolWords = raw::get(bytes.as_ptr().cast())?;
    if read == bytes.len() && words.magic == MAGIC {
        Ok(words)
    } else {
        Err(CUresult::INVALID_VALUE)
    }
}

impl Sim {
    pub(crate) fn cuMemPoolExportToShareableHandle(
        to: *mut c_void,
        pool: CUmemoryPool,
        kind: CUmemAllocationHandleType,
        flags: c_ulonglong,
    ) -> Done {
        let found = find(pool)?;
        let Some(name) = found.shared_as.filter(|_| !found.imported) else {
            return Err(CUresult::INVALID_VALUE);
        };
        if to.is_null() || kind != POSIX_FD || flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let device = process::card(found.device)?.number.into();
        let words = PoolWords { magic: MAGIC, name, device, max_bytes: found.max_bytes };
        let file = written(&words).map_err(|_| CUresult::OUT_OF_MEMORY)?;
        raw::put(to.cast::<c_int>(), file.into_raw_fd())
    }

    pub(crate) fn cuMemPoolImportFromShareableHandle(
        pool: *mut CUmemoryPool,
        from: *mut c_void,
        kind: CUmemAllocationHandleType,
        flags: c_ulonglong,
    ) -> Done {
        if pool.is_null() || kind != POSIX_FD || flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let words = read(&raw::duplicate(from)?)?;
        let cards = &process::get()?.cards;
        let own = cards.iter().position(|card| u64::from(card.number) == words.device);
        let device = own.and_then(|own| i32::try_from(own).ok()).ok_or(CUresult::INVALID_DEVICE)?;
        let made = Pool::new(device, words.max_bytes, Some(words.name), true);
        raw::put(pool, CUmemoryPool(POOLS.add(made)))
    }

    pub(crate) fn cuMemPoolExportPointer(
        data: *mut CUmemPoolPtrExportData_v1,
        address: CUdeviceptr,
    ) -> Done {
        let region = SPACE.find(address).ok_or(CUresult::INVALID_VALUE)?;
        let Kind::Pool(pool) = region.kind else { return Err(CUresult::INVALID_VALUE) };
        let found = find(CUmemoryPool(pool))?;
        let (Some(name), Some(base)) = (found.shared_as, shared_blocks::base_of(region.base))
        else {
            return Err(CUresult::INVALID_VALUE);
        };
        if data.is_null() || address != region.base {
            return Err(CUresult::INVALID_VALUE);
        }
        let token = shared_blocks::export(base)?;
        let (offset, size) = (region.base - base, region.size);
        raw::put(
            data.cast(),
            PointerWords { magic: MAGIC, name, token, offset, size, rest: [0; 3] },
        )
    }

    pub(crate) fn cuMemPoolImportPointer(
        address: *mut CUdeviceptr,
        pool: CUmemoryPool,
        data: *mut CUmemPoolPtrExportData_v1,
    ) -> Done {
        let found = find(pool)?;
        let words: PointerWords = raw::get(data.cast())?;
        let of_it = words.magic == MAGIC && found.shared_as == Some(words.name);
        if address.is_null() || !found.imported || !of_it {
            return Err(CUresult::INVALID_VALUE);
        }
        let context = context::working()?;
        let part = (words.offset, words.size);
        let kind = Kind::Imported(pool.0);
        raw::put(address, ipc::open(&context, pool.0, words.token, part, kind)?)
    }
}

/// What a process got from another's pool it frees like its own: the mapping goes, not the memory.
pub(crate) fn is_pointer(kind: Kind) -> bool {
    matches!(kind, Kind::Imported(pool) if pool != 0)
}

/// Gives such a mapping back.
pub(crate) fn release(base: u64) -> Done {
    ipc::close(base)
}
