//! What a tenant's program is told by NVML: the tenant's limit as the card's size, what it holds as
//! used, its own processes. Everything else is the driver's answer, for every card, whatever order it
//! lists them in: a card is told by its UUID.
//!
//! The driver is asked first, so that a wrong handle or version gets its own code. Where the tenant's
//! limit is the whole card, its figures stand. A card that is not the tenant's keeps its figures and
//! shows no process.

use std::{
    ffi::{c_char, c_uint, c_void},
    mem, ptr,
    sync::OnceLock,
};

use halfwarp_api::bytes;
use shim_cuda_headers::NvmlFn;

use crate::{
    look::{Look, Slice, look},
    open,
    sys::Errno,
};

type Device = *mut c_void;
type Code = c_uint;

const SUCCESS: Code = 0;
const INSUFFICIENT_SIZE: Code = 7;
const UNKNOWN: Code = 999;
/// `NVML_VALUE_NOT_AVAILABLE` as an instance's number.
const NO_INSTANCE: u32 = u32::MAX;

#[repr(C)]
#[derive(Clone, Copy)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct MemoryV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

#[repr(C)]
struct ProcessV1 {
    pid: u32,
    used_bytes: u64,
}

#[repr(C)]
struct ProcessV2 {
    pid: u32,
    used_bytes: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// The library's addresses, by row.
static REAL: OnceLock<Vec<usize>> = OnceLock::new();

/// Puts the hooks in place of the rows that a tenant must not see as they are.
pub(crate) fn replace(rows: Vec<usize>) -> Vec<usize> {
    let real = REAL.get_or_init(|| rows);
    NvmlFn::ALL.iter().zip(real).map(|(row, address)| hook(*row).unwrap_or(*address)).collect()
}

fn hook(row: NvmlFn) -> Option<usize> {
    let memory: unsafe extern "C" fn(Device, *mut Memory) -> Code = memory_v1;
    let memory_2: unsafe extern "C" fn(Device, *mut MemoryV2) -> Code = memory_v2;
    type List<T> = unsafe extern "C" fn(Device, *mut c_uint, *mut T) -> Code;
    let [compute_1, graphics_1, mps_1]: [List<ProcessV1>; 3] =
        [lists::compute_v1, lists::graphics_v1, lists::mps_v1];
    let [compute_2, graphics_2, mps_2]: [List<ProcessV2>; 3] =
        [lists::compute_v2, lists::graphics_v2, lists::mps_v2];
    let [compute_3, graphics_3, mps_3]: [List<ProcessV2>; 3] =
        [lists::compute_v3, lists::graphics_v3, lists::mps_v3];
    Some(match row {
        NvmlFn::nvmlDeviceGetMemoryInfo => memory as usize,
        NvmlFn::nvmlDeviceGetMemoryInfo_v2 => memory_2 as usize,
        NvmlFn::nvmlDeviceGetComputeRunningProcesses => compute_1 as usize,
        NvmlFn::nvmlDeviceGetComputeRunningProcesses_v2 => compute_2 as usize,
        NvmlFn::nvmlDeviceGetComputeRunningProcesses_v3 => compute_3 as usize,
        NvmlFn::nvmlDeviceGetGraphicsRunningProcesses => graphics_1 as usize,
        NvmlFn::nvmlDeviceGetGraphicsRunningProcesses_v2 => graphics_2 as usize,
        NvmlFn::nvmlDeviceGetGraphicsRunningProcesses_v3 => graphics_3 as usize,
        NvmlFn::nvmlDeviceGetMPSComputeRunningProcesses => mps_1 as usize,
        NvmlFn::nvmlDeviceGetMPSComputeRunningProcesses_v2 => mps_2 as usize,
        NvmlFn::nvmlDeviceGetMPSComputeRunningProcesses_v3 => mps_3 as usize,
        _ => return None,
    })
}

/// NVML's own function of a row, with two or three parameters.
fn real(row: NvmlFn) -> usize {
    REAL.get().and_then(|rows| rows.get(row as usize)).copied().unwrap_or(0)
}

/// Calls NVML's own function of a row.
///
/// # Safety
/// The arguments are as NVML asks of its caller.
unsafe fn call(row: NvmlFn, device: Device, a: *mut c_void, b: *mut c_void) -> Code {
    type Function = unsafe extern "C" fn(Device, *mut c_void, *mut c_void) -> Code;
    let address = real(row);
    if address == 0 {
        return UNKNOWN;
    }
    // SAFETY: NVML's function of that name, or the one that says it is absent; each takes pointers
    // only, at most three, and one that takes fewer does not look at the rest.
    let function = unsafe { mem::transmute::<usize, Function>(address) };
    // SAFETY: the caller's promise.
    unsafe { function(device, a, b) }
}

/// The UUID of a card, as NVML tells it.
fn uuid_of(device: Device) -> Option<[u8; 16]> {
    const LENGTH: usize = 96;
    let mut text: [c_char; LENGTH] = [0; LENGTH];
    let length = ptr::without_provenance_mut(LENGTH);
    // SAFETY: a writable text and its length, which travels as any other word.
    let code = unsafe { call(NvmlFn::nvmlDeviceGetUUID, device, text.as_mut_ptr().cast(), length) };
    if code != SUCCESS {
        return None;
    }
    let text = text.map(|c| c.cast_unsigned());
    let digits = text.strip_prefix(b"GPU-")?.iter().take_while(|c| **c != 0);
    let digits = digits.filter(|c| **c != b'-').map(|c| char::from(*c).to_digit(16));
    let digits: Vec<u32> = digits.collect::<Option<_>>()?;
    let mut uuid = [0; 16];
    if digits.len() != 2 * uuid.len() {
        return None;
    }
    for (byte, pair) in uuid.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    Some(uuid)
}

/// The tenant as the broker has it, and its part of this card. No answer is an error.
fn seen(device: Device) -> Result<(Look, Option<Slice>), Code> {
    let look = open::identity().and_then(look).ok_or(UNKNOWN)?;
    let slice = uuid_of(device).and_then(|uuid| look.slice(uuid));
    Ok((look, slice))
}

/// Total, used and free bytes, unless the driver's figures stand: for `physical` bytes of card.
fn figures(device: Device, physical: u64) -> Result<Option<[u64; 3]>, Code> {
    let (_, slice) = seen(device)?;
    let Some(Slice { limit_units, held_units, .. }) = slice else { return Ok(None) };
    let (limit, held) = (bytes(limit_units), bytes(held_units));
    Ok((limit < physical).then(|| [limit, held, limit.saturating_sub(held)]))
}

unsafe extern "C" fn memory_v1(device: Device, out: *mut Memory) -> Code {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let code =
        unsafe { call(NvmlFn::nvmlDeviceGetMemoryInfo, device, out.cast(), ptr::null_mut()) };
    let _errno = Errno::keep();
    if code != SUCCESS {
        return code;
    }
    // SAFETY: NVML succeeded, so it has written here.
    let physical = unsafe { (*out).total };
    match figures(device, physical) {
        Ok(Some([total, used, free])) => {
            // SAFETY: the caller's output.
            unsafe { out.write(Memory { total, free, used }) };
            SUCCESS
        }
        Ok(None) => SUCCESS,
        Err(code) => code,
    }
}

unsafe extern "C" fn memory_v2(device: Device, out: *mut MemoryV2) -> Code {
    // SAFETY: the arguments are the caller's, passed on unchanged.
    let code =
        unsafe { call(NvmlFn::nvmlDeviceGetMemoryInfo_v2, device, out.cast(), ptr::null_mut()) };
    let _errno = Errno::keep();
    if code != SUCCESS {
        return code;
    }
    // SAFETY: NVML succeeded, so it has written here.
    let MemoryV2 { version, total: physical, .. } = unsafe { out.read() };
    match figures(device, physical) {
        Ok(Some([total, used, free])) => {
            // SAFETY: the caller's output.
            unsafe { out.write(MemoryV2 { version, total, reserved: 0, free, used }) };
            SUCCESS
        }
        Ok(None) => SUCCESS,
        Err(code) => code,
    }
}

/// The tenant's processes on a card, in the caller's list. `any`: whether this is the list that they
/// belong to.
unsafe fn list<T>(
    row: NvmlFn,
    any: bool,
    (device, count, to): (Device, *mut c_uint, *mut T),
    entry: fn(u32, u64) -> T,
) -> Code {
    let mut none: c_uint = 0;
    let asked = if count.is_null() { ptr::null_mut() } else { (&raw mut none).cast() };
    // SAFETY: a writable count of no entries, or the caller's null.
    let code = unsafe { call(row, device, asked, ptr::null_mut()) };
    let _errno = Errno::keep();
    if count.is_null() || code != SUCCESS && code != INSUFFICIENT_SIZE {
        return code;
    }
    let (look, slice) = match seen(device) {
        Ok(seen) => seen,
        Err(code) => return code,
    };
    let members = slice.filter(|_| any).map(|slice| look.members(slice)).unwrap_or_default();
    // SAFETY: not null, and NVML reads it too.
    let room = unsafe { count.read() } as usize;
    // SAFETY: the caller's output.
    unsafe { count.write(c_uint::try_from(members.len()).unwrap_or(c_uint::MAX)) };
    if room < members.len() || to.is_null() && !members.is_empty() {
        return INSUFFICIENT_SIZE;
    }
    for (at, (pid, units)) in members.into_iter().enumerate() {
        // SAFETY: the caller's list has room for `room` entries, and `at` is below that.
        let place = unsafe { to.add(at) };
        // SAFETY: as above.
        unsafe { place.write(entry(pid, bytes(units))) };
    }
    SUCCESS
}

fn entry_v1(pid: u32, used_bytes: u64) -> ProcessV1 {
    ProcessV1 { pid, used_bytes }
}

fn entry_v2(pid: u32, used_bytes: u64) -> ProcessV2 {
    ProcessV2 { pid, used_bytes, gpu_instance: NO_INSTANCE, compute_instance: NO_INSTANCE }
}

mod lists {
    use super::{Code, Device, NvmlFn, ProcessV1, ProcessV2, c_uint, entry_v1, entry_v2, list};

    macro_rules! lists {
        ($($name:ident $row:ident $any:literal $entry:ident $ty:ty;)*) => {$(
            pub(super) unsafe extern "C" fn $name(
                device: Device,
                count: *mut c_uint,
                to: *mut $ty,
            ) -> Code {
                // SAFETY: the arguments are the caller's.
                unsafe { list(NvmlFn::$row, $any, (device, count, to), $entry) }
            }
        )*};
    }

    lists! {
        compute_v1 nvmlDeviceGetComputeRunningProcesses true entry_v1 ProcessV1;
        compute_v2 nvmlDeviceGetComputeRunningProcesses_v2 true entry_v2 ProcessV2;
        compute_v3 nvmlDeviceGetComputeRunningProcesses_v3 true entry_v2 ProcessV2;
        graphics_v1 nvmlDeviceGetGraphicsRunningProcesses false entry_v1 ProcessV1;
        graphics_v2 nvmlDeviceGetGraphicsRunningProcesses_v2 false entry_v2 ProcessV2;
        graphics_v3 nvmlDeviceGetGraphicsRunningProcesses_v3 false entry_v2 ProcessV2;
        mps_v1 nvmlDeviceGetMPSComputeRunningProcesses false entry_v1 ProcessV1;
        mps_v2 nvmlDeviceGetMPSComputeRunningProcesses_v2 false entry_v2 ProcessV2;
        mps_v3 nvmlDeviceGetMPSComputeRunningProcesses_v3 false entry_v2 ProcessV2;
    }
}
