//! The contract between the library in a tenant's process and the broker: frames of `join.sock`
//! ([`wire`]), layout of the two shared pages ([`shm`]), versions ([`version`]).
//!
//! Both sides use this crate and nothing else of each other. It does no I/O, allocates nothing and
//! has no unsafe code; mapping the pages is each side's own business.
#![no_std]
#![forbid(unsafe_code)]

pub mod shm;
pub mod version;
pub mod wire;

/// Cards that one tenant can have.
pub const GPUS: usize = 16;

/// Bytes in one unit of the ledger. Linear allocations are charged in these.
pub const UNIT_BYTES: u64 = 512;

/// Bytes as ledger units, rounded up; `None` above what a ledger word can hold (2 TiB).
#[must_use]
pub const fn units(bytes: u64) -> Option<u32> {
    let units = bytes.div_ceil(UNIT_BYTES);
    if units <= u32::MAX as u64 { Some(units as u32) } else { None }
}

/// Ledger units as bytes.
#[must_use]
pub const fn bytes(units: u32) -> u64 {
    units as u64 * UNIT_BYTES
}
