//! The calls that begin and end a capture, and those that ask about one or change its order.

use crate::capture::{self, GLOBAL, Joined, RELAXED};
use crate::engine;
use crate::entry::{Done, Sim};
use crate::graph::{self, Edge, Graph};
use crate::raw;
use crate::stream::{self, Stream};
use shim_cuda_headers::*;
use std::ffi::c_uint;
use std::sync::Arc;

/// `CU_STREAM_CAPTURE_STATUS_*`.
const STATUS_NONE: c_uint = 0;
const STATUS_ACTIVE: c_uint = 1;
const STATUS_INVALIDATED: c_uint = 2;

/// The new dependencies take the place of the old ones; else they come to them.
const SET: c_uint = 1;

/// The stream, unless it is the legacy one and would depend on a capture. Asking breaks nothing.
fn asked(stream: CUstream) -> Result<Arc<Stream>, CUresult> {
    let stream = stream::resolve(stream)?;
    if stream.handle == engine::LEGACY && capture::is_implicit(stream.context.handle) {
        return Err(CUresult::STREAM_CAPTURE_IMPLICIT);
    }
    Ok(stream)
}

fn status(joined: Option<&Joined>) -> (c_uint, u64) {
    match joined {
        None => (STATUS_NONE, 0),
        Some(joined) if joined.capture.is_invalid() => (STATUS_INVALIDATED, joined.capture.id),
        Some(joined) => (STATUS_ACTIVE, joined.capture.id),
    }
}

/// Where the program wants which answer; the nulls are not wanted.
struct Wanted {
    status: *mut CUstreamCaptureStatus,
    id: *mut u64,
    graph: *mut CUgraph,
    nodes: *mut *const CUgraphNode,
    edges: *mut *const CUgraphEdgeData,
    count: *mut usize,
}

fn info(stream: CUstream, wanted: &Wanted) -> Done {
    let stream = asked(stream)?;
    if wanted.status.is_null() || !wanted.edges.is_null() && wanted.nodes.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let mut joined = stream.joined();
    let (code, id) = status(joined.as_ref());
    if let (STATUS_ACTIVE, Some(joined)) = (code, &mut *joined) {
        let lossy = joined.tail.iter().any(|edge| edge.data != [0; 8]);
        if lossy && !wanted.nodes.is_null() && wanted.edges.is_null() {
            return Err(CUresult::LOSSY_QUERY);
        }
        let nodes: Vec<usize> = joined.tail.iter().map(|edge| edge.from).collect();
        let edges: Vec<[u8; 8]> = joined.tail.iter().map(|edge| edge.data).collect();
        raw::put_if_wanted(wanted.count, nodes.len());
        joined.handed = Arc::new((nodes, edges));
        raw::put_if_wanted(wanted.nodes, joined.handed.0.as_ptr().cast());
        raw::put_if_wanted(wanted.edges, joined.handed.1.as_ptr().cast());
        raw::put_if_wanted(wanted.graph, CUgraph(joined.capture.graph.handle()));
    }
    raw::put_if_wanted(wanted.id, id);
    raw::put(wanted.status, code)
}

impl Sim {
    pub(crate) fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode) -> Done {
        let stream = stream::resolve(stream)?;
        let graph = Arc::new(Graph::new());
        capture::begin(&stream, mode, Arc::clone(&graph), false, Vec::new())?;
        graph::register(&graph);
        Ok(())
    }

    pub(crate) fn cuStreamBeginCapture(stream: CUstream) -> Done {
        Self::cuStreamBeginCapture_v2(stream, GLOBAL)
    }

    pub(crate) fn cuStreamBeginCaptureToGraph(
        stream: CUstream,
        graph: CUgraph,
        after: *const CUgraphNode,
        data: *const CUgraphEdgeData,
        count: usize,
        mode: CUstreamCaptureMode,
    ) -> Done {
        let stream = stream::resolve(stream)?;
        let graph = graph::find(graph)?;
        let tail = graph::edges(&graph, after, data, count)?;
        capture::begin(&stream, mode, graph, true, tail)
    }

    pub(crate) fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> Done {
        let stream = stream::resolve(stream)?;
        if graph.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(graph, CUgraph(0))?;
        raw::put(graph, CUgraph(capture::end(&stream)?.handle()))
    }

    pub(crate) fn cuStreamIsCapturing(
        stream: CUstream,
        answer: *mut CUstreamCaptureStatus,
    ) -> Done {
        let stream = asked(stream)?;
        let joined = stream.joined();
        raw::put(answer, status(joined.as_ref()).0)
    }

    pub(crate) fn cuStreamGetCaptureInfo(
        stream: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut u64,
    ) -> Done {
        let (graph, nodes, edges, count) = (
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
        info(stream, &Wanted { status, id, graph, nodes, edges, count })
    }

    pub(crate) fn cuStreamGetCaptureInfo_v2(
        stream: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut u64,
        graph: *mut CUgraph,
        nodes: *mut *const CUgraphNode,
        count: *mut usize,
    ) -> Done {
        let edges = std::ptr::null_mut();
        info(stream, &Wanted { status, id, graph, nodes, edges, count })
    }

    pub(crate) fn cuStreamGetCaptureInfo_v3(
        stream: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut u64,
        graph: *mut CUgraph,
        nodes: *mut *const CUgraphNode,
        edges: *mut *const CUgraphEdgeData,
        count: *mut usize,
    ) -> Done {
        info(stream, &Wanted { status, id, graph, nodes, edges, count })
    }

    pub(crate) fn cuStreamUpdateCaptureDependencies_v2(
        stream: CUstream,
        nodes: *mut CUgraphNode,
        data: *const CUgraphEdgeData,
        count: usize,
        flags: c_uint,
    ) -> Done {
        let stream = stream::resolve(stream)?;
        let mut joined = stream.joined();
        let joined = joined.as_mut().ok_or(CUresult::ILLEGAL_STATE)?;
        if joined.capture.is_invalid() {
            return Err(CUresult::STREAM_CAPTURE_INVALIDATED);
        }
        if flags > SET {
            return Err(CUresult::INVALID_VALUE);
        }
        let wanted = graph::edges(&joined.capture.graph, nodes, data, count)?;
        if flags == SET {
            let gone: Vec<Edge> =
                joined.tail.iter().filter(|edge| !wanted.contains(edge)).copied().collect();
            joined.capture.excuse(&gone);
            joined.tail = wanted;
        } else {
            let known = joined.tail.clone();
            joined.tail.extend(wanted.into_iter().filter(|edge| !known.contains(edge)));
        }
        Ok(())
    }

    pub(crate) fn cuStreamUpdateCaptureDependencies(
        stream: CUstream,
        nodes: *mut CUgraphNode,
        count: usize,
        flags: c_uint,
    ) -> Done {
        Self::cuStreamUpdateCaptureDependencies_v2(stream, nodes, std::ptr::null(), count, flags)
    }

    pub(crate) fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) -> Done {
        let wanted = raw::get(mode)?;
        if wanted > RELAXED {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(mode, capture::exchange_thread_mode(wanted))
    }
}
