//! The self-test of the look-up rule: does *this* driver's `cuGetProcAddress` give, for every row that
//! obtains memory, that row's own function? If not, a program could get a function that no hook of ours
//! stands before, and no limit would hold: the process is refused.
//!
//! What a driver answers beyond the newest version that the table knows is not its business: such an
//! answer is passed through and counted (`hooks/lookup.rs`).
//!
//! The exported function is what a row's answer is compared with, if this driver's answers are its
//! exported functions at all, which a few rows that cost nothing show. Where they are not, only what
//! must differ is compared: the forms of one name, and the two forms for the default streams.

use std::{
    collections::BTreeMap,
    ffi::CString,
    sync::atomic::{AtomicU8, Ordering},
};

use halfwarp_api::wire::Refusal;
use shim_cuda_headers::{
    CUresult, DriverFn,
    row::{Answer, Memory, StreamVariant},
};

use crate::{process, real, say};

/// Older forms than this have 32-bit addresses; what drivers answer for them is not known.
const FIRST_VERSION: u32 = 3020;
/// Rows that cost nothing and have one form: what they answer shows this driver's way.
const PLAIN: &[DriverFn] =
    &[DriverFn::cuDriverGetVersion, DriverFn::cuDeviceGetCount, DriverFn::cuCtxGetCurrent];

static RESULT: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const HOLDS: u8 = 1;
const BROKEN: u8 = 2;

/// Tries the rule once a process.
///
/// # Errors
/// The code with which the process is refused, after the one line that says why.
pub(crate) fn holds() -> Result<(), CUresult> {
    if RESULT.load(Ordering::Relaxed) == UNKNOWN {
        let broken = first_broken();
        if let Some(row) = broken {
            let row = row.row();
            say::refused(Refusal::Rule, &format!("{} at {}", row.asked, row.version));
        }
        RESULT.store(if broken.is_some() { BROKEN } else { HOLDS }, Ordering::Relaxed);
    }
    if RESULT.load(Ordering::Relaxed) == HOLDS {
        return Ok(());
    }
    process::refuse();
    Err(CUresult::SYSTEM_NOT_READY)
}

/// The first row for which the rule does not hold.
fn first_broken() -> Option<DriverFn> {
    if !real::has(DriverFn::cuGetProcAddress) && !real::has(DriverFn::cuGetProcAddress_v2) {
        return None;
    }
    let by_export = PLAIN.iter().all(|row| answer(*row) == Some(real::address(*row)));
    let mut seen: BTreeMap<usize, DriverFn> = BTreeMap::new();
    DriverFn::ALL.iter().copied().filter(obtains_memory).find(|row| {
        let Some(answer) = answer(*row) else { return false };
        let taken = seen.insert(answer, *row).is_some();
        taken || (by_export && answer != real::address(*row))
    })
}

/// Whether a row is one of those that a limit depends on.
fn obtains_memory(row: &DriverFn) -> bool {
    let row = row.row();
    row.answer == Answer::Hook
        && row.version >= FIRST_VERSION
        && !matches!(row.memory, Memory::Nothing | Memory::Context | Memory::Host)
}

/// What the driver answers for a row's own version and flag; `None` where it has no such function.
fn answer(row: DriverFn) -> Option<usize> {
    let listed = row.row();
    let name = CString::new(listed.asked).ok()?;
    let flags = if listed.stream == StreamVariant::PerThread { real::PER_THREAD } else { 0 };
    let answer = real::proc_address(&name, listed.version, flags);
    (answer != 0 && real::has(row)).then_some(answer)
}
