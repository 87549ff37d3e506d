//! Modules and libraries: their code and global variables are memory of the card. What an image tells of
//! its size ([`halfwarp_gate::image`]) is charged before the driver loads it, and released when it is
//! unloaded or its context ends. What it does not tell shows in the card's figure.
//!
//! A library is loaded into a context when something of it is first used there; it is charged at once,
//! on the current context's card.

use std::{
    ffi::{CStr, CString, OsStr, c_char, c_uint, c_void},
    os::unix::ffi::OsStrExt,
    slice,
};

use halfwarp_gate::image::{
    ELF, ELF_HEADER_BYTES, FATBIN, FATBIN_HEADER_BYTES, FATBIN_WRAPPER, device_bytes, elf_bytes,
    fatbin_bytes,
};
use shim_cuda_headers::{CUjit_option, CUlibrary, CUlibraryOption, CUmodule, CUresult, DriverFn};

use super::{
    joined,
    linear::{allocate, free, written},
};
use crate::{real::call, sys::Errno};

/// The bytes of an image that the driver is about to read.
///
/// # Safety
/// `image` is as `cuModuleLoadData` takes it: PTX that ends with a NUL, an ELF, a fat binary or the
/// pointer to one.
unsafe fn image_of<'a>(image: *const c_void) -> &'a [u8] {
    if image.is_null() {
        return &[];
    }
    // SAFETY: the shortest image is a text of no characters; the second half of the word is only
    // looked at if the first is that of a binary.
    let first = unsafe { image.cast::<u8>().read() };
    if first != 0x7f && first != 0x50 && first != 0xb1 {
        // SAFETY: none of the binaries begins so: a text.
        return unsafe { CStr::from_ptr(image.cast()) }.to_bytes();
    }
    // SAFETY: no text of PTX begins with these bytes, and every binary is longer than a word.
    let magic = unsafe { image.cast::<u32>().read_unaligned() };
    if magic == FATBIN_WRAPPER {
        // SAFETY: the wrapper's pointer stands behind two words.
        let data = unsafe { image.cast::<*const c_void>().add(1).read_unaligned() };
        // SAFETY: what a wrapper points to is a fat binary.
        return unsafe { image_of(data) };
    }
    let header_bytes = match magic {
        ELF => ELF_HEADER_BYTES,
        FATBIN => FATBIN_HEADER_BYTES,
        // SAFETY: as above.
        _ => return unsafe { CStr::from_ptr(image.cast()) }.to_bytes(),
    };
    // SAFETY: such a binary has a whole header.
    let header = unsafe { slice::from_raw_parts(image.cast::<u8>(), header_bytes) };
    let length = if magic == ELF { elf_bytes(header) } else { fatbin_bytes(header) };
    let Some(length) = length.filter(|length| *length >= header_bytes) else { return header };
    // SAFETY: and is as long as its header says; the driver relies on the same.
    unsafe { slice::from_raw_parts(image.cast::<u8>(), length) }
}

/// What the image in a file takes. One that can't be read is the driver's to refuse.
fn file_bytes(path: *const c_char) -> u64 {
    if path.is_null() {
        return 0;
    }
    // SAFETY: a text, as the driver takes it.
    let path: CString = unsafe { CStr::from_ptr(path) }.to_owned();
    std::fs::read(OsStr::from_bytes(path.as_bytes())).map_or(0, |image| device_bytes(&image))
}

/// What an image in memory takes.
fn memory_bytes(image: *const c_void) -> u64 {
    // SAFETY: the driver is about to read the same image.
    device_bytes(unsafe { image_of(image) })
}

/// The rows that load, each with how the size of what it loads is found.
macro_rules! loads {
    ($($symbol:ident $handle:ident $bytes:ident ($image:ident: $ty:ty $(, $arg:ident: $of:ty)*);)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(
            out: *mut $handle,
            $image: $ty,
            $($arg: $of,)*
        ) -> CUresult {
            let load = || {
                // SAFETY: the arguments are the caller's, passed on unchanged.
                let code = unsafe { call::$symbol(out, $image $(, $arg)*) };
                // SAFETY: the output just passed.
                unsafe { written(code, out) }
            };
            let process = joined!(load().0);
            let _errno = Errno::keep();
            if out.is_null() {
                return load().0;
            }
            allocate(process, DriverFn::$symbol, $bytes($image), load)
        }
    )*};
}

loads! {
    cuModuleLoad CUmodule file_bytes (file: *const c_char);
    cuModuleLoadData CUmodule memory_bytes (image: *const c_void);
    cuModuleLoadDataEx CUmodule memory_bytes (
        image: *const c_void,
        count: c_uint,
        options: *mut CUjit_option,
        values: *mut *mut c_void
    );
    cuModuleLoadFatBinary CUmodule memory_bytes (image: *const c_void);
    cuLibraryLoadData CUlibrary memory_bytes (
        image: *const c_void,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
        count: c_uint,
        library_options: *mut CUlibraryOption,
        library_values: *mut *mut c_void,
        library_count: c_uint
    );
    cuLibraryLoadFromFile CUlibrary file_bytes (
        file: *const c_char,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
        count: c_uint,
        library_options: *mut CUlibraryOption,
        library_values: *mut *mut c_void,
        library_count: c_uint
    );
}

macro_rules! unloads {
    ($($symbol:ident $handle:ident;)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(handle: $handle) -> CUresult {
            // SAFETY: the argument is the caller's, passed on unchanged.
            let give = || unsafe { call::$symbol(handle) };
            let process = joined!(give());
            let _errno = Errno::keep();
            free(process, handle, give)
        }
    )*};
}

unloads! {
    cuModuleUnload CUmodule;
    cuLibraryUnload CUlibrary;
}
