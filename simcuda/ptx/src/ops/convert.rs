//! `cvt`: between any two number formats, by way of the widest that is exact. `k` carries, besides
//! the float flags, what the destination is.

use crate::half::{BF16, F16, narrow, widen_bf16, widen_f16};
use crate::lanes::{AluFn, Lane, binary, unary};
use crate::rounding::{
    Float, Round, finish, flag, flush, int_to_f32, int_to_f64, to_f32, to_integral,
};
use crate::types::Ty;

/// The rounding is to an integral value (`.rni` and the like).
pub(crate) const INTEGRAL: u32 = 1 << 6;
const SIGNED: u32 = 1 << 7;

/// The part of `k` that describes an integer destination: its width, its sign, and the width of
/// the register it is extended to.
pub(crate) fn integer_destination(ty: Ty, register_bytes: usize) -> u32 {
    let width = 8 * ty.bytes() as u32;
    let register = (8 * register_bytes as u32).max(width);
    (if ty.is_signed() { SIGNED } else { 0 }) | width << 8 | register << 16
}

pub(crate) fn convert(to: Ty, from: Ty, k: u32) -> Option<AluFn> {
    let (to, from) = (to.as_int(), from.as_int());
    match (to.is_float(), from.is_float()) {
        (false, false) if k & flag::SATURATE != 0 => saturate(to, from),
        (false, false) => resize(to, from),
        (true, false) => int_to_float(to, from),
        (_, true) => float_to(to, from),
    }
}

fn is_int(ty: Ty) -> bool {
    use Ty::{S8, S16, S32, S64, U8, U16, U32, U64};
    matches!(ty, U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64)
}

/// `value` cut to the destination, then extended to its register.
#[inline(always)]
fn cut(value: u64, k: u32) -> u64 {
    let spare = 64 - (k >> 8 & 0xff);
    let value = value << spare;
    let value = if k & SIGNED != 0 { (value as i64 >> spare) as u64 } else { value >> spare };
    value & (u64::MAX >> (64 - (k >> 16)))
}

macro_rules! from_integers {
    ($from:expr, |$x:ident, $k:ident| $e:expr) => {
        match $from {
            Ty::U8 => unary!(u8, |x, $k| {
                let $x = i128::from(x);
                $e
            }),
            Ty::U16 => unary!(u16, |x, $k| {
                let $x = i128::from(x);
                $e
            }),
            Ty::U32 => unary!(u32, |x, $k| {
                let $x = i128::from(x);
                $e
            }),
            Ty::U64 => unary!(u64, |x, $k| {
                let $x = i128::from(x);
                $e
            }),
            Ty::S8 => unary!(i8, |x, $k| {
                let $x = i128::from(x);
                $e
            }),
            Ty::S16 => unary!(i16, |x, $k| {
                let $x = i128::from(x);
                $e
            }),
            Ty::S32 => unary!(i32, |x, $k| {
                let $x = i128::from(x);
                $e
            }),
            Ty::S64 => unary!(i64, |x, $k| {
                let $x = i128::from(x);
                $e
            }),
            _ => return None,
        }
    };
}

fn resize(to: Ty, from: Ty) -> Option<AluFn> {
    if !is_int(to) {
        return None;
    }
    Some(match from {
        Ty::U8 => unary!(u8, |x, k| cut(x.into(), k)),
        Ty::U16 => unary!(u16, |x, k| cut(x.into(), k)),
        Ty::U32 => unary!(u32, |x, k| cut(x.into(), k)),
        Ty::U64 | Ty::S64 => unary!(u64, |x, k| cut(x, k)),
        Ty::S8 => unary!(i8, |x, k| cut(i64::from(x) as u64, k)),
        Ty::S16 => unary!(i16, |x, k| cut(i64::from(x) as u64, k)),
        Ty::S32 => unary!(i32, |x, k| cut(i64::from(x) as u64, k)),
        _ => return None,
    })
}

fn saturate(to: Ty, from: Ty) -> Option<AluFn> {
    if !is_int(to) {
        return None;
    }
    Some(from_integers!(from, |x, k| cut(clamp(x, k) as u64, k)))
}

/// `value` brought into the range of the destination.
fn clamp(value: i128, k: u32) -> i128 {
    let width = k >> 8 & 0xff;
    if k & SIGNED != 0 {
        value.clamp(-(1 << (width - 1)), (1 << (width - 1)) - 1)
    } else {
        value.clamp(0, (1 << width) - 1)
    }
}

fn int_to_float(to: Ty, from: Ty) -> Option<AluFn> {
    if to == Ty::F32 && matches!(from, Ty::S32 | Ty::U32) {
        // By far the commonest; exact in a double.
        return Some(match from {
            Ty::S32 => unary!(i32, |x, k| finish(to_f32(x.into(), Round::of(k)), k)),
            _ => unary!(u32, |x, k| finish(to_f32(x.into(), Round::of(k)), k)),
        });
    }
    Some(match to {
        Ty::F32 => from_integers!(from, |x, k| finish(int_to_f32(x, Round::of(k)), k)),
        Ty::F64 => from_integers!(from, |x, k| finish(int_to_f64(x, Round::of(k)), k)),
        // What a double cannot hold is beyond every f16; bf16 keeps 8 bits, so a sticky bit serves.
        Ty::F16 => from_integers!(from, |x, k| narrow(x as f64, F16, Round::of(k))),
        Ty::Bf16 => from_integers!(from, |x, k| narrow(x as f64, BF16, Round::of(k))),
        _ => return None,
    })
}

macro_rules! from_floats {
    ($from:expr, |$x:ident, $k:ident| $e:expr) => {
        match $from {
            Ty::F16 => unary!(u16, |x, $k| {
                let $x = f64::from(widen_f16(x));
                $e
            }),
            Ty::Bf16 => unary!(u16, |x, $k| {
                let $x = f64::from(widen_bf16(x));
                $e
            }),
            Ty::F32 => unary!(f32, |x, $k| {
                let $x = f64::from(flush(x, $k));
                $e
            }),
            Ty::F64 => unary!(f64, |x, $k| {
                let $x = x;
                $e
            }),
            _ => return None,
        }
    };
}

fn float_to(to: Ty, from: Ty) -> Option<AluFn> {
    Some(match to {
        Ty::F64 => from_floats!(from, |x, k| finish(integral_if_asked(x, k), k)),
        Ty::F32 => from_floats!(from, |x, k| single(x, k)),
        Ty::F16 => from_floats!(from, |x, k| half(x, k, F16)),
        Ty::Bf16 => from_floats!(from, |x, k| half(x, k, BF16)),
        Ty::Tf32 if from == Ty::F32 => unary!(u32, |x, k| tf32(x, Round::of(k))),
        _ if is_int(to) => from_floats!(from, |x, k| integer(x, k)),
        _ => return None,
    })
}

fn integral_if_asked(x: f64, k: u32) -> f64 {
    if k & INTEGRAL != 0 { to_integral(x, Round::of(k)) } else { x }
}

#[inline]
fn single(x: f64, k: u32) -> f32 {
    if k & INTEGRAL != 0 {
        return finish(to_integral(x, Round::of(k)) as f32, k);
    }
    finish(to_f32(x, Round::of(k)), k)
}

fn half(x: f64, k: u32, format: crate::half::Format) -> u16 {
    let x = integral_if_asked(x, k);
    let x = if k & flag::SATURATE != 0 { x.clamp_to_one() } else { x };
    let x = if k & flag::RELU != 0 { x.max_with_zero() } else { x };
    narrow(x, format, Round::of(k))
}

/// A float as an integer: NaN is 0, what is out of range becomes the nearest bound.
fn integer(x: f64, k: u32) -> u64 {
    cut(clamp(to_integral(x, Round::of(k)) as i128, k) as u64, k)
}

/// The 19 bits of tf32, in a single's place.
fn tf32(bits: u32, round: Round) -> u32 {
    if f32::from_bits(bits).is_nan() {
        return 0x7fff_ffff;
    }
    let rest = bits & 0x1fff;
    let up = match round {
        Round::Nearest => rest > 0x1000 || rest == 0x1000 && bits & 0x2000 != 0,
        Round::NearestAway => rest >= 0x1000,
        _ => false,
    };
    (bits & !0x1fff).wrapping_add(if up { 0x2000 } else { 0 })
}

/// Two singles into one packed pair; the first source goes to the upper half.
pub(crate) fn pack_pair(ty: Ty) -> Option<AluFn> {
    fn pair(x: f32, y: f32, k: u32, format: crate::half::Format) -> u32 {
        let (high, low) = (half(x.into(), k, format), half(y.into(), k, format));
        u32::from(high) << 16 | u32::from(low)
    }
    Some(match ty {
        Ty::F16x2 => binary!(f32, |x, y, k| pair(x, y, k, F16)),
        Ty::Bf16x2 => binary!(f32, |x, y, k| pair(x, y, k, BF16)),
        _ => return None,
    })
}

/// The bits of a literal in the type an instruction works in; `None` where it has no such value.
pub(crate) fn literal(ty: Ty, value: Literal) -> Option<u64> {
    Some(match (ty, value) {
        (Ty::F64, Literal::Double(v)) => v.to_bits(),
        (Ty::F64, Literal::Single(v)) => f64::from(v).to_bits(),
        (Ty::F32, Literal::Double(v)) => (v as f32).bits(),
        (Ty::F32, Literal::Single(v)) => canonical_free(v),
        (Ty::F16, Literal::Double(v)) => narrow(v, F16, Round::Nearest).into(),
        (Ty::F16, Literal::Single(v)) => narrow(v.into(), F16, Round::Nearest).into(),
        (Ty::Bf16, Literal::Double(v)) => narrow(v, BF16, Round::Nearest).into(),
        (Ty::Bf16, Literal::Single(v)) => narrow(v.into(), BF16, Round::Nearest).into(),
        (Ty::B32, Literal::Single(v)) => canonical_free(v),
        (Ty::B64, Literal::Double(v)) => v.to_bits(),
        _ => return None,
    })
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Literal {
    Single(f32),
    Double(f64),
}

/// A literal keeps its bits, NaN or not.
fn canonical_free(v: f32) -> u64 {
    v.to_bits().into()
}
