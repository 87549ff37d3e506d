//! The caller's pointers, `errno`, and what else C promises and Rust cannot check.
//!
//! Every pointer here came through an exported function. Its validity is the contract of the CUDA
//! driver API: null, or good for the access that the function's documentation names. That contract
//! cannot be checked and cannot be passed further up, so it is relied on in this file.
#![allow(unsafe_code, reason = "reading and writing through the caller's pointers")]

use crate::entry::Done;
use rustix::fd::{FromRawFd, OwnedFd};
use shim_cuda_headers::CUresult;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Writes an answer to where the caller wants it; null is `INVALID_VALUE`.
pub(crate) fn put<T>(to: *mut T, value: T) -> Done {
    if to.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: not null, and by the caller's contract good for one `T`; alignment is not relied on.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Writes an answer that the caller may do without.
pub(crate) fn put_if_wanted<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: as in `put`.
        unsafe { to.write_unaligned(value) };
    }
}

/// Reads what the caller handed over; null is `INVALID_VALUE`.
pub(crate) fn get<T: Copy>(from: *const T) -> Result<T, CUresult> {
    if from.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: not null, and by the caller's contract it holds one `T`.
    Ok(unsafe { from.read_unaligned() })
}

/// Reads `count` values; null is `INVALID_VALUE` unless nothing is to be read.
pub(crate) fn get_all<T: Copy>(from: *const T, count: usize) -> Result<Vec<T>, CUresult> {
    (0..count).map(|index| get_at(from, index)).collect()
}

/// Reads one value of an array of the caller's.
pub(crate) fn get_at<T: Copy>(from: *const T, index: usize) -> Result<T, CUresult> {
    if from.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    get(from.wrapping_add(index))
}

/// Writes one value of an array of the caller's.
pub(crate) fn put_at<T>(to: *mut T, index: usize, value: T) -> Done {
    if to.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    put(to.wrapping_add(index), value)
}

/// A name that the caller handed over.
pub(crate) fn text(from: *const c_char) -> Result<String, CUresult> {
    if from.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: not null, and by the caller's contract a string that ends with a null byte.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().map(str::to_owned).map_err(|_| CUresult::INVALID_VALUE)
}

/// Writes a string into a buffer of `capacity` bytes, cut short if need be, always terminated.
pub(crate) fn put_text(to: *mut c_char, capacity: c_int, text: &str) -> Done {
    let capacity = usize::try_from(capacity).map_err(|_| CUresult::INVALID_VALUE)?;
    if to.is_null() || capacity == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let bytes = &text.as_bytes()[..text.len().min(capacity - 1)];
    // SAFETY: the caller's buffer has room for `capacity` bytes, of which this writes fewer.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    // SAFETY: `bytes.len()` is below `capacity`.
    unsafe { to.cast::<u8>().add(bytes.len()).write(0) };
    Ok(())
}

/// Copies bytes that lie at an address of this process.
pub(crate) fn bytes_at(from: *const c_void, length: usize) -> Result<Vec<u8>, CUresult> {
    if length == 0 {
        return Ok(Vec::new());
    }
    if from.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let mut bytes = vec![0_u8; length];
    // SAFETY: by the caller's contract `from` is good for `length` bytes; the vector is our own.
    unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(from.cast(), length) };
    Ok(bytes)
}

/// Copies bytes that may not be there: what is not readable is `INVALID_IMAGE` and no crash.
pub(crate) fn bytes_if_there(from: *const c_void, length: usize) -> Result<Vec<u8>, CUresult> {
    let mut bytes = vec![0_u8; length];
    let own = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let theirs = libc::iovec { iov_base: from.cast_mut(), iov_len: length };
    let process = std::process::id().cast_signed();
    // SAFETY: the kernel checks both ranges; it writes to the vector of our own only.
    let copied =
        unsafe { libc::process_vm_readv(process, &raw const own, 1, &raw const theirs, 1, 0) };
    if copied == length.cast_signed() {
        return Ok(bytes);
    }
    match errno() {
        // Not allowed here: then as any driver reads.
        libc::ENOSYS | libc::EPERM if copied < 0 => bytes_at(from, length),
        _ => Err(CUresult::INVALID_IMAGE),
    }
}

/// The program's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: the location is the calling thread's own and always readable.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the location is the calling thread's own and always writable.
    unsafe { *libc::__errno_location() = value };
}

/// Has `in_child` called in every child that this process forks.
pub(crate) fn at_fork(in_child: extern "C" fn()) {
    // SAFETY: the handler only stores to an atomic, which is allowed in a forked child, and the
    // library that holds it is never unloaded. Failure leaves children unaware: no memory for it.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Calls a function of the program's: `f(data)`.
pub(crate) fn call_host_function(function: *mut c_void, data: *mut c_void) {
    // SAFETY: the caller of `cuLaunchHostFunc` handed over a `void (*)(void *)` that is not null.
    let function: extern "C" fn(*mut c_void) = unsafe { std::mem::transmute(function) };
    function(data);
}

/// Calls a function of the program's: `f(stream, status, data)`.
pub(crate) fn call_stream_callback(
    function: *mut c_void,
    stream: usize,
    status: CUresult,
    data: *mut c_void,
) {
    // SAFETY: the caller of `cuStreamAddCallback` handed over a function of this type, not null.
    let function: extern "C" fn(usize, CUresult, *mut c_void) =
        unsafe { std::mem::transmute(function) };
    function(stream, status, data);
}

/// Runs `start` with every signal blocked, so that a thread it makes never takes the program's.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: an all-zero signal set is a valid value of this plain C type.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `all` is our own.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: both sets are our own; only this thread's mask changes.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    let result = start();
    // SAFETY: `before` is what the call above stored.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

/// Has the calling thread, which is ours, woken when it asked to be: the system may be 50 us late as a
/// rule, which is longer than many a kernel.
pub(crate) fn wake_in_time() {
    // SAFETY: changes the calling thread's timers only; a system without it wakes us late.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}

/// A descriptor of the program's, handed over as a number in a pointer's place; a copy of it.
pub(crate) fn duplicate(number: *mut c_void) -> Result<OwnedFd, CUresult> {
    let number = c_int::try_from(number.addr()).map_err(|_| CUresult::INVALID_VALUE)?;
    // SAFETY: a number that is no open descriptor only makes the call fail.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: the descriptor was just made and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}
