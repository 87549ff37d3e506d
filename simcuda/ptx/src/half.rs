//! The 16-bit formats: f16 (10 bits of fraction) and bf16 (7), to and from wider ones, with every
//! rounding PTX knows. Arithmetic on them is in `ops/half.rs`.

use crate::rounding::Round;

/// What distinguishes one small binary format from another.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    fraction_bits: u32,
    min_exponent: i32,
    /// Bits of infinity.
    infinity: u16,
}

pub(crate) const F16: Format = Format { fraction_bits: 10, min_exponent: -14, infinity: 0x7c00 };
pub(crate) const BF16: Format = Format { fraction_bits: 7, min_exponent: -126, infinity: 0x7f80 };

const SIGN: u16 = 0x8000;
/// The one NaN that conversions give.
const NAN: u16 = 0x7fff;

/// `value` in the smaller format, rounded once.
pub(crate) fn narrow(value: f64, format: Format, round: Round) -> u16 {
    let bits = value.to_bits();
    let sign = if value.is_sign_negative() { SIGN } else { 0 };
    if value.is_nan() {
        return NAN;
    }
    if value.is_infinite() {
        return sign | format.infinity;
    }
    let raw_exponent = (bits >> 52 & 0x7ff) as i32;
    let significand = (bits & ((1 << 52) - 1)) | u64::from(raw_exponent != 0) << 52;
    let exponent = raw_exponent.max(1) - 1023;
    // The smallest step of the result is 2^(scale - fraction_bits).
    let scale = exponent.max(format.min_exponent);
    let drop = (scale - exponent) as u32 + 52 - format.fraction_bits;
    let (kept, rest, half) = if drop >= 64 {
        (0, significand, u64::MAX)
    } else {
        (significand >> drop, significand & ((1 << drop) - 1), 1 << (drop - 1))
    };
    let up = match round {
        Round::Nearest => rest > half || rest == half && kept & 1 == 1,
        Round::NearestAway => rest >= half,
        Round::Zero => false,
        Round::Down => sign != 0 && rest != 0,
        Round::Up => sign == 0 && rest != 0,
    };
    let kept = kept + u64::from(up);
    // A carry out of the fraction moves into the exponent by itself.
    let biased = (scale - format.min_exponent) as u64;
    let magnitude = (biased << format.fraction_bits) + kept;
    if magnitude < u64::from(format.infinity) {
        return sign | magnitude as u16;
    }
    let to_infinity = match round {
        Round::Nearest | Round::NearestAway => true,
        Round::Zero => false,
        Round::Down => sign != 0,
        Round::Up => sign == 0,
    };
    sign | if to_infinity { format.infinity } else { format.infinity - 1 }
}

/// The value of an f16, exactly.
#[inline]
pub(crate) fn widen_f16(half: u16) -> f32 {
    let sign = u32::from(half & SIGN) << 16;
    let rest = u32::from(half & !SIGN);
    match rest >> 10 {
        0 => {
            // A multiple of 2^-24; the product is exact.
            let magnitude = rest as f32 * f32::from_bits(0x3380_0000);
            f32::from_bits(magnitude.to_bits() | sign)
        }
        31 => f32::from_bits(sign | 0x7f80_0000 | (rest & 0x3ff) << 13),
        _ => f32::from_bits(sign | ((rest << 13) + (112 << 23))),
    }
}

/// The value of a bf16, exactly.
#[inline]
pub(crate) fn widen_bf16(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// The nearest f16, ties to even.
#[inline]
pub(crate) fn to_f16(value: f64) -> u16 {
    narrow(value, F16, Round::Nearest)
}

/// The nearest bf16, ties to even.
#[inline]
pub(crate) fn to_bf16(value: f64) -> u16 {
    narrow(value, BF16, Round::Nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_survives_the_way_to_f32_and_back() {
        for bits in 0..=u16::MAX {
            let wide = widen_f16(bits);
            if wide.is_nan() {
                assert_eq!(to_f16(f64::from(wide)), NAN);
            } else {
                assert_eq!(to_f16(f64::from(wide)), bits, "{bits:04x}");
            }
        }
    }

    #[test]
    fn every_bf16_survives_the_way_to_f32_and_back() {
        for bits in 0..=u16::MAX {
            let wide = widen_bf16(bits);
            if !wide.is_nan() {
                assert_eq!(to_bf16(f64::from(wide)), bits, "{bits:04x}");
            }
        }
    }

    #[test]
    fn halves_round_to_even_and_overflow_to_infinity() {
        assert_eq!(to_f16(1.0), 0x3c00);
        assert_eq!(to_f16(2049.0), 0x6800);
        assert_eq!(to_f16(2051.0), 0x6802);
        assert_eq!(to_f16(65519.0), 0x7bff);
        assert_eq!(to_f16(65520.0), 0x7c00);
        assert_eq!(to_f16(-1e30), 0xfc00);
        assert_eq!(to_f16(2f64.powi(-25)), 0);
        assert_eq!(to_f16(2f64.powi(-25) * 1.0001), 1);
        assert_eq!(to_f16(5e-324), 0);
    }

    #[test]
    fn directed_rounding_goes_its_way() {
        assert_eq!(narrow(1e30, F16, Round::Zero), 0x7bff);
        assert_eq!(narrow(1e30, F16, Round::Down), 0x7bff);
        assert_eq!(narrow(-1e30, F16, Round::Down), 0xfc00);
        assert_eq!(narrow(5e-324, F16, Round::Up), 1);
        assert_eq!(narrow(-5e-324, F16, Round::Up), 0x8000);
        assert_eq!(narrow(1.0 + 2f64.powi(-11), F16, Round::NearestAway), 0x3c01);
    }
}
