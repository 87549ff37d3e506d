//! Virtual memory management: addresses and physical memory apart, with the driver's exact rules.
//!
//! Offset 0 only; a mapping needs free reserved addresses; it gives no access until that is set,
//! and loses it when unmapped; whole mappings are unmapped; memory is free when it is neither
//! mapped nor has a handle.

use crate::entry::{Done, Sim};
use crate::physical::{Location, Physical};
use crate::space::{Access, Kind, Region, SPACE};
use crate::{context, pages, process, raw};
use rustix::fd::{IntoRawFd, OwnedFd};
use shim_cuda_headers::*;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_ulonglong, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PINNED: u32 = 1;
const POSIX_FD: u32 = 1;
const READ_WRITE: u64 = 3;

#[derive(Debug)]
struct Mapping {
    bytes: u64,
    physical: Arc<Physical>,
    /// Flags by location, as they were set.
    access: BTreeMap<(u32, i32), u32>,
}

#[derive(Debug)]
struct Tables {
    last: u64,
    /// Handles, each with how often it was given out.
    handles: BTreeMap<u64, (Arc<Physical>, u32)>,
    reserved: BTreeMap<u64, u64>,
    mappings: BTreeMap<u64, Mapping>,
}

static TABLES: Mutex<Tables> = Mutex::new(Tables {
    last: 0x51AC_0000,
    handles: BTreeMap::new(),
    reserved: BTreeMap::new(),
    mappings: BTreeMap::new(),
});

fn tables() -> MutexGuard<'static, Tables> {
    TABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the properties ask for, if this driver can do it.
fn location(props: &CUmemAllocationProp_v1) -> Result<Location, CUresult> {
    if props.kind != PINNED {
        return Err(CUresult::INVALID_VALUE);
    }
    match props.location.kind {
        1 => process::card(props.location.id).map(|_| Location::Device(props.location.id)),
        3 if numa_node_exists(props.location.id) => Ok(Location::Host(props.location.id)),
        3 => Err(CUresult::INVALID_DEVICE),
        4 => Ok(Location::Host(0)),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

fn numa_node_exists(node: i32) -> bool {
    node == 0 || std::path::Path::new(&format!("/sys/devices/system/node/node{node}")).exists()
}

fn granularity(location: Location) -> Result<u64, CUresult> {
    match location {
        Location::Device(device) => Ok(process::card(device)?.device.granularity_bytes),
        Location::Host(_) => Ok(crate::blocks::BLOCK_BYTES),
    }
}

impl Tables {
    fn add(&mut self, physical: Physical) -> u64 {
        let number = physical.number;
        self.handles.insert(number, (Arc::new(physical), 1));
        number
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn handle(&self, handle: u64) -> Result<Arc<Physical>, CUresult> {
        self.handles
            .get(&handle)
            .map(|(physical, _)| Arc::clone(physical))
            .ok_or(CUresult::INVALID_VALUE)
    }

    /// The mappings that make up exactly this range, or none.
    fn whole(&self, base: u64, bytes: u64) -> Result<Vec<u64>, CUresult> {
        let end = base.checked_add(bytes).ok_or(CUresult::INVALID_VALUE)?;
        let mut reach = base;
        let mut bases = Vec::new();
        for (at, mapping) in self.mappings.range(base..end) {
            if *at != reach {
                return Err(CUresult::INVALID_VALUE);
            }
            bases.push(*at);
            reach += mapping.bytes;
        }
        if reach == end && bytes > 0 { Ok(bases) } else { Err(CUresult::INVALID_VALUE) }
    }

    fn is_free(&self, base: u64, end: u64) -> bool {
        let before = self.mappings.range(..end).next_back();
        before.is_none_or(|(at, mapping)| at + mapping.bytes <= base)
    }

    fn is_reserved(&self, base: u64, end: u64) -> bool {
        let before = self.reserved.range(..=base).next_back();
        before.is_some_and(|(at, bytes)| end <= at + bytes)
    }
}

/// The physical memory that is mapped at the address, and its mapping's base and size.
pub(crate) fn mapped_at(address: u64) -> Option<(Arc<Physical>, u64, u64)> {
    let tables = tables();
    let (base, mapping) = tables.mappings.range(..=address).next_back()?;
    (address < base + mapping.bytes).then(|| (Arc::clone(&mapping.physical), *base, mapping.bytes))
}

impl Sim {
    pub(crate) fn cuMemGetAllocationGranularity(
        answer: *mut usize,
        props: *const CUmemAllocationProp_v1,
        flags: CUmemAllocationGranularity_flags,
    ) -> Done {
        let location = location(&raw::get(props)?)?;
        if answer.is_null() || flags > 1 {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(answer, granularity(location)? as usize)
    }

    pub(crate) fn cuMemCreate(
        handle: *mut CUmemGenericAllocationHandle,
        bytes: usize,
        props: *const CUmemAllocationProp_v1,
        flags: c_ulonglong,
    ) -> Done {
        let props = raw::get(props)?;
        let location = location(&props)?;
        let unit = granularity(location)?;
        if handle.is_null() || flags != 0 || bytes == 0 || !(bytes as u64).is_multiple_of(unit) {
            return Err(CUresult::INVALID_VALUE);
        }
        if props.requested_handle_types & !POSIX_FD != 0 {
            return Err(CUresult::NOT_SUPPORTED);
        }
        let shareable = props.requested_handle_types & POSIX_FD != 0;
        let number = tables().next();
        let physical = Physical::create(number, bytes as u64, location, &props, shareable)?;
        raw::put(handle, tables().add(physical))
    }

    pub(crate) fn cuMemRelease(handle: CUmemGenericAllocationHandle) -> Done {
        let mut tables = tables();
        let (_, count) = tables.handles.get_mut(&handle).ok_or(CUresult::INVALID_VALUE)?;
        *count -= 1;
        let last = if *count == 0 { tables.handles.remove(&handle) } else { None };
        // Freeing asks the machine; not under the lock.
        drop(tables);
        drop(last);
        Ok(())
    }

    pub(crate) fn cuMemRetainAllocationHandle(
        handle: *mut CUmemGenericAllocationHandle,
        address: *mut c_void,
    ) -> Done {
        let (physical, _, _) =
            mapped_at(address.expose_provenance() as u64).ok_or(CUresult::INVALID_VALUE)?;
        let number = physical.number;
        raw::put(handle, number)?;
        tables().handles.entry(number).or_insert((physical, 0)).1 += 1;
        Ok(())
    }

    pub(crate) fn cuMemGetAllocationPropertiesFromHandle(
        props: *mut CUmemAllocationProp_v1,
        handle: CUmemGenericAllocationHandle,
    ) -> Done {
        let physical = tables().handle(handle)?;
        let (kind, id) = physical.kind_id;
        raw::put(
            props,
            CUmemAllocationProp_v1 {
                kind: PINNED,
                requested_handle_types: if physical.shareable { POSIX_FD } else { 0 },
                location: CUmemLocation { kind, id },
                win32_handle_meta_data: std::ptr::null_mut(),
                compression_type: 0,
                gpu_direct_rdma_capable: physical.rdma,
                usage: 0,
                reserved: [0; 4],
            },
        )
    }

    pub(crate) fn cuMemExportToShareableHandle(
        to: *mut c_void,
        handle: CUmemGenericAllocationHandle,
        kind: CUmemAllocationHandleType,
        flags: c_ulonglong,
    ) -> Done {
        let physical = tables().handle(handle)?;
        if to.is_null() || flags != 0 || kind != POSIX_FD || !physical.shareable {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(to.cast::<c_int>(), physical.export()?.into_raw_fd())
    }

    pub(crate) fn cuMemImportFromShareableHandle(
        handle: *mut CUmemGenericAllocationHandle,
        from: *mut c_void,
        kind: CUmemAllocationHandleType,
    ) -> Done {
        if handle.is_null() || kind != POSIX_FD {
            return Err(CUresult::INVALID_VALUE);
        }
        let descriptor: OwnedFd = raw::duplicate(from)?;
        let number = tables().next();
        let physical = Physical::import(number, &descriptor)?;
        raw::put(handle, tables().add(physical))
    }

    pub(crate) fn cuMemAddressReserve(
        address: *mut CUdeviceptr,
        bytes: usize,
        alignment: usize,
        hint: CUdeviceptr,
        flags: c_ulonglong,
    ) -> Done {
        let unit = crate::blocks::BLOCK_BYTES;
        let align = (alignment as u64).max(unit);
        let bytes = bytes as u64;
        if address.is_null()
            || bytes == 0
            || !bytes.is_multiple_of(4096)
            || flags != 0
            || !align.is_power_of_two()
        {
            return Err(CUresult::INVALID_VALUE);
        }
        let whole = bytes.checked_next_multiple_of(unit).ok_or(CUresult::OUT_OF_MEMORY)?;
        let base = pages::reserve(whole, align, hint).map_err(|_| CUresult::OUT_OF_MEMORY)?;
        let _ = pages::release(base + bytes, whole - bytes);
        tables().reserved.insert(base, bytes);
        raw::put(address, base)
    }

    pub(crate) fn cuMemAddressFree(base: CUdeviceptr, bytes: usize) -> Done {
        let mut tables = tables();
        let bytes = bytes as u64;
        if tables.reserved.get(&base) != Some(&bytes) || !tables.is_free(base, base + bytes) {
            return Err(CUresult::INVALID_VALUE);
        }
        tables.reserved.remove(&base);
        pages::release(base, bytes).map_err(|_| CUresult::UNKNOWN)
    }

    pub(crate) fn cuMemMap(
        base: CUdeviceptr,
        bytes: usize,
        offset: usize,
        handle: CUmemGenericAllocationHandle,
        flags: c_ulonglong,
    ) -> Done {
        let mut tables = tables();
        let physical = tables.handle(handle)?;
        let bytes = bytes as u64;
        let unit = granularity(physical.location)?;
        let end = base.checked_add(bytes).ok_or(CUresult::INVALID_VALUE)?;
        let in_shape = offset == 0 && flags == 0 && bytes > 0 && bytes <= physical.bytes;
        let aligned = base.is_multiple_of(unit) && bytes.is_multiple_of(unit);
        if !in_shape || !aligned || !tables.is_reserved(base, end) || !tables.is_free(base, end) {
            return Err(CUresult::INVALID_VALUE);
        }
        physical.map(base, bytes)?;
        let device = match physical.location {
            Location::Device(device) => device,
            Location::Host(_) => 0,
        };
        SPACE.insert(Region {
            base,
            size: bytes,
            span: bytes,
            kind: Kind::Mapping(physical.number),
            context: 0,
            device,
            access: Access::None,
            id: SPACE.fresh_id(),
        });
        tables.mappings.insert(base, Mapping { bytes, physical, access: BTreeMap::new() });
        Ok(())
    }

    pub(crate) fn cuMemUnmap(base: CUdeviceptr, bytes: usize) -> Done {
        let mut tables = tables();
        let bases = tables.whole(base, bytes as u64)?;
        context::unmapping();
        for at in &bases {
            SPACE.remove(*at, Region::is_mapping);
        }
        SPACE.settle();
        let gone: Vec<_> =
            bases.iter().filter_map(|at| Some((*at, tables.mappings.remove(at)?))).collect();
        for (at, mapping) in &gone {
            mapping.physical.unmap(*at, mapping.bytes)?;
        }
        drop(tables);
        drop(gone);
        Ok(())
    }

    pub(crate) fn cuMemSetAccess(
        base: CUdeviceptr,
        bytes: usize,
        wanted: *const CUmemAccessDesc_v1,
        count: usize,
    ) -> Done {
        let wanted = raw::get_all(wanted, count)?;
        let mut tables = tables();
        let bases = tables.whole(base, bytes as u64)?;
        for access in &wanted {
            let known = match access.location.kind {
                1 => process::card(access.location.id).is_ok(),
                2..=4 => true,
                _ => false,
            };
            if !known || ![0, 1, 3].contains(&access.flags) {
                return Err(CUresult::INVALID_VALUE);
            }
        }
        for at in bases {
            let Some(mapping) = tables.mappings.get_mut(&at) else { continue };
            for access in &wanted {
                mapping.access.insert((access.location.kind, access.location.id), access.flags);
            }
            let access = match mapping.access.values().max() {
                Some(3) => Access::ReadWrite,
                Some(1) => Access::Read,
                _ => Access::None,
            };
            SPACE.set_access(at, mapping.bytes, access);
        }
        Ok(())
    }

    pub(crate) fn cuMemGetAccess(
        flags: *mut c_ulonglong,
        at: *const CUmemLocation,
        address: CUdeviceptr,
    ) -> Done {
        let at = raw::get(at)?;
        let tables = tables();
        let found = tables.mappings.range(..=address).next_back();
        let mapping = found.filter(|(base, mapping)| address < *base + mapping.bytes);
        let (_, mapping) = match mapping {
            Some(found) => found,
            // Memory that was not made by this interface can be used by its device.
            None if SPACE.find(address).is_some() => return raw::put(flags, READ_WRITE),
            None => return Err(CUresult::INVALID_VALUE),
        };
        raw::put(flags, mapping.access.get(&(at.kind, at.id)).copied().unwrap_or(0).into())
    }
}
