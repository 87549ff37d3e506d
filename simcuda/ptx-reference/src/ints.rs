//! Integer arithmetic, by way of numbers wide enough that nothing overflows before it is cut.

use crate::form::Constants::Integers;
use crate::form::Kind::{B16, B32, B64};
use crate::form::{Form, Kind};

/// A bit pattern as the number it means.
pub(crate) fn number(bits: u64, width: u32, signed: bool) -> i128 {
    let value = i128::from(bits) & ((1 << width) - 1);
    if signed && value >> (width - 1) == 1 { value - (1 << width) } else { value }
}

/// The types of a width: name and sign.
pub(crate) const WIDTHS: [(u32, Kind); 3] = [(16, B16), (32, B32), (64, B64)];
pub(crate) const SIGNS: [(&str, bool); 2] = [("u", false), ("s", true)];

fn wide_product(x: i128, y: i128, width: u32) -> (u64, u64) {
    // Factors of 64 bits with signs: 128 bits hold the product's bits, whatever its sign.
    let bits = x.wrapping_mul(y) as u128;
    (bits as u64, (bits >> width) as u64)
}

/// The upper half of a product of unsigned factors of 64 bits overflows i128; by halves, then.
fn high_64(x: u64, y: u64) -> u64 {
    let (a, b, c, d) = (x >> 32, x & 0xffff_ffff, y >> 32, y & 0xffff_ffff);
    let middle = a * d + ((b * d) >> 32);
    let other = b * c + (middle & 0xffff_ffff);
    a * c + (middle >> 32) + (other >> 32)
}

fn high(x: u64, y: u64, width: u32, signed: bool) -> u64 {
    if width == 64 && !signed {
        return high_64(x, y);
    }
    wide_product(number(x, width, signed), number(y, width, signed), width).1
}

pub(crate) fn add_forms(forms: &mut Vec<Form>) {
    for (width, kind) in WIDTHS {
        for (sign, signed) in SIGNS {
            basic(forms, &format!("{sign}{width}"), width, kind, signed);
            products(forms, &format!("{sign}{width}"), width, kind, signed);
        }
    }
    saturating(forms);
    short_products(forms);
    dots(forms);
    carries(forms);
}

type OfNumbers = fn(i128, i128) -> i128;

fn basic(forms: &mut Vec<Form>, ty: &str, width: u32, kind: Kind, signed: bool) {
    let n = move |bits: u64| number(bits, width, signed);
    let two: [(&str, OfNumbers); 4] = [
        ("add", |x, y| x + y),
        ("sub", |x, y| x - y),
        ("min", |x, y| if y < x { y } else { x }),
        ("max", |x, y| if y > x { y } else { x }),
    ];
    for (name, f) in two {
        let compute = move |s: &[u64]| f(n(s[0]), n(s[1])) as u64;
        forms
            .push(Form::plain(format!("{name}.{ty}"), kind, &[kind, kind], compute).with(Integers));
    }
    // Division by zero is the machine's; the divisor is made odd.
    let divisions: [(&str, OfNumbers); 2] = [("div", |x, y| x / y), ("rem", |x, y| x % y)];
    for (name, f) in divisions {
        let temporary = match kind {
            B16 => "%th",
            B32 => "%tw",
            _ => "%td",
        };
        let text =
            format!("or.b{width} {temporary}, {{1}}, 1; {name}.{ty} {{d}}, {{0}}, {temporary};");
        let compute = move |s: &[u64]| f(n(s[0]), n(s[1] | 1)) as u64;
        forms.push(Form::written(format!("{name}.{ty}"), text, kind, &[kind, kind], compute));
    }
    if signed {
        forms.push(Form::plain(format!("abs.{ty}"), kind, &[kind], move |s| {
            n(s[0]).unsigned_abs() as u64
        }));
        forms.push(Form::plain(format!("neg.{ty}"), kind, &[kind], move |s| -n(s[0]) as u64));
    }
    let distance = move |s: &[u64]| ((n(s[0]) - n(s[1])).abs() + n(s[2])) as u64;
    forms.push(Form::plain(format!("sad.{ty}"), kind, &[kind; 3], distance).with(Integers));
}

fn products(forms: &mut Vec<Form>, ty: &str, width: u32, kind: Kind, signed: bool) {
    let n = move |bits: u64| number(bits, width, signed);
    let low = move |s: &[u64]| wide_product(n(s[0]), n(s[1]), width).0;
    let upper = move |s: &[u64]| high(s[0], s[1], width, signed);
    forms.push(Form::plain(format!("mul.lo.{ty}"), kind, &[kind; 2], low).with(Integers));
    forms.push(Form::plain(format!("mul.hi.{ty}"), kind, &[kind; 2], upper).with(Integers));
    let mad = move |s: &[u64]| low(s).wrapping_add(s[2]);
    forms.push(Form::plain(format!("mad.lo.{ty}"), kind, &[kind; 3], mad).with(Integers));
    let mad = move |s: &[u64]| upper(s).wrapping_add(s[2]);
    forms.push(Form::plain(format!("mad.hi.{ty}"), kind, &[kind; 3], mad).with(Integers));
    if width < 64 {
        let wide = Kind::of_bits(2 * width);
        forms.push(Form::plain(format!("mul.wide.{ty}"), wide, &[kind; 2], low).with(Integers));
        let mad = move |s: &[u64]| low(s).wrapping_add(s[2]);
        forms.push(Form::plain(format!("mad.wide.{ty}"), wide, &[kind, kind, wide], mad));
    }
}

fn clamped(value: i128) -> u64 {
    value.clamp(i32::MIN.into(), i32::MAX.into()) as u64
}

fn saturating(forms: &mut Vec<Form>) {
    let n = |bits: u64| number(bits, 32, true);
    let sum = move |s: &[u64]| clamped(n(s[0]) + n(s[1]));
    forms.push(Form::plain("add.sat.s32", B32, &[B32; 2], sum).with(Integers));
    let difference = move |s: &[u64]| clamped(n(s[0]) - n(s[1]));
    forms.push(Form::plain("sub.sat.s32", B32, &[B32; 2], difference).with(Integers));
    let mad = move |s: &[u64]| clamped(((n(s[0]) * n(s[1])) >> 32) + n(s[2]));
    forms.push(Form::plain("mad.hi.sat.s32", B32, &[B32; 3], mad));
}

fn short_products(forms: &mut Vec<Form>) {
    for (sign, signed) in SIGNS {
        let n = move |bits: u64| number(bits, 24, signed);
        for (part, shift) in [("lo", 0), ("hi", 16)] {
            let mul = move |s: &[u64]| ((n(s[0]) * n(s[1])) >> shift) as u64;
            forms.push(Form::plain(format!("mul24.{part}.{sign}32"), B32, &[B32; 2], mul));
            let mad = move |s: &[u64]| mul(s).wrapping_add(s[2]);
            forms.push(Form::plain(format!("mad24.{part}.{sign}32"), B32, &[B32; 3], mad));
        }
    }
    let mad = |s: &[u64]| {
        let product =
            number(((number(s[0], 24, true) * number(s[1], 24, true)) >> 16) as u64, 32, true);
        clamped(product + number(s[2], 32, true))
    };
    forms.push(Form::plain("mad24.hi.sat.s32", B32, &[B32; 3], mad));
}

fn dots(forms: &mut Vec<Form>) {
    for (a, a_signed) in SIGNS {
        for (b, b_signed) in SIGNS {
            let four = move |s: &[u64]| {
                let product = |i: u32| {
                    number(s[0] >> (8 * i), 8, a_signed) * number(s[1] >> (8 * i), 8, b_signed)
                };
                ((0..4).map(product).sum::<i128>() as u64).wrapping_add(s[2])
            };
            forms.push(Form::plain(format!("dp4a.{a}32.{b}32"), B32, &[B32; 3], four));
            for (part, first) in [("lo", 0), ("hi", 2)] {
                let two = move |s: &[u64]| {
                    let product = |i: u32| {
                        let byte = number(s[1] >> (8 * (first + i)), 8, b_signed);
                        number(s[0] >> (16 * i), 16, a_signed) * byte
                    };
                    ((product(0) + product(1)) as u64).wrapping_add(s[2])
                };
                forms.push(Form::plain(format!("dp2a.{part}.{a}32.{b}32"), B32, &[B32; 3], two));
            }
        }
    }
}

/// Chains over the carry, whose last link shows what the first one set.
fn carries(forms: &mut Vec<Form>) {
    for (width, kind, temporary) in [(32, B32, "%tw"), (64, B64, "%td")] {
        let carry = move |s: &[u64]| u64::from((u128::from(s[0]) + u128::from(s[1])) >> width != 0);
        let borrow = |s: &[u64]| u64::from(s[0] < s[1]);
        let add = move |s: &[u64]| s[2].wrapping_add(s[3]).wrapping_add(carry(s));
        let text = format!(
            "add.cc.u{width} {temporary}, {{0}}, {{1}}; addc.u{width} {{d}}, {{2}}, {{3}};"
        );
        forms.push(Form::written(format!("addc.u{width}"), text, kind, &[kind; 4], add));
        let sub = move |s: &[u64]| s[2].wrapping_sub(s[3]).wrapping_sub(borrow(s));
        let text = format!(
            "sub.cc.u{width} {temporary}, {{0}}, {{1}}; subc.u{width} {{d}}, {{2}}, {{3}};"
        );
        forms.push(Form::written(format!("subc.u{width}"), text, kind, &[kind; 4], sub));
        for (part, upper) in [("lo", false), ("hi", true)] {
            let text = format!(
                "add.cc.u{width} {temporary}, {{0}}, {{1}}; \
                 madc.{part}.u{width} {{d}}, {{2}}, {{3}}, {{4}};"
            );
            let compute = move |s: &[u64]| {
                let product =
                    if upper { high(s[2], s[3], width, false) } else { s[2].wrapping_mul(s[3]) };
                product.wrapping_add(s[4]).wrapping_add(carry(s))
            };
            forms.push(Form::written(
                format!("madc.{part}.u{width}"),
                text,
                kind,
                &[kind; 5],
                compute,
            ));
        }
    }
    let text =
        "mad.lo.cc.u32 %tw, {0}, {1}, {2}; addc.cc.u32 %tw, 0xffffffff, 0; addc.u32 {d}, 0, 0;";
    // The carry of the product's low half plus the addend, then of all ones plus that.
    let compute = |s: &[u64]| {
        let low = s[0].wrapping_mul(s[1]) & 0xffff_ffff;
        u64::from(low + s[2] > 0xffff_ffff)
    };
    forms.push(Form::written("mad.lo.cc.u32", text, B32, &[B32; 3], compute));
}
