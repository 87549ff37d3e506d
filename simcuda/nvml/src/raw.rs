//! The caller's pointers. Their validity is the contract of NVML: null, or good for the access
//! that the function's documentation names; it cannot be checked and is relied on here.
#![allow(unsafe_code, reason = "reading and writing through the caller's pointers")]

use crate::entry::{Done, INSUFFICIENT_SIZE, INVALID_ARGUMENT, Return};
use std::ffi::{CStr, c_char};

/// Writes an answer; null is an invalid argument.
pub(crate) fn put<T>(to: *mut T, value: T) -> Done {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and by the caller's contract good for one `T`.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

pub(crate) fn get<T: Copy>(from: *const T) -> Result<T, Return> {
    if from.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and by the caller's contract it holds one `T`.
    Ok(unsafe { from.read_unaligned() })
}

pub(crate) fn text(from: *const c_char) -> Result<String, Return> {
    if from.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and by the caller's contract a string that ends with a null byte.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().map(str::to_owned).map_err(|_| INVALID_ARGUMENT)
}

/// Writes a string; a buffer that is too short is left as it was.
pub(crate) fn put_text(to: *mut c_char, capacity: u32, text: &str) -> Done {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= capacity as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: the caller's buffer has room for `capacity` bytes, of which this writes fewer.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
    // SAFETY: `text.len()` is below `capacity`.
    unsafe { to.cast::<u8>().add(text.len()).write(0) };
    Ok(())
}
