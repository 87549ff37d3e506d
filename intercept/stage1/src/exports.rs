//! The exported functions, one for each row of the table, and the one mark by which stage two knows
//! a stage one when it meets it while searching for the real driver.
//!
//! A call, in the order things happen (all of it in `x86_64.rs`):
//!
//! ```text
//!   cuLaunchKernel:    mov r11d, ROW                two instructions a row, no relocation
//!                      jmp dispatch
//!   dispatch:          load the table of slots      null before the first call
//!                        open_slow                  cold: opens stage two, fills the table
//!                      jmp [table + 8 * ROW]        a hook of stage two, or the driver itself
//! ```
//!
//! Arguments stay in their registers and on the stack, so no row needs to know its parameters.

use core::arch::naked_asm;

use shim_cuda_headers::{DriverFn, NvmlFn, driver_table, nvml_table};

use crate::x86_64::{dispatch_driver, dispatch_nvml};

macro_rules! driver_exports {
    ($($symbol:ident $asked:literal $version:literal $stream:ident $memory:ident $gate:ident
       $capture:ident $lifetime:ident $start:ident $answer:ident
       ($($arg:ident: $ty:ty),*);)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the vendor's own names")]
        extern "C" fn $symbol() {
            naked_asm!(
                "mov r11d, {row}",
                "jmp {dispatch}",
                row = const DriverFn::$symbol as u32,
                dispatch = sym dispatch_driver,
            )
        }
    )*};
}
driver_table!(driver_exports);

macro_rules! nvml_exports {
    ($($symbol:ident $topic:ident;)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the vendor's own names")]
        extern "C" fn $symbol() {
            naked_asm!(
                "mov r11d, {row}",
                "jmp {dispatch}",
                row = const NvmlFn::$symbol as u32,
                dispatch = sym dispatch_nvml,
            )
        }
    )*};
}
nvml_table!(nvml_exports);

/// Only a stage one has this symbol.
#[unsafe(no_mangle)]
extern "C" fn halfwarp_stage_one() {}

/// An address inside this library; not an exported one, which another copy could take over.
pub(crate) fn anchor() -> *const core::ffi::c_void {
    anchor as *const () as *const core::ffi::c_void
}
