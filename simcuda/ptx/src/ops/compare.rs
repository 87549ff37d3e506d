//! Comparison and selection: `setp`, `set`, `selp`, `slct`, `testp`.

use crate::half::{widen_bf16, widen_f16};
use crate::lanes::{AluFn, binary, ternary, unary};
use crate::rounding::flush;
use crate::types::Ty;

/// The comparison `name` of two values of a type; the result is a predicate.
pub(crate) fn compare(name: &str, ty: Ty) -> Option<AluFn> {
    match ty {
        Ty::F32 => f32_compare(name),
        Ty::F64 => f64_compare(name),
        Ty::F16 => f16_compare(name),
        Ty::Bf16 => bf16_compare(name),
        _ => int_compare(name, ty),
    }
}

fn int_compare(name: &str, ty: Ty) -> Option<AluFn> {
    use super::for_integers;
    let unsigned = match ty {
        Ty::S16 => Ty::U16,
        Ty::S32 => Ty::U32,
        Ty::S64 => Ty::U64,
        other => other.as_int(),
    };
    // `lo`, `ls`, `hi` and `hs` compare without sign whatever the type says.
    match name {
        "eq" => for_integers!(unsigned, binary, (x, y) x == y),
        "ne" => for_integers!(unsigned, binary, (x, y) x != y),
        "lt" => for_integers!(ty.as_int(), binary, (x, y) x < y),
        "le" => for_integers!(ty.as_int(), binary, (x, y) x <= y),
        "gt" => for_integers!(ty.as_int(), binary, (x, y) x > y),
        "ge" => for_integers!(ty.as_int(), binary, (x, y) x >= y),
        "lo" => for_integers!(unsigned, binary, (x, y) x < y),
        "ls" => for_integers!(unsigned, binary, (x, y) x <= y),
        "hi" => for_integers!(unsigned, binary, (x, y) x > y),
        "hs" => for_integers!(unsigned, binary, (x, y) x >= y),
        _ => None,
    }
}

/// The plain forms are false when a source is NaN, those ending in `u` true.
macro_rules! float_compare {
    ($function:ident, $ty:ty, |$v:ident, $k:ident| $value:expr) => {
        fn $function(name: &str) -> Option<AluFn> {
            macro_rules! by {
                (|$x:ident, $y:ident| $e:expr) => {
                    binary!($ty, |x, y, $k| {
                        let $x = {
                            let $v = x;
                            $value
                        };
                        let $y = {
                            let $v = y;
                            $value
                        };
                        $e
                    })
                };
            }
            // `!(x < y)` is the unordered form of `x >= y`.
            #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "the negation is the NaN rule")]
            Some(match name {
                "eq" => by!(|x, y| x == y),
                "ne" => by!(|x, y| x != y && !x.is_nan() && !y.is_nan()),
                "lt" => by!(|x, y| x < y),
                "le" => by!(|x, y| x <= y),
                "gt" => by!(|x, y| x > y),
                "ge" => by!(|x, y| x >= y),
                "equ" => by!(|x, y| x == y || x.is_nan() || y.is_nan()),
                "neu" => by!(|x, y| x != y),
                "ltu" => by!(|x, y| !(x >= y)),
                "leu" => by!(|x, y| !(x > y)),
                "gtu" => by!(|x, y| !(x <= y)),
                "geu" => by!(|x, y| !(x < y)),
                "num" => by!(|x, y| !x.is_nan() && !y.is_nan()),
                "nan" => by!(|x, y| x.is_nan() || y.is_nan()),
                _ => return None,
            })
        }
    };
}
float_compare!(f32_compare, f32, |v, k| flush(v, k));
float_compare!(f64_compare, f64, |v, _k| v);
float_compare!(f16_compare, u16, |v, k| flush_half(widen_f16(v), k));
float_compare!(bf16_compare, u16, |v, _k| widen_bf16(v));

/// `.ftz` for an f16 held in a single.
fn flush_half(value: f32, k: u32) -> f32 {
    let tiny = value.abs() < f32::from_bits(0x3880_0000);
    if k & crate::rounding::flag::FLUSH != 0 && tiny { 0.0 } else { value }
}

/// The result of `set` in a type, from a predicate.
pub(crate) fn set_result(ty: Ty) -> Option<AluFn> {
    Some(match ty {
        Ty::U32 | Ty::S32 | Ty::B32 => unary!(bool, |p| if p { u32::MAX } else { 0 }),
        Ty::U16 | Ty::S16 | Ty::B16 => unary!(bool, |p| if p { u16::MAX } else { 0 }),
        Ty::F32 => unary!(bool, |p| if p { 1.0_f32 } else { 0.0 }),
        Ty::F16 => unary!(bool, |p| if p { 0x3c00_u16 } else { 0 }),
        Ty::Bf16 => unary!(bool, |p| if p { 0x3f80_u16 } else { 0 }),
        _ => return None,
    })
}

/// `selp`: the first source where the predicate in the third holds.
pub(crate) fn selp() -> AluFn {
    ternary!(u64, |x, y, p| if p & 1 != 0 { x } else { y })
}

/// `slct`: the first source where the third is not negative.
pub(crate) fn slct(by: Ty) -> Option<AluFn> {
    Some(match by {
        Ty::S32 => ternary!(u64, |x, y, z| if (z as i32) >= 0 { x } else { y }),
        Ty::F32 => ternary!(u64, |x, y, z, k| {
            // -0 counts as +0; a NaN chooses the second.
            if flush(f32::from_bits(z as u32), k) >= 0.0 { x } else { y }
        }),
        _ => return None,
    })
}

pub(crate) fn testp(name: &str, ty: Ty) -> Option<AluFn> {
    Some(match (name, ty) {
        ("finite", Ty::F32) => unary!(f32, |x| x.is_finite()),
        ("infinite", Ty::F32) => unary!(f32, |x| x.is_infinite()),
        ("number", Ty::F32) => unary!(f32, |x| !x.is_nan()),
        ("notanumber", Ty::F32) => unary!(f32, |x| x.is_nan()),
        ("normal", Ty::F32) => unary!(f32, |x| x.is_normal()),
        ("subnormal", Ty::F32) => unary!(f32, |x| x.is_subnormal()),
        ("finite", Ty::F64) => unary!(f64, |x| x.is_finite()),
        ("infinite", Ty::F64) => unary!(f64, |x| x.is_infinite()),
        ("number", Ty::F64) => unary!(f64, |x| !x.is_nan()),
        ("notanumber", Ty::F64) => unary!(f64, |x| x.is_nan()),
        ("normal", Ty::F64) => unary!(f64, |x| x.is_normal()),
        ("subnormal", Ty::F64) => unary!(f64, |x| x.is_subnormal()),
        _ => return None,
    })
}
