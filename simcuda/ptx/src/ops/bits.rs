//! Logic, shifts, and everything that moves bits about. Shift amounts beyond the width clamp.

use crate::lanes::{AluFn, binary, ternary, unary};
use crate::types::Ty;

pub(crate) fn unary_op(opcode: &str, ty: Ty) -> Option<AluFn> {
    Some(match (opcode, ty.bytes(), ty) {
        ("not", _, Ty::Pred) => unary!(bool, |x| !x),
        ("not", 2, _) => unary!(u16, |x| !x),
        ("not", 4, _) => unary!(u32, |x| !x),
        ("not", 8, _) => unary!(u64, |x| !x),
        ("cnot", 2, _) => unary!(u16, |x| u16::from(x == 0)),
        ("cnot", 4, _) => unary!(u32, |x| u32::from(x == 0)),
        ("cnot", 8, _) => unary!(u64, |x| u64::from(x == 0)),
        ("popc", 4, _) => unary!(u32, |x| x.count_ones()),
        ("popc", 8, _) => unary!(u64, |x| x.count_ones()),
        ("clz", 4, _) => unary!(u32, |x| x.leading_zeros()),
        ("clz", 8, _) => unary!(u64, |x| x.leading_zeros()),
        ("brev", 4, _) => unary!(u32, |x| x.reverse_bits()),
        ("brev", 8, _) => unary!(u64, |x| x.reverse_bits()),
        _ => return None,
    })
}

pub(crate) fn binary_op(opcode: &str, ty: Ty) -> Option<AluFn> {
    Some(match (opcode, ty) {
        // Sources are zero-extended, so the wide operation is right for every width.
        ("and", _) => binary!(u64, |x, y| x & y),
        ("or", _) => binary!(u64, |x, y| x | y),
        ("xor", _) => binary!(u64, |x, y| x ^ y),
        _ => return None,
    })
}

/// `shl` and `shr`; the amount is the second source, of 32 bits.
pub(crate) fn shift(opcode: &str, ty: Ty) -> Option<AluFn> {
    Some(match (opcode, ty) {
        ("shl", Ty::U16) => binary!(u64, |x, y| shifted_left(x, y) as u16),
        ("shl", Ty::U32) => binary!(u64, |x, y| shifted_left(x, y) as u32),
        ("shl", Ty::U64) => binary!(u64, |x, y| shifted_left(x, y)),
        ("shr", Ty::U16) => binary!(u64, |x, y| shifted_right(x & 0xffff, y)),
        ("shr", Ty::U32) => binary!(u64, |x, y| shifted_right(x & 0xffff_ffff, y)),
        ("shr", Ty::U64) => binary!(u64, |x, y| shifted_right(x, y)),
        ("shr", Ty::S16) => binary!(u64, |x, y| (x as i16) >> (y as u32).min(15)),
        ("shr", Ty::S32) => binary!(u64, |x, y| (x as i32) >> (y as u32).min(31)),
        ("shr", Ty::S64) => binary!(u64, |x, y| (x as i64) >> (y as u32).min(63)),
        _ => return None,
    })
}

fn shifted_left(x: u64, amount: u64) -> u64 {
    x.checked_shl(amount as u32).unwrap_or(0)
}

fn shifted_right(x: u64, amount: u64) -> u64 {
    x.checked_shr(amount as u32).unwrap_or(0)
}

/// `shf`: 32 bits out of the 64 that two sources make, the amount clamped or wrapped at 32.
pub(crate) fn funnel(left: bool, wrap: bool) -> AluFn {
    fn pair(low: u32, high: u32) -> u64 {
        u64::from(high) << 32 | u64::from(low)
    }
    match (left, wrap) {
        (true, true) => ternary!(u32, |x, y, n| (pair(x, y) << (n & 31) >> 32) as u32),
        (true, false) => ternary!(u32, |x, y, n| (pair(x, y) << n.min(32) >> 32) as u32),
        (false, true) => ternary!(u32, |x, y, n| (pair(x, y) >> (n & 31)) as u32),
        (false, false) => ternary!(u32, |x, y, n| (pair(x, y) >> n.min(32)) as u32),
    }
}

/// `lop3`: any function of three bits, given as its truth table in `k`.
pub(crate) fn lop3() -> AluFn {
    ternary!(u32, |x, y, z, k| {
        let mut out = 0;
        for row in 0..8 {
            if k >> row & 1 == 1 {
                let a = if row & 4 != 0 { x } else { !x };
                let b = if row & 2 != 0 { y } else { !y };
                let c = if row & 1 != 0 { z } else { !z };
                out |= a & b & c;
            }
        }
        out
    })
}

/// `bfind`: position of the highest bit that differs from the sign; all ones when there is none.
pub(crate) fn bfind(ty: Ty, shift_amount: bool) -> Option<AluFn> {
    fn find(x: u64, width: u32, amount: bool) -> u32 {
        match 63_u32.checked_sub(x.leading_zeros()) {
            None => u32::MAX,
            Some(position) if amount => width - 1 - position,
            Some(position) => position,
        }
    }
    Some(match (ty, shift_amount) {
        (Ty::U32, false) => unary!(u32, |x| find(x.into(), 32, false)),
        (Ty::U32, true) => unary!(u32, |x| find(x.into(), 32, true)),
        (Ty::S32, false) => unary!(i32, |x| find(((x ^ x >> 31) as u32).into(), 32, false)),
        (Ty::S32, true) => unary!(i32, |x| find(((x ^ x >> 31) as u32).into(), 32, true)),
        (Ty::U64, false) => unary!(u64, |x| find(x, 64, false)),
        (Ty::U64, true) => unary!(u64, |x| find(x, 64, true)),
        (Ty::S64, false) => unary!(i64, |x| find((x ^ x >> 63) as u64, 64, false)),
        (Ty::S64, true) => unary!(i64, |x| find((x ^ x >> 63) as u64, 64, true)),
        _ => return None,
    })
}

/// `bfe`: a field of the first source, from a position, of a length, extended by its top bit when
/// signed.
pub(crate) fn bfe(ty: Ty) -> Option<AluFn> {
    Some(match ty {
        Ty::U32 => ternary!(u64, |x, p, n| extract(x & 0xffff_ffff, p, n, 32, false) as u32),
        Ty::S32 => ternary!(u64, |x, p, n| extract(x & 0xffff_ffff, p, n, 32, true) as u32),
        Ty::U64 => ternary!(u64, |x, p, n| extract(x, p, n, 64, false)),
        Ty::S64 => ternary!(u64, |x, p, n| extract(x, p, n, 64, true)),
        _ => return None,
    })
}

fn extract(x: u64, position: u64, length: u64, width: u64, signed: bool) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if length == 0 {
        return 0;
    }
    let field = shifted_right(x, position) & ones(length);
    // The sign is the field's top bit, or the source's where the field reaches past it.
    let sign = x >> (position + length - 1).min(width - 1) & 1;
    let top = (width - position.min(width)).min(length);
    if signed && sign == 1 { field | !ones(top) } else { field }
}

fn ones(length: u64) -> u64 {
    shifted_left(1, length).wrapping_sub(1)
}

/// Position and length of a field in one register: for `bfi`, which has four sources.
pub(crate) fn field() -> AluFn {
    binary!(u64, |p, n| (p & 0xff) | (n & 0xff) << 8)
}

/// `bfi`: the low bits of the first source put into the second, at the field of the third.
pub(crate) fn bfi(ty: Ty) -> Option<AluFn> {
    fn insert(x: u64, into: u64, field: u64) -> u64 {
        let (position, length) = (field & 0xff, field >> 8);
        let hole = shifted_left(ones(length), position);
        (into & !hole) | (shifted_left(x, position) & hole)
    }
    match ty.bytes() {
        4 => Some(ternary!(u64, |x, y, f| insert(x, y, f) as u32)),
        8 => Some(ternary!(u64, |x, y, f| insert(x, y, f))),
        _ => None,
    }
}

/// `bmsk`: `n` ones from position `p`, both clamped or wrapped at 32.
pub(crate) fn bmsk(wrap: bool) -> AluFn {
    if wrap {
        binary!(u32, |p, n| (ones((n & 31).into()) << (p & 31)) as u32)
    } else {
        binary!(u32, |p, n| (ones(n.min(32).into()) << p.min(32)) as u32)
    }
}

/// `szext`: sign or zero extension from the `n`-th bit.
pub(crate) fn szext(ty: Ty, wrap: bool) -> Option<AluFn> {
    fn extend(x: u32, n: u32, signed: bool) -> u32 {
        if n == 0 {
            return 0;
        }
        let spare = 32 - n.min(32);
        if signed { ((x << spare) as i32 >> spare) as u32 } else { x << spare >> spare }
    }
    Some(match (ty, wrap) {
        (Ty::U32, false) => binary!(u32, |x, n| extend(x, n, false)),
        (Ty::U32, true) => binary!(u32, |x, n| extend(x, n & 31, false)),
        (Ty::S32, false) => binary!(u32, |x, n| extend(x, n, true)),
        (Ty::S32, true) => binary!(u32, |x, n| extend(x, n & 31, true)),
        _ => return None,
    })
}

/// `prmt`: four bytes chosen out of the eight of two sources.
pub(crate) fn prmt(mode: Option<&str>) -> Option<AluFn> {
    fn gather(x: u32, y: u32, pick: impl Fn(u32) -> u32) -> u32 {
        let pool = u64::from(y) << 32 | u64::from(x);
        (0..4).fold(0, |out, i| {
            let selector = pick(i);
            let byte = (pool >> (8 * (selector & 7))) as u8;
            let sign = if byte & 0x80 != 0 { 0xff } else { 0 };
            out | u32::from(if selector & 8 != 0 { sign } else { byte }) << (8 * i)
        })
    }
    Some(match mode {
        None => ternary!(u32, |x, y, s| gather(x, y, |i| s >> (4 * i) & 15)),
        Some("f4e") => ternary!(u32, |x, y, s| gather(x, y, |i| (s & 3) + i)),
        Some("b4e") => ternary!(u32, |x, y, s| gather(x, y, |i| ((s & 3) + 8 - i) & 7)),
        Some("rc8") => ternary!(u32, |x, y, s| gather(x, y, |_| s & 3)),
        Some("ecl") => ternary!(u32, |x, y, s| gather(x, y, |i| i.max(s & 3))),
        Some("ecr") => ternary!(u32, |x, y, s| gather(x, y, |i| i.min(s & 3))),
        Some("rc16") => ternary!(u32, |x, y, s| gather(x, y, |i| (s & 1) * 2 + (i & 1))),
        Some(_) => return None,
    })
}

/// `x | y << k`: builds a wide register from narrower ones.
pub(crate) fn pack() -> AluFn {
    binary!(u64, |x, y, k| x | y << k)
}

/// Takes a piece out of a wide register: `k` holds the position and, from bit 8, the width.
pub(crate) fn unpack() -> AluFn {
    unary!(u64, |x, k| x >> (k & 0xff) & (u64::MAX >> (64 - (k >> 8))))
}

/// A plain copy.
pub(crate) fn copy() -> AluFn {
    unary!(u64, |x| x)
}

/// A copy cut to 32 bits.
pub(crate) fn copy32() -> AluFn {
    unary!(u32, |x| x)
}
