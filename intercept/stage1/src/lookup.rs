//! What `dlsym` and `dlvsym` answer. `dlsym` never answers by itself: it chooses the handle with which the real
//! `dlsym` is asked, and the real one answers the caller.
//!
//! | the name | the handle | asked instead |
//! |---|---|---|
//! | not in the table | any | nothing else: exactly what happens without us |
//! | in the table, asked by the driver or a library it brought | any | nothing else |
//! | in the table, answer would be ours or the driver's | any | our own handle: the exported stub |
//! | in the table, but the real library lacks it | any | the real library: null, with its text |
//! | in the table, in a process without an entitlement | any | the real library |
//! | in the table, answer would be a third library's | any | nothing else |

use core::{
    ffi::{CStr, c_char, c_void},
    mem,
    ptr::{self, null_mut},
    sync::atomic::{AtomicPtr, AtomicUsize, Ordering},
};

use halfwarp_gate::stage::Dlsym;

use crate::{
    names::{Name, row_of},
    open::{handle_that_answers, own_base},
    walk::next_function,
};

/// Address of the real `dlsym`; 0 until [`find_dlsym_slow`] has run.
pub(crate) static REAL_DLSYM: AtomicUsize = AtomicUsize::new(0);

/// Answers nothing: stands in where no real `dlsym` can be found.
extern "C" fn no_dlsym(_: *mut c_void, _: *const c_char) -> *mut c_void {
    null_mut()
}

type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// Address of the real `dlvsym`; 0 until [`find_dlvsym_slow`] has run.
pub(crate) static REAL_DLVSYM: AtomicUsize = AtomicUsize::new(0);

/// Answers nothing: stands in where no real `dlvsym` can be found, as on musl.
extern "C" fn no_dlvsym(_: *mut c_void, _: *const c_char, _: *const c_char) -> *mut c_void {
    null_mut()
}

pub(crate) extern "C" fn find_dlvsym_slow() {
    let found = next_function(c"dlvsym");
    let address = if found == 0 { no_dlvsym as *const () as usize } else { found };
    REAL_DLVSYM.store(address, Ordering::Relaxed);
}

fn real_dlvsym() -> Dlvsym {
    if REAL_DLVSYM.load(Ordering::Relaxed) == 0 {
        find_dlvsym_slow();
    }
    // SAFETY: the only values stored are addresses of functions of this type.
    unsafe { mem::transmute::<usize, Dlvsym>(REAL_DLVSYM.load(Ordering::Relaxed)) }
}

/// Finds the real `dlsym`: the next one after ours under the version it has had since 2.2.5 on
/// x86-64, or since 2.34; where the libc knows no versions, the next one by its symbol table.
/// (Where another preloaded library has one of its own, this is that one.)
pub(crate) extern "C" fn find_dlsym_slow() {
    let mut found: *mut c_void = null_mut();
    for version in [c"GLIBC_2.2.5", c"GLIBC_2.34"] {
        if found.is_null() {
            let name = c"dlsym".as_ptr();
            // SAFETY: both texts are NUL-terminated; RTLD_NEXT is meant from this library.
            found = unsafe { real_dlvsym()(libc::RTLD_NEXT, name, version.as_ptr()) };
        }
    }
    let mut address = found as usize;
    if address == 0 {
        address = next_function(c"dlsym");
    }
    if address == 0 {
        address = no_dlsym as *const () as usize;
    }
    REAL_DLSYM.store(address, Ordering::Relaxed);
}

/// The real `dlsym`.
pub(crate) fn real_dlsym() -> Dlsym {
    if REAL_DLSYM.load(Ordering::Relaxed) == 0 {
        find_dlsym_slow();
    }
    // SAFETY: the only values stored are addresses of functions of this type.
    unsafe { mem::transmute::<usize, Dlsym>(REAL_DLSYM.load(Ordering::Relaxed)) }
}

/// The handle with which the real `dlsym` is to be asked for `name`; see the table above.
/// `caller` is the address to which the look-up will return.
pub(crate) extern "C" fn handle_for(
    handle: *mut c_void,
    name: *const c_char,
    caller: *const c_void,
) -> *mut c_void {
    // SAFETY: a name passed to dlsym is a NUL-terminated text; the trampoline checked for null.
    let Some(row) = (unsafe { row_of(name.cast()) }) else { return handle };
    if is_driver(caller) {
        return handle;
    }
    if handle != libc::RTLD_DEFAULT && handle != libc::RTLD_NEXT {
        // SAFETY: the caller's own arguments; for a real handle it does not matter who asks.
        let answer = unsafe { real_dlsym()(handle, name) };
        if answer.is_null() || !(is_ours(answer) || is_driver(answer)) {
            return handle;
        }
    }
    handle_that_answers(row)
}

/// What `dlvsym` answers for a name of ours, or null: then the real one answers. Ours has no versions,
/// so another handle is no help: the answer is the exported stub wherever it would be the driver's.
pub(crate) extern "C" fn versioned_answer(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    caller: *const c_void,
) -> *mut c_void {
    // SAFETY: a name passed to dlvsym is a NUL-terminated text; the trampoline checked for null.
    let Some(row) = (unsafe { row_of(name.cast()) }) else { return null_mut() };
    if is_driver(caller) {
        return null_mut();
    }
    // SAFETY: the caller's own arguments.
    let answer = unsafe { real_dlvsym()(handle, name, version) };
    if answer.is_null() || !(is_ours(answer) || is_driver(answer)) {
        return null_mut();
    }
    // SAFETY: a live handle and the caller's name.
    unsafe { real_dlsym()(handle_that_answers(row), name) }
}

/// File name and base address of the object that `address` lies in.
pub(crate) fn object_of(address: *const c_void) -> Option<(*const c_char, *mut c_void)> {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: null_mut(),
    };
    // SAFETY: dladdr accepts any address and writes only to `info`.
    let found = unsafe { libc::dladdr(address, &raw mut info) };
    (found != 0 && !info.dli_fname.is_null()).then_some((info.dli_fname, info.dli_fbase))
}

fn is_ours(address: *const c_void) -> bool {
    object_of(address).is_some_and(|(_, base)| base == own_base())
}

/// Whether `address` lies in NVIDIA's driver or a library that it brings (by file name: these names
/// are the vendor's), or in stage two.
fn is_driver(address: *const c_void) -> bool {
    let Some((path, base)) = object_of(address) else { return false };
    if base == own_base() {
        return false;
    }
    // SAFETY: dladdr gave a NUL-terminated path that lives as long as the object.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    [&b"libcuda.so"[..], b"libcudadebugger.so", b"libnvidia-", b"libhalfwarp-core.so"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// A handle that stays valid: [`AtomicPtr`] for the two modules that share it.
pub(crate) type Handle = AtomicPtr<c_void>;

impl Name {
    /// Which library, which row.
    pub(crate) fn place(self) -> (core::ffi::c_int, usize) {
        match self {
            Self::Driver(row) => (halfwarp_gate::stage::DRIVER, row),
            Self::Nvml(row) => (halfwarp_gate::stage::NVML, row),
        }
    }
}
