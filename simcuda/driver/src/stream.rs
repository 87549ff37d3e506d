//! Streams: handles of lanes of the engine, the three special handles, and what may be asked.

use crate::capture::{self, Joined};
use crate::command::Work;
use crate::context::{self, CONTEXTS, Context};
use crate::engine::{LEGACY, Ticket};
use crate::entry::{Done, Sim, means_per_thread_stream};
use crate::graph_task::Task;
use crate::registry::Registry;
use crate::{pool, raw};
use shim_cuda_headers::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static STREAMS: Registry<Stream> = Registry::new(0x30);

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
const LEGACY_HANDLE: usize = 1;
const PER_THREAD_HANDLE: usize = 2;
const NON_BLOCKING: c_uint = 1;

/// Priorities go from 0, the lowest, to this.
pub(crate) const GREATEST_PRIORITY: c_int = -5;

/// What was set of a stream's attributes, by the header's numbers.
pub(crate) type Attributes = BTreeMap<u32, [u8; 64]>;

#[derive(Debug)]
pub(crate) struct Stream {
    /// Also the number of its lane.
    pub(crate) handle: usize,
    pub(crate) context: Arc<Context>,
    pub(crate) flags: c_uint,
    priority: AtomicI32,
    attributes: Mutex<Attributes>,
    id: u64,
    capture: Mutex<Option<Joined>>,
}

thread_local! {
    /// This thread's default stream of each context.
    static PER_THREAD: RefCell<HashMap<usize, Arc<Stream>>> = RefCell::new(HashMap::new());
}

static LAST_ID: AtomicU64 = AtomicU64::new(0);

impl Stream {
    fn new(context: &Arc<Context>, handle: usize, flags: c_uint, priority: c_int) -> Self {
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        let context = Arc::clone(context);
        let (priority, attributes) = (AtomicI32::new(priority), Mutex::default());
        Self { handle, context, flags, priority, attributes, id, capture: Mutex::new(None) }
    }

    pub(crate) fn legacy(context: &Arc<Context>) -> Self {
        Self::new(context, LEGACY, 0, 0)
    }

    pub(crate) fn priority(&self) -> c_int {
        self.priority.load(Ordering::Relaxed)
    }

    pub(crate) fn set_priority(&self, priority: c_int) {
        self.priority.store(priority, Ordering::Relaxed);
    }

    pub(crate) fn attributes(&self) -> MutexGuard<'_, Attributes> {
        self.attributes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    pub(crate) fn joined(&self) -> MutexGuard<'_, Option<Joined>> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_capturing(&self) -> bool {
        self.joined().is_some()
    }

    /// Gives the stream a command, or its capture a node; then there is no ticket.
    pub(crate) fn submit(&self, work: Work) -> Result<Option<Ticket>, CUresult> {
        if self.is_capturing() {
            capture::add(self, Task::captured(work, self.context.handle))?;
            return Ok(None);
        }
        if self.handle == LEGACY {
            capture::forbid_implicit(self.context.handle)?;
        }
        self.context.engine.check()?;
        for fence in self.context.fences() {
            self.context.engine.submit(self.handle, self.is_blocking(), Work::Await(fence));
        }
        Ok(Some(self.context.engine.submit(self.handle, self.is_blocking(), work)))
    }

    /// Gives the command and waits until it is done.
    pub(crate) fn submit_and_wait(&self, work: Work) -> Done {
        if let Some(ticket) = self.submit(work)? {
            self.context.engine.wait(ticket);
            self.context.engine.check()?;
        }
        Ok(())
    }
}

/// The stream that the caller means.
pub(crate) fn resolve(stream: CUstream) -> Result<Arc<Stream>, CUresult> {
    match stream.0 {
        0 if means_per_thread_stream() => per_thread(),
        PER_THREAD_HANDLE => per_thread(),
        0 | LEGACY_HANDLE => Ok(Arc::new(Stream::legacy(&context::current()?))),
        handle => {
            let found = STREAMS.get(handle).ok_or(CUresult::INVALID_HANDLE)?;
            CONTEXTS.get(found.context.handle).ok_or(CUresult::CONTEXT_IS_DESTROYED)?;
            Ok(found)
        }
    }
}

/// The default stream of a call that has no stream parameter.
pub(crate) fn default() -> Result<Arc<Stream>, CUresult> {
    resolve(CUstream(0))
}

fn per_thread() -> Result<Arc<Stream>, CUresult> {
    let context = context::current()?;
    PER_THREAD.with_borrow_mut(|streams| {
        if let Some(found) = streams.get(&context.handle)
            && Arc::ptr_eq(&found.context, &context)
        {
            return Ok(Arc::clone(found));
        }
        let made = Arc::new(Stream::new(&context, STREAMS.fresh(), 0, 0));
        streams.insert(context.handle, Arc::clone(&made));
        Ok(made)
    })
}

/// The context ends, and its streams with it.
pub(crate) fn forget_all(context: usize) {
    STREAMS.remove_all(|stream| stream.context.handle == context);
}

/// What a synchronising call does besides waiting: pools return what they keep beyond their limit.
pub(crate) fn after_synchronise(context: &Context) {
    pool::shrink_all(context.device);
}

impl Sim {
    pub(crate) fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> Done {
        Self::cuStreamCreateWithPriority(stream, flags, 0)
    }

    pub(crate) fn cuStreamCreateWithPriority(
        stream: *mut CUstream,
        flags: c_uint,
        priority: c_int,
    ) -> Done {
        let context = context::working()?;
        if stream.is_null() || flags & !NON_BLOCKING != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let handle = STREAMS.fresh();
        let priority = priority.clamp(GREATEST_PRIORITY, 0);
        STREAMS.insert(handle, Arc::new(Stream::new(&context, handle, flags, priority)));
        raw::put(stream, CUstream(handle))
    }

    pub(crate) fn cuStreamDestroy_v2(stream: CUstream) -> Done {
        if stream.0 <= PER_THREAD_HANDLE {
            return Err(CUresult::INVALID_HANDLE);
        }
        let gone = STREAMS.remove(stream.0).ok_or(CUresult::INVALID_HANDLE)?;
        capture::close(&gone);
        gone.context.engine.close_lane(gone.handle);
        Ok(())
    }

    pub(crate) fn cuStreamDestroy(stream: CUstream) -> Done {
        Self::cuStreamDestroy_v2(stream)
    }

    pub(crate) fn cuStreamQuery(stream: CUstream) -> Done {
        let stream = resolve(stream)?;
        capture::forbid_on(&stream)?;
        let engine = &stream.context.engine;
        engine.check()?;
        let tickets = engine.outstanding(stream.handle);
        if tickets.into_iter().all(|ticket| engine.is_done(ticket)) {
            engine.check()
        } else {
            Err(CUresult::NOT_READY)
        }
    }

    pub(crate) fn cuStreamSynchronize(stream: CUstream) -> Done {
        let stream = resolve(stream)?;
        capture::forbid_on(&stream)?;
        let engine = &stream.context.engine;
        for ticket in engine.outstanding(stream.handle) {
            engine.wait(ticket);
        }
        engine.check()?;
        after_synchronise(&stream.context);
        Ok(())
    }

    pub(crate) fn cuStreamGetFlags(stream: CUstream, flags: *mut c_uint) -> Done {
        raw::put(flags, resolve(stream)?.flags)
    }

    pub(crate) fn cuStreamGetPriority(stream: CUstream, priority: *mut c_int) -> Done {
        raw::put(priority, resolve(stream)?.priority())
    }

    pub(crate) fn cuStreamGetId(stream: CUstream, id: *mut c_ulonglong) -> Done {
        raw::put(id, resolve(stream)?.id)
    }

    pub(crate) fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext) -> Done {
        raw::put(context, CUcontext(resolve(stream)?.context.handle))
    }

    pub(crate) fn cuStreamGetCtx_v2(
        stream: CUstream,
        context: *mut CUcontext,
        green: *mut CUgreenCtx,
    ) -> Done {
        raw::put(context, CUcontext(resolve(stream)?.context.handle))?;
        raw::put_if_wanted(green, CUgreenCtx(0));
        Ok(())
    }

    pub(crate) fn cuStreamGetDevice(stream: CUstream, device: *mut CUdevice) -> Done {
        raw::put(device, resolve(stream)?.context.device)
    }

    pub(crate) fn cuLaunchHostFunc(
        stream: CUstream,
        function: CUhostFn,
        data: *mut c_void,
    ) -> Done {
        let stream = resolve(stream)?;
        if function.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let work =
            Work::Host { function: function.expose_provenance(), data: data.expose_provenance() };
        stream.submit(work).map(drop)
    }

    pub(crate) fn cuLaunchHostFunc_v2(
        stream: CUstream,
        function: CUhostFn,
        data: *mut c_void,
        _: c_uint,
    ) -> Done {
        Self::cuLaunchHostFunc(stream, function, data)
    }

    pub(crate) fn cuStreamAddCallback(
        stream: CUstream,
        function: CUstreamCallback,
        data: *mut c_void,
        flags: c_uint,
    ) -> Done {
        let handle = stream.0;
        let stream = resolve(stream)?;
        if function.is_null() || flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        if stream.is_capturing() {
            return Err(capture::invalidate(&stream, CUresult::STREAM_CAPTURE_UNSUPPORTED));
        }
        let (function, data) = (function.expose_provenance(), data.expose_provenance());
        stream.submit(Work::Callback { function, stream: handle, data }).map(drop)
    }
}
