//! A small CUDA runtime of our own, `libcudart.so.13`: what the samples in runtime-API form need, over
//! whatever driver the loader finds. It takes the driver's functions as runtimes do, by
//! `cuGetProcAddress`, with the version that introduced each form.
//!
//! It is not NVIDIA's runtime and does not pass for it: it knows nothing of what compilers register
//! (kernels come from PTX by `cudaLibraryLoadData`), asks the driver for no table and answers none.
//!
//! `driver` is the way down, `thread` what each thread has (device, context, last error), `memory`,
//! `order`, `launch` and `device` the exported functions.

#![allow(non_snake_case, reason = "the vendor's own names")]

mod device;
mod driver;
mod launch;
mod memory;
mod order;
mod thread;

/// A result: 0, or a code. The runtime's codes are the driver's, since both were made one.
pub(crate) type Code = u32;

pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const NO_DRIVER: Code = 35;
pub(crate) const NOT_FOUND: Code = 500;
