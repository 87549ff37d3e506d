//! Stream capture: commands become nodes of a graph instead of being carried out.
//!
//! A capture begins on one stream, spreads to others through events, and ends on the first. What
//! the driver forbids meanwhile really fails, and makes the capture worthless.

use crate::command::Work;
use crate::entry::{Done, Sim};
use crate::graph::{self, Graph};
use crate::stream::{self, Stream};
use crate::{engine, raw};
use shim_cuda_headers::*;
use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// Modes: unsafe calls are forbidden to all threads, to the capturing one (1), or to none.
const GLOBAL: c_uint = 0;
const RELAXED: c_uint = 2;

/// `CU_STREAM_CAPTURE_STATUS_*`.
const STATUS_NONE: c_uint = 0;
const STATUS_ACTIVE: c_uint = 1;
const STATUS_INVALIDATED: c_uint = 2;

/// One capture.
#[derive(Debug)]
pub(crate) struct Capture {
    id: u64,
    mode: c_uint,
    thread: ThreadId,
    origin: usize,
    graph: Arc<Graph>,
    invalid: AtomicBool,
}

/// A stream's part in a capture.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    capture: Arc<Capture>,
    /// Nodes that the stream's next one follows.
    tail: Vec<usize>,
}

/// A point in a capture, as an event remembers it.
#[derive(Clone, Debug)]
pub(crate) struct Mark(Joined);

/// Captures that are open.
static OPEN: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());
static LAST_ID: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// What `cuThreadExchangeStreamCaptureMode` set for this thread.
    static THREAD_MODE: Cell<c_uint> = const { Cell::new(GLOBAL) };
}

fn open() -> std::sync::MutexGuard<'static, Vec<Arc<Capture>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls that could break a capture are refused while one is open that forbids them to this
/// thread, and that capture is worthless then.
pub(crate) fn forbid_unsafe_call() -> Done {
    let here = thread::current().id();
    let mut result = Ok(());
    for capture in open().iter() {
        let forbidden = match THREAD_MODE.get() {
            RELAXED => false,
            GLOBAL if capture.mode == GLOBAL => true,
            _ => capture.mode != RELAXED && capture.thread == here,
        };
        if forbidden {
            capture.invalid.store(true, Ordering::Relaxed);
            result = Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
        }
    }
    result
}

/// The legacy stream would have to wait for a blocking stream that captures.
pub(crate) fn forbid_implicit(context: usize) -> Done {
    if open().is_empty() {
        return Ok(());
    }
    let mut result = Ok(());
    for stream in stream::capturing(context).iter().filter(|stream| stream.is_blocking()) {
        result = Err(invalidate(stream, CUresult::STREAM_CAPTURE_IMPLICIT));
    }
    result
}

/// Waiting for a context is impossible while a stream of it captures.
pub(crate) fn forbid_in(context: usize) -> Done {
    if open().is_empty() {
        return Ok(());
    }
    stream::capturing(context).iter().try_for_each(|stream| forbid_on(stream))
}

/// Waiting for a stream that captures is impossible.
pub(crate) fn forbid_on(stream: &Stream) -> Done {
    if stream.is_capturing() {
        return Err(invalidate(stream, CUresult::STREAM_CAPTURE_UNSUPPORTED));
    }
    Ok(())
}

/// Makes the stream's capture worthless, for the reason that is handed back.
pub(crate) fn invalidate(stream: &Stream, why: CUresult) -> CUresult {
    if let Some(joined) = &*stream.joined() {
        joined.capture.invalid.store(true, Ordering::Relaxed);
    }
    why
}

/// Ends the capture of a stream that is going away.
pub(crate) fn close(stream: &Stream) {
    if let Some(joined) = stream.joined().take() {
        open().retain(|capture| !Arc::ptr_eq(capture, &joined.capture));
    }
}

/// Adds a command of a capturing stream to its graph.
pub(crate) fn add(stream: &Stream, work: Work) -> Done {
    let mut joined = stream.joined();
    let Some(joined) = &mut *joined else { return Err(CUresult::UNKNOWN) };
    if joined.capture.invalid.load(Ordering::Relaxed) {
        return Err(CUresult::STREAM_CAPTURE_INVALIDATED);
    }
    // An event is a point in the graph, not a node.
    if !matches!(work, Work::Record(_)) {
        let node = joined.capture.graph.add(work, joined.tail.clone());
        joined.tail = vec![node];
    }
    Ok(())
}

/// The point at which the stream's capture is.
pub(crate) fn mark(stream: &Stream) -> Result<Mark, CUresult> {
    stream.joined().clone().map(Mark).ok_or(CUresult::UNKNOWN)
}

/// The stream joins the mark's capture, or waits for it there if it is in it already.
pub(crate) fn follow(stream: &Stream, mark: &Mark) -> Done {
    if stream.handle == engine::LEGACY {
        return Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut joined = stream.joined();
    match &mut *joined {
        None => *joined = Some(mark.0.clone()),
        Some(own) if Arc::ptr_eq(&own.capture, &mark.0.capture) => {
            let known: HashSet<usize> = own.tail.iter().copied().collect();
            own.tail.extend(mark.0.tail.iter().filter(|node| !known.contains(node)));
        }
        Some(own) => {
            own.capture.invalid.store(true, Ordering::Relaxed);
            return Err(CUresult::STREAM_CAPTURE_MERGE);
        }
    }
    Ok(())
}

fn status(stream: &Stream) -> (c_uint, u64) {
    match &*stream.joined() {
        None => (STATUS_NONE, 0),
        Some(joined) if joined.capture.invalid.load(Ordering::Relaxed) => {
            (STATUS_INVALIDATED, joined.capture.id)
        }
        Some(joined) => (STATUS_ACTIVE, joined.capture.id),
    }
}

impl Sim {
    pub(crate) fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode) -> Done {
        let stream = stream::resolve(stream)?;
        stream.context.engine.check()?;
        if mode > RELAXED {
            return Err(CUresult::INVALID_VALUE);
        }
        if stream.handle == engine::LEGACY {
            return Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
        }
        let mut joined = stream.joined();
        if joined.is_some() {
            return Err(CUresult::ILLEGAL_STATE);
        }
        let capture = Arc::new(Capture {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1,
            mode,
            thread: thread::current().id(),
            origin: stream.handle,
            graph: Arc::new(Graph::default()),
            invalid: AtomicBool::new(false),
        });
        open().push(Arc::clone(&capture));
        *joined = Some(Joined { capture, tail: Vec::new() });
        Ok(())
    }

    pub(crate) fn cuStreamBeginCapture(stream: CUstream) -> Done {
        Self::cuStreamBeginCapture_v2(stream, GLOBAL)
    }

    pub(crate) fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> Done {
        let stream = stream::resolve(stream)?;
        let Some(joined) = stream.joined().clone() else { return Err(CUresult::ILLEGAL_STATE) };
        let capture = joined.capture;
        if graph.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        if capture.origin != stream.handle {
            capture.invalid.store(true, Ordering::Relaxed);
            return Err(CUresult::STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != RELAXED && capture.thread != thread::current().id() {
            return Err(CUresult::STREAM_CAPTURE_WRONG_THREAD);
        }
        open().retain(|other| !Arc::ptr_eq(other, &capture));
        *stream.joined() = None;
        let of_it = |other: &Arc<Stream>| {
            other.joined().as_ref().is_some_and(|j| Arc::ptr_eq(&j.capture, &capture))
        };
        let others = stream::capturing(stream.context.handle).into_iter().filter(of_it);
        others.for_each(|other| *other.joined() = None);
        raw::put(graph, CUgraph(0))?;
        if capture.invalid.load(Ordering::Relaxed) {
            return Err(CUresult::STREAM_CAPTURE_INVALIDATED);
        }
        if !capture.graph.ends_in(&joined.tail) {
            return Err(CUresult::STREAM_CAPTURE_UNJOINED);
        }
        raw::put(graph, graph::register(Arc::clone(&capture.graph)))
    }

    pub(crate) fn cuStreamIsCapturing(
        stream: CUstream,
        answer: *mut CUstreamCaptureStatus,
    ) -> Done {
        let stream = stream::resolve(stream)?;
        if stream.handle == engine::LEGACY {
            forbid_implicit(stream.context.handle)?;
        }
        raw::put(answer, status(&stream).0)
    }

    pub(crate) fn cuStreamGetCaptureInfo(
        stream: CUstream,
        answer: *mut CUstreamCaptureStatus,
        id: *mut u64,
    ) -> Done {
        let (status, number) = status(&*stream::resolve(stream)?);
        raw::put(answer, status)?;
        raw::put_if_wanted(id, number);
        Ok(())
    }

    pub(crate) fn cuStreamGetCaptureInfo_v2(
        stream: CUstream,
        answer: *mut CUstreamCaptureStatus,
        id: *mut u64,
        graph: *mut CUgraph,
        nodes: *mut *const CUgraphNode,
        count: *mut usize,
    ) -> Done {
        let resolved = stream::resolve(stream)?;
        let joined = resolved.joined().clone();
        // The nodes that the next one would follow cannot be handed out as an array yet.
        if joined.is_some() && !(nodes.is_null() && count.is_null()) {
            return Err(CUresult::NOT_SUPPORTED);
        }
        Self::cuStreamGetCaptureInfo(stream, answer, id)?;
        raw::put_if_wanted(count, 0);
        match joined {
            Some(joined) if !graph.is_null() => {
                raw::put(graph, graph::register(Arc::clone(&joined.capture.graph)))
            }
            _ => {
                raw::put_if_wanted(graph, CUgraph(0));
                Ok(())
            }
        }
    }

    pub(crate) fn cuStreamGetCaptureInfo_v3(
        stream: CUstream,
        answer: *mut CUstreamCaptureStatus,
        id: *mut u64,
        graph: *mut CUgraph,
        nodes: *mut *const CUgraphNode,
        _edges: *mut *const CUgraphEdgeData,
        count: *mut usize,
    ) -> Done {
        Self::cuStreamGetCaptureInfo_v2(stream, answer, id, graph, nodes, count)
    }

    pub(crate) fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) -> Done {
        let wanted = raw::get(mode)?;
        if wanted > RELAXED {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(mode, THREAD_MODE.replace(wanted))
    }
}
