//! What instructions compute, lane by lane: for an opcode and a type, the function. Each file is a
//! family; a `None` means that PTX has no such form. Parsing of modifiers is in `decode/`.

pub(crate) mod bits;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod half;
pub(crate) mod int;
pub(crate) mod transcendental;

/// The same expression for each of several integer types: `None` for the others.
macro_rules! for_integers {
    ($ty:expr, $shape:ident, $args:tt $body:expr) => {
        match $ty {
            $crate::types::Ty::U16 => Some($crate::ops::with!($shape, u16, $args $body)),
            $crate::types::Ty::U32 => Some($crate::ops::with!($shape, u32, $args $body)),
            $crate::types::Ty::U64 => Some($crate::ops::with!($shape, u64, $args $body)),
            $crate::types::Ty::S16 => Some($crate::ops::with!($shape, i16, $args $body)),
            $crate::types::Ty::S32 => Some($crate::ops::with!($shape, i32, $args $body)),
            $crate::types::Ty::S64 => Some($crate::ops::with!($shape, i64, $args $body)),
            _ => None,
        }
    };
}

/// Unpacks the parenthesised arguments of `for_integers!` for the macros of `lanes.rs`.
macro_rules! with {
    (unary, $ty:ty, ($x:ident) $e:expr) => {
        $crate::lanes::unary!($ty, |$x| $e)
    };
    (binary, $ty:ty, ($x:ident, $y:ident) $e:expr) => {
        $crate::lanes::binary!($ty, |$x, $y| $e)
    };
    (ternary, $ty:ty, ($x:ident, $y:ident, $z:ident) $e:expr) => {
        $crate::lanes::ternary!($ty, |$x, $y, $z| $e)
    };
}

pub(crate) use {for_integers, with};
