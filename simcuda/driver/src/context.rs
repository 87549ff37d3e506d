//! Contexts: what one is made of, which is current on a thread, and what its beginning and end cost.

use crate::arena::Arena;
use crate::engine::Engine;
use crate::event::Record;
use crate::registry::Registry;
use crate::{
    array, blocks, capture, event, fault, graph_memory, ipc, linear, module, pool, process, stream,
};
use shim_cuda_headers::{CUcontext, CUresult};
use simcuda_protocol::Charge;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

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
    /// Users by the oldest way of counting, besides whoever made it.
    attached: Mutex<u32>,
    /// What all later work follows, until it is done.
    fences: Mutex<Vec<Arc<Record>>>,
}

impl Context {
    pub(crate) fn peers(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the number of users, unless the change is impossible; says the new number.
    pub(crate) fn attached(&self, change: impl FnOnce(u32) -> Option<u32>) -> Option<u32> {
        let mut users = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        *users = change(*users)?;
        Some(*users)
    }

    /// From here on all work of the context follows the recording.
    pub(crate) fn add_fence(&self, record: Arc<Record>) {
        self.fences.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }

    /// What work that is given now must follow.
    pub(crate) fn fences(&self) -> Vec<Arc<Record>> {
        let mut fences = self.fences.lock().unwrap_or_else(PoisonError::into_inner);
        fences.retain(|record| !record.is_done());
        fences.clone()
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
    /// Preferences that change nothing here.
    pub(crate) cache: u32,
    pub(crate) shared: u32,
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
            cache: 0,
            shared: 1,
        }
    }
}

thread_local! {
    /// The thread's stack of contexts by handle; a 0 on it is "none is current". Never dropped: a
    /// program may make its last calls from destructors that run after those of this library.
    static STACK: RefCell<ManuallyDrop<Vec<usize>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Contexts of this process per device: the first one costs the overhead, the last returns it.
static LIVING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Makes a context on the device, under a handle of its own or the given one.
pub(crate) fn create(
    device: i32,
    flags: u32,
    primary: Option<usize>,
) -> Result<Arc<Context>, CUresult> {
    fault::check_card(device)?;
    begin_overhead(device)?;
    let handle = primary.unwrap_or_else(|| CONTEXTS.fresh());
    let engine = match Engine::start(device) {
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
        attached: Mutex::default(),
        fences: Mutex::default(),
    });
    fault::dress(&context);
    CONTEXTS.insert(handle, Arc::clone(&context));
    Ok(context)
}

/// Ends a context with everything in it. What was queued is not done any more.
pub(crate) fn destroy(context: &Arc<Context>) {
    CONTEXTS.remove(context.handle);
    context.engine.end();
    capture::forget_all(context.handle);
    graph_memory::forget_all(context.handle);
    ipc::forget_all(context.handle);
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
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
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
    STACK.with_borrow_mut(|stack| stack.push(handle));
}

pub(crate) fn pop() -> Option<usize> {
    STACK.with_borrow_mut(|stack| stack.pop())
}

/// Makes the context the thread's current one; 0 takes the top away.
pub(crate) fn set_current(handle: usize) {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        if handle != 0 {
            stack.push(handle);
        }
    });
}

/// Memory is about to be unmapped. Strictly, every kernel that is queued or runs may have meant it: a
/// program that unmaps without waiting first is wrong even if it is lucky.
pub(crate) fn unmapping() {
    static STRICT: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("SIMCUDA_STRICT").is_some_and(|value| value == "1"));
    if *STRICT {
        CONTEXTS.all().iter().for_each(|context| context.engine.doom_kernels());
    }
}

/// Waits for all of the context's work.
pub(crate) fn drain(context: &Context) -> Result<(), CUresult> {
    context.engine.wait_idle();
    context.engine.check()
}
