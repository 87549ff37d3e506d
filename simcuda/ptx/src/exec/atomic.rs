//! `atom` and `red`: one read-modify-write for each lane, lowest lane first.

use super::access::{Env, Home, outside};
use crate::Fault;
use crate::lanes::{Row, lanes};
use crate::ops::half::atomic_add;
use crate::program::{Atomic, AtomicKind};
use crate::rounding::{canonical, finish, flag, flush};
use crate::types::{Ty, window};

pub(crate) fn update(
    env: &mut Env<'_>,
    rows: &mut [Row],
    active: u32,
    atomic: &Atomic,
) -> Result<(), Fault> {
    for lane in lanes(active) {
        let address = rows[atomic.address as usize][lane].wrapping_add(atomic.offset);
        let (b, c) = (rows[atomic.b as usize][lane], rows[atomic.c as usize][lane]);
        let bytes = atomic.ty.bytes();
        if !address.is_multiple_of(bytes as u64) {
            return Err(Fault::Misaligned { address });
        }
        let (home, address) = Env::home(atomic.space, address);
        let mask = atomic.ty.mask();
        let flushes = home == Home::Device;
        let mut change = |old: u64| apply(atomic, old & mask, b & mask, c & mask, flushes) & mask;
        let old = if bytes == 2 {
            in_word(env, home, address, &mut change)?
        } else {
            exchange(env, home, address, bytes, &mut change)?
        };
        if let Some(d) = atomic.d {
            rows[d as usize][lane] = old & mask;
        }
    }
    Ok(())
}

/// Two bytes of the word that holds them.
fn in_word(
    env: &mut Env<'_>,
    home: Home,
    address: u64,
    change: &mut dyn FnMut(u64) -> u64,
) -> Result<u64, Fault> {
    let shift = 8 * (address & 2);
    let word = exchange(env, home, address & !3, 4, &mut |word| {
        let new = change(word >> shift & 0xffff);
        (word & !(0xffff << shift)) | new << shift
    })?;
    Ok(word >> shift & 0xffff)
}

fn exchange(
    env: &mut Env<'_>,
    home: Home,
    address: u64,
    bytes: usize,
    change: &mut dyn FnMut(u64) -> u64,
) -> Result<u64, Fault> {
    match home {
        Home::Device if address >= window::SHARED => Err(outside(home, address, bytes, true)),
        Home::Device => env.memory.update(address, bytes, change),
        Home::Shared => {
            let mut buffer = [0; 8];
            env.read(0, home, address, &mut buffer[..bytes])?;
            let old = u64::from_le_bytes(buffer);
            env.write(0, home, address, &change(old).to_le_bytes()[..bytes])?;
            Ok(old)
        }
        // Atomics on what only one thread sees are undefined.
        Home::Local | Home::Param => Err(outside(home, address, bytes, true)),
    }
}

/// The value to store; sources are cut to the type.
fn apply(atomic: &Atomic, old: u64, b: u64, c: u64, flushes: bool) -> u64 {
    let signed = |value: u64| match atomic.ty {
        Ty::S32 => i64::from(value as i32),
        _ => value as i64,
    };
    match (atomic.kind, atomic.ty.is_signed()) {
        (AtomicKind::And, _) => old & b,
        (AtomicKind::Or, _) => old | b,
        (AtomicKind::Xor, _) => old ^ b,
        (AtomicKind::Exch, _) => b,
        (AtomicKind::Cas, _) => {
            if old == b {
                c
            } else {
                old
            }
        }
        (AtomicKind::Add, _) => sum(atomic.ty, old, b, flushes),
        (AtomicKind::Inc, _) => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        (AtomicKind::Dec, _) => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
        (AtomicKind::Min, true) => signed(old).min(signed(b)) as u64,
        (AtomicKind::Max, true) => signed(old).max(signed(b)) as u64,
        (AtomicKind::Min, false) => old.min(b),
        (AtomicKind::Max, false) => old.max(b),
    }
}

/// Sums of singles flush subnormals in global memory, and only there.
fn sum(ty: Ty, old: u64, b: u64, flushes: bool) -> u64 {
    match ty {
        Ty::F32 => {
            let k = if flushes { flag::FLUSH } else { 0 };
            let (x, y) = (f32::from_bits(old as u32), f32::from_bits(b as u32));
            finish(flush(x, k) + flush(y, k), k).to_bits().into()
        }
        Ty::F64 => canonical(f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 => atomic_add(ty, old as u32, b as u32).into(),
        _ => old.wrapping_add(b),
    }
}
