//! Stream capture: commands become nodes of a graph instead of being carried out.
//!
//! A capture begins on one stream, spreads to others through events, and ends on the first. What
//! the driver forbids meanwhile really fails, and makes the captures concerned worthless: until
//! they are ended, everything on their streams fails too. The calls are in
//! [`crate::capture_calls`].

use crate::engine;
use crate::entry::Done;
use crate::graph::{Edge, Graph};
use crate::graph_task::Task;
use crate::stream::Stream;
use shim_cuda_headers::CUresult;
use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Modes: unsafe calls are forbidden to all threads, to the capturing one (1), or to none.
pub(crate) const GLOBAL: c_uint = 0;
pub(crate) const RELAXED: c_uint = 2;

/// One capture.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) id: u64,
    mode: c_uint,
    thread: ThreadId,
    origin: usize,
    pub(crate) graph: Arc<Graph>,
    /// The graph was the program's before, and stays so whatever happens.
    into_given: bool,
    invalid: AtomicBool,
    ended: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    streams: Vec<Arc<Stream>>,
    /// Nodes that streams made.
    captured: HashSet<usize>,
    /// Nodes that the program took out of a stream's order itself: they need not be joined.
    excused: HashSet<usize>,
}

/// A stream's part in a capture.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    pub(crate) capture: Arc<Capture>,
    /// What the stream's next node follows.
    pub(crate) tail: Vec<Edge>,
    /// The tail as it was last handed out; good until the next call on the stream.
    pub(crate) handed: Arc<(Vec<usize>, Vec<[u8; 8]>)>,
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

fn open() -> MutexGuard<'static, Vec<Arc<Capture>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn exchange_thread_mode(mode: c_uint) -> c_uint {
    THREAD_MODE.replace(mode)
}

impl Capture {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_invalid(&self) -> bool {
        self.invalid.load(Ordering::Relaxed)
    }

    fn invalidate(&self) {
        self.invalid.store(true, Ordering::Relaxed);
    }

    /// Takes all streams out, and lets unsafe calls come again.
    fn end(self: &Arc<Self>) {
        self.ended.store(true, Ordering::Relaxed);
        self.graph.capturing.store(false, Ordering::Relaxed);
        open().retain(|other| !Arc::ptr_eq(other, self));
        let streams = std::mem::take(&mut self.inner().streams);
        for stream in streams {
            *stream.joined() = None;
        }
    }

    /// Whether all that streams did is before the origin's end.
    fn is_joined(&self, tail: &[Edge]) -> bool {
        let nodes = self.graph.nodes();
        let inner = self.inner();
        let ends = tail.iter().map(|edge| edge.from).chain(inner.excused.iter().copied());
        let before = Graph::before(&nodes, ends);
        inner.captured.iter().all(|node| before.contains(node) || !nodes.contains_key(node))
    }

    /// Nodes that the program took out of a stream's order.
    pub(crate) fn excuse(&self, tail: &[Edge]) {
        self.inner().excused.extend(tail.iter().map(|edge| edge.from));
    }
}

impl Joined {
    fn new(capture: Arc<Capture>, tail: Vec<Edge>) -> Self {
        Self { capture, tail, handed: Arc::default() }
    }
}

impl Mark {
    /// Asking for the event, or waiting for it, breaks its capture; a capture that has ended
    /// cannot be broken, but the event still stands for nothing that will happen.
    pub(crate) fn refuse(&self) -> CUresult {
        self.0.capture.invalidate();
        CUresult::CAPTURED_EVENT
    }

    /// The event belongs to a capture that goes on.
    pub(crate) fn is_open(&self) -> bool {
        !self.0.capture.ended.load(Ordering::Relaxed)
    }
}

/// Calls that could break a capture are refused while one is open that forbids them to this
/// thread, and that capture is worthless then.
pub(crate) fn forbid_unsafe_call() -> Done {
    let here = thread::current().id();
    let mut result = Ok(());
    for capture in open().iter() {
        let own = capture.thread == here && capture.mode != RELAXED;
        let forbidden = match THREAD_MODE.get() {
            RELAXED => false,
            GLOBAL => own || capture.mode == GLOBAL,
            _ => own,
        };
        if forbidden {
            capture.invalidate();
            result = Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
        }
    }
    result
}

/// All streams of the context that capture.
fn capturing(context: usize) -> Vec<(Arc<Stream>, Arc<Capture>)> {
    let open = open();
    let streams = open.iter().flat_map(|capture| {
        let inner = capture.inner();
        inner.streams.iter().map(|s| (Arc::clone(s), Arc::clone(capture))).collect::<Vec<_>>()
    });
    streams.filter(|(stream, _)| stream.context.handle == context).collect()
}

/// Whether the legacy stream would have to wait for a blocking stream that captures.
pub(crate) fn is_implicit(context: usize) -> bool {
    capturing(context).iter().any(|(stream, _)| stream.is_blocking())
}

/// The legacy stream cannot be used while a blocking stream captures.
pub(crate) fn forbid_implicit(context: usize) -> Done {
    let mut result = Ok(());
    for (_, capture) in capturing(context).iter().filter(|(stream, _)| stream.is_blocking()) {
        capture.invalidate();
        result = Err(CUresult::STREAM_CAPTURE_IMPLICIT);
    }
    result
}

/// Waiting for a context is impossible while a stream of it captures.
pub(crate) fn forbid_in(context: usize) -> Done {
    let mut result = Ok(());
    for (_, capture) in capturing(context) {
        capture.invalidate();
        result = Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
    }
    result
}

/// Waiting for a stream that captures is impossible, and for the legacy one if it would have to
/// wait for one.
pub(crate) fn forbid_on(stream: &Stream) -> Done {
    if stream.handle == engine::LEGACY {
        return forbid_implicit(stream.context.handle);
    }
    if stream.is_capturing() {
        return Err(invalidate(stream, CUresult::STREAM_CAPTURE_UNSUPPORTED));
    }
    Ok(())
}

/// Makes the stream's capture worthless, for the reason that is handed back.
pub(crate) fn invalidate(stream: &Stream, why: CUresult) -> CUresult {
    if let Some(joined) = &*stream.joined() {
        joined.capture.invalidate();
    }
    why
}

/// The stream goes away: with the one that began it a capture ends, else it is worthless.
pub(crate) fn close(stream: &Stream) {
    let Some(joined) = stream.joined().take() else { return };
    joined.capture.invalidate();
    if joined.capture.origin == stream.handle {
        joined.capture.end();
    } else {
        joined.capture.inner().streams.retain(|other| other.handle != stream.handle);
    }
}

/// The context ends, and the captures that streams of it began.
pub(crate) fn forget_all(context: usize) {
    for (stream, _) in capturing(context) {
        close(&stream);
    }
}

/// Adds a node to the capture of a stream.
pub(crate) fn add(stream: &Stream, task: Task) -> Done {
    let mut joined = stream.joined();
    let Some(joined) = &mut *joined else { return Err(CUresult::UNKNOWN) };
    if joined.capture.is_invalid() {
        return Err(CUresult::STREAM_CAPTURE_INVALIDATED);
    }
    let node = joined.capture.graph.add(task, joined.tail.clone());
    joined.capture.inner().captured.insert(node);
    joined.tail = vec![Edge::plain(node)];
    Ok(())
}

/// The point at which the stream's capture is.
pub(crate) fn mark(stream: &Stream) -> Result<Mark, CUresult> {
    let joined = stream.joined();
    let joined = joined.as_ref().ok_or(CUresult::UNKNOWN)?;
    if joined.capture.is_invalid() {
        return Err(CUresult::STREAM_CAPTURE_INVALIDATED);
    }
    Ok(Mark(joined.clone()))
}

/// The stream joins the mark's capture, or waits for it there if it is in it already.
pub(crate) fn follow(stream: &Arc<Stream>, mark: &Mark) -> Done {
    let capture = &mark.0.capture;
    if !mark.is_open() {
        return Err(mark.refuse());
    }
    if stream.handle == engine::LEGACY {
        capture.invalidate();
        return Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut joined = stream.joined();
    if capture.is_invalid() {
        return Err(CUresult::STREAM_CAPTURE_INVALIDATED);
    }
    match &mut *joined {
        None => {
            *joined = Some(Joined::new(Arc::clone(capture), mark.0.tail.clone()));
            capture.inner().streams.push(Arc::clone(stream));
        }
        Some(own) if Arc::ptr_eq(&own.capture, capture) => {
            let known = own.tail.clone();
            own.tail.extend(mark.0.tail.iter().filter(|edge| !known.contains(edge)));
        }
        Some(own) => {
            own.capture.invalidate();
            capture.invalidate();
            return Err(CUresult::STREAM_CAPTURE_MERGE);
        }
    }
    Ok(())
}

/// Begins a capture into the graph, whose first node follows the named ones.
pub(crate) fn begin(
    stream: &Arc<Stream>,
    mode: c_uint,
    graph: Arc<Graph>,
    into_given: bool,
    tail: Vec<Edge>,
) -> Done {
    stream.context.engine.check()?;
    if mode > RELAXED {
        return Err(CUresult::INVALID_VALUE);
    }
    if stream.handle == engine::LEGACY {
        return Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut joined = stream.joined();
    if joined.is_some() || graph.capturing.swap(true, Ordering::Relaxed) {
        return Err(CUresult::ILLEGAL_STATE);
    }
    let capture = Arc::new(Capture {
        id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1,
        mode,
        thread: thread::current().id(),
        origin: stream.handle,
        graph,
        into_given,
        invalid: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        inner: Mutex::new(Inner { streams: vec![Arc::clone(stream)], ..Inner::default() }),
    });
    open().push(Arc::clone(&capture));
    *joined = Some(Joined::new(capture, tail));
    Ok(())
}

/// Ends the capture that began on the stream. An error leaves no graph, but the program's own.
pub(crate) fn end(stream: &Stream) -> Result<Arc<Graph>, CUresult> {
    let joined = stream.joined().clone().ok_or(CUresult::ILLEGAL_STATE)?;
    let capture = joined.capture;
    if capture.origin != stream.handle {
        capture.invalidate();
        return Err(CUresult::STREAM_CAPTURE_UNMATCHED);
    }
    if capture.mode != RELAXED && capture.thread != thread::current().id() {
        capture.invalidate();
        return Err(CUresult::STREAM_CAPTURE_WRONG_THREAD);
    }
    let result = if capture.is_invalid() {
        Err(CUresult::STREAM_CAPTURE_INVALIDATED)
    } else if capture.is_joined(&joined.tail) {
        Ok(Arc::clone(&capture.graph))
    } else {
        Err(CUresult::STREAM_CAPTURE_UNJOINED)
    };
    capture.end();
    if result.is_err() {
        capture.invalidate();
        if !capture.into_given {
            crate::graph::forget(&capture.graph);
        }
    }
    result
}
