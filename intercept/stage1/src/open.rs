//! Opens stage two, once for the driver and once for NVML, and keeps what it answered.
//!
//! Stage two is the file `libhalfwarp-core.so` beside the file that stage one is mapped from, as the
//! kernel names it (so a link that changed since does not matter). Where it can't be loaded, every
//! function answers an error and one line says why: without it no limit could hold.

use core::{
    ffi::{c_int, c_void},
    mem,
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
};

use halfwarp_gate::stage::{self, FromStageOne, FromStageTwo};
use shim_cuda_headers::{CUresult, DriverFn, NvmlFn};

use crate::{
    exports::anchor as exports_anchor,
    lookup::{Handle, object_of, real_dlsym},
    names::Name,
    x86_64::thread_block,
};

/// Slots of the driver's rows; null before the first call.
pub(crate) static DRIVER_SLOTS: AtomicPtr<usize> = AtomicPtr::new(null_mut());
/// Slots of NVML's rows; null before the first call.
pub(crate) static NVML_SLOTS: AtomicPtr<usize> = AtomicPtr::new(null_mut());

static ABSENT: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
static REAL: [Handle; 2] = [Handle::new(null_mut()), Handle::new(null_mut())];
static TRANSPARENT: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];
static OWN_HANDLE: Handle = Handle::new(null_mut());
static OWN_BASE: Handle = Handle::new(null_mut());

/// Slots for a process in which stage two could not be opened: one function that says no.
static NO_SLOTS: [[AtomicUsize; DriverFn::COUNT]; 2] =
    [const { [const { AtomicUsize::new(0) }; DriverFn::COUNT] }; 2];
const _: () = assert!(NvmlFn::COUNT <= DriverFn::COUNT, "both tables fit the array above");

/// The handle whose look-up of a row answers a program: ours, which gives the exported stub; the
/// real library's where that lacks the row, or where nothing of ours answers anyway, so that every
/// road leads to the same pointers as without us. Opens the row's library if it is not open yet.
pub(crate) fn handle_that_answers(name: Name) -> *mut c_void {
    let (which, row) = name.place();
    let table = if which == stage::DRIVER { &DRIVER_SLOTS } else { &NVML_SLOTS };
    // PAIRS(slots): acquires what `open_slow` released.
    if table.load(Ordering::Acquire).is_null() {
        open_slow(which);
    }
    let index = which as usize & 1;
    // SAFETY: the table has a slot for every row and is never freed.
    let slot = unsafe { *table.load(Ordering::Acquire).add(row) };
    let real = REAL[index].load(Ordering::Relaxed);
    let lacks = slot == ABSENT[index].load(Ordering::Relaxed);
    let transparent = TRANSPARENT[index].load(Ordering::Relaxed);
    if (lacks || transparent) && !real.is_null() { real } else { own_handle() }
}

pub(crate) extern "C" fn open_driver_slow() {
    open_slow(stage::DRIVER);
}

pub(crate) extern "C" fn open_nvml_slow() {
    open_slow(stage::NVML);
}

/// Asks stage two for the slots of one library. Threads that come together each ask; stage two
/// answers all of them alike.
#[cold]
fn open_slow(which: c_int) {
    let saved = errno();
    let mut to = FromStageTwo { slots: null_mut(), absent: 0, real: null_mut(), transparent: 0 };
    let code = match open_stage_two() {
        Some(open) => {
            let from = FromStageOne {
                build: stage::build(),
                dlsym: Some(real_dlsym()),
                handle: own_handle(),
                thread_block: thread_block(),
            };
            // SAFETY: both structs are ours and of the layout both stages were built with; stage
            // two checks the build before it reads further.
            unsafe { open(which, &raw const from, &raw mut to) }
        }
        None => {
            say(b"halfwarp: cannot load libhalfwarp-core.so from beside the preloaded library; \
                  CUDA calls fail until it is there and matches this C library\n");
            CUresult::SYSTEM_NOT_READY.0 as c_int
        }
    };
    let index = which as usize & 1;
    if code == 0 && !to.slots.is_null() {
        ABSENT[index].store(to.absent, Ordering::Relaxed);
        REAL[index].store(to.real, Ordering::Relaxed);
        TRANSPARENT[index].store(to.transparent != 0, Ordering::Relaxed);
    } else {
        to.slots = no_slots(which, index);
    }
    let table = if which == stage::DRIVER { &DRIVER_SLOTS } else { &NVML_SLOTS };
    // PAIRS(slots): publishes the slots to the dispatchers and to `opened`.
    table.store(to.slots.cast_mut(), Ordering::Release);
    set_errno(saved);
}

/// What every driver function answers when stage two is missing.
extern "C" fn not_ready() -> u32 {
    CUresult::SYSTEM_NOT_READY.0
}

/// What every NVML function answers then: `NVML_ERROR_UNKNOWN`.
extern "C" fn nvml_unknown() -> u32 {
    999
}

fn no_slots(which: c_int, index: usize) -> *const usize {
    let answer = if which == stage::DRIVER { not_ready } else { nvml_unknown };
    for slot in &NO_SLOTS[index] {
        slot.store(answer as *const () as usize, Ordering::Relaxed);
    }
    NO_SLOTS[index].as_ptr().cast()
}

/// Loads stage two and finds its export.
fn open_stage_two() -> Option<stage::Open> {
    const FILE: &[u8] = b"libhalfwarp-core.so\0";
    let mut path = [0u8; libc::PATH_MAX as usize];
    let length = own_path(&mut path)?;
    let folder = path[..length].iter().rposition(|b| *b == b'/')? + 1;
    path.get_mut(folder..folder + FILE.len())?.copy_from_slice(FILE);
    // SAFETY: `path` is NUL-terminated; RTLD_LOCAL keeps stage two's symbols to itself.
    let handle = unsafe { libc::dlopen(path.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: a live handle and a NUL-terminated name.
    let open = unsafe { real_dlsym()(handle, stage::OPEN_SYMBOL.as_ptr()) };
    // SAFETY: null is None; anything else is the export of that type.
    unsafe { mem::transmute::<*mut c_void, Option<stage::Open>>(open) }
}

/// Our own handle, opened once; its look-ups give the exported stubs.
pub(crate) fn own_handle() -> *mut c_void {
    let known = OWN_HANDLE.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let Some((name, _)) = object_of(exports_anchor()) else { return null_mut() };
    // SAFETY: the loader's own name of this object; RTLD_NOLOAD only finds what is loaded.
    let handle = unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    OWN_HANDLE.store(handle, Ordering::Relaxed);
    handle
}

/// The address this library is loaded at.
pub(crate) fn own_base() -> *mut c_void {
    let known = OWN_BASE.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let base = object_of(exports_anchor()).map_or(null_mut(), |(_, base)| base);
    OWN_BASE.store(base, Ordering::Relaxed);
    base
}

/// Writes the path that this library is mapped from, as the kernel has it, and returns its length.
fn own_path(path: &mut [u8]) -> Option<usize> {
    let own = exports_anchor() as usize;
    // SAFETY: a constant NUL-terminated path.
    let maps = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if maps < 0 {
        return None;
    }
    let mut answer = None;
    each_line(maps, |line| {
        let found = path_if_mapped_at(line, own)?;
        path.get_mut(..found.len())?.copy_from_slice(found);
        answer = Some(found.len());
        answer.map(drop)
    });
    // SAFETY: a descriptor of ours, closed once.
    unsafe { libc::close(maps) };
    answer
}

/// Hands each line of a file to `take` until that answers something. Through small buffers on the
/// stack; what does not fit into one is cut.
fn each_line(file: c_int, mut take: impl FnMut(&[u8]) -> Option<()>) {
    let mut buffer = [0u8; 4096];
    let mut line = [0u8; libc::PATH_MAX as usize + 128];
    let mut filled = 0;
    loop {
        // SAFETY: `buffer` is writable for its length.
        let got = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Some(chunk) = usize::try_from(got).ok().and_then(|n| buffer.get(..n)) else { return };
        if chunk.is_empty() {
            return;
        }
        for &byte in chunk {
            if byte != b'\n' {
                if let Some(place) = line.get_mut(filled) {
                    *place = byte;
                    filled += 1;
                }
                continue;
            }
            if line.get(..filled).and_then(&mut take).is_some() {
                return;
            }
            filled = 0;
        }
    }
}

/// The path at the end of a line of `maps`, if the line's range covers `address`.
fn path_if_mapped_at(line: &[u8], address: usize) -> Option<&[u8]> {
    let dash = line.iter().position(|b| *b == b'-')?;
    let space = line.iter().position(|b| *b == b' ')?;
    let (from, to) = (hex(line.get(..dash)?)?, hex(line.get(dash + 1..space)?)?);
    let slash = line.iter().position(|b| *b == b'/')?;
    (from..to).contains(&address).then_some(())?;
    line.get(slash..)
}

fn hex(digits: &[u8]) -> Option<usize> {
    digits.iter().try_fold(0usize, |n, d| Some(n << 4 | (*d as char).to_digit(16)? as usize))
}

/// One line on the error stream, in one write.
fn say(line: &[u8]) {
    // SAFETY: `line` is readable for its length; a failed write is nobody's business.
    unsafe { libc::write(2, line.as_ptr().cast::<c_void>(), line.len()) };
}

fn errno() -> c_int {
    // SAFETY: libc's pointer to this thread's errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: c_int) {
    // SAFETY: libc's pointer to this thread's errno.
    unsafe { *libc::__errno_location() = value };
}
