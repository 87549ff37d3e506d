//! Device memory of this process that other processes may be given: which of its blocks are
//! chunks of the machine, and how one of theirs comes here.

use crate::blocks::{self, BLOCK_BYTES};
use crate::{pages, process};
use rustix::fd::{AsFd, OwnedFd};
use shim_cuda_headers::CUresult;
use simcuda_protocol::{Reply, Request, Share};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A block that is a chunk.
#[derive(Clone, Copy, Debug)]
struct Shared {
    chunk: u64,
    bytes: u64,
    /// Number by which others find it, if it was exported.
    token: Option<u64>,
}

/// Chunks by the address at which they are mapped.
static SHARED: Mutex<BTreeMap<u64, Shared>> = Mutex::new(BTreeMap::new());

fn shared() -> MutexGuard<'static, BTreeMap<u64, Shared>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn chunk_of(answer: (Reply, Option<OwnedFd>)) -> Result<(u64, u32, u64, OwnedFd), CUresult> {
    match answer {
        (Reply::Chunk { chunk, device, bytes }, Some(file)) => Ok((chunk, device, bytes, file)),
        _ => Err(CUresult::UNKNOWN),
    }
}

fn drop_chunk(chunk: u64) {
    // A machine that is gone has nothing to drop.
    let _ = blocks::ask(&Request::DropChunk { chunk });
}

/// A fresh block that can be given to others.
pub(crate) fn take(device: i32, bytes: u64) -> Result<u64, CUresult> {
    let device = process::card(device)?.number;
    let (chunk, _, bytes, file) = chunk_of(blocks::ask(&Request::MakeChunk { device, bytes })?)?;
    map(chunk, bytes, &file)
}

/// Puts a chunk that this process holds somewhere, and remembers where.
fn map(chunk: u64, bytes: u64, file: &OwnedFd) -> Result<u64, CUresult> {
    let base = pages::reserve(bytes, BLOCK_BYTES, 0).map_err(|_| CUresult::OUT_OF_MEMORY)?;
    if pages::fill_shared(base, bytes, file.as_fd()).is_err() {
        let _ = pages::release(base, bytes);
        drop_chunk(chunk);
        return Err(CUresult::OUT_OF_MEMORY);
    }
    shared().insert(base, Shared { chunk, bytes, token: None });
    Ok(base)
}

/// Makes a chunk of a block of this process, with its contents; nobody may be using it now.
pub(crate) fn convert(device: i32, base: u64, bytes: u64) -> Result<(), CUresult> {
    if shared().contains_key(&base) {
        return Ok(());
    }
    let device = process::card(device)?.number;
    let request = Request::Share(Share::Convert { device, bytes });
    let (chunk, _, _, file) = chunk_of(blocks::ask(&request)?)?;
    // From here on the block is charged as a chunk, whatever happens.
    shared().insert(base, Shared { chunk, bytes, token: None });
    let lost = |_| CUresult::MAP_FAILED;
    let copy = pages::reserve(bytes, BLOCK_BYTES, 0).map_err(lost)?;
    pages::fill_shared(copy, bytes, file.as_fd()).map_err(lost)?;
    pages::copy(copy, base, bytes);
    pages::fill_shared(base, bytes, file.as_fd()).map_err(lost)?;
    pages::release(copy, bytes).map_err(lost)
}

/// The chunk that the address lies in: its base.
pub(crate) fn base_of(address: u64) -> Option<u64> {
    let shared = shared();
    let (base, found) = shared.range(..=address).next_back()?;
    (address < base + found.bytes).then_some(*base)
}

/// A number by which other processes find the chunk at the base.
pub(crate) fn export(base: u64) -> Result<u64, CUresult> {
    let found = *shared().get(&base).ok_or(CUresult::INVALID_VALUE)?;
    if let Some(token) = found.token {
        return Ok(token);
    }
    let (_, descriptor) = blocks::ask(&Request::ExportChunk { chunk: found.chunk })?;
    let token = deposit(&descriptor.ok_or(CUresult::UNKNOWN)?)?;
    if let Some(found) = shared().get_mut(&base) {
        found.token = Some(token);
    }
    Ok(token)
}

/// Leaves a descriptor at the machine for others.
pub(crate) fn deposit(descriptor: &OwnedFd) -> Result<u64, CUresult> {
    let client = &process::get()?.client;
    match client.ask_with(&Request::Share(Share::Deposit), descriptor.as_fd()) {
        Ok((Reply::Token { token }, _)) => Ok(token),
        Ok((Reply::Refused(why), _)) => Err(blocks::code(why)),
        _ => Err(CUresult::UNKNOWN),
    }
}

pub(crate) fn withdraw(token: u64) {
    let _ = blocks::ask(&Request::Share(Share::Withdraw { token }));
}

/// A copy of the descriptor that somebody left under the number.
pub(crate) fn collect(token: u64) -> Result<OwnedFd, CUresult> {
    let (_, descriptor) = blocks::ask(&Request::Share(Share::Collect { token }))?;
    descriptor.ok_or(CUresult::INVALID_VALUE)
}

/// Puts a chunk of another process somewhere: where, how long, on which device.
pub(crate) fn import(token: u64) -> Result<(u64, u64, i32), CUresult> {
    let descriptor = collect(token)?;
    let process = process::get()?;
    let answer = match process.client.ask_with(&Request::ImportChunk, descriptor.as_fd()) {
        Ok((Reply::Refused(why), _)) => return Err(blocks::code(why)),
        Ok(answer) => chunk_of(answer)?,
        Err(_) => return Err(CUresult::UNKNOWN),
    };
    let (chunk, device, bytes, file) = answer;
    let own = process.cards.iter().position(|card| card.number == device);
    let Some(device) = own.and_then(|own| i32::try_from(own).ok()) else {
        drop_chunk(chunk);
        return Err(CUresult::INVALID_DEVICE);
    };
    Ok((map(chunk, bytes, &file)?, bytes, device))
}

/// Gives the block back if it is a chunk; says whether it was.
pub(crate) fn give(base: u64) -> bool {
    let Some(found) = shared().remove(&base) else { return false };
    if let Some(token) = found.token {
        withdraw(token);
    }
    let _ = pages::release(base, found.bytes);
    drop_chunk(found.chunk);
    true
}
