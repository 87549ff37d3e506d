//! Arithmetic of f32 and f64 with PTX's roundings. The plain round-to-nearest forms have functions
//! of their own, which the compiler turns into vector instructions; all others share one that reads
//! the rounding, `.ftz` and `.sat` from `k`.

use crate::exact::sign_of_products;
use crate::lanes::{AluFn, binary, ternary, unary};
use crate::rounding::{
    Float, Round, canonical, direct, finish, flush, fma_to_odd, sign_of_sum, two_sum,
};
use crate::types::Ty;

pub(crate) fn unary_op(opcode: &str, ty: Ty) -> Option<AluFn> {
    Some(match (opcode, ty) {
        ("neg", Ty::F32) => unary!(f32, |x, k| flush(-x, k)),
        ("neg", Ty::F64) => unary!(f64, |x| -x),
        ("abs", Ty::F32) => unary!(f32, |x, k| flush(x.abs(), k)),
        ("abs", Ty::F64) => unary!(f64, |x| x.abs()),
        ("rcp", Ty::F32) => unary!(f32, |x, k| finish(div32(1.0, flush(x, k), k), k)),
        ("rcp", Ty::F64) => unary!(f64, |x, k| finish(div64(1.0, x, k), k)),
        ("sqrt", Ty::F32) => unary!(f32, |x, k| finish(sqrt32(flush(x, k), k), k)),
        ("sqrt", Ty::F64) => unary!(f64, |x, k| finish(sqrt64(x, k), k)),
        _ => return None,
    })
}

pub(crate) fn binary_op(opcode: &str, ty: Ty, k: u32) -> Option<AluFn> {
    Some(match (opcode, ty, k) {
        ("add", Ty::F32, 0) => binary!(f32, |x, y| canonical(x + y)),
        ("sub", Ty::F32, 0) => binary!(f32, |x, y| canonical(x - y)),
        ("mul", Ty::F32, 0) => binary!(f32, |x, y| canonical(x * y)),
        ("add", Ty::F64, 0) => binary!(f64, |x, y| canonical(x + y)),
        ("sub", Ty::F64, 0) => binary!(f64, |x, y| canonical(x - y)),
        ("mul", Ty::F64, 0) => binary!(f64, |x, y| canonical(x * y)),
        ("add", Ty::F32, _) => {
            binary!(f32, |x, y, k| finish(add32(flush(x, k), flush(y, k), k), k))
        }
        ("sub", Ty::F32, _) => {
            binary!(f32, |x, y, k| finish(add32(flush(x, k), flush(-y, k), k), k))
        }
        ("mul", Ty::F32, _) => {
            binary!(f32, |x, y, k| finish(mul32(flush(x, k), flush(y, k), k), k))
        }
        ("div", Ty::F32, _) => {
            binary!(f32, |x, y, k| finish(div32(flush(x, k), flush(y, k), k), k))
        }
        ("add", Ty::F64, _) => binary!(f64, |x, y, k| finish(add64(x, y, k), k)),
        ("sub", Ty::F64, _) => binary!(f64, |x, y, k| finish(add64(x, -y, k), k)),
        ("mul", Ty::F64, _) => binary!(f64, |x, y, k| finish(mul64(x, y, k), k)),
        ("div", Ty::F64, _) => binary!(f64, |x, y, k| finish(div64(x, y, k), k)),
        // The sign of the first source on the second.
        ("copysign", Ty::F32, _) => binary!(f32, |x, y| y.copysign(x)),
        ("copysign", Ty::F64, _) => binary!(f64, |x, y| y.copysign(x)),
        _ => return None,
    })
}

pub(crate) fn fma(ty: Ty, k: u32) -> Option<AluFn> {
    Some(match (ty, k) {
        (Ty::F32, 0) => ternary!(f32, |x, y, z| canonical(fma32_nearest(x, y, z))),
        (Ty::F64, 0) => ternary!(f64, |x, y, z| canonical(x.mul_add(y, z))),
        (Ty::F32, _) => {
            ternary!(f32, |x, y, z, k| finish(fma32(flush(x, k), flush(y, k), flush(z, k), k), k))
        }
        (Ty::F64, _) => ternary!(f64, |x, y, z, k| finish(fma64(x, y, z, k), k)),
        _ => return None,
    })
}

/// Bit of `k` for `.NaN` of min and max; the others are in `rounding::flag`.
pub(crate) const PROPAGATE_NAN: u32 = 1 << 8;
/// `.xorsign.abs` of min and max.
pub(crate) const XORSIGN_ABS: u32 = 1 << 9;

pub(crate) fn min_max(opcode: &str, ty: Ty) -> Option<AluFn> {
    Some(match (opcode, ty) {
        ("min", Ty::F32) => binary!(f32, |x, y, k| min_max32(x, y, k, true)),
        ("max", Ty::F32) => binary!(f32, |x, y, k| min_max32(x, y, k, false)),
        ("min", Ty::F64) => binary!(f64, |x, y, k| pick(x, y, k, true)),
        ("max", Ty::F64) => binary!(f64, |x, y, k| pick(x, y, k, false)),
        _ => return None,
    })
}

#[inline(always)]
fn min_max32(x: f32, y: f32, k: u32, least: bool) -> f32 {
    let (x, y) = (flush(x, k), flush(y, k));
    if k & XORSIGN_ABS == 0 {
        return pick(x, y, k, least);
    }
    let sign = (x.to_bits() ^ y.to_bits()) & 1 << 31;
    f32::from_bits(pick(x.abs(), y.abs(), k, least).to_bits() | sign)
}

/// The lesser or the greater: a NaN gives way to a number unless `.NaN` says otherwise, and -0 is
/// less than +0.
#[inline(always)]
pub(crate) fn pick<F: Float>(x: F, y: F, k: u32, least: bool) -> F {
    if k & PROPAGATE_NAN != 0 && (x.is_nan() || y.is_nan()) {
        return F::CANONICAL_NAN;
    }
    if x.is_nan() {
        return canonical(y);
    }
    if y.is_nan() {
        return x;
    }
    let x_is_less = x < y || x == y && x.is_negative();
    if x_is_less == least { x } else { y }
}

/// The product of two singles is exact in a double, and rounding its sum to odd keeps the last
/// rounding honest.
#[inline(always)]
fn fma32_nearest(x: f32, y: f32, z: f32) -> f32 {
    fma_to_odd(f64::from(x) * f64::from(y), f64::from(z)) as f32
}

fn fma32(x: f32, y: f32, z: f32, k: u32) -> f32 {
    let nearest = fma32_nearest(x, y, z);
    let product = f64::from(x) * f64::from(y);
    let (sum, lost) = two_sum(product, f64::from(z));
    let residual = sign_of_sum(sum, -f64::from(nearest), lost);
    let rounded = direct(nearest, residual, Round::of(k));
    signed_zero(rounded, residual, product.is_sign_negative() != z.is_sign_negative(), k)
}

fn add32(x: f32, y: f32, k: u32) -> f32 {
    let nearest = x + y;
    let (sum, lost) = two_sum(f64::from(x), f64::from(y));
    let residual = sign_of_sum(sum, -f64::from(nearest), lost);
    let rounded = direct(nearest, residual, Round::of(k));
    signed_zero(rounded, residual, x.is_sign_negative() != y.is_sign_negative(), k)
}

/// Terms of opposite sign that cancel exactly, zeros too, give -0 when rounding down.
fn signed_zero<F: Float + From<f32>>(sum: F, residual: f64, opposite: bool, k: u32) -> F {
    let zero = F::from(0.0);
    if sum == zero && residual == 0.0 && opposite && Round::of(k) == Round::Down {
        F::from(-0.0)
    } else {
        sum
    }
}

fn mul32(x: f32, y: f32, k: u32) -> f32 {
    let nearest = x * y;
    direct(nearest, f64::from(x) * f64::from(y) - f64::from(nearest), Round::of(k))
}

fn div32(x: f32, y: f32, k: u32) -> f32 {
    let nearest = x / y;
    if k & crate::rounding::flag::ROUND == 0 || !y.is_finite() || y == 0.0 {
        return nearest;
    }
    let residual = f64::from(x) - f64::from(nearest) * f64::from(y);
    direct(nearest, residual * f64::from(y.signum()), Round::of(k))
}

fn sqrt32(x: f32, k: u32) -> f32 {
    let nearest = x.sqrt();
    direct(nearest, f64::from(x) - f64::from(nearest) * f64::from(nearest), Round::of(k))
}

/// `nearest` in the direction asked; `products` sum to the exact result less `nearest`, times
/// something positive.
fn directed(nearest: f64, sources: &[f64], products: &[(f64, f64)], k: u32) -> (f64, f64) {
    let round = Round::of(k);
    if round == Round::Nearest || nearest.is_nan() || !sources.iter().all(|x| x.is_finite()) {
        return (nearest, 1.0);
    }
    // The residual of an infinity: towards zero, since it came from finite sources.
    let residual = if nearest.is_infinite() { -nearest } else { sign_of_products(products) };
    (direct(nearest, residual, round), residual)
}

fn add64(x: f64, y: f64, k: u32) -> f64 {
    let nearest = x + y;
    let products = [(x, 1.0), (y, 1.0), (-nearest, 1.0)];
    let (sum, residual) = directed(nearest, &[x, y], &products, k);
    signed_zero(sum, residual, x.is_sign_negative() != y.is_sign_negative(), k)
}

fn mul64(x: f64, y: f64, k: u32) -> f64 {
    let nearest = x * y;
    directed(nearest, &[x, y], &[(x, y), (-nearest, 1.0)], k).0
}

fn div64(x: f64, y: f64, k: u32) -> f64 {
    let nearest = x / y;
    if y == 0.0 {
        return nearest;
    }
    let sign = y.signum();
    directed(nearest, &[x, y], &[(x, sign), (-nearest, y.abs())], k).0
}

fn sqrt64(x: f64, k: u32) -> f64 {
    let nearest = x.sqrt();
    directed(nearest, &[x], &[(x, 1.0), (-nearest, nearest)], k).0
}

fn fma64(x: f64, y: f64, z: f64, k: u32) -> f64 {
    let nearest = x.mul_add(y, z);
    let products = [(x, y), (z, 1.0), (-nearest, 1.0)];
    let (sum, residual) = directed(nearest, &[x, y, z], &products, k);
    let negative = x.is_sign_negative() != y.is_sign_negative();
    signed_zero(sum, residual, negative != z.is_sign_negative(), k)
}
