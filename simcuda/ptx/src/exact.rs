//! The sign of a sum of doubles and of products of two, exactly and whatever their size: which side of
//! the nearest double the true result of a directed operation lies on. Slow, and only asked there.

/// From the least bit of a product of two subnormals to above the sum of three largest products.
const WORDS: usize = 68;
/// Exponent of the lowest bit.
const LOWEST: i32 = -2 * 1074;

/// A number in fixed point, two's complement.
struct Fixed([u64; WORDS]);

impl Fixed {
    fn add(&mut self, negative: bool, magnitude: u128, exponent: i32) {
        let shift = (exponent - LOWEST) as usize;
        let (word, bit) = (shift / 64, shift % 64);
        let low = magnitude << bit;
        let high = if bit == 0 { 0 } else { magnitude >> (128 - bit) };
        let pieces = [low as u64, (low >> 64) as u64, high as u64];
        let mut carry = false;
        for index in word..WORDS {
            let piece = pieces.get(index - word).copied().unwrap_or(0);
            let here = &mut self.0[index];
            let ((value, first), second);
            if negative {
                (value, first) = here.overflowing_sub(piece);
                (*here, second) = value.overflowing_sub(u64::from(carry));
            } else {
                (value, first) = here.overflowing_add(piece);
                (*here, second) = value.overflowing_add(u64::from(carry));
            }
            carry = first | second;
            if !carry && index - word >= 2 {
                return;
            }
        }
    }
}

/// Sign, significand and exponent of a finite double.
fn parts(value: f64) -> (bool, u64, i32) {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let significand = fraction | u64::from(exponent != 0) << 52;
    (bits >> 63 == 1, significand, exponent.max(1) - 1075)
}

/// -1, 0 or 1 as the sum of the products is negative, zero or positive. All factors are finite.
pub(crate) fn sign_of_products(products: &[(f64, f64)]) -> f64 {
    let mut sum = Fixed([0; WORDS]);
    for &(x, y) in products {
        let ((x_negative, x, x_exponent), (y_negative, y, y_exponent)) = (parts(x), parts(y));
        let magnitude = u128::from(x) * u128::from(y);
        sum.add(x_negative != y_negative, magnitude, x_exponent + y_exponent);
    }
    if sum.0[WORDS - 1] >> 63 == 1 {
        -1.0
    } else if sum.0.iter().all(|&word| word == 0) {
        0.0
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_and_the_largest_products_do_not_disturb_each_other() {
        let (least, most) = (f64::from_bits(1), f64::MAX);
        assert_eq!(sign_of_products(&[(most, most), (-most, most)]), 0.0);
        assert_eq!(sign_of_products(&[(most, most), (least, least), (-most, most)]), 1.0);
        assert_eq!(sign_of_products(&[(most, most), (least, -least), (-most, most)]), -1.0);
        assert_eq!(sign_of_products(&[(-0.0, 3.0), (0.0, most)]), 0.0);
    }
}
