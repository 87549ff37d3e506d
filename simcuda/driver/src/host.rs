//! Host memory that the driver knows: allocated by it, or the program's own made known to it.
//! It is never charged to a card.

use crate::context;
use crate::entry::{Done, Sim};
use crate::space::{Access, Kind, Region, SPACE};
use crate::{linear, pages, raw};
use shim_cuda_headers::{CUdeviceptr, CUresult};
use std::ffi::{c_uint, c_void};

const PAGE_BYTES: u64 = 4096;
const KNOWN_ALLOC_FLAGS: c_uint = 7;
const KNOWN_REGISTER_FLAGS: c_uint = 15;

fn address_of(pointer: *mut c_void) -> u64 {
    pointer.expose_provenance() as u64
}

fn insert(base: u64, size: u64, span: u64, kind: Kind, context: &context::Context) {
    SPACE.insert(Region {
        base,
        size,
        span,
        kind,
        context: context.handle,
        device: context.device,
        access: Access::ReadWrite,
        id: SPACE.fresh_id(),
    });
}

impl Sim {
    pub(crate) fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Done {
        let context = context::working()?;
        if pointer.is_null() || bytes == 0 || flags & !KNOWN_ALLOC_FLAGS != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let span =
            (bytes as u64).checked_next_multiple_of(PAGE_BYTES).ok_or(CUresult::OUT_OF_MEMORY)?;
        let base = linear::host_pages(span)?;
        insert(base, bytes as u64, span, Kind::Host(flags), &context);
        raw::put(pointer, std::ptr::with_exposed_provenance_mut(base as usize))
    }

    pub(crate) fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) -> Done {
        Self::cuMemHostAlloc(pointer, bytes, 0)
    }

    pub(crate) fn cuMemFreeHost(pointer: *mut c_void) -> Done {
        let context = context::current()?;
        if pointer.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        context.engine.wait_idle();
        let ours = |region: &Region| matches!(region.kind, Kind::Host(_));
        let region = SPACE.remove(address_of(pointer), ours).ok_or(CUresult::INVALID_VALUE)?;
        SPACE.settle();
        pages::release(region.base, region.span).map_err(|_| CUresult::UNKNOWN)
    }

    pub(crate) fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) -> Done {
        let context = context::working()?;
        if pointer.is_null() || bytes == 0 || flags & !KNOWN_REGISTER_FLAGS != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let base = address_of(pointer);
        let end = base.checked_add(bytes as u64).ok_or(CUresult::INVALID_VALUE)?;
        if SPACE.find(base).is_some() || !SPACE.within(base, end - base).is_empty() {
            return Err(CUresult::HOST_MEMORY_ALREADY_REGISTERED);
        }
        insert(base, bytes as u64, bytes as u64, Kind::Registered(flags), &context);
        Ok(())
    }

    pub(crate) fn cuMemHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint) -> Done {
        Self::cuMemHostRegister_v2(pointer, bytes, flags)
    }

    pub(crate) fn cuMemHostUnregister(pointer: *mut c_void) -> Done {
        let context = context::current()?;
        if pointer.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        context.engine.wait_idle();
        let registered = |region: &Region| matches!(region.kind, Kind::Registered(_));
        SPACE
            .remove(address_of(pointer), registered)
            .ok_or(CUresult::HOST_MEMORY_NOT_REGISTERED)?;
        SPACE.settle();
        Ok(())
    }

    pub(crate) fn cuMemHostGetDevicePointer_v2(
        address: *mut CUdeviceptr,
        pointer: *mut c_void,
        flags: c_uint,
    ) -> Done {
        context::current()?;
        let known = SPACE.find(address_of(pointer)).filter(|region| !region.is_device());
        if known.is_none() || flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(address, address_of(pointer))
    }

    pub(crate) fn cuMemHostGetFlags(flags: *mut c_uint, pointer: *mut c_void) -> Done {
        context::current()?;
        match SPACE.find(address_of(pointer)).map(|region| region.kind) {
            // Everything is mapped, as on every system with unified addresses.
            Some(Kind::Host(given) | Kind::Registered(given)) => raw::put(flags, given | 2),
            _ => Err(CUresult::INVALID_VALUE),
        }
    }
}
