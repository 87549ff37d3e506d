//! Floating point in every rounding. NaNs that come out of an operation are the canonical one.

use crate::exact::{F16, F32, F64, Format, MODES, Mode, added, fused, product, quotient, root};
use crate::form::Constants::{self, Doubles, Singles};
use crate::form::Kind::{B16, B32, B64};
use crate::form::{Form, Kind, Two};

type Rounded = fn(Format, u64, u64, Mode) -> u64;

/// A type with what its forms need.
#[derive(Clone, Copy)]
struct Ty {
    name: &'static str,
    kind: Kind,
    format: Format,
    constants: Constants,
}

const SINGLE: Ty = Ty { name: "f32", kind: B32, format: F32, constants: Singles };
const DOUBLE: Ty = Ty { name: "f64", kind: B64, format: F64, constants: Doubles };
const HALF: Ty = Ty { name: "f16", kind: B16, format: F16, constants: Constants::None };

pub(crate) fn add_forms(forms: &mut Vec<Form>) {
    for ty in [SINGLE, DOUBLE] {
        for (word, mode) in MODES {
            rounded(forms, ty, word, mode);
        }
        signs(forms, ty);
        least(forms, ty);
    }
    flushed(forms);
    saturated(forms);
    halves(forms);
    pairs(forms);
}

fn rounded(forms: &mut Vec<Form>, ty: Ty, word: &str, mode: Mode) {
    let Ty { name, kind, format, constants } = ty;
    let two: [(&str, Rounded); 4] = [
        ("add", added),
        ("sub", |f, a, b, mode| added(f, a, negated(f, b), mode)),
        ("mul", product),
        ("div", quotient),
    ];
    for (op, f) in two {
        let compute = move |s: &[u64]| f(format, s[0], s[1], mode);
        forms.push(
            Form::plain(format!("{op}.{word}.{name}"), kind, &[kind; 2], compute).with(constants),
        );
    }
    let fma = move |s: &[u64]| fused(format, [s[0], s[1], s[2]], mode);
    forms.push(Form::plain(format!("fma.{word}.{name}"), kind, &[kind; 3], fma).with(constants));
    let reciprocal = move |s: &[u64]| quotient(format, format.one(), s[0], mode);
    forms.push(Form::plain(format!("rcp.{word}.{name}"), kind, &[kind], reciprocal));
    let sqrt = move |s: &[u64]| root(format, s[0], mode);
    forms.push(Form::plain(format!("sqrt.{word}.{name}"), kind, &[kind], sqrt));
}

fn negated(format: Format, bits: u64) -> u64 {
    bits ^ format.sign()
}

fn signs(forms: &mut Vec<Form>, ty: Ty) {
    let Ty { name, kind, format, .. } = ty;
    // Of a NaN only that it is one is defined; the operation itself is not tried on it.
    let safe = move |bits: u64, f: fn(Format, u64) -> u64| f(format, bits);
    forms.push(Form::plain(format!("neg.{name}"), kind, &[kind], move |s| safe(s[0], negated)));
    let absolute = move |s: &[u64]| safe(s[0], |f, bits| bits & !f.sign());
    forms.push(Form::plain(format!("abs.{name}"), kind, &[kind], absolute));
    let copysign = move |s: &[u64]| (s[1] & !format.sign()) | (s[0] & format.sign());
    forms.push(Form::plain(format!("copysign.{name}"), kind, &[kind; 2], copysign));
}

/// A key by which the bits of a number sort as the numbers do, -0 before +0.
fn key(format: Format, bits: u64) -> i128 {
    let magnitude = i128::from(bits & !format.sign());
    if bits & format.sign() == 0 { magnitude } else { -magnitude - 1 }
}

/// A NaN gives way to a number.
fn chosen(format: Format, a: u64, b: u64, least: bool) -> u64 {
    match (format.is_nan(a), format.is_nan(b)) {
        (true, true) => format.nan,
        (true, false) => b,
        (false, true) => a,
        _ if (key(format, a) < key(format, b)) == least => a,
        _ => b,
    }
}

fn least(forms: &mut Vec<Form>, ty: Ty) {
    let Ty { name, kind, format, constants } = ty;
    for (op, least) in [("min", true), ("max", false)] {
        let compute = move |s: &[u64]| chosen(format, s[0], s[1], least);
        forms.push(Form::plain(format!("{op}.{name}"), kind, &[kind; 2], compute).with(constants));
    }
}

fn flushed(forms: &mut Vec<Form>) {
    let f = |bits: u64| F32.flushed(bits);
    for (word, mode) in MODES {
        let sum = move |s: &[u64]| f(added(F32, f(s[0]), f(s[1]), mode));
        forms.push(Form::plain(format!("add.{word}.ftz.f32"), B32, &[B32; 2], sum));
        let mul = move |s: &[u64]| f(product(F32, f(s[0]), f(s[1]), mode));
        forms.push(Form::plain(format!("mul.{word}.ftz.f32"), B32, &[B32; 2], mul));
        let div = move |s: &[u64]| f(quotient(F32, f(s[0]), f(s[1]), mode));
        forms.push(Form::plain(format!("div.{word}.ftz.f32"), B32, &[B32; 2], div));
        let fma = move |s: &[u64]| f(fused(F32, [f(s[0]), f(s[1]), f(s[2])], mode));
        forms.push(Form::plain(format!("fma.{word}.ftz.f32"), B32, &[B32; 3], fma));
        let sqrt = move |s: &[u64]| f(root(F32, f(s[0]), mode));
        forms.push(Form::plain(format!("sqrt.{word}.ftz.f32"), B32, &[B32], sqrt));
    }
    for (op, least) in [("min", true), ("max", false)] {
        let compute = move |s: &[u64]| chosen(F32, f(s[0]), f(s[1]), least);
        forms.push(Form::plain(format!("{op}.ftz.f32"), B32, &[B32; 2], compute));
    }
}

/// Into [0, 1]; a NaN becomes +0.
fn to_unit(format: Format, bits: u64) -> u64 {
    if format.is_nan(bits) || bits & format.sign() != 0 { 0 } else { bits.min(format.one()) }
}

fn saturated(forms: &mut Vec<Form>) {
    for (word, mode) in MODES {
        let sum = move |s: &[u64]| to_unit(F32, added(F32, s[0], s[1], mode));
        forms.push(Form::plain(format!("add.{word}.sat.f32"), B32, &[B32; 2], sum));
        let mul = move |s: &[u64]| to_unit(F32, product(F32, s[0], s[1], mode));
        forms.push(Form::plain(format!("mul.{word}.sat.f32"), B32, &[B32; 2], mul));
        let fma = move |s: &[u64]| to_unit(F32, fused(F32, [s[0], s[1], s[2]], mode));
        forms.push(Form::plain(format!("fma.{word}.sat.f32"), B32, &[B32; 3], fma));
    }
}

fn halves(forms: &mut Vec<Form>) {
    let mode = Mode::Nearest;
    let Ty { name, kind, format, .. } = HALF;
    let two: [(&str, Two); 3] = [
        ("add", |a, b| added(F16, a, b, Mode::Nearest)),
        ("sub", |a, b| added(F16, a, negated(F16, b), Mode::Nearest)),
        ("mul", |a, b| product(F16, a, b, Mode::Nearest)),
    ];
    for (op, f) in two {
        let compute = move |s: &[u64]| f(s[0], s[1]);
        forms.push(Form::plain(format!("{op}.{name}"), kind, &[kind; 2], compute));
        let compute = move |s: &[u64]| F16.flushed(f(F16.flushed(s[0]), F16.flushed(s[1])));
        forms.push(Form::plain(format!("{op}.ftz.{name}"), kind, &[kind; 2], compute));
        let compute = move |s: &[u64]| to_unit(F16, f(s[0], s[1]));
        forms.push(Form::plain(format!("{op}.sat.{name}"), kind, &[kind; 2], compute));
    }
    let fma = move |s: &[u64]| fused(format, [s[0], s[1], s[2]], mode);
    forms.push(Form::plain("fma.rn.f16", kind, &[kind; 3], fma));
    forms.push(Form::plain("neg.f16", kind, &[kind], |s| negated(F16, s[0])));
    forms.push(Form::plain("abs.f16", kind, &[kind], |s| s[0] & 0x7fff));
    for (op, least) in [("min", true), ("max", false)] {
        let compute = move |s: &[u64]| chosen(F16, s[0], s[1], least);
        forms.push(Form::plain(format!("{op}.f16"), kind, &[kind; 2], compute));
    }
}

/// Two halves in one register, each for itself.
fn pairs(forms: &mut Vec<Form>) {
    let half = |bits: u64, i: u32| bits >> (16 * i) & 0xffff;
    let two: [(&str, Two); 3] = [
        ("add.f16x2", |a, b| added(F16, a, b, Mode::Nearest)),
        ("sub.f16x2", |a, b| added(F16, a, negated(F16, b), Mode::Nearest)),
        ("mul.f16x2", |a, b| product(F16, a, b, Mode::Nearest)),
    ];
    for (name, f) in two {
        let compute = move |s: &[u64]| {
            f(half(s[0], 0), half(s[1], 0)) | f(half(s[0], 1), half(s[1], 1)) << 16
        };
        forms.push(Form::plain(name, B32, &[B32; 2], compute));
    }
    let compute = move |s: &[u64]| {
        let one = |i| fused(F16, [half(s[0], i), half(s[1], i), half(s[2], i)], Mode::Nearest);
        one(0) | one(1) << 16
    };
    forms.push(Form::plain("fma.rn.f16x2", B32, &[B32; 3], compute));
}
