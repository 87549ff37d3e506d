//! Arithmetic of f16, bf16 and their packed pairs. One operation is done in a wider format and
//! rounded once; singles are wide enough for sums and products, doubles (rounded to odd) for `fma`.

use super::float::pick;
use crate::half::{to_bf16, to_f16, widen_bf16, widen_f16};
use crate::lanes::{AluFn, binary, ternary, unary};
use crate::rounding::{Float, flag, fma_to_odd};
use crate::types::Ty;

const SIGN: u16 = 0x8000;

pub(crate) fn unary_op(opcode: &str, ty: Ty) -> Option<AluFn> {
    let pairs = matches!(ty, Ty::F16x2 | Ty::Bf16x2);
    let singles = matches!(ty, Ty::F16 | Ty::Bf16);
    Some(match opcode {
        "neg" if singles => unary!(u16, |x| x ^ SIGN),
        "abs" if singles => unary!(u16, |x| x & !SIGN),
        "neg" if pairs => unary!(u32, |x| x ^ 0x8000_8000),
        "abs" if pairs => unary!(u32, |x| x & 0x7fff_7fff),
        _ => return None,
    })
}

/// A format as this file computes with it.
trait Half {
    const NAN: u16 = 0x7fff;
    const ONE: u16;
    const LEAST_NORMAL: u16;
    fn widen(bits: u16) -> f32;
    fn narrow(value: f64) -> u16;
}

struct F16;
struct Bf16;

impl Half for F16 {
    const ONE: u16 = 0x3c00;
    const LEAST_NORMAL: u16 = 0x0400;
    fn widen(bits: u16) -> f32 {
        widen_f16(bits)
    }
    fn narrow(value: f64) -> u16 {
        to_f16(value)
    }
}

impl Half for Bf16 {
    const ONE: u16 = 0x3f80;
    const LEAST_NORMAL: u16 = 0x0080;
    fn widen(bits: u16) -> f32 {
        widen_bf16(bits)
    }
    fn narrow(value: f64) -> u16 {
        to_bf16(value)
    }
}

fn flushed<H: Half>(x: u16, k: u32) -> u16 {
    if k & flag::FLUSH != 0 && x & !SIGN < H::LEAST_NORMAL { x & SIGN } else { x }
}

fn finished<H: Half>(x: u16, k: u32) -> u16 {
    let x = flushed::<H>(x, k);
    let value = H::widen(x);
    if value.is_nan() {
        // Saturation sends a NaN to zero.
        return if k & flag::SATURATE != 0 { 0 } else { H::NAN };
    }
    if k & (flag::SATURATE | flag::RELU) != 0 && x & SIGN != 0 {
        return 0;
    }
    if k & flag::SATURATE != 0 && value > 1.0 { H::ONE } else { x }
}

fn arithmetic<H: Half>(x: u16, y: u16, k: u32, f: impl Fn(f64, f64) -> f64) -> u16 {
    let (x, y) = (H::widen(flushed::<H>(x, k)), H::widen(flushed::<H>(y, k)));
    finished::<H>(H::narrow(f(x.into(), y.into())), k)
}

fn fused<H: Half>(x: u16, y: u16, z: u16, k: u32) -> u16 {
    let [x, y, z] = [x, y, z].map(|v| f64::from(H::widen(flushed::<H>(v, k))));
    finished::<H>(H::narrow(fma_to_odd(x * y, z)), k)
}

fn least_or_greatest<H: Half>(x: u16, y: u16, k: u32, least: bool) -> u16 {
    let (x, y) = (flushed::<H>(x, k), flushed::<H>(y, k));
    let chosen: f32 = pick(H::widen(x), H::widen(y), k, least);
    if Float::is_nan(chosen) { H::NAN } else { H::narrow(chosen.into()) }
}

/// Both halves of a pair.
fn pairwise(x: u32, y: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    let high = f((x >> 16) as u16, (y >> 16) as u16);
    u32::from(high) << 16 | u32::from(f(x as u16, y as u16))
}

macro_rules! by_format {
    ($ty:expr, |$x:ident, $y:ident, $k:ident, $h:ident| $e:expr) => {
        match $ty {
            Ty::F16 => {
                type $h = F16;
                binary!(u16, |$x, $y, $k| $e)
            }
            Ty::Bf16 => {
                type $h = Bf16;
                binary!(u16, |$x, $y, $k| $e)
            }
            Ty::F16x2 => {
                type $h = F16;
                binary!(u32, |x, y, $k| pairwise(x, y, |$x, $y| $e))
            }
            Ty::Bf16x2 => {
                type $h = Bf16;
                binary!(u32, |x, y, $k| pairwise(x, y, |$x, $y| $e))
            }
            _ => return None,
        }
    };
}

pub(crate) fn binary_op(opcode: &str, ty: Ty) -> Option<AluFn> {
    Some(match opcode {
        "add" => by_format!(ty, |x, y, k, H| arithmetic::<H>(x, y, k, |a, b| a + b)),
        "sub" => by_format!(ty, |x, y, k, H| arithmetic::<H>(x, y, k, |a, b| a - b)),
        "mul" => by_format!(ty, |x, y, k, H| arithmetic::<H>(x, y, k, |a, b| a * b)),
        "min" => by_format!(ty, |x, y, k, H| least_or_greatest::<H>(x, y, k, true)),
        "max" => by_format!(ty, |x, y, k, H| least_or_greatest::<H>(x, y, k, false)),
        _ => return None,
    })
}

pub(crate) fn fma(ty: Ty) -> Option<AluFn> {
    fn pairs<H: Half>(x: u32, y: u32, z: u32, k: u32) -> u32 {
        let high = fused::<H>((x >> 16) as u16, (y >> 16) as u16, (z >> 16) as u16, k);
        u32::from(high) << 16 | u32::from(fused::<H>(x as u16, y as u16, z as u16, k))
    }
    Some(match ty {
        Ty::F16 => ternary!(u16, |x, y, z, k| fused::<F16>(x, y, z, k)),
        Ty::Bf16 => ternary!(u16, |x, y, z, k| fused::<Bf16>(x, y, z, k)),
        Ty::F16x2 => ternary!(u32, |x, y, z, k| pairs::<F16>(x, y, z, k)),
        Ty::Bf16x2 => ternary!(u32, |x, y, z, k| pairs::<Bf16>(x, y, z, k)),
        _ => return None,
    })
}

/// The sum that `atom.add` of a half type stores.
pub(crate) fn atomic_add(ty: Ty, old: u32, value: u32) -> u32 {
    match ty {
        Ty::F16 => arithmetic::<F16>(old as u16, value as u16, 0, |a, b| a + b).into(),
        Ty::Bf16 => arithmetic::<Bf16>(old as u16, value as u16, 0, |a, b| a + b).into(),
        Ty::Bf16x2 => pairwise(old, value, |x, y| arithmetic::<Bf16>(x, y, 0, |a, b| a + b)),
        _ => pairwise(old, value, |x, y| arithmetic::<F16>(x, y, 0, |a, b| a + b)),
    }
}
