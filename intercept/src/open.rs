//! Stage one's question answered: where does each row lead?
//!
//! In a process without an entitlement every slot is the driver's own address, and nothing of ours
//! runs again. With one, the rows that the table marks `Hook` lead to [`crate::hooks`].

use std::{
    ffi::{CStr, c_int, c_void},
    os::raw::c_uint,
    ptr,
    sync::OnceLock,
};

use halfwarp_api::wire::{Refusal, Token};
use halfwarp_gate::stage::{self, FromStageOne, FromStageTwo};
use shim_cuda_headers::{CUresult, DriverFn, NvmlFn};

use crate::{attach::Identity, hooks, life, real, say, search, sys, thread};

/// Addresses of one library's rows, kept for ever.
struct Slots {
    rows: Vec<usize>,
    absent: usize,
    real: *mut c_void,
    /// Nothing of ours answers any row.
    transparent: bool,
}

// SAFETY: plain numbers; the handle is only passed back to the loader.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

/// The build this file belongs to, where `halfwarp doctor` finds it.
#[used]
static BUILD: u64 = stage::build();

static DRIVER: OnceLock<Slots> = OnceLock::new();
static NVML: OnceLock<Slots> = OnceLock::new();
static IDENTITY: OnceLock<Option<Identity>> = OnceLock::new();

/// Who this process says it is, or `None` for one without an entitlement.
pub(crate) fn identity() -> Option<&'static Identity> {
    IDENTITY.get_or_init(read_identity).as_ref()
}

/// From `HALFWARP_TENANT` (32 hex digits) and `HALFWARP_JOIN` (path), as they are now or, in a program
/// that has cleared its environment, as they were when it was started. A token that can't be read is
/// an entitlement all the same: the broker refuses it.
fn read_identity() -> Option<Identity> {
    let started = sys::variables_at_start();
    let variable = |name: &CStr| {
        let now = sys::variable(name).filter(|text| !text.is_empty());
        now.or_else(|| sys::variable_in(&started, name)).filter(|text| !text.is_empty())
    };
    let text = variable(c"HALFWARP_TENANT")?;
    let socket = variable(c"HALFWARP_JOIN").unwrap_or_default();
    let digit = |at: usize| {
        let value = text.get(at).and_then(|d| char::from(*d).to_digit(16));
        value.and_then(|v| u8::try_from(v).ok()).unwrap_or(0)
    };
    let mut token: Token = [0; 16];
    if text.len() == 32 {
        for (i, byte) in token.iter_mut().enumerate() {
            *byte = digit(2 * i) << 4 | digit(2 * i + 1);
        }
    }
    Some(Identity { token, socket })
}

/// The export that stage one calls; see [`stage::Open`].
///
/// # Safety
/// `from` and `to` are stage one's, of the layout in [`stage`].
#[unsafe(no_mangle)]
unsafe extern "C" fn halfwarp_core_open(
    which: c_int,
    from: *const FromStageOne,
    to: *mut FromStageTwo,
) -> c_int {
    let _errno = sys::Errno::keep();
    let _whole = sys::Uncancelled::begin();
    // SAFETY: the build is the first field of every layout there has been.
    let build = unsafe { ptr::read(from.cast::<u64>()) };
    let not_ready = CUresult::SYSTEM_NOT_READY.0 as c_int;
    if build != stage::build() {
        say::refused(Refusal::Version, "libhalfwarp.so and libhalfwarp-core.so differ");
        return not_ready;
    }
    // SAFETY: same build, so the layout is ours.
    let from = unsafe { &*from };
    let Some(dlsym) = from.dlsym else { return not_ready };
    real::adopt(dlsym, from.handle);
    thread::adopt(from.thread_block);
    let slots = if which == stage::NVML {
        NVML.get_or_init(nvml_slots)
    } else {
        DRIVER.get_or_init(driver_slots)
    };
    let answer = FromStageTwo {
        slots: slots.rows.as_ptr(),
        absent: slots.absent,
        real: slots.real,
        transparent: slots.transparent.into(),
    };
    // SAFETY: stage one's struct, writable, of this layout.
    unsafe { ptr::write(to, answer) };
    0
}

fn driver_slots() -> Slots {
    let Some(handle) = search::open_real("libcuda.so.1", c"cuInit") else {
        return without_driver();
    };
    real::resolve(handle);
    let limited = identity().is_some();
    if limited && !life::prepare() {
        // A limit that a fork could shed would be none.
        return all(refused_for_want_of_the_kernel);
    }
    let row = |f: DriverFn| {
        let hook = if limited { hooks::address(f) } else { 0 };
        if hook == 0 || !real::has(f) { real::address(f) } else { hook }
    };
    let rows = DriverFn::ALL.iter().map(|f| row(*f)).collect();
    Slots { rows, absent: real::absent_address(), real: handle, transparent: !limited }
}

/// No driver: a process with an entitlement is told why at its `cuInit`; one without sees a machine
/// that has no device.
fn without_driver() -> Slots {
    all(if identity().is_some() { refused_for_want_of_a_driver } else { no_device })
}

/// Slots that all lead to one answer.
fn all(answer: extern "C" fn(c_uint) -> CUresult) -> Slots {
    let address = answer as *const () as usize;
    let rows = vec![address; DriverFn::COUNT];
    Slots { rows, absent: 0, real: ptr::null_mut(), transparent: false }
}

extern "C" fn refused_for_want_of_the_kernel(_flags: c_uint) -> CUresult {
    say::refused(Refusal::Kernel, "");
    CUresult::SYSTEM_NOT_READY
}

extern "C" fn no_device(_flags: c_uint) -> CUresult {
    CUresult::NO_DEVICE
}

extern "C" fn refused_for_want_of_a_driver(_flags: c_uint) -> CUresult {
    say::refused(Refusal::NoDriver, "");
    CUresult::SYSTEM_NOT_READY
}

fn nvml_slots() -> Slots {
    match search::open_real("libnvidia-ml.so.1", c"nvmlInit_v2") {
        Some(handle) => {
            let (rows, absent) = real::resolve_nvml(handle);
            let limited = identity().is_some();
            let rows = if limited { hooks::nvml::replace(rows) } else { rows };
            Slots { rows, absent, real: handle, transparent: !limited }
        }
        None => {
            let address = real::no_nvml as *const () as usize;
            Slots {
                rows: vec![address; NvmlFn::COUNT],
                absent: 0,
                real: ptr::null_mut(),
                transparent: false,
            }
        }
    }
}
