//! Stage one of the library: what is preloaded into every process of a tenant.
//!
//! It exports every driver and NVML function of the table under the SONAME `libcuda.so.1`, and
//! `dlsym` and `dlvsym`. It does nothing when it is loaded: no constructor, no thread, no file, no libc call. The
//! first CUDA call opens stage two beside it; until then a process pays for a mapping.
//! It is not the place for behaviour: no decision about a call is made here.
//!
//! `no_std`, libc only, and [`no_builtins`]: `dlsym` runs before libc and sanitizers are ready, so
//! nothing on its way may become a call to `memcpy` or `strlen`.
//!
//! [`no_builtins`]: https://doc.rust-lang.org/reference/attributes/codegen.html
#![no_std]
#![no_builtins]

mod exports;
mod lookup;
mod names;
mod open;
mod walk;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Nothing here panics; a guest never ends its host, so the thread stays where it is.
    loop {
        core::hint::spin_loop();
    }
}
