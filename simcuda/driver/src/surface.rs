//! The whole surface as a trait whose every function says "not supported".
//!
//! A subject file implements a function by giving [`Sim`] an inherent function of that name, which
//! goes before the trait's. So the parts of the driver that are not there are known by name: each
//! call of one is counted, and printed once under `SIMCUDA_LOG=1`.
#![allow(non_snake_case, reason = "the vendor's own names")]

use crate::entry::{Done, Sim, unsupported};
use shim_cuda_headers::*;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

macro_rules! surface {
    ($($symbol:ident $asked:literal $version:literal $stream:ident $memory:ident $gate:ident
       $capture:ident $lifetime:ident $start:ident $answer:ident
       ($($arg:ident: $ty:ty),*);)*) => {
        /// One function per row.
        #[allow(clippy::too_many_arguments, reason = "the vendor's own signatures")]
        #[allow(dead_code, reason = "those with a function of their own go before these")]
        pub(crate) trait Surface {
            $(
                fn $symbol($(_: $ty),*) -> Done {
                    unsupported(DriverFn::$symbol)
                }
            )*
        }
    };
}
shim_cuda_headers::driver_table!(surface);

impl Surface for Sim {}
