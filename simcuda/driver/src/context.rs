//! Contexts: what one is made of, which is current on a thread, and what its beginning and end cost.

use crate::arena::Arena;
use crate::engine::Engine;
use crate::registry::Registry;
use crate::{array, blocks, event, linear, module, pool, process, stream};
use shim_cuda_headers::{CUcontext, CUresult};
use simcuda_protocol::Charge;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) static CONTEXTS: Registry<Context> = Registry::new(0x10);

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) handle: usize,
    pub(crate) device: i32,
    pub(crate) primary: bool,
    pub(crate) flags: AtomicU32,
    pub(crate) engine: Arc<Engine>,
    /// Small allocations.
    pub(crate) arena: Mutex<Arena>,
    pub(crate) limits: Mutex<Limits>,
    /// Devices whose memory it may use besides its own.
    peers: Mutex<BTreeSet<i32>>,
}

impl Context {
    pub(crate) fn peers(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What `cuCtxSetLimit` sets, in bytes (or a count for the last).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) stack: usize,
    pub(crate) printf: usize,
    pub(crate) heap: usize,
    pub(crate) sync_depth: usize,
    pub(crate) pending_launches: usize,
    pub(crate) l2_fetch: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stack: 1024,
            printf: 1 << 20,
            heap: 8 << 20,
            sync_depth: 2,
            pending_launches: 2048,
            l2_fetch: 64,
        }
    }
}

thread_local! {
    /// The thread's stack of contexts by handle; a 0 on it is "none is current". It is never dropped:
    /// programs call the driver from exit handlers, when a thread's values are gone.
    static STACK: ManuallyDrop<RefCell<Vec<usize>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// Contexts of this process per device: the first one costs the overhead, the last returns it.
static LIVING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Makes a context on the device, under a handle of its own or the given one.
pub(crate) fn create(
    device: i32,
    flags: u32,
    primary: Option<usize>,
) -> Result<Arc<Context>, CUresult> {
    begin_overhead(device)?;
    let handle = primary.unwrap_or_else(|| CONTEXTS.fresh());
    let engine = match Engine::start() {
        Ok(engine) => engine,
        Err(code) => {
            end_overhead(device);
            return Err(code);
        }
    };
    let context = Arc::new(Context {
        handle,
        device,
        primary: primary.is_some(),
        flags: AtomicU32::new(flags),
        engine,
        arena: Mutex::new(Arena::new()),
        limits: Mutex::new(Limits::default()),
        peers: Mutex::default(),
    });
    CONTEXTS.insert(handle, Arc::clone(&context));
    Ok(context)
}

/// Ends a context with everything in it. What was queued is not done any more.
pub(crate) fn destroy(context: &Arc<Context>) {
    CONTEXTS.remove(context.handle);
    context.engine.end();
    stream::forget_all(context.handle);
    event::forget_all(context.handle);
    array::forget_all(context.handle);
    module::unload_all(context);
    linear::free_all(context);
    end_overhead(context.device);
}

fn begin_overhead(device: i32) -> Result<(), CUresult> {
    let bytes = process::card(device)?.device.context_overhead_bytes;
    let mut living = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
    let index = device as usize;
    if living.len() <= index {
        living.resize(index + 1, 0);
    }
    if living[index] == 0 {
        blocks::charge(device, bytes, Charge::Context)?;
    }
    living[index] += 1;
    Ok(())
}

fn end_overhead(device: i32) {
    let mut living = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
    let count = &mut living[device as usize];
    *count -= 1;
    if *count == 0
        && let Ok(card) = process::card(device)
    {
        pool::empty_all(device);
        blocks::release(device, card.device.context_overhead_bytes, Charge::Context);
    }
}

/// The calling thread's current context.
pub(crate) fn current() -> Result<Arc<Context>, CUresult> {
    match current_handle() {
        0 => Err(CUresult::INVALID_CONTEXT),
        handle => CONTEXTS.get(handle).ok_or(CUresult::CONTEXT_IS_DESTROYED),
    }
}

/// Handle of the current context, or 0.
pub(crate) fn current_handle() -> usize {
    STACK.with(|stack| stack.borrow().last().copied().unwrap_or(0))
}

/// The current context, unless an earlier command of it failed for good.
pub(crate) fn working() -> Result<Arc<Context>, CUresult> {
    let context = current()?;
    context.engine.check()?;
    Ok(context)
}

/// The context with this handle, or the current one for null.
pub(crate) fn named(handle: CUcontext) -> Result<Arc<Context>, CUresult> {
    match handle.0 {
        0 => current(),
        handle => CONTEXTS.get(handle).ok_or(CUresult::INVALID_CONTEXT),
    }
}

pub(crate) fn push(handle: usize) {
    STACK.with(|stack| stack.borrow_mut().push(handle));
}

pub(crate) fn pop() -> Option<usize> {
    STACK.with(|stack| stack.borrow_mut().pop())
}

/// Makes the context the thread's current one; 0 takes the top away.
pub(crate) fn set_current(handle: usize) {
    STACK.with(|stack| {
        let mut stack = stack.borrow_mut();
        stack.pop();
        if handle != 0 {
            stack.push(handle);
        }
    });
}

/// Waits for all of the context's work.
pub(crate) fn drain(context: &Context) -> Result<(), CUresult> {
    context.engine.wait_idle();
    context.engine.check()
}
