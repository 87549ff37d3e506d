//! What the two stages of the library tell each other, as `repr(C)` structs. Both are built
//! together; stage two compares the build and refuses a stranger, so the layout may change freely
//! between releases.

use core::ffi::{c_char, c_int, c_void};

/// Name of stage two's one export, of type [`Open`].
pub const OPEN_SYMBOL: &core::ffi::CStr = c"halfwarp_core_open";
/// Name of a symbol that only stage one has: how a candidate for the real driver is told from us.
pub const MARK_SYMBOL: &core::ffi::CStr = c"halfwarp_stage_one";

/// Which library's functions are wanted.
pub const DRIVER: c_int = 0;
pub const NVML: c_int = 1;

/// The libc's own `dlsym`.
pub type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Stage one to stage two.
#[repr(C)]
#[derive(Debug)]
pub struct FromStageOne {
    /// [`build`] of stage one.
    pub build: u64,
    pub dlsym: Option<Dlsym>,
    /// Stage one's own handle: symbols looked up in it are the exported stubs.
    pub handle: *mut c_void,
    /// Where each thread's [`THREAD_BYTES`] zeroed bytes lie, from its thread pointer: stage one is
    /// there when a process starts, so its own are at the same distance in every thread.
    pub thread_block: isize,
}

/// Bytes that stage one keeps for stage two in every thread.
pub const THREAD_BYTES: usize = 128;

/// Stage two to stage one. The slots stay valid until the process ends.
#[repr(C)]
#[derive(Debug)]
pub struct FromStageTwo {
    /// One address a row, in the table's order.
    pub slots: *const usize,
    /// The slot of a row that the real library lacks.
    pub absent: usize,
    /// Handle of the real library, or null.
    pub real: *mut c_void,
    /// Not 0: nothing of ours answers any row, so look-ups may give the real functions.
    pub transparent: c_int,
}

/// Stage two's export: fills `to` for the library `which` and returns 0, or the result code with
/// which every function of that library is to answer.
pub type Open =
    unsafe extern "C" fn(which: c_int, from: *const FromStageOne, to: *mut FromStageTwo) -> c_int;

/// The build both stages belong to: a hash of version and build name.
#[must_use]
pub const fn build() -> u64 {
    let name = match option_env!("HALFWARP_BUILD") {
        Some(name) => name,
        None => "dev",
    };
    fnv(fnv(0xcbf2_9ce4_8422_2325, env!("CARGO_PKG_VERSION").as_bytes()), name.as_bytes())
}

/// One round of FNV-1a over `bytes`; also the hash of stage one's name table.
#[must_use]
pub const fn fnv(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}
