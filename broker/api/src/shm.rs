//! Layout of the two pages that a tenant's process and the broker share, as `repr(C)` structs of
//! atomics. Each process gets a pair of its own, made by the broker as memfds.
//!
//! [`BrokerPage`] is written by the broker and mapped read-only by the client (sealed `SHRINK`,
//! `GROW`, `FUTURE_WRITE`, `SEAL`). [`ClientPage`] is written by the client (sealed `SHRINK`,
//! `GROW`, `SEAL`); for the broker it is a hint from a hostile writer: every word is read once and
//! then checked, none is waited on or used as an index. No lock lives in either.
//! Pages are never adopted across a broker's life: a re-join hands out new ones.

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::GPUS;

/// First word of both pages: `HWPAGE` and the layout's major version.
pub const PAGE_MAGIC: u64 = u64::from_le_bytes(*b"HWPAGE\x01\0");
/// Announce slots, one for each of a process's first threads; further threads share the last.
pub const SLOTS: usize = 64;
/// Counters, indexed by row: driver rows first, NVML rows after [`NVML_COUNTERS`].
pub const COUNTERS: usize = 2048;
/// Index of the first NVML row's counter.
pub const NVML_COUNTERS: usize = 1024;
/// Events that the ring holds before the oldest is overwritten.
pub const RING: usize = 256;

/// A gate that is open; any other value is closed. Threads that wait sleep on the word (a shared
/// futex, at most 250 ms at a time); the broker wakes all when it opens the gate.
pub const GATE_OPEN: u32 = 0;
/// Closed because it is somebody else's turn.
pub const GATE_CLOSED: u32 = 1;
/// A lease gate closed while the process has no work: the next launch makes it known.
pub const GATE_ARMED: u32 = 2;

/// What the broker says to one process.
#[repr(C)]
#[derive(Debug)]
pub struct BrokerPage {
    /// [`PAGE_MAGIC`], stored last.
    pub magic: AtomicU64,
    /// Changes whenever a broker starts.
    pub generation: AtomicU64,
    /// `CLOCK_MONOTONIC` nanoseconds until which the broker calls itself alive; pushed every 250 ms.
    pub alive_until_ns: AtomicU64,
    /// Processes of the tenant that are joined.
    pub processes: AtomicU32,
    reserved: [AtomicU32; 9],
    /// By the tenant's card slot.
    pub gpus: [BrokerGpu; GPUS],
}

/// The broker's words about one card; a cache line.
#[repr(C)]
#[derive(Debug)]
pub struct BrokerGpu {
    /// May this process touch device memory?
    pub residency_gate: AtomicU32,
    /// May it submit compute?
    pub lease_gate: AtomicU32,
    /// The tenant's limit in units; changes while running.
    pub limit_units: AtomicU32,
    /// Asks of so many units or more are refused without asking, and what is released is given back at
    /// once; 0: nothing is refused so.
    pub exhausted: AtomicU32,
    /// Rises by one, wrapping, whenever the lease gate changes, stored before it.
    pub lease: AtomicU32,
    /// Most GPU time that may be in flight at once, in nanoseconds; 0: not bounded, nothing metered.
    pub bound_ns: AtomicU32,
    /// Rises by one, wrapping, whenever the residency gate changes, stored before it.
    pub residency: AtomicU32,
    reserved_word: AtomicU32,
    reserved: [AtomicU64; 4],
}

/// What one process says to the broker.
#[repr(C)]
#[derive(Debug)]
pub struct ClientPage {
    /// [`PAGE_MAGIC`], stored by the broker when it makes the page.
    pub magic: AtomicU64,
    reserved: [AtomicU64; 7],
    /// By card slot: the ledger word (see the gate crate), each on a line of its own.
    pub ledger: [LedgerLine; GPUS],
    /// By thread.
    pub slots: [AnnounceSlot; SLOTS],
    /// Calls by row; wraps.
    pub counters: [AtomicU64; COUNTERS],
    /// Number of events ever written to `ring`.
    pub ring_head: AtomicU64,
    reserved_head: [AtomicU64; 7],
    pub ring: [RingEvent; RING],
}

/// A ledger word on a line of its own: low half `held`, high half `allowed`, in units.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct LedgerLine {
    pub word: AtomicU64,
}

/// A thread's announcement that it is between the check of a gate and the driver's return.
///
/// `announced` is 0, or in bits 0 to 7 what the thread does (1: touches device memory, 2: launches)
/// and above them the card's slot plus one, or 0 for every card. In the last slot, which threads
/// share, it is a pair of counters: launches in the upper half, other calls in the lower.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct AnnounceSlot {
    pub announced: AtomicU32,
    pub tid: AtomicU32,
}

/// One typed event of the process's own history, for `halfwarp trace`.
#[repr(C)]
#[derive(Debug)]
pub struct RingEvent {
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub at_ns: AtomicU64,
    pub tid: AtomicU32,
    /// Row index of the driver function.
    pub function: AtomicU32,
    pub result: AtomicU32,
    pub gpu: AtomicU32,
    pub bytes: AtomicU64,
}

/// Bytes of a memfd that holds a [`BrokerPage`].
pub const BROKER_PAGE_BYTES: usize = 4096;
/// Bytes of a memfd that holds a [`ClientPage`].
pub const CLIENT_PAGE_BYTES: usize = 32768;

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<BrokerGpu>() == 64, "one cache line a card");
    assert!(offset_of!(BrokerPage, gpus) == 64);
    assert!(size_of::<BrokerPage>() <= BROKER_PAGE_BYTES);
    assert!(offset_of!(ClientPage, ledger) == 64);
    assert!(offset_of!(ClientPage, slots) == 64 + 64 * GPUS);
    assert!(offset_of!(ClientPage, counters) == 64 + 64 * GPUS + 64 * SLOTS);
    assert!(size_of::<RingEvent>() == 32);
    assert!(size_of::<ClientPage>() <= CLIENT_PAGE_BYTES);
};
