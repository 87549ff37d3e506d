//! The books of one process: which allocation, handle or context holds how many units on which card,
//! so that what came in goes out once, whatever call gives it back.
//!
//! Plain data behind the process's lock; nothing here calls the driver or the broker. A function that
//! takes something out returns what is to be released, and the caller releases it when the driver
//! has agreed (or puts it back).

#![forbid(unsafe_code)]

mod backing;
mod contexts;
mod graphs;
mod host;
mod physical;
mod pools;
mod slab;
mod spread;

use std::collections::BTreeMap;

use contexts::{Context, Overhead};
use physical::Physical;
use shim_cuda_headers::{
    CUarray, CUcontext, CUdevice, CUdeviceptr, CUdeviceptr_v1, CUexternalMemory, CUlibrary,
    CUmemGenericAllocationHandle, CUmipmappedArray, CUmodule,
};
use spread::Map;

pub use backing::{
    Backing, Freeing, Gone, Home, NoRoom, PIECE_BYTES, Piece, SLAB_BYTES, Seen, Where,
};
pub use contexts::{Anew, Begin};
pub use graphs::{GraphMemory, Graphs};
pub use host::{Chunk, Extent, Room};
pub use physical::Mapping;
pub use pools::{Known, Look, PoolId, Pools, Settled, Source};

/// A tenant's card slot: below the sixteen that a page has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot(pub u8);

/// What the program knows an allocation by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    Address(CUdeviceptr),
    Array(CUarray),
    Mipmapped(CUmipmappedArray),
    Module(CUmodule),
    Library(CUlibrary),
    External(CUexternalMemory),
}

impl From<CUdeviceptr> for Place {
    fn from(address: CUdeviceptr) -> Self {
        Self::Address(address)
    }
}

impl From<CUdeviceptr_v1> for Place {
    fn from(address: CUdeviceptr_v1) -> Self {
        Self::Address(address.into())
    }
}

impl From<CUarray> for Place {
    fn from(array: CUarray) -> Self {
        Self::Array(array)
    }
}

impl From<CUmipmappedArray> for Place {
    fn from(array: CUmipmappedArray) -> Self {
        Self::Mipmapped(array)
    }
}

impl From<CUmodule> for Place {
    fn from(module: CUmodule) -> Self {
        Self::Module(module)
    }
}

impl From<CUlibrary> for Place {
    fn from(library: CUlibrary) -> Self {
        Self::Library(library)
    }
}

impl From<CUexternalMemory> for Place {
    fn from(memory: CUexternalMemory) -> Self {
        Self::External(memory)
    }
}

/// An allocation that is freed by the name it has, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    pub slot: Slot,
    pub units: u32,
    pub within: Within,
}

/// What an allocation ends with, if nobody frees it before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Within {
    Context(CUcontext),
    /// The pool's reserve is charged in its place.
    Pool(PoolId),
}

/// An allocation that was taken out, or whose fate is not sure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub allocation: Allocation,
    since: Mark,
}

/// A moment in the books' own time, which goes on when a context is about to end: the driver may give
/// the handle of an ended context out again before its end has been entered.
pub type Mark = u64;

/// The books.
#[derive(Debug, Default)]
pub struct Books {
    pub pools: Pools,
    pub graphs: Graphs,
    allocations: Map<Place, Entry>,
    physical: Map<u64, Physical>,
    next_physical: u64,
    /// Handle values are the driver's and come again after a release.
    handles: Map<CUmemGenericAllocationHandle, u64>,
    /// By address.
    mappings: BTreeMap<CUdeviceptr, Mapping>,
    next_mapping: u64,
    contexts: Map<CUcontext, Context>,
    primary: Map<CUdevice, CUcontext>,
    overhead: Map<Slot, Overhead>,
    next_overhead: u64,
    now: Mark,
    /// Before which moment everything in a context had ended.
    ended: Map<CUcontext, Mark>,
}

/// Units to release on a card.
pub type Freed = (Slot, u32);

impl Books {
    /// The moment before a call of the driver.
    #[must_use]
    pub fn now(&self) -> Mark {
        self.now
    }

    /// Whether a context has ended whose end began after `mark`.
    #[must_use]
    pub fn has_ended_since(&self, within: Within, mark: Mark) -> bool {
        let Within::Context(context) = within else { return false };
        self.ended.get(&context).is_some_and(|ended| *ended > mark)
    }

    /// Enters an allocation under what the driver gave; frees what was there and must be gone.
    #[inline]
    pub fn enter(&mut self, place: Place, allocation: Allocation) -> Option<Freed> {
        let former = self.allocations.insert(place, Entry { allocation, since: self.now })?;
        self.free(former)
    }

    /// What an entry that is out of the books frees.
    pub fn free(&mut self, entry: Entry) -> Option<Freed> {
        match entry.allocation.within {
            Within::Pool(pool) => self.pools.let_go(pool),
            Within::Context(_) => Some((entry.allocation.slot, entry.allocation.units)),
        }
    }

    /// Takes an allocation out, before the driver is asked to free it: once the driver has, another
    /// thread may be given the same address or handle.
    #[inline]
    pub fn take(&mut self, place: Place) -> Option<Entry> {
        self.allocations.remove(&place)
    }

    /// The driver did not free it: as before, unless its context ended or something else is there.
    pub fn restore(&mut self, place: Place, entry: Entry) -> Option<Freed> {
        let gone = self.has_ended_since(entry.allocation.within, entry.since);
        if gone || self.allocations.contains_key(&place) {
            return self.free(entry);
        }
        self.allocations.insert(place, entry);
        None
    }

    /// An allocation turned out to have ended; what that frees.
    pub fn forget(&mut self, place: Place, entry: Entry) -> Option<Freed> {
        if self.allocations.get(&place) != Some(&entry) {
            return None;
        }
        self.allocations.remove(&place);
        self.free(entry)
    }
}

/// What the broker wants to know of memory that can't be moved.
impl Books {
    /// Which kinds of such memory there are on a card: arrays, pools, a program's own handles, other.
    #[must_use]
    pub fn unmovable(&self, slot: Slot) -> Unmovable {
        let mut found = Unmovable::default();
        for (place, entry) in &self.allocations {
            if entry.allocation.slot == slot {
                match (place, entry.allocation.within) {
                    (Place::Array(_) | Place::Mipmapped(_), _) => found.arrays = true,
                    (Place::Address(_), Within::Pool(_)) => found.pools = true,
                    (Place::Address(_), Within::Context(_)) | (Place::External(_), _) => {
                        found.others = true;
                    }
                    // Stays on the card as the context does, and hinders nothing else.
                    (Place::Module(_) | Place::Library(_), _) => {}
                }
            }
        }
        found.pools |= self.pools.reserves(slot);
        found.handles = self.has_physical(slot);
        found
    }
}

/// Kinds of memory that can't be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unmovable {
    pub arrays: bool,
    pub pools: bool,
    pub handles: bool,
    pub others: bool,
}
