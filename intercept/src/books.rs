//! The books of one process: which allocation, handle or context holds how many units on which card,
//! so that what came in goes out once, whatever call gives it back.
//!
//! Plain data behind the process's lock; nothing here calls the driver or the broker. A function that
//! takes something out returns what is to be released, and the caller releases it when the driver
//! has agreed (or puts it back).

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasherDefault, Hasher},
};

use shim_cuda_headers::{
    CUarray, CUcontext, CUdevice, CUdeviceptr, CUdeviceptr_v1, CUmemGenericAllocationHandle,
    CUmipmappedArray,
};

use crate::{
    pools::{PoolId, Pools},
    process::Slot,
};

/// What the program knows an allocation by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Place {
    Address(CUdeviceptr),
    Array(CUarray),
    Mipmapped(CUmipmappedArray),
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

/// An allocation that is freed by the name it has, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allocation {
    pub(crate) slot: Slot,
    pub(crate) units: u32,
    pub(crate) within: Within,
}

/// What an allocation ends with, if nobody frees it before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Within {
    Context(CUcontext),
    /// The pool's reserve is charged in its place.
    Pool(PoolId),
}

/// Physical memory made by `cuMemCreate`: alive while a handle, a mapping or a descriptor that was
/// exported for it refers to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Physical {
    slot: Slot,
    units: u32,
    handles: u32,
    mappings: u32,
    exports: u32,
}

/// Where physical memory is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mapping {
    address: CUdeviceptr,
    bytes: usize,
    physical: u64,
    /// Tells it from a later one at the same address.
    serial: u64,
}

/// An allocation that was taken out, or whose fate is not sure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) allocation: Allocation,
    since: Mark,
}

/// A moment in the books' own time, which goes on when a context is about to end: the driver may give
/// the handle of an ended context out again before its end has been entered.
pub(crate) type Mark = u64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Context {
    slot: Slot,
    /// Retains of a primary context, 1 for any other.
    references: u32,
    since: Mark,
}

/// The charge for having contexts on a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Overhead {
    units: u32,
    /// Contexts, those being made among them.
    users: u32,
    charged: bool,
    serial: u64,
}

/// What whoever is about to make a context must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begin {
    /// Charge for it, then say what came of that. The number tells this charge from a later one.
    Charge(u64),
    /// Another thread is asking for the charge: wait for what comes of it.
    Wait,
    /// It is paid for.
    Paid,
}

/// A hash for numbers that the driver chose: one multiplication. The standard one withstands keys of
/// an attacker, who could only slow down his own process here.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 over the golden ratio, as Knuth has it; the high half is the well mixed one.
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// The books.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) pools: Pools,
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

/// A context's handle stands for a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Anew;

/// Units to release on a card.
pub(crate) type Freed = (Slot, u32);

impl Books {
    /// The moment before a call of the driver.
    pub(crate) fn now(&self) -> Mark {
        self.now
    }

    /// Whether a context has ended whose end began after `mark`.
    pub(crate) fn has_ended_since(&self, within: Within, mark: Mark) -> bool {
        let Within::Context(context) = within else { return false };
        self.ended.get(&context).is_some_and(|ended| *ended > mark)
    }

    /// Enters an allocation under what the driver gave; frees what was there and must be gone.
    pub(crate) fn enter(&mut self, place: Place, allocation: Allocation) -> Option<Freed> {
        let former = self.allocations.insert(place, Entry { allocation, since: self.now })?;
        self.free(former)
    }

    /// What an entry that is out of the books frees.
    pub(crate) fn free(&mut self, entry: Entry) -> Option<Freed> {
        match entry.allocation.within {
            Within::Pool(pool) => self.pools.let_go(pool),
            Within::Context(_) => Some((entry.allocation.slot, entry.allocation.units)),
        }
    }

    /// Takes an allocation out, before the driver is asked to free it: once the driver has, another
    /// thread may be given the same address or handle.
    pub(crate) fn take(&mut self, place: Place) -> Option<Entry> {
        self.allocations.remove(&place)
    }

    /// The driver did not free it: as before, unless its context ended or something else is there.
    pub(crate) fn restore(&mut self, place: Place, entry: Entry) -> Option<Freed> {
        let gone = self.has_ended_since(entry.allocation.within, entry.since);
        if gone || self.allocations.contains_key(&place) {
            return self.free(entry);
        }
        self.allocations.insert(place, entry);
        None
    }

    /// An allocation turned out to have ended; what that frees.
    pub(crate) fn forget(&mut self, place: Place, entry: Entry) -> Option<Freed> {
        if self.allocations.get(&place) != Some(&entry) {
            return None;
        }
        self.allocations.remove(&place);
        self.free(entry)
    }

    /// Enters physical memory under its handle.
    pub(crate) fn enter_handle(
        &mut self,
        handle: CUmemGenericAllocationHandle,
        slot: Slot,
        units: u32,
    ) {
        let id = self.next_physical;
        self.next_physical += 1;
        self.physical.insert(id, Physical { slot, units, handles: 1, mappings: 0, exports: 0 });
        self.handles.insert(handle, id);
    }

    /// What a handle stands for; `None` for one that is not ours. Looked up before the driver is asked
    /// to release it: once it has agreed, another thread may be given the same value.
    pub(crate) fn physical_of(&self, handle: CUmemGenericAllocationHandle) -> Option<u64> {
        self.handles.get(&handle).copied()
    }

    /// The driver released a handle that stood for `id`; what that frees.
    pub(crate) fn release_handle(
        &mut self,
        handle: CUmemGenericAllocationHandle,
        id: u64,
    ) -> Option<Freed> {
        let freed = self.drop_reference(id);
        if self.physical.get(&id).is_none_or(|physical| physical.handles == 0)
            && self.handles.get(&handle) == Some(&id)
        {
            self.handles.remove(&handle);
        }
        freed
    }

    /// The driver is about to give out a handle for what is mapped at an address. The reference counts
    /// from here, so that nobody who unmaps meanwhile finds the memory unused.
    pub(crate) fn begin_retain(&mut self, address: CUdeviceptr) -> Option<u64> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        let inside = address - mapping.address < mapping.bytes as u64;
        let id = inside.then_some(mapping.physical)?;
        self.physical.get_mut(&id)?.handles += 1;
        Some(id)
    }

    /// The driver gave out that handle; what is free if it stands for something else after all.
    pub(crate) fn enter_retained(
        &mut self,
        handle: CUmemGenericAllocationHandle,
        id: u64,
    ) -> Option<Freed> {
        let known = *self.handles.entry(handle).or_insert(id);
        if known == id {
            return None;
        }
        if let Some(physical) = self.physical.get_mut(&known) {
            physical.handles += 1;
        }
        self.drop_reference(id)
    }

    /// A handle's reference is gone; what that frees.
    pub(crate) fn drop_reference(&mut self, id: u64) -> Option<Freed> {
        let physical = self.physical.get_mut(&id)?;
        physical.handles = physical.handles.saturating_sub(1);
        self.free_if_unused(id)
    }

    /// The driver is about to export a handle. Nobody sees the end of a descriptor, which may be in
    /// another process: what has been exported is free when this process ends.
    pub(crate) fn begin_export(&mut self, handle: CUmemGenericAllocationHandle) -> Option<u64> {
        let id = self.physical_of(handle)?;
        self.physical.get_mut(&id)?.exports += 1;
        Some(id)
    }

    /// The driver did not export it; what that frees.
    pub(crate) fn export_failed(&mut self, id: u64) -> Option<Freed> {
        let physical = self.physical.get_mut(&id)?;
        physical.exports = physical.exports.saturating_sub(1);
        self.free_if_unused(id)
    }

    /// The driver is about to map a handle. It counts as mapped from here, so that nobody who releases
    /// the handle meanwhile finds the memory unused.
    pub(crate) fn begin_map(&mut self, handle: CUmemGenericAllocationHandle) -> Option<u64> {
        let id = self.physical_of(handle)?;
        self.physical.get_mut(&id)?.mappings += 1;
        Some(id)
    }

    /// The driver mapped it. If another mapping is entered there, it is gone already and its end has
    /// not been entered yet: that is done here. What it frees.
    pub(crate) fn enter_mapping(
        &mut self,
        address: CUdeviceptr,
        bytes: usize,
        physical: u64,
    ) -> Option<Freed> {
        let serial = self.next_mapping;
        self.next_mapping += 1;
        let mapping = Mapping { address, bytes, physical, serial };
        let former = self.mappings.insert(address, mapping)?;
        self.drop_mapping(former.physical)
    }

    /// A mapping is gone, or did not come about; what that frees.
    pub(crate) fn drop_mapping(&mut self, id: u64) -> Option<Freed> {
        let physical = self.physical.get_mut(&id)?;
        physical.mappings = physical.mappings.saturating_sub(1);
        self.free_if_unused(id)
    }

    /// What is mapped in a range. Looked up before the driver is asked to unmap it: once it has agreed,
    /// another thread may map something else there.
    pub(crate) fn mapped_in(&self, address: CUdeviceptr, bytes: usize) -> Vec<Mapping> {
        let end = address.saturating_add(bytes as u64);
        self.mappings.range(address..end).map(|(_, mapping)| *mapping).collect()
    }

    /// The driver unmapped these; what that frees.
    pub(crate) fn unmap(&mut self, gone: &[Mapping]) -> Vec<Freed> {
        gone.iter()
            .filter_map(|mapping| {
                if self.mappings.get(&mapping.address) != Some(mapping) {
                    return None;
                }
                self.mappings.remove(&mapping.address);
                self.drop_mapping(mapping.physical)
            })
            .collect()
    }

    fn free_if_unused(&mut self, id: u64) -> Option<Freed> {
        let physical = *self.physical.get(&id)?;
        if physical.handles > 0 || physical.mappings > 0 || physical.exports > 0 {
            return None;
        }
        self.physical.remove(&id);
        Some((physical.slot, physical.units))
    }

    /// A context on a card is about to be made (`makes`), or was met that nobody entered.
    pub(crate) fn begin_overhead(&mut self, slot: Slot, units: u32, makes: bool) -> Begin {
        let users = u32::from(makes);
        match self.overhead.get_mut(&slot) {
            Some(overhead) if !overhead.charged => Begin::Wait,
            Some(overhead) => {
                overhead.users += users;
                Begin::Paid
            }
            None => {
                let serial = self.next_overhead;
                self.next_overhead += 1;
                self.overhead.insert(slot, Overhead { units, users, charged: false, serial });
                Begin::Charge(serial)
            }
        }
    }

    /// What came of the charge.
    pub(crate) fn overhead_charged(&mut self, slot: Slot, charged: bool) {
        if !charged {
            self.overhead.remove(&slot);
        } else if let Some(overhead) = self.overhead.get_mut(&slot) {
            overhead.charged = true;
        }
    }

    /// The charge of that number turned out to be this much. False if it has been given back.
    pub(crate) fn overhead_is(&mut self, slot: Slot, serial: u64, units: u32) -> bool {
        let overhead = self.overhead.get_mut(&slot).filter(|o| o.serial == serial);
        overhead.map(|o| o.units = units).is_some()
    }

    /// A context has ended or did not come about; what is free if it was the last.
    pub(crate) fn end_overhead(&mut self, slot: Slot) -> Option<Freed> {
        let overhead = self.overhead.get_mut(&slot)?;
        overhead.users = overhead.users.saturating_sub(1);
        if overhead.users > 0 || !overhead.charged {
            return None;
        }
        let freed = (slot, overhead.units);
        self.overhead.remove(&slot);
        Some(freed)
    }

    /// A context was made, or a primary one retained once more; frees the charge for one known already.
    pub(crate) fn enter_context(
        &mut self,
        context: CUcontext,
        slot: Slot,
        primary_of: Option<CUdevice>,
    ) -> Option<Freed> {
        let known = self.contexts.get(&context).copied();
        let mut references = 1;
        if let Some(device) = primary_of {
            self.primary.insert(device, context);
            references += known.map_or(0, |c| c.references);
        }
        self.contexts.insert(context, Context { slot, references, since: self.now });
        known.and_then(|known| self.end_overhead(known.slot))
    }

    /// The card of a context that is known.
    pub(crate) fn slot_of(&self, context: CUcontext) -> Option<Slot> {
        self.contexts.get(&context).map(|c| c.slot)
    }

    /// The primary context of a device, if this process has retained it.
    pub(crate) fn primary_of(&self, device: CUdevice) -> Option<CUcontext> {
        self.primary.get(&device).copied()
    }

    /// A context may be about to end: from here on, what is entered may be of its successor.
    pub(crate) fn mark(&mut self) -> Mark {
        self.now += 1;
        self.now
    }

    /// One reference to a primary context is gone. Whether it was the last.
    pub(crate) fn release_context(&mut self, context: CUcontext) -> bool {
        let Some(known) = self.contexts.get_mut(&context) else { return false };
        known.references = known.references.saturating_sub(1);
        known.references == 0
    }

    /// All that was in a context before `mark` has ended: what that frees, and what came since, whose
    /// fate only the driver knows.
    pub(crate) fn end_context(
        &mut self,
        context: CUcontext,
        mark: Mark,
    ) -> (Vec<Freed>, Vec<(Place, Entry)>) {
        let ended = self.ended.entry(context).or_insert(mark);
        *ended = mark.max(*ended);
        let (mut freed, mut unsure) = (Vec::new(), Vec::new());
        self.allocations.retain(|place, entry| {
            if entry.allocation.within != Within::Context(context) {
                return true;
            }
            if entry.since >= mark {
                unsure.push((*place, *entry));
                return true;
            }
            freed.push((entry.allocation.slot, entry.allocation.units));
            false
        });
        (freed, unsure)
    }

    /// A context is no more; what is free if it was the card's last. [`Anew`] if it was made or
    /// retained since `mark`.
    pub(crate) fn leave_context(
        &mut self,
        context: CUcontext,
        mark: Mark,
    ) -> Result<Option<Freed>, Anew> {
        let Some(known) = self.contexts.get(&context).copied() else { return Ok(None) };
        if known.since >= mark {
            return Err(Anew);
        }
        self.contexts.remove(&context);
        Ok(self.end_overhead(known.slot))
    }
}
