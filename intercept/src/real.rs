//! The driver underneath: its address for every row, and a typed function for each to call it by.
//!
//! [`resolve`] fills the addresses before stage one gets its slots, so no call asks whether they are
//! there. A row that the driver lacks has the address of [`absent`], which answers
//! `CUDA_ERROR_NOT_SUPPORTED`: a linked call never jumps to null.

use std::{
    ffi::{CStr, CString, c_int, c_void},
    mem,
    sync::atomic::{AtomicPtr, AtomicUsize, Ordering},
};

use halfwarp_gate::stage::Dlsym;
use shim_cuda_headers::{CUresult, DriverFn, NvmlFn, driver_table};

static DLSYM: AtomicUsize = AtomicUsize::new(0);
static STAGE_ONE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static STUBS: [AtomicUsize; DriverFn::COUNT] = [const { AtomicUsize::new(0) }; DriverFn::COUNT];
static DRIVER: [AtomicUsize; DriverFn::COUNT] = [const { AtomicUsize::new(0) }; DriverFn::COUNT];

/// Where [`absent`] is. Taken once: a function may have several addresses in one library, one for each
/// unit of compilation, so an address that is compared must come from one place.
static ABSENT: AtomicUsize = AtomicUsize::new(0);

/// What a row answers that the driver beneath does not have.
pub(crate) extern "C" fn absent() -> CUresult {
    CUresult::NOT_SUPPORTED
}

/// What an NVML row answers where there is no such function: `NVML_ERROR_FUNCTION_NOT_FOUND`.
#[inline(never)]
pub(crate) extern "C" fn nvml_absent() -> u32 {
    13
}

/// What an NVML row answers where there is no NVML: `NVML_ERROR_LIBRARY_NOT_FOUND`.
pub(crate) extern "C" fn no_nvml() -> u32 {
    12
}

/// Takes libc's `dlsym` and stage one's handle, given by stage one.
pub(crate) fn adopt(dlsym: Dlsym, stage_one: *mut c_void) {
    DLSYM.store(dlsym as usize, Ordering::Relaxed);
    STAGE_ONE.store(stage_one, Ordering::Relaxed);
}

/// Address of `symbol` in the library behind `handle`.
pub(crate) fn dlsym_in(handle: *mut c_void, symbol: &CStr) -> Option<usize> {
    let address = DLSYM.load(Ordering::Relaxed);
    if address == 0 {
        return None;
    }
    // SAFETY: `adopt` stored a function of this type.
    let dlsym = unsafe { mem::transmute::<usize, Dlsym>(address) };
    // SAFETY: a live handle and a NUL-terminated name.
    let found = unsafe { dlsym(handle, symbol.as_ptr()) };
    (!found.is_null()).then_some(found as usize)
}

/// Address of stage one's export for a row: what programs get from look-ups. Asked once a row.
pub(crate) fn stub(row: DriverFn) -> Option<usize> {
    let known = STUBS.get(row as usize)?;
    let seen = known.load(Ordering::Relaxed);
    if seen != 0 {
        return Some(seen);
    }
    let symbol = CString::new(row.row().symbol).ok()?;
    let found = dlsym_in(STAGE_ONE.load(Ordering::Relaxed), &symbol)?;
    known.store(found, Ordering::Relaxed);
    Some(found)
}

/// Looks every row up in the driver behind `handle`.
pub(crate) fn resolve(handle: *mut c_void) {
    let absent = absent as *const () as usize;
    ABSENT.store(absent, Ordering::Relaxed);
    for (row, slot) in DriverFn::ALL.iter().zip(&DRIVER) {
        let symbol = CString::new(row.row().symbol).ok();
        let address = symbol.and_then(|s| dlsym_in(handle, &s));
        slot.store(address.unwrap_or(absent), Ordering::Relaxed);
    }
}

/// Address of [`absent`], once [`resolve`] has run.
pub(crate) fn absent_address() -> usize {
    ABSENT.load(Ordering::Relaxed)
}

/// Looks every NVML row up in the library behind `handle`; also the address of those that it lacks.
pub(crate) fn resolve_nvml(handle: *mut c_void) -> (Vec<usize>, usize) {
    let address = |row: &NvmlFn| {
        let symbol = CString::new(row.symbol()).ok()?;
        dlsym_in(handle, &symbol)
    };
    let missing = nvml_absent as *const () as usize;
    (NvmlFn::ALL.iter().map(|row| address(row).unwrap_or(missing)).collect(), missing)
}

/// The driver's address for a row, or [`absent`]'s.
pub(crate) fn address(row: DriverFn) -> usize {
    DRIVER.get(row as usize).map_or(0, |slot| slot.load(Ordering::Relaxed))
}

/// Whether the driver has a row.
pub(crate) fn has(row: DriverFn) -> bool {
    address(row) != absent_address()
}

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
pub(crate) const PER_THREAD: u64 = 2;

/// What the driver's `cuGetProcAddress` answers; 0 if nothing.
pub(crate) fn proc_address(name: &CStr, version: u32, flags: u64) -> usize {
    let mut answer: *mut c_void = std::ptr::null_mut();
    let version = c_int::try_from(version).unwrap_or(0);
    let code = if has(DriverFn::cuGetProcAddress_v2) {
        let (name, answer, mut status) = (name.as_ptr(), &raw mut answer, 0);
        // SAFETY: a NUL-terminated text, and outputs of ours.
        unsafe { call::cuGetProcAddress_v2(name, answer, version, flags, &raw mut status) }
    } else {
        // SAFETY: as above.
        unsafe { call::cuGetProcAddress(name.as_ptr(), &raw mut answer, version, flags) }
    };
    if code.is_ok() { answer as usize } else { 0 }
}

macro_rules! typed {
    ($($symbol:ident $asked:literal $version:literal $stream:ident $memory:ident $gate:ident
       $capture:ident $lifetime:ident $start:ident $answer:ident
       ($($arg:ident: $ty:ty),*);)*) => {
        /// The driver's functions, typed, with no gate before them: for our own thread, and for what
        /// is done at a gate.
        #[allow(non_snake_case, reason = "the vendor's own names")]
        #[allow(dead_code, reason = "one function a row, whether a hook calls it or not")]
        #[allow(unused_imports, reason = "the table decides which types appear")]
        #[allow(clippy::too_many_arguments, reason = "the vendor's own signatures")]
        pub(crate) mod bare {
            use core::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};
            use shim_cuda_headers::*;

            $(
                #[doc = concat!("The driver's `", stringify!($symbol), "`.\n\n# Safety\n",
                    "As the driver asks of its caller: arguments are passed on unchanged.")]
                #[inline]
                pub(crate) unsafe fn $symbol($($arg: $ty),*) -> CUresult {
                    type Function = unsafe extern "C" fn($($ty),*) -> CUresult;
                    let address = super::address(DriverFn::$symbol);
                    // SAFETY: the driver's function of that name, whose type the table states and
                    // the vendor's header confirms; or `absent`, which reads no argument.
                    let function = unsafe { core::mem::transmute::<usize, Function>(address) };
                    // SAFETY: the arguments are the caller's, passed on unchanged.
                    unsafe { function($($arg),*) }
                }
            )*
        }

        /// The driver's functions for the program's own calls: each behind what its row's columns
        /// say, so no row with a gate can be called without passing it.
        #[allow(non_snake_case, reason = "the vendor's own names")]
        #[allow(dead_code, reason = "one function a row, whether a hook calls it or not")]
        #[allow(unused_imports, reason = "the table decides which types appear")]
        #[allow(clippy::too_many_arguments, reason = "the vendor's own signatures")]
        pub(crate) mod call {
            use core::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};
            use shim_cuda_headers::*;

            $(
                #[doc = concat!("The driver's `", stringify!($symbol), "`.\n\n# Safety\n",
                    "As the driver asks of its caller: arguments are passed on unchanged.")]
                #[inline]
                pub(crate) unsafe fn $symbol($($arg: $ty),*) -> CUresult {
                    // SAFETY: the arguments are the caller's, passed on unchanged.
                    let call = move || unsafe { super::bare::$symbol($($arg),*) };
                    behind!($gate $capture $lifetime, $stream ($($arg),*), call)
                }
            )*
        }
    };
}

/// What a call goes through before and after the driver, by its row's columns.
macro_rules! behind {
    (Lease $capture:ident $lifetime:ident, $stream:ident $args:tt, $call:ident) => {
        crate::gates::launch(move || facts!($stream $args), $call)
    };
    (Residency Begin $lifetime:ident, $stream:ident $args:tt, $call:ident) => {
        crate::capture::begin(&facts!($stream $args), $call)
    };
    (Residency End $lifetime:ident, $stream:ident $args:tt, $call:ident) => {
        crate::capture::end(&facts!($stream $args), $call)
    };
    (Residency $capture:ident $lifetime:ident, $stream:ident $args:tt, $call:ident) => {
        crate::gates::memory($call)
    };
    (Open Free MakesStream, $stream:ident $args:tt, $call:ident) => {
        crate::capture::stream_made(&facts!($stream $args), $call)
    };
    (Open Free FreesStream, $stream:ident $args:tt, $call:ident) => {
        crate::capture::stream_gone(&facts!($stream $args), $call)
    };
    (Open Free FreesGraphExec, $stream:ident $args:tt, $call:ident) => {
        crate::gates::forgotten(facts!($stream $args).graph, $call)
    };
    (Open Free FreesModule, $stream:ident $args:tt, $call:ident) => {
        crate::gates::forgotten(0, $call)
    };
    (Open Free FreesLibrary, $stream:ident $args:tt, $call:ident) => {
        crate::gates::forgotten(0, $call)
    };
    (Open $capture:ident $lifetime:ident, $stream:ident $args:tt, $call:ident) => {
        $call()
    };
}

/// What a call's parameters say.
macro_rules! facts {
    ($stream:ident ($($arg:ident),*)) => {{
        #[allow(unused_imports, reason = "a row may have no parameter of a silent type")]
        use crate::facts::{Given, Silent};
        #[allow(unused_mut, reason = "a row may have no parameter")]
        let mut facts = crate::facts::Facts::of(row::StreamVariant::$stream);
        $(Given($arg).tell(&mut facts);)*
        facts
    }};
}
driver_table!(typed);
