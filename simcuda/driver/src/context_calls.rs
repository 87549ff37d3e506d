//! The calls about contexts: primary and made ones, the thread's stack, and what may be asked.

use crate::context::{self, CONTEXTS, Context};
use crate::entry::{Done, Sim};
use crate::{capture, process, raw, stream};
use shim_cuda_headers::*;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bits that a context's flags may have: scheduling, host mapping, local memory, core dumps.
const KNOWN_FLAGS: c_uint = 0xFF;
/// Version that `cuCtxGetApiVersion` reports for contexts of the present form.
const API_VERSION: c_uint = 3020;

/// A device's primary context.
#[derive(Debug, Default)]
struct Primary {
    handle: usize,
    retained: u32,
    flags: c_uint,
}

static PRIMARIES: Mutex<BTreeMap<i32, Primary>> = Mutex::new(BTreeMap::new());

fn primaries() -> MutexGuard<'static, BTreeMap<i32, Primary>> {
    PRIMARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_flags(flags: c_uint) -> Done {
    // Of the three ways to wait only one may be named.
    let scheduling = (flags & 7).count_ones() <= 1;
    if scheduling && flags & !KNOWN_FLAGS == 0 { Ok(()) } else { Err(CUresult::INVALID_VALUE) }
}

impl Sim {
    pub(crate) fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> Done {
        process::card(device)?;
        if context.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let mut primaries = primaries();
        let primary = primaries.entry(device).or_default();
        if primary.handle == 0 {
            primary.handle = CONTEXTS.fresh();
        }
        if CONTEXTS.get(primary.handle).is_none() {
            context::create(device, primary.flags, Some(primary.handle))?;
        }
        primary.retained += 1;
        raw::put(context, CUcontext(primary.handle))
    }

    pub(crate) fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> Done {
        process::card(device)?;
        let mut primaries = primaries();
        let primary = primaries.entry(device).or_default();
        if primary.retained == 0 {
            return Err(CUresult::INVALID_CONTEXT);
        }
        primary.retained -= 1;
        if primary.retained == 0
            && let Some(context) = CONTEXTS.get(primary.handle)
        {
            context::destroy(&context);
        }
        Ok(())
    }

    pub(crate) fn cuDevicePrimaryCtxRelease(device: CUdevice) -> Done {
        Self::cuDevicePrimaryCtxRelease_v2(device)
    }

    pub(crate) fn cuDevicePrimaryCtxReset_v2(device: CUdevice) -> Done {
        process::card(device)?;
        let primaries = primaries();
        let Some(primary) = primaries.get(&device) else { return Ok(()) };
        let Some(context) = CONTEXTS.get(primary.handle) else { return Ok(()) };
        context::destroy(&context);
        // Whoever retained it keeps a fresh one.
        if primary.retained > 0 {
            context::create(device, primary.flags, Some(primary.handle))?;
        }
        Ok(())
    }

    pub(crate) fn cuDevicePrimaryCtxReset(device: CUdevice) -> Done {
        Self::cuDevicePrimaryCtxReset_v2(device)
    }

    pub(crate) fn cuDevicePrimaryCtxGetState(
        device: CUdevice,
        flags: *mut c_uint,
        active: *mut c_int,
    ) -> Done {
        process::card(device)?;
        let mut primaries = primaries();
        let primary = primaries.entry(device).or_default();
        raw::put(flags, primary.flags)?;
        raw::put(active, c_int::from(CONTEXTS.get(primary.handle).is_some()))
    }

    pub(crate) fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint) -> Done {
        process::card(device)?;
        check_flags(flags)?;
        let mut primaries = primaries();
        let primary = primaries.entry(device).or_default();
        primary.flags = flags;
        if let Some(context) = CONTEXTS.get(primary.handle) {
            context.flags.store(flags, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn cuDevicePrimaryCtxSetFlags(device: CUdevice, flags: c_uint) -> Done {
        Self::cuDevicePrimaryCtxSetFlags_v2(device, flags)
    }

    pub(crate) fn cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice) -> Done {
        process::card(device)?;
        check_flags(flags)?;
        if context.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let made = context::create(device, flags, None)?;
        context::push(made.handle);
        raw::put(context, CUcontext(made.handle))
    }

    pub(crate) fn cuCtxCreate(context: *mut CUcontext, flags: c_uint, device: CUdevice) -> Done {
        Self::cuCtxCreate_v2(context, flags, device)
    }

    pub(crate) fn cuCtxCreate_v3(
        context: *mut CUcontext,
        _: *mut CUexecAffinityParam,
        affinities: c_int,
        flags: c_uint,
        device: CUdevice,
    ) -> Done {
        if affinities != 0 {
            return Err(CUresult::UNSUPPORTED_EXEC_AFFINITY);
        }
        Self::cuCtxCreate_v2(context, flags, device)
    }

    pub(crate) fn cuCtxCreate_v4(
        context: *mut CUcontext,
        params: *mut CUctxCreateParams,
        flags: c_uint,
        device: CUdevice,
    ) -> Done {
        if !params.is_null() {
            // Affinity, or a graphics context to share with: neither exists here.
            return Err(CUresult::NOT_SUPPORTED);
        }
        Self::cuCtxCreate_v2(context, flags, device)
    }

    pub(crate) fn cuCtxDestroy_v2(context: CUcontext) -> Done {
        let found = CONTEXTS.get(context.0).ok_or(CUresult::INVALID_CONTEXT)?;
        if found.primary {
            return Err(CUresult::INVALID_CONTEXT);
        }
        context::destroy(&found);
        if context::current_handle() == context.0 {
            context::pop();
        }
        Ok(())
    }

    pub(crate) fn cuCtxDestroy(context: CUcontext) -> Done {
        Self::cuCtxDestroy_v2(context)
    }

    pub(crate) fn cuCtxPushCurrent_v2(context: CUcontext) -> Done {
        CONTEXTS.get(context.0).ok_or(CUresult::INVALID_CONTEXT)?;
        context::push(context.0);
        Ok(())
    }

    pub(crate) fn cuCtxPushCurrent(context: CUcontext) -> Done {
        Self::cuCtxPushCurrent_v2(context)
    }

    pub(crate) fn cuCtxPopCurrent_v2(context: *mut CUcontext) -> Done {
        let popped = context::pop().ok_or(CUresult::INVALID_CONTEXT)?;
        raw::put_if_wanted(context, CUcontext(popped));
        Ok(())
    }

    pub(crate) fn cuCtxPopCurrent(context: *mut CUcontext) -> Done {
        Self::cuCtxPopCurrent_v2(context)
    }

    pub(crate) fn cuCtxSetCurrent(context: CUcontext) -> Done {
        if context.0 != 0 {
            CONTEXTS.get(context.0).ok_or(CUresult::INVALID_CONTEXT)?;
        }
        context::set_current(context.0);
        Ok(())
    }

    pub(crate) fn cuCtxGetCurrent(context: *mut CUcontext) -> Done {
        raw::put(context, CUcontext(context::current_handle()))
    }

    pub(crate) fn cuCtxGetDevice(device: *mut CUdevice) -> Done {
        raw::put(device, context::current()?.device)
    }

    pub(crate) fn cuCtxGetDevice_v2(device: *mut CUdevice, context: CUcontext) -> Done {
        raw::put(device, context::named(context)?.device)
    }

    pub(crate) fn cuCtxGetId(context: CUcontext, id: *mut c_ulonglong) -> Done {
        raw::put(id, context::named(context)?.handle as c_ulonglong)
    }

    pub(crate) fn cuCtxGetFlags(flags: *mut c_uint) -> Done {
        raw::put(flags, context::current()?.flags.load(Ordering::Relaxed))
    }

    pub(crate) fn cuCtxSetFlags(flags: c_uint) -> Done {
        let context = context::current()?;
        check_flags(flags)?;
        context.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn cuCtxGetApiVersion(context: CUcontext, version: *mut c_uint) -> Done {
        context::named(context)?;
        raw::put(version, API_VERSION)
    }

    pub(crate) fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> Done {
        context::current()?;
        raw::put_if_wanted(least, 0);
        raw::put_if_wanted(greatest, stream::GREATEST_PRIORITY);
        Ok(())
    }

    pub(crate) fn cuCtxSynchronize() -> Done {
        synchronize(&context::current()?)
    }

    pub(crate) fn cuCtxSynchronize_v2(context: CUcontext) -> Done {
        synchronize(&context::named(context)?)
    }

    /// Partial: says what was set.
    pub(crate) fn cuCtxGetLimit(value: *mut usize, limit: CUlimit) -> Done {
        let context = context::current()?;
        raw::put(value, *context.limits().field(limit)?)
    }

    /// Partial: remembered, changes nothing.
    pub(crate) fn cuCtxSetLimit(limit: CUlimit, value: usize) -> Done {
        let context = context::working()?;
        *context.limits().field(limit)? = value;
        Ok(())
    }

    /// Partial: says what was set.
    pub(crate) fn cuCtxGetCacheConfig(config: *mut CUfunc_cache) -> Done {
        raw::put(config, context::current()?.limits().cache)
    }

    /// Partial: remembered, changes nothing.
    pub(crate) fn cuCtxSetCacheConfig(config: CUfunc_cache) -> Done {
        const LAST: CUfunc_cache = 3;
        let context = context::current()?;
        if config > LAST {
            return Err(CUresult::INVALID_VALUE);
        }
        context.limits().cache = config;
        Ok(())
    }

    /// Partial: says what was set.
    pub(crate) fn cuCtxGetSharedMemConfig(config: *mut CUsharedconfig) -> Done {
        raw::put(config, context::current()?.limits().shared)
    }

    /// Partial: remembered, changes nothing.
    pub(crate) fn cuCtxSetSharedMemConfig(config: CUsharedconfig) -> Done {
        const LAST: CUsharedconfig = 2;
        let context = context::current()?;
        if config > LAST {
            return Err(CUresult::INVALID_VALUE);
        }
        context.limits().shared = config;
        Ok(())
    }

    /// Partial: there is no such cache.
    pub(crate) fn cuCtxResetPersistingL2Cache() -> Done {
        context::current().map(drop)
    }

    pub(crate) fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) -> Done {
        let own = context::current()?;
        let peer = CONTEXTS.get(peer.0).ok_or(CUresult::INVALID_CONTEXT)?;
        if flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        if own.device == peer.device {
            return Err(CUresult::INVALID_DEVICE);
        }
        if own.peers().insert(peer.device) {
            Ok(())
        } else {
            Err(CUresult::PEER_ACCESS_ALREADY_ENABLED)
        }
    }

    pub(crate) fn cuCtxDisablePeerAccess(peer: CUcontext) -> Done {
        let own = context::current()?;
        let peer = CONTEXTS.get(peer.0).ok_or(CUresult::INVALID_CONTEXT)?;
        if own.peers().remove(&peer.device) {
            Ok(())
        } else {
            Err(CUresult::PEER_ACCESS_NOT_ENABLED)
        }
    }
}

fn synchronize(context: &Arc<Context>) -> Done {
    capture::forbid_in(context.handle)?;
    context::drain(context)?;
    stream::after_synchronise(context);
    Ok(())
}

impl context::Limits {
    /// By the header's numbers.
    fn field(&mut self, limit: CUlimit) -> Result<&mut usize, CUresult> {
        Ok(match limit {
            0 => &mut self.stack,
            1 => &mut self.printf,
            2 => &mut self.heap,
            3 => &mut self.sync_depth,
            4 => &mut self.pending_launches,
            5 => &mut self.l2_fetch,
            _ => return Err(CUresult::UNSUPPORTED_LIMIT),
        })
    }
}
