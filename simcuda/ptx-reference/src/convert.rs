//! `cvt` between integers, between floats, and from one to the other.

use crate::exact::{BF16, F16, F32, F64, Format, MODES, Mode, Value};
use crate::form::Form;
use crate::form::Kind::{self, B16, B32, B64};
use crate::ints::{SIGNS, number};

const FLOATS: [(&str, Kind, Format); 3] = [("f16", B16, F16), ("f32", B32, F32), ("f64", B64, F64)];
const WIDTHS: [u32; 4] = [8, 16, 32, 64];

pub(crate) fn add_forms(forms: &mut Vec<Form>) {
    between_integers(forms);
    for (from, kind, format) in FLOATS {
        to_integers(forms, from, kind, format);
        integral(forms, from, kind, format);
    }
    from_integers(forms);
    between_floats(forms);
}

/// A register at least as wide as its type; a signed result fills it with its sign.
fn between_integers(forms: &mut Vec<Form>) {
    for to in WIDTHS {
        for (to_sign, to_signed) in SIGNS {
            for from in WIDTHS {
                for (from_sign, from_signed) in SIGNS {
                    let names = (format!("{to_sign}{to}"), format!("{from_sign}{from}"));
                    let kinds = (Kind::of_bits(to), Kind::of_bits(from));
                    let value = move |s: &[u64]| number(s[0], from, from_signed);
                    let plain = move |s: &[u64]| number(value(s) as u64, to, to_signed) as u64;
                    let name = format!("cvt.{}.{}", names.0, names.1);
                    forms.push(Form::plain(name, kinds.0, &[kinds.1], plain));
                    let saturating = move |s: &[u64]| {
                        let (least, most) = range(to, to_signed);
                        value(s).clamp(least, most) as u64
                    };
                    let name = format!("cvt.sat.{}.{}", names.0, names.1);
                    forms.push(Form::plain(name, kinds.0, &[kinds.1], saturating));
                }
            }
        }
    }
}

fn range(width: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (width - 1)), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) }
}

/// The integer nearest in a direction to `significand * 2^power`; huge values stay huge.
fn whole(negative: bool, significand: u128, power: i32, mode: Mode) -> i128 {
    let magnitude = if power >= 0 {
        if power > 70 && significand != 0 { 1 << 126 } else { significand << power.min(70) }
    } else {
        let drop = -power;
        let (kept, rest, half) = if drop > 126 {
            (0, u128::from(significand != 0), 2)
        } else {
            (significand >> drop, significand & ((1 << drop) - 1), 1_u128 << (drop - 1))
        };
        let up = match mode {
            Mode::Nearest => rest > half || rest == half && kept & 1 == 1,
            Mode::Zero => false,
            Mode::Down => negative && rest != 0,
            Mode::Up => !negative && rest != 0,
        };
        kept + u128::from(up)
    };
    let magnitude = magnitude.min(1 << 126) as i128;
    if negative { -magnitude } else { magnitude }
}

const WHOLE_MODES: [(&str, Mode); 4] =
    [("rni", Mode::Nearest), ("rzi", Mode::Zero), ("rmi", Mode::Down), ("rpi", Mode::Up)];

/// NaN is 0, what is out of range becomes the nearest bound.
fn to_integers(forms: &mut Vec<Form>, from: &str, kind: Kind, format: Format) {
    for width in [16, 32, 64] {
        for (sign, signed) in SIGNS {
            for (word, mode) in WHOLE_MODES {
                let compute = move |s: &[u64]| {
                    let (least, most) = range(width, signed);
                    let value = match format.take(s[0]) {
                        Value::Nan => 0,
                        Value::Infinity { negative: true } => least,
                        Value::Infinity { negative: false } => most,
                        Value::Finite { negative, significand, power } => {
                            whole(negative, significand, power, mode).clamp(least, most)
                        }
                    };
                    value as u64
                };
                let name = format!("cvt.{word}.{sign}{width}.{from}");
                forms.push(Form::plain(name, Kind::of_bits(width), &[kind], compute));
            }
        }
    }
}

/// To an integral value of the same format.
fn integral(forms: &mut Vec<Form>, ty: &str, kind: Kind, format: Format) {
    for (word, mode) in WHOLE_MODES {
        let compute = move |s: &[u64]| match format.take(s[0]) {
            Value::Nan => format.nan,
            Value::Finite { negative, significand, power } if power < 0 => {
                let value = whole(negative, significand, power, mode).unsigned_abs();
                format.round(negative, value, 0, Mode::Zero)
            }
            _ => s[0],
        };
        forms.push(Form::plain(format!("cvt.{word}.{ty}.{ty}"), kind, &[kind], compute));
    }
}

fn from_integers(forms: &mut Vec<Form>) {
    for (to, kind, format) in FLOATS {
        for width in [16, 32, 64] {
            for (sign, signed) in SIGNS {
                for (word, mode) in MODES {
                    let compute = move |s: &[u64]| {
                        let value = number(s[0], width, signed);
                        format.round(value < 0, value.unsigned_abs(), 0, mode)
                    };
                    let name = format!("cvt.{word}.{to}.{sign}{width}");
                    forms.push(Form::plain(name, kind, &[Kind::of_bits(width)], compute));
                }
            }
        }
    }
}

fn converted(to: Format, from: Format, bits: u64, mode: Mode) -> u64 {
    match from.take(bits) {
        Value::Nan => to.nan,
        Value::Infinity { negative } => to.infinity() | if negative { to.sign() } else { 0 },
        Value::Finite { negative, significand, power } => {
            to.round(negative, significand, power, mode)
        }
    }
}

fn between_floats(forms: &mut Vec<Form>) {
    for (to, to_kind, to_format) in FLOATS {
        for (from, from_kind, from_format) in FLOATS {
            if from_format.fraction < to_format.fraction {
                let wider = move |s: &[u64]| converted(to_format, from_format, s[0], Mode::Nearest);
                forms.push(Form::plain(format!("cvt.{to}.{from}"), to_kind, &[from_kind], wider));
            }
            if from_format.fraction > to_format.fraction {
                for (word, mode) in MODES {
                    let compute = move |s: &[u64]| converted(to_format, from_format, s[0], mode);
                    let name = format!("cvt.{word}.{to}.{from}");
                    forms.push(Form::plain(name, to_kind, &[from_kind], compute));
                }
            }
        }
    }
    for (word, mode) in [("rn", Mode::Nearest), ("rz", Mode::Zero)] {
        let compute = move |s: &[u64]| converted(BF16, F32, s[0], mode);
        forms.push(Form::plain(format!("cvt.{word}.bf16.f32"), B16, &[B32], compute));
        let pair = move |s: &[u64]| {
            converted(F16, F32, s[0], mode) << 16 | converted(F16, F32, s[1], mode)
        };
        forms.push(Form::plain(format!("cvt.{word}.f16x2.f32"), B32, &[B32; 2], pair));
    }
    let flushed = |s: &[u64]| F32.flushed(converted(F32, F64, s[0], Mode::Nearest));
    forms.push(Form::plain("cvt.rn.ftz.f32.f64", B32, &[B64], flushed));
}
