//! The exported symbols: one C function per row of the table, each entering by [`crate::entry`].
//!
//! Which of them this driver implements is not said here: `Sim::name` finds the function of that
//! name in one of the subject files, or the default of [`crate::surface`].
#![allow(unsafe_code, reason = "exporting symbols under the vendor's names")]
#![allow(non_snake_case, reason = "the vendor's own names")]

use crate::entry::{self, Sim};
#[allow(unused_imports, reason = "found only where no subject file has the function")]
use crate::surface::Surface as _;
use shim_cuda_headers::*;
use std::ffi::{c_char, c_int, c_longlong, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

macro_rules! exports {
    ($($symbol:ident $asked:literal $version:literal $stream:ident $memory:ident $gate:ident
       $capture:ident $lifetime:ident $start:ident $answer:ident
       ($($arg:ident: $ty:ty),*);)*) => {
        $(
            // SAFETY: the name is the vendor's and this library stands in for the vendor's; no
            // other crate in it exports such a name.
            #[unsafe(no_mangle)]
            extern "C" fn $symbol($($arg: $ty),*) -> CUresult {
                entry::enter(DriverFn::$symbol, || Sim::$symbol($($arg),*))
            }
        )*

        /// Address of the exported function, the same that a program finds by `dlsym`.
        pub(crate) fn address(function: DriverFn) -> *mut c_void {
            match function {
                $(DriverFn::$symbol => $symbol as *const () as *mut c_void,)*
            }
        }
    };
}
shim_cuda_headers::driver_table!(exports);
