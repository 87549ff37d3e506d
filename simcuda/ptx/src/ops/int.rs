//! Integer arithmetic. All of it wraps; what wraps at which width is the type's business.

use super::for_integers;
use crate::lanes::{AluFn, Lane, binary, ternary, unary};
use crate::types::Ty;

/// Which part of a double-width product an instruction keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Low,
    High,
    Wide,
}

pub(crate) fn unary_op(opcode: &str, ty: Ty) -> Option<AluFn> {
    match (opcode, ty) {
        ("neg", _) => for_integers!(ty, unary, (x) x.wrapping_neg()),
        ("abs", Ty::S16) => Some(unary!(i16, |x| x.wrapping_abs())),
        ("abs", Ty::S32) => Some(unary!(i32, |x| x.wrapping_abs())),
        ("abs", Ty::S64) => Some(unary!(i64, |x| x.wrapping_abs())),
        _ => None,
    }
}

pub(crate) fn binary_op(opcode: &str, ty: Ty, saturating: bool) -> Option<AluFn> {
    match (opcode, saturating) {
        ("add", true) if ty == Ty::S32 => Some(binary!(i32, |x, y| x.saturating_add(y))),
        ("sub", true) if ty == Ty::S32 => Some(binary!(i32, |x, y| x.saturating_sub(y))),
        (_, true) => None,
        ("add", _) => for_integers!(ty, binary, (x, y) x.wrapping_add(y)),
        ("sub", _) => for_integers!(ty, binary, (x, y) x.wrapping_sub(y)),
        ("min", _) => for_integers!(ty, binary, (x, y) x.min(y)),
        ("max", _) => for_integers!(ty, binary, (x, y) x.max(y)),
        // The ISA leaves division by zero to the machine; NVIDIA's gives all ones for both.
        ("div", _) => for_integers!(ty, binary, (x, y) if y == 0 { !y } else { x.wrapping_div(y) }),
        ("rem", _) => for_integers!(ty, binary, (x, y) if y == 0 { !y } else { x.wrapping_rem(y) }),
        _ => None,
    }
}

pub(crate) fn mul(ty: Ty, part: Part) -> Option<AluFn> {
    match (part, ty) {
        (Part::Low, _) => for_integers!(ty, binary, (x, y) x.wrapping_mul(y)),
        (Part::High, Ty::U16) => Some(binary!(u16, |x, y| high_u(x.into(), y.into(), 16) as u16)),
        (Part::High, Ty::U32) => Some(binary!(u32, |x, y| high_u(x.into(), y.into(), 32) as u32)),
        (Part::High, Ty::U64) => Some(binary!(u64, |x, y| high_u(x, y, 64))),
        (Part::High, Ty::S16) => Some(binary!(i16, |x, y| high_s(x.into(), y.into(), 16) as i16)),
        (Part::High, Ty::S32) => Some(binary!(i32, |x, y| high_s(x.into(), y.into(), 32) as i32)),
        (Part::High, Ty::S64) => Some(binary!(i64, |x, y| high_s(x, y, 64))),
        (Part::Wide, Ty::U16) => Some(binary!(u16, |x, y| u32::from(x) * u32::from(y))),
        (Part::Wide, Ty::U32) => Some(binary!(u32, |x, y| u64::from(x) * u64::from(y))),
        (Part::Wide, Ty::S16) => Some(binary!(i16, |x, y| i32::from(x) * i32::from(y))),
        (Part::Wide, Ty::S32) => Some(binary!(i32, |x, y| i64::from(x) * i64::from(y))),
        _ => None,
    }
}

pub(crate) fn mad(ty: Ty, part: Part, saturating: bool) -> Option<AluFn> {
    match (part, ty) {
        (Part::High, Ty::S32) if saturating => Some(ternary!(i32, |x, y, z| {
            (high_s(x.into(), y.into(), 32) as i32).saturating_add(z)
        })),
        _ if saturating => None,
        (Part::Low, _) => for_integers!(ty, ternary, (x, y, z) x.wrapping_mul(y).wrapping_add(z)),
        (Part::High, Ty::U16) => Some(ternary!(u16, |x, y, z| {
            (high_u(x.into(), y.into(), 16) as u16).wrapping_add(z)
        })),
        (Part::High, Ty::S16) => Some(ternary!(i16, |x, y, z| {
            (high_s(x.into(), y.into(), 16) as i16).wrapping_add(z)
        })),
        (Part::High, Ty::U32) => Some(ternary!(u32, |x, y, z| {
            (high_u(x.into(), y.into(), 32) as u32).wrapping_add(z)
        })),
        (Part::High, Ty::S32) => Some(ternary!(i32, |x, y, z| {
            (high_s(x.into(), y.into(), 32) as i32).wrapping_add(z)
        })),
        (Part::High, Ty::U64) => Some(ternary!(u64, |x, y, z| high_u(x, y, 64).wrapping_add(z))),
        (Part::High, Ty::S64) => Some(ternary!(i64, |x, y, z| high_s(x, y, 64).wrapping_add(z))),
        // The addend is twice as wide as the factors, so they are cut to size here.
        (Part::Wide, Ty::U16) => Some(ternary!(u64, |x, y, z| {
            (u32::from(x as u16) * u32::from(y as u16)).wrapping_add(z as u32)
        })),
        (Part::Wide, Ty::S16) => Some(ternary!(u64, |x, y, z| {
            (i32::from(x as i16) * i32::from(y as i16)).wrapping_add(z as i32)
        })),
        (Part::Wide, Ty::U32) => Some(ternary!(u64, |x, y, z| {
            (u64::from(x as u32) * u64::from(y as u32)).wrapping_add(z)
        })),
        (Part::Wide, Ty::S32) => Some(ternary!(u64, |x, y, z| {
            (i64::from(x as i32) * i64::from(y as i32)).wrapping_add(z as i64)
        })),
        _ => None,
    }
}

fn high_u(x: u64, y: u64, width: u32) -> u64 {
    ((u128::from(x) * u128::from(y)) >> width) as u64
}

fn high_s(x: i64, y: i64, width: u32) -> i64 {
    ((i128::from(x) * i128::from(y)) >> width) as i64
}

/// `mul24`: factors of 24 bits, the low or the high 32 bits of their 48-bit product.
pub(crate) fn mul24(ty: Ty, part: Part) -> Option<AluFn> {
    match (ty, part) {
        (Ty::U32, Part::Low) => Some(binary!(u32, |x, y| product24_u(x, y) as u32)),
        (Ty::U32, Part::High) => Some(binary!(u32, |x, y| (product24_u(x, y) >> 16) as u32)),
        (Ty::S32, Part::Low) => Some(binary!(i32, |x, y| product24_s(x, y) as i32)),
        (Ty::S32, Part::High) => Some(binary!(i32, |x, y| (product24_s(x, y) >> 16) as i32)),
        _ => None,
    }
}

fn product24_u(x: u32, y: u32) -> u64 {
    u64::from(x & 0xff_ffff) * u64::from(y & 0xff_ffff)
}

fn product24_s(x: i32, y: i32) -> i64 {
    i64::from(x << 8 >> 8) * i64::from(y << 8 >> 8)
}

/// `sad`: the third source plus the distance of the first two.
pub(crate) fn sad(ty: Ty) -> Option<AluFn> {
    match ty {
        Ty::U16 => Some(ternary!(u16, |x, y, z| z.wrapping_add(x.abs_diff(y)))),
        Ty::U32 => Some(ternary!(u32, |x, y, z| z.wrapping_add(x.abs_diff(y)))),
        Ty::U64 => Some(ternary!(u64, |x, y, z| z.wrapping_add(x.abs_diff(y)))),
        Ty::S16 => Some(ternary!(i16, |x, y, z| z.wrapping_add(x.abs_diff(y) as i16))),
        Ty::S32 => Some(ternary!(i32, |x, y, z| z.wrapping_add(x.abs_diff(y) as i32))),
        Ty::S64 => Some(ternary!(i64, |x, y, z| z.wrapping_add(x.abs_diff(y) as i64))),
        _ => None,
    }
}

/// `dp4a`: four products of bytes added to the third source; the types say which side is signed.
pub(crate) fn dp4a(a: Ty, b: Ty) -> Option<AluFn> {
    fn dot<A: Lane + Into<i64>, B: Lane + Into<i64>>(x: u32, y: u32, z: u32) -> u32 {
        let byte = |i: u32| {
            let (p, q) = (A::of((x >> (8 * i)).into()), B::of((y >> (8 * i)).into()));
            (p.into() * q.into()) as u32
        };
        (0..4).fold(z, |sum, i| sum.wrapping_add(byte(i)))
    }
    Some(match (a, b) {
        (Ty::U32, Ty::U32) => ternary!(u32, |x, y, z| dot::<u8, u8>(x, y, z)),
        (Ty::U32, Ty::S32) => ternary!(u32, |x, y, z| dot::<u8, i8>(x, y, z)),
        (Ty::S32, Ty::U32) => ternary!(u32, |x, y, z| dot::<i8, u8>(x, y, z)),
        (Ty::S32, Ty::S32) => ternary!(u32, |x, y, z| dot::<i8, i8>(x, y, z)),
        _ => return None,
    })
}

/// `dp2a`: two products of a half word and a byte, of the lower or the upper bytes of the second.
pub(crate) fn dp2a(a: Ty, b: Ty, high: bool) -> Option<AluFn> {
    fn dot<A: Lane + Into<i64>, B: Lane + Into<i64>>(x: u32, y: u32, z: u32, k: u32) -> u32 {
        let product = |i: u32| {
            let (p, q) = (A::of((x >> (16 * i)).into()), B::of((y >> (k + 8 * i)).into()));
            (p.into() * q.into()) as u32
        };
        z.wrapping_add(product(0)).wrapping_add(product(1))
    }
    Some(match (a, b, high) {
        (Ty::U32, Ty::U32, false) => ternary!(u32, |x, y, z| dot::<u16, u8>(x, y, z, 0)),
        (Ty::U32, Ty::S32, false) => ternary!(u32, |x, y, z| dot::<u16, i8>(x, y, z, 0)),
        (Ty::S32, Ty::U32, false) => ternary!(u32, |x, y, z| dot::<i16, u8>(x, y, z, 0)),
        (Ty::S32, Ty::S32, false) => ternary!(u32, |x, y, z| dot::<i16, i8>(x, y, z, 0)),
        (Ty::U32, Ty::U32, true) => ternary!(u32, |x, y, z| dot::<u16, u8>(x, y, z, 16)),
        (Ty::U32, Ty::S32, true) => ternary!(u32, |x, y, z| dot::<u16, i8>(x, y, z, 16)),
        (Ty::S32, Ty::U32, true) => ternary!(u32, |x, y, z| dot::<i16, u8>(x, y, z, 16)),
        (Ty::S32, Ty::S32, true) => ternary!(u32, |x, y, z| dot::<i16, i8>(x, y, z, 16)),
        _ => return None,
    })
}

/// The carry out of `x + y + carry-in` (third source), for the chains of `add.cc` and `addc`.
pub(crate) fn carry_of_add(ty: Ty) -> Option<AluFn> {
    match ty.bytes() {
        4 => Some(ternary!(u64, |x, y, c| {
            u64::from(x as u32) + u64::from(y as u32) + c > u64::from(u32::MAX)
        })),
        8 => Some(ternary!(u64, |x, y, c| {
            u128::from(x) + u128::from(y) + u128::from(c) > u128::from(u64::MAX)
        })),
        _ => None,
    }
}

pub(crate) fn add_with_carry(ty: Ty) -> Option<AluFn> {
    match ty.bytes() {
        4 => Some(ternary!(u32, |x, y, c| x.wrapping_add(y).wrapping_add(c))),
        8 => Some(ternary!(u64, |x, y, c| x.wrapping_add(y).wrapping_add(c))),
        _ => None,
    }
}

/// The borrow out of `x - y - borrow-in`.
pub(crate) fn borrow_of_sub(ty: Ty) -> Option<AluFn> {
    match ty.bytes() {
        4 => Some(ternary!(u64, |x, y, c| u64::from(x as u32) < u64::from(y as u32) + c)),
        8 => Some(ternary!(u64, |x, y, c| u128::from(x) < u128::from(y) + u128::from(c))),
        _ => None,
    }
}

pub(crate) fn sub_with_borrow(ty: Ty) -> Option<AluFn> {
    match ty.bytes() {
        4 => Some(ternary!(u32, |x, y, c| x.wrapping_sub(y).wrapping_sub(c))),
        8 => Some(ternary!(u64, |x, y, c| x.wrapping_sub(y).wrapping_sub(c))),
        _ => None,
    }
}
