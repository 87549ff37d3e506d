//! Stream-ordered memory. What is charged is each pool's reserve ([`halfwarp_books::Pools`]): the most that an
//! allocation can make it grow by beforehand, what the driver says it became afterwards. A pool
//! shrinks where it is trimmed or destroyed and where the program synchronises, so the driver is
//! asked again there, and whenever a charge is refused.
//!
//! An allocation while its stream is captured is a node of a graph and takes nothing from a pool.

use std::ffi::{c_int, c_uint};

use halfwarp_api::{UNIT_BYTES, units};
use halfwarp_books::{Allocation, Known, Look, Place, PoolId, Settled, Slot, Source, Within};
use halfwarp_label as label;
use shim_cuda_headers::{
    CUdevice, CUdeviceptr, CUgraphMem_attribute, CUmemAllocationType, CUmemLocation,
    CUmemPool_attribute, CUmemPoolProps_v1, CUmemoryPool, CUresult, CUstream, CUstreamCaptureMode,
    DriverFn,
};

use super::{
    context, joined,
    linear::{free, refuse, written},
};
use crate::{
    backing,
    process::Process,
    real::{self, call},
    sys::Errno,
};

/// Pools grow in pieces of this size on every card so far; one that grew further is charged for it
/// afterwards, or has to give it back.
const CHUNK_BYTES: u64 = 32 << 20;
/// How often a pool is looked at again because another thread came between. What is left then stays
/// charged until the next look.
const LOOKS: usize = 8;
const RESERVED: CUmemPool_attribute = 5;
const USED: CUmemPool_attribute = 7;
/// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`.
const GRAPHS_RESERVED: CUgraphMem_attribute = 2;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const LOCATION_DEVICE: c_uint = 1;

/// A 64-bit attribute of a pool.
fn attribute(pool: CUmemoryPool, which: CUmemPool_attribute) -> Option<u64> {
    let mut value = 0_u64;
    // SAFETY: a writable value of the attribute's type.
    let code = unsafe { call::cuMemPoolGetAttribute(pool, which, (&raw mut value).cast()) };
    code.is_ok().then_some(value)
}

/// What a pool, or the graphs of a device, have from the card.
fn reserve(source: Source) -> Option<u64> {
    match source {
        Source::Pool(pool) => attribute(pool, RESERVED),
        Source::Graphs(device) => {
            let mut value = 0_u64;
            let to = (&raw mut value).cast();
            // SAFETY: a writable value of the attribute's type.
            let code = unsafe { call::cuDeviceGetGraphMemAttribute(device, GRAPHS_RESERVED, to) };
            code.is_ok().then_some(value)
        }
    }
}

/// Charges as [`Process::charge`], after a second look at pools that may have shrunk.
pub(super) fn charge(process: &Process, slot: Slot, units: u32) -> Result<(), CUresult> {
    process.charge(slot, units).or_else(|refused| {
        if settle_all(process, Some(slot)) { process.charge(slot, units) } else { Err(refused) }
    })
}

/// Makes the charge of every pool (of a card) what the driver says it keeps. Whether that freed any.
#[inline]
pub(crate) fn settle_all(process: &Process, on: Option<Slot>) -> bool {
    process.has_pools() && settle_those(process, on)
}

#[cold]
fn settle_those(process: &Process, on: Option<Slot>) -> bool {
    let looks = process.books().pools.looks(on);
    let mut freed = false;
    for look in looks {
        if let Outcome::Freed = settle(process, look) {
            freed = true;
        }
    }
    freed
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Even,
    Freed,
    /// It keeps more than could be charged.
    Over,
}

fn settle(process: &Process, mut look: Look) -> Outcome {
    for _ in 0..LOOKS {
        let Some(reserved) = reserve(look.source) else { return Outcome::Even };
        let reserved = units(reserved).unwrap_or(u32::MAX);
        let settled = process.books().pools.settle(look, reserved);
        match settled {
            Settled::Even => return Outcome::Even,
            Settled::Free(freed) => {
                context::release_all(process, Some(freed));
                process.note_unmovable();
                return Outcome::Freed;
            }
            Settled::Short(slot, short) => {
                if process.charge(slot, short).is_err() {
                    return Outcome::Over;
                }
                let freed = process.books().pools.charged(look.id, slot, short);
                context::release_all(process, freed);
                return Outcome::Even;
            }
            Settled::Again => {}
        }
        match process.books().pools.look(look.id) {
            Some(again) => look = again,
            None => break,
        }
    }
    Outcome::Even
}

pub(super) fn settle_one(process: &Process, id: PoolId) -> Outcome {
    let look = process.books().pools.look(id);
    look.map_or(Outcome::Even, |look| settle(process, look))
}

/// An allocation that is asked for.
#[derive(Clone, Copy)]
struct Wish {
    function: DriverFn,
    handle: CUmemoryPool,
    id: PoolId,
    slot: Slot,
    bytes: u64,
    stream: CUstream,
}

impl Wish {
    /// The most that the pool can grow by for it.
    fn growth_units(self) -> Option<u32> {
        self.bytes.checked_next_multiple_of(CHUNK_BYTES).and_then(units)
    }

    /// Whether it should fit into what the pool keeps.
    fn fits_inside(self) -> bool {
        match (attribute(self.handle, RESERVED), attribute(self.handle, USED)) {
            (Some(reserved), Some(used)) => self.bytes <= reserved.saturating_sub(used),
            _ => false,
        }
    }

    /// Gets room for it charged, in the order of what costs least. The units charged, or `None` where
    /// there is no room.
    fn make_room(self, process: &Process) -> Option<u32> {
        let growth = self.growth_units()?;
        if process.charge_at_once(self.slot, growth) {
            return Some(growth);
        }
        if self.fits_inside() {
            return Some(0);
        }
        if process.charge(self.slot, growth).is_ok() {
            return Some(growth);
        }
        if growth > process.limit_units(self.slot) {
            return None;
        }
        // What was freed in the stream's order is the pool's again when the stream has come there.
        synchronise(self.stream);
        if self.fits_inside() {
            return Some(0);
        }
        trim(process, self.handle, self.id);
        charge(process, self.slot, growth).is_ok().then_some(growth)
    }
}

/// Waits for a stream, also while another thread captures one.
fn synchronise(stream: CUstream) {
    const RELAXED: CUstreamCaptureMode = 2;
    let mut mode = RELAXED;
    // SAFETY: a readable and writable mode.
    let exchanged = unsafe { call::cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    // SAFETY: the stream is the caller's. An error shows again in the allocation.
    let _ = unsafe { call::cuStreamSynchronize(stream) };
    if exchanged.is_ok() {
        // SAFETY: as above; what comes back is ours from before.
        let _ = unsafe { call::cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    }
}

/// Makes a pool give back what it does not need.
fn trim(process: &Process, handle: CUmemoryPool, id: PoolId) {
    // SAFETY: a live pool; what is in use stays.
    let _ = unsafe { call::cuMemPoolTrimTo(handle, 0) };
    settle_one(process, id);
}

fn allocate(process: &Process, wish: Wish, make: impl FnOnce() -> (CUresult, Place)) -> CUresult {
    let Wish { function, handle, id, slot, bytes, .. } = wish;
    if bytes == 0 {
        return make().0;
    }
    if context::seen(process, slot).is_err() {
        return refuse(process, function, slot, bytes);
    }
    let Some(charged) = wish.make_room(process) else {
        return refuse(process, function, slot, bytes);
    };
    process.books().pools.begin(id, charged);
    label::charge_done();
    let (code, place) = make();
    label::driver_allocated();
    {
        let mut books = process.books();
        books.pools.end(id, charged, code.is_ok());
        let freed = code
            .is_ok()
            .then(|| books.enter(place, Allocation { slot, units: 0, within: Within::Pool(id) }));
        drop(books);
        context::release_all(process, freed.flatten());
        process.note_unmovable();
    }
    label::allocation_entered();
    let outcome = settle_one(process, id);
    if outcome != Outcome::Over || !code.is_ok() {
        return code;
    }
    // It grew although there should have been room inside, and beyond the limit.
    if let Place::Address(address) = place {
        // SAFETY: an allocation that the driver has just made and the program has not seen.
        free(process, address, || unsafe { call::cuMemFree_v2(address) });
    }
    trim(process, handle, id);
    refuse(process, function, slot, bytes)
}

/// Whether a stream is being captured.
fn is_capturing(stream: CUstream, per_thread: bool) -> bool {
    let mut status: c_uint = 0;
    let code = if per_thread {
        // SAFETY: a writable status.
        unsafe { call::cuStreamIsCapturing_ptsz(stream, (&raw mut status).cast()) }
    } else {
        // SAFETY: as above.
        unsafe { call::cuStreamIsCapturing(stream, (&raw mut status).cast()) }
    };
    code.is_ok() && status != 0
}

/// The device that a stream works on.
fn device_of(process: &Process, stream: CUstream) -> Option<CUdevice> {
    /// Legacy and per-thread default stream, by number.
    const BY_NUMBER: usize = 2;
    let mut device: CUdevice = 0;
    if stream.0 > BY_NUMBER {
        // SAFETY: a writable device, and the caller's stream.
        if unsafe { call::cuStreamGetDevice(stream, &raw mut device) }.is_ok() {
            return Some(device);
        }
        let mut context = shim_cuda_headers::CUcontext(0);
        // SAFETY: a writable context, and the caller's stream.
        if unsafe { call::cuStreamGetCtx(stream, &raw mut context) }.is_ok() {
            let slot = process.books().slot_of(context);
            if let Some(device) = slot.and_then(|slot| process.device_of(slot)) {
                return Some(device);
            }
        }
    }
    // SAFETY: a writable device.
    unsafe { call::cuCtxGetDevice(&raw mut device) }.is_ok().then_some(device)
}

/// A device's default pool, or the one it uses.
fn pool_of(device: CUdevice, default: bool) -> Option<CUmemoryPool> {
    let mut pool = CUmemoryPool(0);
    let code = if default {
        // SAFETY: a writable pool.
        unsafe { call::cuDeviceGetDefaultMemPool(&raw mut pool, device) }
    } else {
        // SAFETY: as above.
        unsafe { call::cuDeviceGetMemPool(&raw mut pool, device) }
    };
    code.is_ok().then_some(pool)
}

/// The books' name for a pool, which is met here for the first time if it is a device's own.
fn meet(process: &Process, handle: CUmemoryPool, stream: CUstream) -> Option<Known> {
    if let Some(known) = process.books().pools.known(Source::Pool(handle)) {
        return Some(known);
    }
    let own = |device: &CUdevice| pool_of(*device, true) == Some(handle);
    let device = (0..process.device_count()).find(own).or_else(|| device_of(process, stream))?;
    let slot = process.slot_of(device)?;
    let id = process.books().pools.meet(Source::Pool(handle), slot, false);
    process.note_pool();
    Some(Known::Pool(id, slot))
}

/// The stream-ordered rows, each for both default streams.
macro_rules! stream_ordered {
    ($($per_thread:literal $alloc:ident $from_pool:ident $free:ident;)*) => {$(
        pub(crate) unsafe extern "C" fn $alloc(
            out: *mut CUdeviceptr,
            bytes: usize,
            stream: CUstream,
        ) -> CUresult {
            let make = || {
                // SAFETY: the arguments are the caller's, passed on unchanged.
                let code = unsafe { call::$alloc(out, bytes, stream) };
                // SAFETY: the output just passed.
                unsafe { written(code, out) }
            };
            let process = joined!(make().0);
            let _errno = Errno::keep();
            if out.is_null() || is_capturing(stream, $per_thread) {
                return make().0;
            }
            let Some(device) = device_of(process, stream) else { return make().0 };
            let Some(handle) = pool_of(device, false) else { return make().0 };
            let Some(Known::Pool(id, slot)) = meet(process, handle, stream) else { return make().0 };
            let (function, bytes) = (DriverFn::$alloc, bytes as u64);
            allocate(process, Wish { function, handle, id, slot, bytes, stream }, make)
        }

        pub(crate) unsafe extern "C" fn $from_pool(
            out: *mut CUdeviceptr,
            bytes: usize,
            pool: CUmemoryPool,
            stream: CUstream,
        ) -> CUresult {
            let make = || {
                // SAFETY: the arguments are the caller's, passed on unchanged.
                let code = unsafe { call::$from_pool(out, bytes, pool, stream) };
                // SAFETY: the output just passed.
                unsafe { written(code, out) }
            };
            let process = joined!(make().0);
            let _errno = Errno::keep();
            if out.is_null() || is_capturing(stream, $per_thread) {
                return make().0;
            }
            let Some(Known::Pool(id, slot)) = meet(process, pool, stream) else { return make().0 };
            let (function, bytes) = (DriverFn::$from_pool, bytes as u64);
            allocate(process, Wish { function, handle: pool, id, slot, bytes, stream }, make)
        }

        pub(crate) unsafe extern "C" fn $free(address: CUdeviceptr, stream: CUstream) -> CUresult {
            // SAFETY: the arguments are the caller's, passed on unchanged.
            let give = || unsafe { call::$free(address, stream) };
            let process = joined!(give());
            let _errno = Errno::keep();
            let ours = if is_capturing(stream, $per_thread) {
                None
            } else {
                backing::free_in_stream(process, address)
            };
            ours.unwrap_or_else(|| free(process, address, give))
        }
    )*};
}

stream_ordered! {
    false cuMemAllocAsync cuMemAllocFromPoolAsync cuMemFreeAsync;
    true cuMemAllocAsync_ptsz cuMemAllocFromPoolAsync_ptsz cuMemFreeAsync_ptsz;
}

pub(crate) unsafe extern "C" fn cuMemPoolCreate(
    out: *mut CUmemoryPool,
    props: *const CUmemPoolProps_v1,
) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let code = unsafe { call::cuMemPoolCreate(out, props) };
    let process = joined!(code);
    let _errno = Errno::keep();
    if code.is_ok() {
        // SAFETY: the driver succeeded, so it has written the pool.
        let handle = unsafe { out.read() };
        // SAFETY: the driver has just read the same properties.
        let location = unsafe { (*props).location };
        made(process, handle, location);
    }
    code
}

/// A pool is known with where its memory lies.
fn made(process: &Process, handle: CUmemoryPool, location: CUmemLocation) {
    let card = (location.kind == LOCATION_DEVICE).then(|| process.slot_of(location.id)).flatten();
    match card {
        Some(slot) => _ = process.books().pools.meet(Source::Pool(handle), slot, true),
        None => process.books().pools.exempt(Source::Pool(handle)),
    }
    process.note_pool();
}

pub(crate) unsafe extern "C" fn cuMemPoolDestroy(pool: CUmemoryPool) -> CUresult {
    // SAFETY: the argument is the caller's, passed on unchanged.
    let destroy = || unsafe { call::cuMemPoolDestroy(pool) };
    let process = joined!(destroy());
    let _errno = Errno::keep();
    let known = process.books().pools.known(Source::Pool(pool));
    if let Some(Known::Pool(id, _)) = known {
        // What it keeps now is what can be left when its handle is gone.
        trim(process, pool, id);
    }
    let known = process.books().pools.begin_destroy(Source::Pool(pool));
    let code = destroy();
    let Some(known) = known else { return code };
    let freed = match known {
        _ if !code.is_ok() => {
            process.books().pools.restore(Source::Pool(pool), known);
            None
        }
        Known::Pool(id, _) => process.books().pools.destroyed(id),
        Known::Free => None,
    };
    context::release_all(process, freed);
    code
}

pub(crate) unsafe extern "C" fn cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize) -> CUresult {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let code = unsafe { call::cuMemPoolTrimTo(pool, keep) };
    let process = joined!(code);
    let _errno = Errno::keep();
    let known = process.books().pools.known(Source::Pool(pool));
    if let Some(Known::Pool(id, _)) = known {
        settle_one(process, id);
    }
    code
}

/// Rows that cost nothing, by the table.
pub(crate) mod nothing {
    use super::{
        CUmemAllocationType, CUmemLocation, CUmemoryPool, CUresult, DriverFn, Errno,
        LOCATION_DEVICE, Process, Source, call, joined, real,
    };

    /// A host's pool is remembered as one that costs nothing.
    fn seen(process: &Process, pool: CUmemoryPool, location: CUmemLocation) {
        if location.kind != LOCATION_DEVICE {
            process.books().pools.exempt(Source::Pool(pool));
        }
    }

    macro_rules! of_location {
        ($($symbol:ident)*) => {$(
            pub(crate) unsafe extern "C" fn $symbol(
                out: *mut CUmemoryPool,
                location: *mut CUmemLocation,
                kind: CUmemAllocationType,
            ) -> CUresult {
                // SAFETY: the arguments are the caller's, passed on unchanged.
                let code = unsafe { call::$symbol(out, location, kind) };
                let process = joined!(code);
                let _errno = Errno::keep();
                if code.is_ok() && real::has(DriverFn::$symbol) {
                    // SAFETY: the driver succeeded, so it has written the pool.
                    let pool = unsafe { out.read() };
                    // SAFETY: the driver has just read the same location.
                    let location = unsafe { location.read() };
                    seen(process, pool, location);
                }
                code
            }
        )*};
    }

    of_location! { cuMemGetDefaultMemPool cuMemGetMemPool }
}

const _: () = assert!(CHUNK_BYTES.is_multiple_of(UNIT_BYTES));
const _: () = assert!(size_of::<c_int>() == size_of::<CUdevice>());
