//! IEEE 754 by integers: numbers as significand times a power of two, rounded once at the end.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Nearest,
    Zero,
    Down,
    Up,
}

pub(crate) const MODES: [(&str, Mode); 4] =
    [("rn", Mode::Nearest), ("rz", Mode::Zero), ("rm", Mode::Down), ("rp", Mode::Up)];

/// A binary format: bits of fraction and of exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) fraction: u32,
    pub(crate) exponent: u32,
    /// What an operation gives for a NaN.
    pub(crate) nan: u64,
}

pub(crate) const F16: Format = Format { fraction: 10, exponent: 5, nan: 0x7fff };
pub(crate) const BF16: Format = Format { fraction: 7, exponent: 8, nan: 0x7fff };
pub(crate) const F32: Format = Format { fraction: 23, exponent: 8, nan: 0x7fff_ffff };
pub(crate) const F64: Format = Format { fraction: 52, exponent: 11, nan: 0x7fff_ffff_ffff_ffff };

/// A value of a format, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Nan,
    Infinity {
        negative: bool,
    },
    /// `significand * 2^power`; zero has its sign, too.
    Finite {
        negative: bool,
        significand: u128,
        power: i32,
    },
}

impl Format {
    pub(crate) fn width(self) -> u32 {
        self.fraction + self.exponent + 1
    }

    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    pub(crate) fn sign(self) -> u64 {
        1 << (self.width() - 1)
    }

    pub(crate) fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    pub(crate) fn one(self) -> u64 {
        (self.bias() as u64) << self.fraction
    }

    pub(crate) fn least_normal(self) -> u64 {
        1 << self.fraction
    }

    pub(crate) fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign() - 1) > self.infinity()
    }

    pub(crate) fn take(self, bits: u64) -> Value {
        let negative = bits & self.sign() != 0;
        let rest = bits & (self.sign() - 1);
        if rest > self.infinity() {
            return Value::Nan;
        }
        if rest == self.infinity() {
            return Value::Infinity { negative };
        }
        let (raw, fraction) = (rest >> self.fraction, rest & (self.least_normal() - 1));
        let significand = if raw == 0 { fraction } else { fraction | self.least_normal() };
        let power = raw.max(1) as i32 - self.bias() - self.fraction as i32;
        Value::Finite { negative, significand: significand.into(), power }
    }

    /// A subnormal becomes a zero of its sign.
    pub(crate) fn flushed(self, bits: u64) -> u64 {
        if bits & (self.sign() - 1) < self.least_normal() { bits & self.sign() } else { bits }
    }

    /// `significand * 2^power` in this format. A significand may carry a lowest bit that only says
    /// that something was lost, if it is long enough.
    pub(crate) fn round(self, negative: bool, significand: u128, power: i32, mode: Mode) -> u64 {
        let sign = if negative { self.sign() } else { 0 };
        if significand == 0 {
            return sign;
        }
        let length = 128 - significand.leading_zeros() as i32;
        let least = 1 - self.bias() - self.fraction as i32;
        // The power of the result's last place.
        let last = (power + length - 1 - self.fraction as i32).max(least);
        let drop = last - power;
        let (kept, above, half, any) = split(significand, drop);
        let up = match mode {
            Mode::Nearest => above || half && kept & 1 == 1,
            Mode::Zero => false,
            Mode::Down => negative && any,
            Mode::Up => !negative && any,
        };
        let kept = kept + u128::from(up);
        // A carry into a further bit moves into the exponent by itself.
        let bits = ((last - least) as u128).wrapping_shl(self.fraction) + kept;
        if bits >= u128::from(self.infinity()) {
            let inward = match mode {
                Mode::Nearest => false,
                Mode::Zero => true,
                Mode::Down => !negative,
                Mode::Up => negative,
            };
            return sign | (self.infinity() - u64::from(inward));
        }
        sign | bits as u64
    }
}

/// What is kept of `significand` without its lowest `drop` bits; whether the rest is above half,
/// half, anything.
fn split(significand: u128, drop: i32) -> (u128, bool, bool, bool) {
    if drop <= 0 {
        return (significand << -drop, false, false, false);
    }
    if drop > 127 {
        return (0, false, false, true);
    }
    let rest = significand & ((1 << drop) - 1);
    let half = 1_u128 << (drop - 1);
    (significand >> drop, rest > half, rest == half, rest != 0)
}

fn nan_or(format: Format, f: impl FnOnce() -> Option<u64>) -> u64 {
    f().unwrap_or(format.nan)
}

/// `a * b + c`, rounded once.
pub(crate) fn fused(format: Format, [a, b, c]: [u64; 3], mode: Mode) -> u64 {
    use Value::{Finite, Infinity, Nan};
    nan_or(format, || {
        let (a, b, c) = (format.take(a), format.take(b), format.take(c));
        let product = multiplied(a, b)?;
        match (product, c) {
            (Nan, _) | (_, Nan) => None,
            (Infinity { negative: x }, Infinity { negative: y }) if x != y => None,
            (Infinity { negative }, _) | (_, Infinity { negative }) => {
                Some(infinite(format, negative))
            }
            (
                Finite { negative: x, significand: m, power: p },
                Finite { negative: y, significand: n, power: q },
            ) => Some(sum(format, (x, m, p), (y, n, q), mode)),
        }
    })
}

fn infinite(format: Format, negative: bool) -> u64 {
    format.infinity() | if negative { format.sign() } else { 0 }
}

fn multiplied(a: Value, b: Value) -> Option<Value> {
    use Value::{Finite, Infinity, Nan};
    match (a, b) {
        (Nan, _) | (_, Nan) => None,
        (Infinity { .. }, Finite { significand: 0, .. })
        | (Finite { significand: 0, .. }, Infinity { .. }) => None,
        (Infinity { negative: x }, Infinity { negative: y } | Finite { negative: y, .. })
        | (Finite { negative: x, .. }, Infinity { negative: y }) => {
            Some(Infinity { negative: x != y })
        }
        (
            Finite { negative: x, significand: m, power: p },
            Finite { negative: y, significand: n, power: q },
        ) => Some(Finite { negative: x != y, significand: m * n, power: p + q }),
    }
}

type Term = (bool, u128, i32);

/// The exact sum of two terms of at most 106 bits, rounded.
fn sum(format: Format, x: Term, y: Term, mode: Mode) -> u64 {
    if x.1 == 0 && y.1 == 0 {
        // Zeros of one sign keep it; of both, the sum is +0, or -0 rounding down.
        let negative = if x.0 == y.0 { x.0 } else { mode == Mode::Down };
        return format.round(negative, 0, 0, mode);
    }
    if x.1 == 0 || y.1 == 0 {
        let only = if x.1 == 0 { y } else { x };
        return format.round(only.0, only.1, only.2, mode);
    }
    // Both to one length, the larger first, with room for a carry and the lost bits.
    let long = |(negative, significand, power): Term| {
        let shift = significand.leading_zeros() as i32 - 6;
        (negative, significand << shift, power - shift)
    };
    let (mut large, mut small) = (long(x), long(y));
    if (large.2, large.1) < (small.2, small.1) {
        std::mem::swap(&mut large, &mut small);
    }
    let gap = large.2 - small.2;
    let shifted = if gap > 120 {
        1
    } else {
        let lost = small.1 & ((1 << gap) - 1) != 0;
        small.1 >> gap | u128::from(lost)
    };
    let total = if large.0 == small.0 { large.1 + shifted } else { large.1 - shifted };
    let negative = if total == 0 { mode == Mode::Down } else { large.0 };
    format.round(negative, total, large.2, mode)
}

pub(crate) fn added(format: Format, a: u64, b: u64, mode: Mode) -> u64 {
    fused(format, [a, format.one(), b], mode)
}

pub(crate) fn product(format: Format, a: u64, b: u64, mode: Mode) -> u64 {
    nan_or(format, || match multiplied(format.take(a), format.take(b))? {
        Value::Nan => None,
        Value::Infinity { negative } => Some(infinite(format, negative)),
        Value::Finite { negative, significand, power } => {
            Some(format.round(negative, significand, power, mode))
        }
    })
}

pub(crate) fn quotient(format: Format, a: u64, b: u64, mode: Mode) -> u64 {
    use Value::{Finite, Infinity, Nan};
    nan_or(format, || match (format.take(a), format.take(b)) {
        (Nan, _) | (_, Nan) | (Infinity { .. }, Infinity { .. }) => None,
        (Finite { significand: 0, .. }, Finite { significand: 0, .. }) => None,
        (Infinity { negative: x }, Finite { negative: y, .. })
        | (Finite { negative: x, .. }, Finite { negative: y, significand: 0, .. }) => {
            Some(infinite(format, x != y))
        }
        (Finite { negative: x, .. }, Infinity { negative: y }) => {
            Some(format.round(x != y, 0, 0, mode))
        }
        (
            Finite { negative: x, significand: m, power: p },
            Finite { negative: y, significand: n, power: q },
        ) => {
            if m == 0 {
                return Some(format.round(x != y, 0, 0, mode));
            }
            let shift = m.leading_zeros() as i32 - 1;
            let (whole, rest) = ((m << shift) / n, (m << shift) % n);
            let significand = whole << 1 | u128::from(rest != 0);
            Some(format.round(x != y, significand, p - shift - q - 1, mode))
        }
    })
}

pub(crate) fn root(format: Format, a: u64, mode: Mode) -> u64 {
    nan_or(format, || match format.take(a) {
        Value::Finite { negative, significand: 0, .. } => Some(format.round(negative, 0, 0, mode)),
        Value::Infinity { negative: false } => Some(format.infinity()),
        Value::Finite { negative: false, significand, power } => {
            let mut shift = significand.leading_zeros() as i32 - 2;
            shift -= (power - shift) & 1;
            let (whole, exact) = whole_root(significand << shift);
            let significand = whole << 1 | u128::from(!exact);
            Some(format.round(false, significand, (power - shift) / 2 - 1, mode))
        }
        _ => None,
    })
}

/// The whole part of a root, and whether nothing is left; by trying each bit.
fn whole_root(square: u128) -> (u128, bool) {
    let mut root = 0_u128;
    for bit in (0..63).rev() {
        let next = root | 1 << bit;
        if next * next <= square {
            root = next;
        }
    }
    (root, root * root == square)
}
