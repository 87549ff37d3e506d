//! Comparisons: of integers with and without sign, of floats ordered and unordered.

use std::cmp::Ordering;

use crate::exact::{F16, F32, F64, Format, Value};
use crate::form::Constants::{Doubles, Integers, None as NoConstants, Singles};
use crate::form::Kind::{B16, B32, B64, Predicate};
use crate::form::{Form, Kind};
use crate::ints::{SIGNS, WIDTHS, number};

pub(crate) fn add_forms(forms: &mut Vec<Form>) {
    for (width, kind) in WIDTHS {
        for (sign, signed) in SIGNS {
            for name in ["eq", "ne", "lt", "le", "gt", "ge"] {
                let compute = move |s: &[u64]| {
                    let order = number(s[0], width, signed).cmp(&number(s[1], width, signed));
                    u64::from(holds(name, Some(order)))
                };
                let name = format!("setp.{name}.{sign}{width}");
                forms.push(Form::plain(name, Predicate, &[kind; 2], compute).with(Integers));
            }
        }
        for (name, plain) in [("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")] {
            let compute = move |s: &[u64]| u64::from(holds(plain, Some(s[0].cmp(&s[1]))));
            forms.push(Form::plain(
                format!("setp.{name}.u{width}"),
                Predicate,
                &[kind; 2],
                compute,
            ));
        }
    }
    floats(forms);
    combined(forms);
    properties(forms);
}

/// Whether comparison `name` holds of two values in this order; `None` when one is a NaN.
fn holds(name: &str, order: Option<Ordering>) -> bool {
    let Some(order) = order else {
        return matches!(name, "equ" | "neu" | "ltu" | "leu" | "gtu" | "geu" | "nan");
    };
    match name {
        "eq" | "equ" => order == Ordering::Equal,
        "ne" | "neu" => order != Ordering::Equal,
        "lt" | "ltu" => order == Ordering::Less,
        "le" | "leu" => order != Ordering::Greater,
        "gt" | "gtu" => order == Ordering::Greater,
        "ge" | "geu" => order != Ordering::Less,
        "num" => true,
        _ => false,
    }
}

/// Zeros are equal whatever their sign.
fn order(format: Format, a: u64, b: u64) -> Option<Ordering> {
    if format.is_nan(a) || format.is_nan(b) {
        return None;
    }
    let key = |bits: u64| {
        let magnitude = i128::from(bits & !format.sign());
        if bits & format.sign() == 0 { magnitude } else { -magnitude }
    };
    Some(key(a).cmp(&key(b)))
}

type Boolean = fn(bool, bool) -> bool;
type Property = fn(Format, u64, Value) -> bool;

const FLOATS: [(&str, Kind, Format); 3] = [("f16", B16, F16), ("f32", B32, F32), ("f64", B64, F64)];
const NAMES: [&str; 14] =
    ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];

fn floats(forms: &mut Vec<Form>) {
    for (ty, kind, format) in FLOATS {
        let constants = match kind {
            B32 => Singles,
            B64 => Doubles,
            _ => NoConstants,
        };
        for name in NAMES {
            let compute = move |s: &[u64]| u64::from(holds(name, order(format, s[0], s[1])));
            let form = Form::plain(format!("setp.{name}.{ty}"), Predicate, &[kind; 2], compute);
            forms.push(form.with(constants));
        }
    }
    for name in ["eq", "lt", "geu"] {
        let f = |bits: u64| F32.flushed(bits);
        let compute = move |s: &[u64]| u64::from(holds(name, order(F32, f(s[0]), f(s[1]))));
        forms.push(Form::plain(format!("setp.{name}.ftz.f32"), Predicate, &[B32; 2], compute));
    }
}

/// With a third, boolean source; the second result; and as a number.
fn combined(forms: &mut Vec<Form>) {
    let booleans: [(&str, Boolean); 3] =
        [("and", |x, y| x && y), ("or", |x, y| x || y), ("xor", |x, y| x != y)];
    for (boolean, f) in booleans {
        for (name, signed) in [("lt.s32", true), ("lt.u32", false), ("ne.s32", true)] {
            let comparison = &name[..2];
            let test = move |s: &[u64]| {
                let order = number(s[0], 32, signed).cmp(&number(s[1], 32, signed));
                holds(comparison, Some(order))
            };
            let opcode = format!("setp.{comparison}.{boolean}.{}", &name[3..]);
            let sources = [B32, B32, Predicate];
            let compute = move |s: &[u64]| u64::from(f(test(s), s[2] == 1));
            forms.push(Form::plain(opcode.clone(), Predicate, &sources, compute));
            let second = move |s: &[u64]| u64::from(f(!test(s), s[2] == 1));
            let text = format!("{opcode} %tp|{{d}}, {{0}}, {{1}}, {{2}};");
            forms.push(Form::written(format!("{opcode} |q"), text, Predicate, &sources, second));
        }
    }
    let ones =
        |s: &[u64]| if number(s[0], 32, true) < number(s[1], 32, true) { 0xffff_ffff } else { 0 };
    forms.push(Form::plain("set.lt.u32.s32", B32, &[B32; 2], ones));
    let single = |s: &[u64]| if s[0] >= s[1] { F32.one() } else { 0 };
    forms.push(Form::plain("set.ge.f32.u32", B32, &[B32; 2], single));
    let unordered = |s: &[u64]| if holds("neu", order(F64, s[0], s[1])) { 0xffff_ffff } else { 0 };
    forms.push(Form::plain("set.neu.s32.f64", B32, &[B64; 2], unordered));
}

fn properties(forms: &mut Vec<Form>) {
    for (ty, kind, format) in &FLOATS[1..] {
        let format = *format;
        let tests: [(&str, Property); 6] = [
            ("finite", |_, _, v| matches!(v, Value::Finite { .. })),
            ("infinite", |_, _, v| matches!(v, Value::Infinity { .. })),
            ("number", |_, _, v| v != Value::Nan),
            ("notanumber", |_, _, v| v == Value::Nan),
            ("normal", |f, bits, v| {
                matches!(v, Value::Finite { .. }) && bits & !f.sign() >= f.least_normal()
            }),
            ("subnormal", |f, bits, _| {
                let rest = bits & !f.sign();
                rest != 0 && rest < f.least_normal()
            }),
        ];
        for (name, test) in tests {
            let compute = move |s: &[u64]| u64::from(test(format, s[0], format.take(s[0])));
            forms.push(Form::plain(format!("testp.{name}.{ty}"), Predicate, &[*kind], compute));
        }
    }
}
