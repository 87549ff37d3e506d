//! Blocks of private device memory: charged at the machine, then mapped here.

use crate::{fault, pages, process, shared_blocks};
use rustix::fd::{AsFd, OwnedFd};
use shim_cuda_headers::CUresult;
use simcuda_protocol::{Charge, Refusal, Reply, Request};
use std::sync::OnceLock;

/// Unit in which device memory is handed out.
pub(crate) const BLOCK_BYTES: u64 = 2 << 20;

/// What a refusal of the machine is in the driver's codes.
pub(crate) fn code(refusal: Refusal) -> CUresult {
    match refusal {
        Refusal::OutOfMemory | Refusal::Host => CUresult::OUT_OF_MEMORY,
        Refusal::NoSuchDevice => CUresult::INVALID_DEVICE,
        Refusal::NoSuchChunk => CUresult::INVALID_VALUE,
        Refusal::Lost => CUresult::UNKNOWN,
        Refusal::NotHeld | Refusal::OtherVersion { .. } | Refusal::Malformed => CUresult::UNKNOWN,
    }
}

/// Asks the machine; a machine that is gone is error 999, as a lost driver.
pub(crate) fn ask(request: &Request) -> Result<(Reply, Option<OwnedFd>), CUresult> {
    match process::get()?.client.ask(request) {
        Ok((Reply::Refused(why), _)) => Err(code(why)),
        Ok(answer) => Ok(answer),
        Err(_) => Err(CUresult::UNKNOWN),
    }
}

/// Takes `bytes` of the card, without memory behind them.
pub(crate) fn charge(device: i32, bytes: u64, charge: Charge) -> Result<(), CUresult> {
    let device = process::card(device)?.number;
    ask(&Request::Charge { device, bytes, charge }).map(drop)
}

pub(crate) fn release(device: i32, bytes: u64, charge: Charge) {
    if let Ok(card) = process::card(device) {
        // A machine that is gone has nothing to give back to.
        let _ = ask(&Request::Release { device: card.number, bytes, charge });
    }
}

/// The machine's pattern file, fetched once.
pub(crate) fn pattern() -> Result<&'static OwnedFd, CUresult> {
    static PATTERN: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(file) = PATTERN.get() {
        return Ok(file);
    }
    let (_, file) = ask(&Request::Pattern)?;
    Ok(PATTERN
        .get_or_init(|| file.unwrap_or_else(|| unreachable!("a pattern comes with its file"))))
}

/// Device memory of its own, for a multiple of [`BLOCK_BYTES`].
pub(crate) fn take(device: i32, bytes: u64, why: Charge) -> Result<u64, CUresult> {
    charge(device, bytes, why)?;
    map(bytes).inspect_err(|_| release(device, bytes, why))
}

/// Private memory that nobody is charged for yet.
pub(crate) fn map(bytes: u64) -> Result<u64, CUresult> {
    let pattern = pattern()?.as_fd();
    let base = pages::reserve(bytes, BLOCK_BYTES, 0).map_err(|_| CUresult::OUT_OF_MEMORY)?;
    if pages::fill_private(base, bytes, pattern).is_err() || fault::breaks_half_way() {
        let _ = pages::release(base, bytes);
        return Err(CUresult::OUT_OF_MEMORY);
    }
    Ok(base)
}

/// Gives a block back. Its regions have left the address space, and that is settled.
pub(crate) fn give(device: i32, base: u64, bytes: u64, why: Charge) {
    if shared_blocks::give(base) {
        return;
    }
    // Addresses that the kernel will not take back stay reserved; the card's bytes are free.
    let _ = pages::release(base, bytes);
    release(device, bytes, why);
}
