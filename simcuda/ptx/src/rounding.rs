//! Directed rounding on a host that only rounds to nearest: the nearest result, moved by one step
//! where the exact result lies on the other side. Also the small facts of float arithmetic that PTX
//! fixes and hosts do not: the NaN, the order of zeros, flushing of subnormals.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Nearest,
    Zero,
    Down,
    Up,
    /// Ties away from zero: only conversions to tf32 ask for it.
    NearestAway,
}

/// Bits of `Alu::k` that float operations read.
pub(crate) mod flag {
    pub(crate) const ROUND: u32 = 7;
    pub(crate) const FLUSH: u32 = 1 << 3;
    pub(crate) const SATURATE: u32 = 1 << 4;
    pub(crate) const RELU: u32 = 1 << 5;
}

impl Round {
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Nearest => 0,
            Self::Zero => 1,
            Self::Down => 2,
            Self::Up => 3,
            Self::NearestAway => 4,
        }
    }

    pub(crate) fn of(k: u32) -> Self {
        match k & flag::ROUND {
            1 => Self::Zero,
            2 => Self::Down,
            3 => Self::Up,
            4 => Self::NearestAway,
            _ => Self::Nearest,
        }
    }
}

/// The float operations that differ between f32 and f64.
pub(crate) trait Float: Copy + PartialOrd {
    const CANONICAL_NAN: Self;
    fn next_up(self) -> Self;
    fn next_down(self) -> Self;
    fn is_nan(self) -> bool;
    fn is_negative(self) -> bool;
    fn is_subnormal(self) -> bool;
    fn zero_like(self) -> Self;
    fn clamp_to_one(self) -> Self;
    fn max_with_zero(self) -> Self;
}

macro_rules! float {
    ($ty:ty, $nan:expr) => {
        impl Float for $ty {
            const CANONICAL_NAN: Self = <$ty>::from_bits($nan);
            fn next_up(self) -> Self {
                <$ty>::next_up(self)
            }
            fn next_down(self) -> Self {
                <$ty>::next_down(self)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
            #[inline(always)]
            fn is_negative(self) -> bool {
                self.is_sign_negative()
            }
            #[inline(always)]
            fn is_subnormal(self) -> bool {
                <$ty>::is_subnormal(self)
            }
            #[inline(always)]
            fn zero_like(self) -> Self {
                (0.0 as $ty).copysign(self)
            }
            #[inline(always)]
            fn clamp_to_one(self) -> Self {
                // The comparison sends a NaN to +0.
                if self > 0.0 { if self < 1.0 { self } else { 1.0 } } else { 0.0 }
            }
            #[inline(always)]
            fn max_with_zero(self) -> Self {
                if self < 0.0 { 0.0 } else { self }
            }
        }
    };
}
float!(f32, 0x7fff_ffff);
float!(f64, 0x7fff_ffff_ffff_ffff);

/// Any NaN becomes the one that PTX gives.
#[inline(always)]
pub(crate) fn canonical<F: Float>(value: F) -> F {
    if value.is_nan() { F::CANONICAL_NAN } else { value }
}

/// `.ftz` on a source or a result.
#[inline(always)]
pub(crate) fn flush<F: Float>(value: F, k: u32) -> F {
    if k & flag::FLUSH != 0 && value.is_subnormal() { value.zero_like() } else { value }
}

/// `.ftz`, `.sat` and `.relu` on a result.
#[inline(always)]
pub(crate) fn finish<F: Float>(value: F, k: u32) -> F {
    let value = flush(value, k);
    if k & flag::SATURATE != 0 {
        value.clamp_to_one()
    } else if k & flag::RELU != 0 {
        canonical(value.max_with_zero())
    } else {
        canonical(value)
    }
}

/// `nearest` moved so that it is the exact result rounded as asked; `residual` has the sign of
/// exact minus nearest.
pub(crate) fn direct<F: Float>(nearest: F, residual: f64, round: Round) -> F {
    if nearest.is_nan() || residual == 0.0 || residual.is_nan() {
        return nearest;
    }
    let down = match round {
        Round::Nearest | Round::NearestAway => return nearest,
        Round::Down => true,
        Round::Up => false,
        Round::Zero => !nearest.is_negative(),
    };
    match (down, residual < 0.0) {
        (true, true) => nearest.next_down(),
        (false, false) => nearest.next_up(),
        _ => nearest,
    }
}

/// `a + b` rounded to nearest and what that rounding lost.
#[inline(always)]
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// The exact sum's sign as a number: of three terms, of any size.
pub(crate) fn sign_of_sum(a: f64, b: f64, c: f64) -> f64 {
    let (high, low) = two_sum(a, b);
    let (high, middle) = two_sum(high, c);
    if high != 0.0 { high } else { middle + low }
}

/// `a * b + c` in f64 rounded to odd, so that a second rounding to half the width is right.
#[inline(always)]
pub(crate) fn fma_to_odd(product: f64, c: f64) -> f64 {
    let (sum, lost) = two_sum(product, c);
    let bits = sum.to_bits();
    if lost == 0.0 || bits & 1 == 1 || !sum.is_finite() || !lost.is_finite() {
        return sum;
    }
    let outward = (lost > 0.0) == (sum > 0.0);
    f64::from_bits(if outward { bits + 1 } else { bits - 1 })
}

/// The single nearest to `value` in the direction asked.
pub(crate) fn to_f32(value: f64, round: Round) -> f32 {
    let nearest = value as f32;
    if round == Round::Nearest {
        return nearest;
    }
    direct(nearest, value - f64::from(nearest), round)
}

/// A whole number as a single or double; `value` must fit 65 bits.
pub(crate) fn int_to_f32(value: i128, round: Round) -> f32 {
    let nearest = value as f32;
    direct(nearest, (value - nearest as i128) as f64, round)
}

pub(crate) fn int_to_f64(value: i128, round: Round) -> f64 {
    let nearest = value as f64;
    direct(nearest, (value - nearest as i128) as f64, round)
}

/// The integral value nearest in the direction asked.
pub(crate) fn to_integral(value: f64, round: Round) -> f64 {
    match round {
        Round::Nearest => value.round_ties_even(),
        Round::NearestAway => value.round(),
        Round::Zero => value.trunc(),
        Round::Down => value.floor(),
        Round::Up => value.ceil(),
    }
}
