//! The exported symbols. NVML's functions take up to six integers or pointers, all in registers,
//! and return a code; so one shape fits them all, and the function of a name takes out what it
//! knows is there.
//!
//! `Nvml::name` finds the function of that name in a subject file, or the default of [`Surface`].
#![allow(unsafe_code, reason = "exporting symbols under the vendor's names")]

use crate::entry::{Args, Done, NOT_SUPPORTED, Nvml, Return, enter};
use crate::system;
use shim_cuda_headers::NvmlFn;
use std::ffi::c_char;

macro_rules! exports {
    ($($symbol:ident $topic:ident;)*) => {
        /// Every function, as one that is not supported.
        #[allow(dead_code, reason = "those with a function of their own go before these")]
        trait Surface {
            $(fn $symbol(_: Args) -> Done { Err(NOT_SUPPORTED) })*
        }
        impl Surface for Nvml {}

        $(
            // SAFETY: the name is the vendor's and this library stands in for the vendor's; no
            // other crate in it exports such a name.
            #[unsafe(no_mangle)]
            extern "C" fn $symbol(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> Return {
                enter(NvmlFn::$symbol, || Nvml::$symbol(Args([a, b, c, d, e, f])))
            }
        )*
    };
}
shim_cuda_headers::nvml_table!(exports);

/// The one function that returns no code, and therefore is not in the table.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: Return) -> *const c_char {
    system::error_text(code).as_ptr()
}
