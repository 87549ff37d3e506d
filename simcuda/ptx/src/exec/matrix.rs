//! `mma.sync` of 16×8 tiles. Which lane and register holds which element is fixed by the ISA; the
//! precision of the sums is not: here they are exact to a double and rounded once.

use crate::half::{to_f16, widen_bf16, widen_f16};
use crate::lanes::{ALL, Reg, Row, lanes};
use crate::program::Matrix;
use crate::types::Ty;

const ROWS: usize = 16;
const COLUMNS: usize = 8;
const MOST_DEPTH: usize = 16;

pub(crate) fn multiply(rows: &mut [Row], active: u32, m: &Matrix) {
    let mut a = [[0.0; MOST_DEPTH]; ROWS];
    let mut b = [[0.0; COLUMNS]; MOST_DEPTH];
    for lane in lanes(ALL) {
        let (group, member) = (lane / 4, lane % 4);
        let bits = |register: Reg| rows[register as usize][lane] as u32;
        for (i, &register) in m.a.iter().enumerate() {
            let row = &mut a[group + 8 * (i & 1)];
            elements(m, bits(register), i >> 1, member, |k, value| row[k] = value);
        }
        for (i, &register) in m.b.iter().enumerate() {
            elements(m, bits(register), i, member, |k, value| b[k][group] = value);
        }
    }
    let mut sums = [[0.0; COLUMNS]; ROWS];
    for lane in lanes(ALL) {
        fragment(rows, lane, m.half_sums.1, &m.c, |row, column, value| sums[row][column] = value);
    }
    for (row, sums) in a.iter().zip(&mut sums) {
        for (column, sum) in sums.iter_mut().enumerate() {
            *sum += (0..m.k).map(|k| row[k] * b[k][column]).sum::<f64>();
        }
    }
    for lane in lanes(active) {
        write(rows, lane, m, &sums);
    }
}

/// The elements of A or B along the depth that one register of one lane holds.
fn elements(m: &Matrix, bits: u32, step: usize, member: usize, mut set: impl FnMut(usize, f64)) {
    let widen = |half: u16| match m.input {
        Ty::Bf16 => f64::from(widen_bf16(half)),
        _ => f64::from(widen_f16(half)),
    };
    if m.input == Ty::Tf32 {
        // The 13 bits below the format's fraction are ignored.
        set(member + 4 * step, f32::from_bits(bits & !0x1fff).into());
    } else {
        set(2 * member + 8 * step, widen(bits as u16));
        set(2 * member + 8 * step + 1, widen((bits >> 16) as u16));
    }
}

/// The elements of C that one lane holds.
fn fragment(
    rows: &[Row],
    lane: usize,
    half: bool,
    registers: &[Reg],
    mut set: impl FnMut(usize, usize, f64),
) {
    let (group, column) = (lane / 4, 2 * (lane % 4));
    for (i, &register) in registers.iter().enumerate() {
        let bits = rows[register as usize][lane] as u32;
        if half {
            set(group + 8 * i, column, widen_f16(bits as u16).into());
            set(group + 8 * i, column + 1, widen_f16((bits >> 16) as u16).into());
        } else {
            set(group + 8 * (i >> 1), column + (i & 1), f32::from_bits(bits).into());
        }
    }
}

fn write(rows: &mut [Row], lane: usize, m: &Matrix, sums: &[[f64; COLUMNS]; ROWS]) {
    let (group, column) = (lane / 4, 2 * (lane % 4));
    for (i, &register) in m.d.iter().enumerate() {
        let bits = if m.half_sums.0 {
            let row = &sums[group + 8 * i];
            u32::from(to_f16(row[column + 1])) << 16 | u32::from(to_f16(row[column]))
        } else {
            (sums[group + 8 * (i >> 1)][column + (i & 1)] as f32).to_bits()
        };
        rows[register as usize][lane] = bits.into();
    }
}
