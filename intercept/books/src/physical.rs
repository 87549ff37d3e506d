//! Physical memory by handle, and where it is mapped: charged once, free when neither a handle nor a
//! mapping nor a descriptor refers to it.

use shim_cuda_headers::{CUdeviceptr, CUmemGenericAllocationHandle};

use crate::{Books, Freed, Slot};

/// Physical memory made by `cuMemCreate`: alive while a handle, a mapping or a descriptor that was
/// exported for it refers to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Physical {
    slot: Slot,
    units: u32,
    handles: u32,
    mappings: u32,
    exports: u32,
}

/// Where physical memory is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    address: CUdeviceptr,
    bytes: usize,
    physical: u64,
    /// Tells it from a later one at the same address.
    serial: u64,
}

impl Books {
    /// Enters physical memory under its handle.
    pub fn enter_handle(&mut self, handle: CUmemGenericAllocationHandle, slot: Slot, units: u32) {
        let id = self.next_physical;
        self.next_physical += 1;
        self.physical.insert(id, Physical { slot, units, handles: 1, mappings: 0, exports: 0 });
        self.handles.insert(handle, id);
    }

    /// What a handle stands for; `None` for one that is not ours. Looked up before the driver is asked
    /// to release it: once it has agreed, another thread may be given the same value.
    #[must_use]
    pub fn physical_of(&self, handle: CUmemGenericAllocationHandle) -> Option<u64> {
        self.handles.get(&handle).copied()
    }

    /// The driver released a handle that stood for `id`; what that frees.
    pub fn release_handle(
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
    pub fn begin_retain(&mut self, address: CUdeviceptr) -> Option<u64> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        let inside = address - mapping.address < mapping.bytes as u64;
        let id = inside.then_some(mapping.physical)?;
        self.physical.get_mut(&id)?.handles += 1;
        Some(id)
    }

    /// The driver gave out that handle; what is free if it stands for something else after all.
    pub fn enter_retained(
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
    pub fn drop_reference(&mut self, id: u64) -> Option<Freed> {
        let physical = self.physical.get_mut(&id)?;
        physical.handles = physical.handles.saturating_sub(1);
        self.free_if_unused(id)
    }

    /// The driver is about to export a handle. Nobody sees the end of a descriptor, which may be in
    /// another process: what has been exported is free when this process ends.
    pub fn begin_export(&mut self, handle: CUmemGenericAllocationHandle) -> Option<u64> {
        let id = self.physical_of(handle)?;
        self.physical.get_mut(&id)?.exports += 1;
        Some(id)
    }

    /// The driver did not export it; what that frees.
    pub fn export_failed(&mut self, id: u64) -> Option<Freed> {
        let physical = self.physical.get_mut(&id)?;
        physical.exports = physical.exports.saturating_sub(1);
        self.free_if_unused(id)
    }

    /// The driver is about to map a handle. It counts as mapped from here, so that nobody who releases
    /// the handle meanwhile finds the memory unused.
    pub fn begin_map(&mut self, handle: CUmemGenericAllocationHandle) -> Option<u64> {
        let id = self.physical_of(handle)?;
        self.physical.get_mut(&id)?.mappings += 1;
        Some(id)
    }

    /// The driver mapped it. If another mapping is entered there, it is gone already and its end has
    /// not been entered yet: that is done here. What it frees.
    pub fn enter_mapping(
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
    pub fn drop_mapping(&mut self, id: u64) -> Option<Freed> {
        let physical = self.physical.get_mut(&id)?;
        physical.mappings = physical.mappings.saturating_sub(1);
        self.free_if_unused(id)
    }

    /// What is mapped in a range. Looked up before the driver is asked to unmap it: once it has agreed,
    /// another thread may map something else there.
    #[must_use]
    pub fn mapped_in(&self, address: CUdeviceptr, bytes: usize) -> Vec<Mapping> {
        let end = address.saturating_add(bytes as u64);
        self.mappings.range(address..end).map(|(_, mapping)| *mapping).collect()
    }

    /// The driver unmapped these; what that frees.
    pub fn unmap(&mut self, gone: &[Mapping]) -> Vec<Freed> {
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

    /// Whether a card has any.
    pub(crate) fn has_physical(&self, slot: Slot) -> bool {
        self.physical.values().any(|physical| physical.slot == slot)
    }

    fn free_if_unused(&mut self, id: u64) -> Option<Freed> {
        let physical = *self.physical.get(&id)?;
        if physical.handles > 0 || physical.mappings > 0 || physical.exports > 0 {
            return None;
        }
        self.physical.remove(&id);
        Some((physical.slot, physical.units))
    }
}
