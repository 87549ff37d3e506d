//! Logic, shifts and fields, bit by bit as the ISA's pseudocode does them.

use crate::form::Constants::Integers;
use crate::form::Kind::{B16, B32, B64, Predicate};
use crate::form::{Form, Kind, Two};

const LOGIC_WIDTHS: [(&str, Kind); 4] =
    [("pred", Predicate), ("b16", B16), ("b32", B32), ("b64", B64)];

pub(crate) fn add_forms(forms: &mut Vec<Form>) {
    logic(forms);
    shifts(forms);
    counts(forms);
    fields(forms);
    permutations(forms);
    tables(forms);
    moves(forms);
}

fn logic(forms: &mut Vec<Form>) {
    for (ty, kind) in LOGIC_WIDTHS {
        let two: [(&str, Two); 3] =
            [("and", |x, y| x & y), ("or", |x, y| x | y), ("xor", |x, y| x ^ y)];
        for (name, f) in two {
            let form =
                Form::plain(format!("{name}.{ty}"), kind, &[kind; 2], move |s| f(s[0], s[1]));
            forms.push(if kind == Predicate { form } else { form.with(Integers) });
        }
        forms.push(Form::plain(format!("not.{ty}"), kind, &[kind], |s| !s[0]));
        if kind != Predicate {
            forms.push(Form::plain(format!("cnot.{ty}"), kind, &[kind], |s| u64::from(s[0] == 0)));
        }
    }
}

fn shifts(forms: &mut Vec<Form>) {
    for (width, kind) in crate::ints::WIDTHS {
        // Amounts beyond the width push everything out.
        let left = |s: &[u64]| if s[1] >= 64 { 0 } else { s[0] << s[1] };
        forms.push(Form::plain(format!("shl.b{width}"), kind, &[kind, B32], left).with(Integers));
        let right = |s: &[u64]| if s[1] >= 64 { 0 } else { s[0] >> s[1] };
        forms.push(Form::plain(format!("shr.u{width}"), kind, &[kind, B32], right).with(Integers));
        let signed = move |s: &[u64]| {
            (crate::ints::number(s[0], width, true) >> s[1].min(u64::from(width))) as u64
        };
        forms.push(Form::plain(format!("shr.s{width}"), kind, &[kind, B32], signed).with(Integers));
    }
    for (mode, wrap) in [("wrap", true), ("clamp", false)] {
        let amount = move |n: u64| if wrap { n & 31 } else { n.min(32) };
        let pair = |s: &[u64]| s[1] << 32 | s[0];
        let left = move |s: &[u64]| ((u128::from(pair(s)) << amount(s[2])) >> 32) as u64;
        forms.push(Form::plain(format!("shf.l.{mode}.b32"), B32, &[B32; 3], left).with(Integers));
        let right = move |s: &[u64]| pair(s) >> amount(s[2]);
        forms.push(Form::plain(format!("shf.r.{mode}.b32"), B32, &[B32; 3], right).with(Integers));
    }
}

fn bit(value: u64, at: u64) -> u64 {
    if at < 64 { value >> at & 1 } else { 0 }
}

fn counts(forms: &mut Vec<Form>) {
    for (width, kind) in [(32_u64, B32), (64, B64)] {
        let ones = move |s: &[u64]| (0..width).map(|i| bit(s[0], i)).sum();
        forms.push(Form::plain(format!("popc.b{width}"), B32, &[kind], ones));
        let zeros =
            move |s: &[u64]| (0..width).rev().take_while(|&i| bit(s[0], i) == 0).count() as u64;
        forms.push(Form::plain(format!("clz.b{width}"), B32, &[kind], zeros));
        let reversed =
            move |s: &[u64]| (0..width).fold(0, |out, i| out | bit(s[0], i) << (width - 1 - i));
        forms.push(Form::plain(format!("brev.b{width}"), kind, &[kind], reversed));
        for (sign, signed) in crate::ints::SIGNS {
            let find = move |s: &[u64]| {
                let skipped = if signed { bit(s[0], width - 1) } else { 0 };
                (0..width).rev().find(|&i| bit(s[0], i) != skipped)
            };
            let position = move |s: &[u64]| find(s).unwrap_or(0xffff_ffff);
            forms.push(Form::plain(format!("bfind.{sign}{width}"), B32, &[kind], position));
            let amount = move |s: &[u64]| find(s).map_or(0xffff_ffff, |i| width - 1 - i);
            forms.push(Form::plain(format!("bfind.shiftamt.{sign}{width}"), B32, &[kind], amount));
        }
    }
}

fn fields(forms: &mut Vec<Form>) {
    for (width, kind) in [(32_u64, B32), (64, B64)] {
        for (sign, signed) in crate::ints::SIGNS {
            let extract = move |s: &[u64]| {
                let (position, length) = (s[1] & 0xff, s[2] & 0xff);
                let top = (position + length).wrapping_sub(1).min(width - 1);
                let sign = if signed && length != 0 { bit(s[0], top) } else { 0 };
                (0..width).fold(0, |out, i| {
                    let inside = i < length && position + i < width;
                    out | (if inside { bit(s[0], position + i) } else { sign }) << i
                })
            };
            let name = format!("bfe.{sign}{width}");
            forms.push(Form::plain(name, kind, &[kind, B32, B32], extract).with(Integers));
        }
        let insert = move |s: &[u64]| {
            let (position, length) = (s[2] & 0xff, s[3] & 0xff);
            (0..length).take_while(|i| position + i < width).fold(s[1], |out, i| {
                (out & !(1 << (position + i))) | bit(s[0], i) << (position + i)
            })
        };
        let name = format!("bfi.b{width}");
        forms.push(Form::plain(name, kind, &[kind, kind, B32, B32], insert).with(Integers));
    }
    for (mode, wrap) in [("wrap", true), ("clamp", false)] {
        let amount = move |n: u64| if wrap { n & 31 } else { n.min(32) };
        let mask = move |s: &[u64]| {
            let (from, count) = (amount(s[0]), amount(s[1]));
            (0..32).filter(|&i| i >= from && i < from + count).fold(0, |out, i| out | 1 << i)
        };
        forms.push(Form::plain(format!("bmsk.{mode}.b32"), B32, &[B32; 2], mask).with(Integers));
        for (sign, signed) in crate::ints::SIGNS {
            let extend = move |s: &[u64]| {
                let count = amount(s[1]);
                if count == 0 {
                    return 0;
                }
                crate::ints::number(s[0], count as u32, signed) as u64
            };
            let name = format!("szext.{mode}.{sign}32");
            forms.push(Form::plain(name, B32, &[B32; 2], extend).with(Integers));
        }
    }
}

fn byte(s: &[u64], at: u64) -> u64 {
    (s[1] << 32 | s[0]) >> (8 * (at & 7)) & 0xff
}

fn permutations(forms: &mut Vec<Form>) {
    let gather = |s: &[u64]| {
        (0..4).fold(0, |out, i| {
            let selector = s[2] >> (4 * i) & 15;
            let byte = byte(s, selector);
            let byte = if selector >= 8 { 0xff * (byte >> 7) } else { byte };
            out | byte << (8 * i)
        })
    };
    forms.push(Form::plain("prmt.b32", B32, &[B32; 3], gather).with(Integers));
    // Rows of the ISA's table: for each low two bits of the selector, the bytes from the lowest.
    let modes: [(&str, [[u64; 4]; 4]); 6] = [
        ("f4e", [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]]),
        ("b4e", [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]]),
        ("rc8", [[0; 4], [1; 4], [2; 4], [3; 4]]),
        ("ecl", [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]]),
        ("ecr", [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]]),
        ("rc16", [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]]),
    ];
    for (mode, rows) in modes {
        let compute = move |s: &[u64]| {
            let row = rows[(s[2] & 3) as usize];
            (0..4).fold(0, |out, i| out | byte(s, row[i]) << (8 * i))
        };
        forms.push(Form::plain(format!("prmt.b32.{mode}"), B32, &[B32; 3], compute).with(Integers));
    }
}

fn tables(forms: &mut Vec<Form>) {
    for table in [0x96_u64, 0xe8, 0xca, 0x00, 0xff, 0x1b, 0x80, 0x3c] {
        let compute = move |s: &[u64]| {
            (0..32).fold(0, |out, i| {
                let row = bit(s[0], i) << 2 | bit(s[1], i) << 1 | bit(s[2], i);
                out | bit(table, row) << i
            })
        };
        let text = format!("lop3.b32 {{d}}, {{0}}, {{1}}, {{2}}, {table};");
        forms.push(Form::written(format!("lop3.b32 {table:#x}"), text, B32, &[B32; 3], compute));
    }
}

fn moves(forms: &mut Vec<Form>) {
    for (ty, kind) in LOGIC_WIDTHS {
        forms.push(Form::plain(format!("mov.{ty}"), kind, &[kind], |s| s[0]));
        if kind != Predicate {
            let choose = |s: &[u64]| if s[2] == 1 { s[0] } else { s[1] };
            let name = format!("selp.{ty}");
            forms.push(Form::plain(name, kind, &[kind, kind, Predicate], choose));
            let negative = |s: &[u64]| if s[2] >> 31 == 0 { s[0] } else { s[1] };
            forms.push(Form::plain(format!("slct.{ty}.s32"), kind, &[kind, kind, B32], negative));
        }
    }
    let pack = |s: &[u64]| s[0] | s[1] << 32;
    forms.push(Form::written("mov.b64 pack", "mov.b64 {d}, {{0}, {1}};", B64, &[B32; 2], pack));
    let pack = |s: &[u64]| s[0] | s[1] << 16;
    forms.push(Form::written("mov.b32 pack", "mov.b32 {d}, {{0}, {1}};", B32, &[B16; 2], pack));
    let pack = |s: &[u64]| s[0] | s[1] << 16 | s[2] << 32 | s[3] << 48;
    let text = "mov.b64 {d}, {{0}, {1}, {2}, {3}};";
    forms.push(Form::written("mov.b64 pack 4", text, B64, &[B16; 4], pack));
    let text = "mov.b64 {_, {d}}, {0};";
    forms.push(Form::written("mov.b64 unpack", text, B32, &[B64], |s| s[0] >> 32));
    let text = "mov.b32 {{d}, _}, {0};";
    forms.push(Form::written("mov.b32 unpack", text, B16, &[B32], |s| s[0]));
}
