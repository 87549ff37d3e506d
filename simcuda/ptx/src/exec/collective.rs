//! Exchanges between lanes: shuffles, votes, matches and reductions.

use crate::lanes::{Row, lanes};
use crate::program::{Collective, CollectiveKind as Kind};
use crate::types::Ty;

/// Runs the exchange for the lanes of `active`.
pub(crate) fn exchange(rows: &mut [Row], active: u32, op: &Collective) {
    match op.kind {
        Kind::ShuffleUp | Kind::ShuffleDown | Kind::ShuffleBfly | Kind::ShuffleIdx => {
            shuffle(rows, active, op);
        }
        Kind::ActiveMask => each(rows, active, op.d, |_| u64::from(active)),
        _ => {
            let values = rows[op.a as usize];
            let members = op.members.map(|register| rows[register as usize]);
            let group = |lane: usize| members.map_or(active, |row| row[lane] as u32 & active);
            if op.kind == Kind::MatchAll
                && let Some(p) = op.p
            {
                each(rows, active, p, |lane| u64::from(all_equal(&values, group(lane))));
            }
            each(rows, active, op.d, |lane| outcome(op, &values, lane, group(lane)));
        }
    }
}

fn each(rows: &mut [Row], active: u32, d: u32, value: impl Fn(usize) -> u64) {
    for lane in lanes(active) {
        rows[d as usize][lane] = value(lane);
    }
}

/// The result in one lane of a vote, match or reduction among `group`.
fn outcome(op: &Collective, values: &Row, lane: usize, group: u32) -> u64 {
    let ballot =
        || lanes(group).filter(|&other| values[other] & 1 != 0).fold(0_u32, |set, l| set | 1 << l);
    let fold = |f: fn(u32, u32) -> u32| {
        let all = lanes(group).map(|other| values[other] as u32);
        u64::from(all.reduce(f).unwrap_or(0))
    };
    let signed = op.ty == Ty::S32;
    match op.kind {
        Kind::VoteAll => u64::from(ballot() == group),
        Kind::VoteAny => u64::from(ballot() != 0),
        Kind::VoteUni => u64::from(ballot() == 0 || ballot() == group),
        Kind::Ballot => u64::from(ballot()),
        Kind::MatchAny => {
            let same = lanes(group).filter(|&other| values[other] == values[lane]);
            u64::from(same.fold(0_u32, |set, other| set | 1 << other))
        }
        Kind::MatchAll => {
            if all_equal(values, group) {
                u64::from(group)
            } else {
                0
            }
        }
        Kind::ReduceAdd => fold(u32::wrapping_add),
        Kind::ReduceAnd => fold(|x, y| x & y),
        Kind::ReduceOr => fold(|x, y| x | y),
        Kind::ReduceXor => fold(|x, y| x ^ y),
        Kind::ReduceMin if signed => fold(|x, y| (x as i32).min(y as i32) as u32),
        Kind::ReduceMax if signed => fold(|x, y| (x as i32).max(y as i32) as u32),
        Kind::ReduceMin => fold(u32::min),
        _ => fold(u32::max),
    }
}

fn all_equal(values: &Row, group: u32) -> bool {
    let first = values[group.trailing_zeros().min(31) as usize];
    lanes(group).all(|lane| values[lane] == first)
}

/// The third source holds a clamp (bits 0 to 4) and a mask that cuts the warp into segments (bits
/// 8 to 12).
fn shuffle(rows: &mut [Row], active: u32, op: &Collective) {
    let (values, amounts, controls) =
        (rows[op.a as usize], rows[op.b as usize], rows[op.c as usize]);
    for lane in lanes(active) {
        let amount = (amounts[lane] & 31) as i32;
        let clamp = (controls[lane] & 31) as i32;
        let segment = (controls[lane] >> 8 & 31) as i32;
        let own = lane as i32;
        let last = (own & segment) | (clamp & !segment);
        let first = own & segment;
        let (from, inside) = match op.kind {
            // For `up` the clamp is the lower bound.
            Kind::ShuffleUp => (own - amount, own - amount >= last),
            Kind::ShuffleDown => (own + amount, own + amount <= last),
            Kind::ShuffleBfly => (own ^ amount, (own ^ amount) <= last),
            _ => {
                let from = first | (amount & !segment);
                (from, from <= last)
            }
        };
        let from = if inside { from as usize & 31 } else { lane };
        if let Some(p) = op.p {
            rows[p as usize][lane] = u64::from(inside);
        }
        rows[op.d as usize][lane] = values[from];
    }
}
