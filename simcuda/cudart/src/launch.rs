//! Kernels: from PTX or a fat binary by `cudaLibraryLoadData`, launched by their handle.

use std::ffi::{CStr, c_char, c_uint, c_void};

use crate::{
    Code, INVALID_VALUE, NOT_FOUND,
    driver::{Handle, done},
    thread::{answer, ready},
};

/// `dim3`, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

type Options = *mut c_uint;
type Values = *mut *mut c_void;

#[unsafe(no_mangle)]
extern "C" fn cudaLibraryLoadData(
    to: *mut Handle,
    code: *const c_void,
    jit: Options,
    jit_values: Values,
    jit_count: c_uint,
    own: Options,
    own_values: Values,
    own_count: c_uint,
) -> Code {
    answer(|| {
        let load = ready()?.library_load;
        // SAFETY: the program's own image, options and output, passed on unchanged.
        done(unsafe { load(to, code, jit, jit_values, jit_count, own, own_values, own_count) })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cudaLibraryLoadFromFile(
    to: *mut Handle,
    file: *const c_char,
    jit: Options,
    jit_values: Values,
    jit_count: c_uint,
    own: Options,
    own_values: Values,
    own_count: c_uint,
) -> Code {
    answer(|| {
        if file.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the program's NUL-terminated path.
        let path = unsafe { CStr::from_ptr(file) }.to_string_lossy();
        let mut image = std::fs::read(&*path).map_err(|_| NOT_FOUND)?;
        image.push(0);
        let (load, image) = (ready()?.library_load, image.as_ptr().cast());
        // SAFETY: a NUL-terminated image that lives as long as the call; the rest is the program's.
        done(unsafe { load(to, image, jit, jit_values, jit_count, own, own_values, own_count) })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cudaLibraryUnload(library: Handle) -> Code {
    // SAFETY: the program's handle.
    answer(|| done(unsafe { (ready()?.library_unload)(library) }))
}

#[unsafe(no_mangle)]
extern "C" fn cudaLibraryGetKernel(to: *mut Handle, library: Handle, name: *const c_char) -> Code {
    // SAFETY: the program's output, handle and name.
    answer(|| done(unsafe { (ready()?.library_kernel)(to, library, name) }))
}

/// `kernel` is a handle of `cudaLibraryGetKernel`: nothing registers host functions here.
#[unsafe(no_mangle)]
extern "C" fn cudaLaunchKernel(
    kernel: Handle,
    grid: Dim3,
    block: Dim3,
    parameters: Values,
    shared_bytes: usize,
    stream: Handle,
) -> Code {
    answer(|| {
        let driver = ready()?;
        let shared = c_uint::try_from(shared_bytes).map_err(|_| INVALID_VALUE)?;
        let extra = std::ptr::null_mut();
        // SAFETY: the program's kernel, parameters and stream; the driver takes a kernel for a function.
        done(unsafe {
            (driver.launch)(
                kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream,
                parameters, extra,
            )
        })
    })
}
