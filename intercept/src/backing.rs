//! Memory that can be moved, made and given back: the program's own threads' part.
//!
//! An allocation, in the order things happen:
//!
//! ```text
//!   small: a slab with room?          <- most small ones
//!   charge        the pieces as the card has them
//!   the gate      announced from here to the end, so that no move begins amid it
//!   the driver    reserve, for each piece create and map, then access; undone if any is refused
//!   enter
//! ```
//!
//! A free says that the allocation is dying; our thread unmaps it once no work can touch it.

use std::sync::atomic::{AtomicU64, Ordering};

use halfwarp_api::{GPUS, units, wire::ToBroker};
use halfwarp_books::{Freeing, Gone, Home, PIECE_BYTES, SLAB_BYTES, Slot};
use halfwarp_label as label;
use shim_cuda_headers::{
    CUcontext, CUdevice, CUdeviceptr, CUmemAccessDesc_v1, CUmemAllocationProp_v1,
    CUmemGenericAllocationHandle, CUmemLocation, CUresult, DriverFn,
};

use crate::{
    gates, hooks,
    process::Process,
    real::{self, bare},
};

const PINNED: u32 = 1;
const POSIX_FD: u32 = 1;
const LOCATION_DEVICE: u32 = 1;
const READ_WRITE: u32 = 3;
/// `CU_DEVICE_ATTRIBUTE_*`.
const HAS_VMM: u32 = 102;
const HAS_RDMA: u32 = 110;

/// A piece as the driver made it: address, bytes, handle.
pub(crate) type Made = (CUdeviceptr, u64, CUmemGenericAllocationHandle);

/// By slot: the driver's granularity on the card, 0 where that was not asked yet, 1 where it has no
/// such memory.
static GRANULES: [AtomicU64; GPUS] = [const { AtomicU64::new(0) }; GPUS];

/// Where memory of this thread is made, if it is to be made so that it can be moved.
#[inline]
pub(crate) fn home(process: &Process) -> Option<Home> {
    if process.movable { home_of(process) } else { None }
}

fn home_of(process: &Process) -> Option<Home> {
    let (context, slot) = hooks::current(process)?;
    if !process.swap.is_on(slot) {
        return None;
    }
    let device = process.device_of(slot)?;
    granule_bytes(slot, device)?;
    // Its copies are made in this context.
    process.gates.contexts.learn(context, slot);
    Some(Home { slot, context, device })
}

fn attribute(device: CUdevice, which: u32) -> i32 {
    let mut value = 0;
    // SAFETY: a writable number.
    let code = unsafe { bare::cuDeviceGetAttribute(&raw mut value, which, device) };
    if code.is_ok() { value } else { 0 }
}

/// In steps of how many bytes the driver makes such memory; `None` if it does not.
fn granule_bytes(slot: Slot, device: CUdevice) -> Option<u64> {
    let known = GRANULES.get(usize::from(slot.0))?;
    match known.load(Ordering::Relaxed) {
        0 => {}
        1 => return None,
        bytes => return Some(bytes),
    }
    let mut bytes = 0_usize;
    let prop = properties(device);
    let has = real::has(DriverFn::cuMemCreate) && attribute(device, HAS_VMM) != 0;
    // SAFETY: a writable number and readable properties.
    let mut ask =
        || unsafe { bare::cuMemGetAllocationGranularity(&raw mut bytes, &raw const prop, 0) };
    let granule = if has && ask().is_ok() { (bytes as u64).max(SLAB_BYTES) } else { 1 };
    known.store(granule, Ordering::Relaxed);
    (granule > 1).then_some(granule)
}

fn properties(device: CUdevice) -> CUmemAllocationProp_v1 {
    CUmemAllocationProp_v1 {
        kind: PINNED,
        requested_handle_types: POSIX_FD,
        location: CUmemLocation { kind: LOCATION_DEVICE, id: device },
        win32_handle_meta_data: std::ptr::null_mut(),
        compression_type: 0,
        gpu_direct_rdma_capable: u8::from(attribute(device, HAS_RDMA) != 0),
        usage: 0,
        reserved: [0; 4],
    }
}

/// Makes physical memory on a card.
pub(crate) fn create(
    device: CUdevice,
    bytes: u64,
) -> Result<CUmemGenericAllocationHandle, CUresult> {
    let (mut handle, prop) = (CUmemGenericAllocationHandle::default(), properties(device));
    // SAFETY: a writable handle and readable properties.
    let code = unsafe { bare::cuMemCreate(&raw mut handle, bytes as usize, &raw const prop, 0) };
    if code.is_ok() { Ok(handle) } else { Err(code) }
}

/// Maps physical memory. Nothing may touch it until [`allow`].
pub(crate) fn map(at: CUdeviceptr, bytes: u64, handle: CUmemGenericAllocationHandle) -> CUresult {
    // SAFETY: addresses that we have reserved, and a live handle of ours.
    unsafe { bare::cuMemMap(at, bytes as usize, 0, handle, 0) }
}

/// Lets these cards touch what is mapped there.
pub(crate) fn allow(at: CUdeviceptr, bytes: u64, devices: &[CUdevice]) -> CUresult {
    let access: Vec<_> = devices
        .iter()
        .map(|id| CUmemAccessDesc_v1 {
            location: CUmemLocation { kind: LOCATION_DEVICE, id: *id },
            flags: READ_WRITE,
        })
        .collect();
    // SAFETY: mapped by us, and as many descriptions as are there.
    unsafe { bare::cuMemSetAccess(at, bytes as usize, access.as_ptr(), access.len()) }
}

pub(crate) fn unmap(at: CUdeviceptr, bytes: u64) -> CUresult {
    // SAFETY: mapped by us, as a whole, and no work touches it any more.
    unsafe { bare::cuMemUnmap(at, bytes as usize) }
}

pub(crate) fn release(handle: CUmemGenericAllocationHandle) -> CUresult {
    // SAFETY: a handle of ours, released once.
    unsafe { bare::cuMemRelease(handle) }
}

fn free_addresses(at: CUdeviceptr, bytes: u64) -> CUresult {
    // SAFETY: reserved by us with exactly this size, and nothing is mapped there.
    unsafe { bare::cuMemAddressFree(at, bytes as usize) }
}

/// The cards that may touch memory of a home: its own first.
pub(crate) fn devices(process: &Process, home: Home) -> Vec<CUdevice> {
    let mut devices = vec![home.device];
    devices.extend(process.swap.peers_of(home.context));
    devices
}

/// Makes a range with its pieces, or nothing.
fn make(process: &Process, home: Home, whole: u64) -> Result<Vec<Made>, CUresult> {
    let mut base = 0;
    // SAFETY: a writable address.
    let code = unsafe { bare::cuMemAddressReserve(&raw mut base, whole as usize, 0, 0, 0) };
    if !code.is_ok() {
        return Err(code);
    }
    let mut made: Vec<Made> = Vec::new();
    let mut fill = || -> CUresult {
        let mut done = 0;
        while done < whole {
            let bytes = PIECE_BYTES.min(whole - done);
            let handle = match create(home.device, bytes) {
                Ok(handle) => handle,
                Err(code) => return code,
            };
            let code = map(base + done, bytes, handle);
            if !code.is_ok() {
                release(handle);
                return code;
            }
            made.push((base + done, bytes, handle));
            done += bytes;
        }
        allow(base, whole, &devices(process, home))
    };
    let code = fill();
    if code.is_ok() {
        return Ok(made);
    }
    for (at, bytes, handle) in made {
        unmap(at, bytes);
        release(handle);
    }
    free_addresses(base, whole);
    Err(code)
}

/// What plain memory would say to being allocated now: while something is captured, the driver may
/// forbid it, and the capture is worth nothing then.
fn ask_plain(process: &Process) -> CUresult {
    if !process.gates.guests.is_banned() {
        return CUresult::SUCCESS;
    }
    let mut address = 0;
    // SAFETY: a writable address.
    let code = unsafe { bare::cuMemAlloc_v2(&raw mut address, 1) };
    if code.is_ok() {
        // SAFETY: allocated just now.
        unsafe { bare::cuMemFree_v2(address) };
    }
    code
}

/// Allocates `bytes`, which are not 0.
///
/// # Errors
/// The code to answer; nothing is charged then.
pub(crate) fn allocate(process: &Process, home: Home, bytes: u64) -> Result<CUdeviceptr, CUresult> {
    let asked = units(bytes).ok_or(CUresult::OUT_OF_MEMORY)?;
    let granule = granule_bytes(home.slot, home.device).ok_or(CUresult::NOT_SUPPORTED)?;
    let small = bytes <= granule / 2;
    if small {
        process.charge_part(home.slot, asked)?;
        let mut placed = None;
        let code = gates::memory(|| {
            let code = ask_plain(process);
            if code.is_ok() {
                placed = process.swap.backing().place(home, bytes);
            }
            code
        });
        if !code.is_ok() {
            return Err(code);
        }
        if let Some(address) = placed {
            return Ok(address);
        }
    }
    let whole = if small { granule } else { bytes.next_multiple_of(granule) };
    let whole_units = units(whole).ok_or(CUresult::OUT_OF_MEMORY)?;
    process.charge_range(home.slot, asked, whole_units)?;
    label::charge_done();
    let mut made = Err(CUresult::OUT_OF_MEMORY);
    let code = gates::memory(|| {
        let code = ask_plain(process);
        if code.is_ok() {
            made = make(process, home, whole);
            label::driver_allocated();
            made.as_ref().err().copied().unwrap_or(code)
        } else {
            code
        }
    });
    let base = match (&made, code.is_ok()) {
        (Ok(pieces), true) => enter(process, home, bytes, small, pieces),
        _ => None,
    };
    label::allocation_entered();
    base.ok_or_else(|| {
        process.release_range(home.slot, whole_units);
        if code.is_ok() { CUresult::OUT_OF_MEMORY } else { code }
    })
}

fn enter(
    process: &Process,
    home: Home,
    bytes: u64,
    small: bool,
    pieces: &[Made],
) -> Option<CUdeviceptr> {
    let first = *pieces.first()?;
    let mut backing = process.swap.backing();
    if small {
        return backing.enter_slab(first, home, bytes);
    }
    backing.enter_large(first.0, bytes, home, pieces);
    Some(first.0)
}

/// Frees what begins at `base`; `None` if that is the driver's business.
pub(crate) fn free(process: &Process, base: CUdeviceptr) -> Option<CUresult> {
    free_by(process, base, true)
}

/// As [`free`], behind what is in the streams: not waited for. It is taken back once all work has ended
/// that was asked for before.
pub(crate) fn free_in_stream(process: &Process, base: CUdeviceptr) -> Option<CUresult> {
    free_by(process, base, false)
}

#[inline]
fn free_by(process: &Process, base: CUdeviceptr, waits: bool) -> Option<CUresult> {
    if process.movable { free_ours(process, base, waits) } else { None }
}

fn free_ours(process: &Process, base: CUdeviceptr, waits: bool) -> Option<CUresult> {
    let number = process.swap.backing().find(base).filter(|seen| seen.base == base)?.number;
    let code = ask_plain(process);
    if !code.is_ok() {
        return Some(code);
    }
    let freeing = process.swap.backing().free(base);
    label::free_taken();
    match freeing {
        Freeing::Foreign => return Some(CUresult::INVALID_VALUE),
        Freeing::Dying if waits => {
            process.wait_for_reaper(None, |backing| backing.is_dying(base, number));
        }
        Freeing::Dying => {
            process.swap.set_freed_later();
            process.gates.bell.ring();
        }
        Freeing::Gone(None) => {}
        Freeing::Gone(Some(gone)) => undo_or_keep(process, gone),
    }
    label::free_released();
    Some(CUresult::SUCCESS)
}

/// A context has ended: what was made in it, up to allocation `before`, goes with it.
pub(crate) fn end_context(process: &Process, context: CUcontext, before: u64) {
    if !process.movable {
        return;
    }
    process.swap.forget_peers(context);
    let any = process.swap.backing().end_context(context, before);
    if any {
        process.wait_for_reaper(None, |backing| backing.has_dying_of(context));
    }
}

/// As [`undo`]; what is left is tried again with the next.
pub(crate) fn undo_or_keep(process: &Process, gone: Gone) {
    if let Err(left) = undo(process, gone) {
        process.swap.stuck().push(left);
    }
}

/// Undoes what is gone from the books with the driver and the broker. What the driver refuses comes
/// back, to be tried again: its bytes stay charged.
fn undo(process: &Process, gone: Gone) -> Result<(), Gone> {
    let Some(slot) = gone.slot else { return Ok(()) };
    let mut left = Gone { mapped: Vec::new(), handles: Vec::new(), swapped_bytes: 0, ..gone };
    for (at, bytes, handle) in gone.mapped {
        if !unmap(at, bytes).is_ok() {
            left.mapped.push((at, bytes, handle));
        } else if release(handle).is_ok() {
            process.release_range(slot, units(bytes).unwrap_or(0));
        } else {
            left.handles.push((handle, bytes));
        }
    }
    for (handle, bytes) in gone.handles {
        if release(handle).is_ok() {
            process.release_range(slot, units(bytes).unwrap_or(0));
        } else {
            left.handles.push((handle, bytes));
        }
    }
    if gone.swapped_bytes > 0 {
        let units = units(gone.swapped_bytes).unwrap_or(0);
        // If it can't be sent the broker is gone; the next one begins with what is held.
        let _ = process.line.send(&ToBroker::SwappedFreed { gpu: slot.0, units }.encode());
    }
    if left.bytes > 0 && left.mapped.is_empty() {
        let mut code = free_addresses(left.base, left.bytes);
        if !code.is_ok() {
            // Something that could not be unmapped when it did not arrive.
            unmap(left.base, left.bytes);
            code = free_addresses(left.base, left.bytes);
        }
        left.bytes = if code.is_ok() { 0 } else { left.bytes };
    }
    if left.bytes == 0 && left.handles.is_empty() { Ok(()) } else { Err(left) }
}
