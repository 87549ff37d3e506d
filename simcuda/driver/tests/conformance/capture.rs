//! Rules: stream capture, and what it forbids.

use crate::api::{MIB, Turn};
use crate::call::{NULL, code, fails, ok};
use crate::rule::rules;

const GLOBAL: u32 = 0;
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;

const UNSUPPORTED: u32 = 900;
const INVALIDATED: u32 = 901;
const MERGE: u32 = 902;
const UNMATCHED: u32 = 903;
const UNJOINED: u32 = 904;
const ISOLATION: u32 = 905;
const IMPLICIT: u32 = 906;
const CAPTURED_EVENT: u32 = 907;
const WRONG_THREAD: u32 = 908;

fn begin(stream: usize, mode: u32) {
    ok!("cuStreamBeginCapture_v2", stream, mode);
}

/// 0 not capturing, 1 capturing, 2 broken.
fn status(stream: usize) -> u32 {
    let mut status = 9_u32;
    ok!("cuStreamIsCapturing", stream, &mut status);
    status
}

fn end(stream: usize) -> (u32, usize) {
    let mut graph = 9_usize;
    (code!("cuStreamEndCapture", stream, &mut graph), graph)
}

fn event() -> usize {
    let mut event = 0_usize;
    ok!("cuEventCreate", &mut event, 2_u32);
    event
}

fn nodes(graph: usize) -> u64 {
    let mut count = 0_u64;
    ok!("cuGraphGetNodes", graph, NULL, &mut count);
    count
}

fn launch(turn: &Turn, graph: usize) {
    let mut exec = 0_usize;
    ok!("cuGraphInstantiateWithFlags", &mut exec, graph, 0_u64);
    let stream = turn.stream();
    ok!("cuGraphLaunch", exec, stream);
    ok!("cuStreamSynchronize", stream);
    ok!("cuGraphExecDestroy", exec);
}

/// A blocking stream.
fn blocking() -> usize {
    let mut stream = 0_usize;
    ok!("cuStreamCreate", &mut stream, 0_u32);
    stream
}

/// The call fails with the code and breaks the capture of the stream that it is given.
fn breaks(turn: &Turn, mode: u32, blocks: bool, wanted: u32, what: impl Fn(usize) -> u32) {
    let stream = if blocks { blocking() } else { turn.stream() };
    let at = turn.allocate(1024);
    begin(stream, mode);
    assert_eq!(what(stream), wanted);
    assert_eq!(status(stream), 2, "broken by {wanted}");
    assert_eq!(code!("cuMemsetD8Async", at, 1_u32, 4_u64, stream), INVALIDATED);
    assert_eq!(end(stream), (INVALIDATED, 0));
    assert_eq!(status(stream), 0);
    ok!("cuStreamSynchronize", stream);
}

/// The same call made by another thread, to which the context is current.
fn elsewhere(turn: &Turn, what: impl Fn() -> u32 + Send) -> u32 {
    let context = turn.context;
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            ok!("cuCtxSetCurrent", context);
            what()
        });
        other.join().expect("a thread")
    })
}

/// Calls that the manual calls potentially unsafe.
fn unsafe_calls(turn: &Turn) -> Vec<Box<dyn Fn() -> u32 + Send + Sync>> {
    let (other, memory, spare) = (turn.stream(), turn.allocate(MIB), turn.allocate(MIB));
    let event = event();
    vec![
        Box::new(|| code!("cuMemAlloc_v2", &mut 0_u64, MIB)),
        Box::new(|| code!("cuMemAllocManaged", &mut 0_u64, MIB, 1_u32)),
        Box::new(|| code!("cuMemAllocPitch_v2", &mut 0_u64, &mut 0_u64, 64_u64, 4_u64, 4_u32)),
        Box::new(|| code!("cuMemHostAlloc", &mut 0_usize, 4096_u64, 0_u32)),
        Box::new(move || code!("cuMemFree_v2", spare)),
        Box::new(move || code!("cuStreamSynchronize", other)),
        Box::new(move || code!("cuStreamQuery", other)),
        Box::new(move || code!("cuEventQuery", event)),
        Box::new(move || code!("cuMemcpyDtoD_v2", memory, memory + 512, 4_u64)),
        Box::new(move || code!("cuMemsetD8_v2", memory, 1_u32, 4_u64)),
    ]
}

rules! {
    /// cuda.h, cuStreamBeginCapture: operations pushed into the stream are not executed but
    /// captured into a graph, which cuStreamEndCapture returns; not on the legacy stream; only if
    /// the stream does not capture already.
    fn what_is_captured_happens_when_the_graph_is_launched(turn) covers [
        cuStreamBeginCapture, cuStreamBeginCapture_ptsz, cuStreamBeginCapture_v2,
        cuStreamBeginCapture_v2_ptsz, cuStreamEndCapture, cuStreamEndCapture_ptsz,
        cuStreamIsCapturing, cuStreamIsCapturing_ptsz
    ] {
        let at = turn.allocate(MIB);
        for form in ["", "_ptsz", "_v2", "_v2_ptsz"] {
            let (stream, name) = (turn.stream(), format!("cuStreamBeginCapture{form}"));
            let twin = if form.ends_with("ptsz") { "_ptsz" } else { "" };
            turn.write(at, &[0; 4]);
            if form.starts_with("_v2") { ok!(&name, stream, GLOBAL) } else { ok!(&name, stream) }
            let mut seen = 9_u32;
            ok!(&format!("cuStreamIsCapturing{twin}"), stream, &mut seen);
            assert_eq!(seen, 1);
            fails!(401, &name, stream, GLOBAL);
            ok!("cuMemsetD8Async", at, 4_u32, 4_u64, stream);
            let mut graph = 0_usize;
            ok!(&format!("cuStreamEndCapture{twin}"), stream, &mut graph);
            assert_eq!(turn.read(at, 4), [0; 4]);
            launch(turn, graph);
            assert_eq!(turn.read(at, 4), [4; 4]);
            fails!(401, &format!("cuStreamEndCapture{twin}"), stream, &mut graph);
        }
        fails!(UNSUPPORTED, "cuStreamBeginCapture_v2", 1_u64, GLOBAL);
        fails!(1, "cuStreamBeginCapture_v2", turn.stream(), 3_u32);
        let stream = turn.stream();
        begin(stream, GLOBAL);
        fails!(1, "cuStreamEndCapture", stream, NULL);
        assert_eq!(end(stream).0, 0);
    }

    /// cuda.h, cuStreamWaitEvent with a captured event brings the stream into the capture; the
    /// fork must be joined to the origin stream before the end
    /// (CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904), which is the one that it began on
    /// (CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903).
    fn a_capture_forks_and_must_be_joined_on_its_origin(turn) covers [
        cuEventRecord, cuStreamWaitEvent, cuStreamEndCapture
    ] {
        let (a, b, at) = (turn.stream(), turn.stream(), turn.allocate(MIB));
        let (fork, join) = (event(), event());
        let run = |joins: bool| {
            begin(a, GLOBAL);
            ok!("cuMemsetD8Async", at, 1_u32, 4_u64, a);
            ok!("cuEventRecord", fork, a);
            ok!("cuStreamWaitEvent", b, fork, 0_u32);
            assert_eq!(status(b), 1);
            ok!("cuMemcpyDtoDAsync_v2", at + 4, at, 4_u64, b);
            if joins {
                ok!("cuEventRecord", join, b);
                ok!("cuStreamWaitEvent", a, join, 0_u32);
                ok!("cuMemcpyDtoDAsync_v2", at + 8, at + 4, 4_u64, a);
            }
        };
        run(true);
        let (code, graph) = end(a);
        assert_eq!((code, status(b), nodes(graph)), (0, 0, 3));
        turn.write(at, &[0; 12]);
        launch(turn, graph);
        assert_eq!(turn.read(at, 12), [1; 12]);
        run(false);
        assert_eq!(end(a), (UNJOINED, 0));
        assert_eq!((status(a), status(b)), (0, 0));
        run(true);
        assert_eq!(end(b).0, UNMATCHED);
        assert_eq!(end(a), (INVALIDATED, 0));
    }

    /// cuda.h, cuStreamEndCapture: unless the mode is RELAXED it must be called from the thread
    /// that began (CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908).
    fn a_capture_ends_on_the_thread_that_began_it(turn) covers [cuStreamEndCapture] {
        for mode in [GLOBAL, THREAD_LOCAL] {
            let stream = turn.stream();
            begin(stream, mode);
            assert_eq!(elsewhere(turn, || end(stream).0), WRONG_THREAD);
            assert_eq!(end(stream), (INVALIDATED, 0));
        }
        let stream = turn.stream();
        begin(stream, RELAXED);
        assert_eq!(elsewhere(turn, || end(stream).0), 0);
        assert_eq!(status(stream), 0);
    }

    /// The CUDA programming guide, as cuda.h's codes 900 and 907 say: it is invalid to synchronise
    /// or query a captured stream or event, or a context or device with one; the capture is broken,
    /// and a NULL graph comes of it.
    fn asking_for_what_is_captured_breaks_the_capture(turn) covers [
        cuStreamSynchronize, cuStreamQuery, cuEventQuery, cuEventSynchronize, cuCtxSynchronize,
        cuCtxSynchronize_v2, cuCtxRecordEvent, cuCtxWaitEvent
    ] {
        let (mark, plain) = (event(), event());
        let captured = |what: &'static str| {
            move |stream| {
                ok!("cuEventRecord", mark, stream);
                code!(what, mark)
            }
        };
        let context = turn.context;
        for mode in [THREAD_LOCAL, RELAXED] {
            breaks(turn, mode, false, UNSUPPORTED, |stream| code!("cuStreamSynchronize", stream));
            breaks(turn, mode, false, UNSUPPORTED, |stream| code!("cuStreamQuery", stream));
            breaks(turn, mode, false, UNSUPPORTED, |_| code!("cuCtxSynchronize"));
            breaks(turn, mode, false, UNSUPPORTED, |_| code!("cuCtxSynchronize_v2", context));
            breaks(turn, mode, false, UNSUPPORTED, |_| code!("cuCtxRecordEvent", context, plain));
            breaks(turn, mode, false, UNSUPPORTED, |_| code!("cuCtxWaitEvent", context, plain));
        }
        breaks(turn, RELAXED, false, CAPTURED_EVENT, captured("cuEventQuery"));
        breaks(turn, RELAXED, false, CAPTURED_EVENT, captured("cuEventSynchronize"));
        // The same from a thread that does not capture.
        for what in ["cuStreamSynchronize", "cuStreamQuery"] {
            let from_there = |stream| elsewhere(turn, || code!(what, stream));
            breaks(turn, THREAD_LOCAL, false, UNSUPPORTED, from_there);
        }
        breaks(turn, RELAXED, false, UNSUPPORTED, |_| elsewhere(turn, || code!("cuCtxSynchronize")));
        breaks(turn, THREAD_LOCAL, false, CAPTURED_EVENT, |stream| {
            ok!("cuEventRecord", mark, stream);
            elsewhere(turn, || code!("cuEventSynchronize", mark))
        });
    }

    /// cuda.h, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906): the legacy stream would depend on a
    /// blocking stream that captures; cuStreamIsCapturing says so without breaking the capture, all
    /// other use breaks it.
    fn the_legacy_stream_is_unusable_beside_a_blocking_capture(turn) covers [
        cuMemsetD8Async, cuMemcpyDtoD_v2, cuStreamSynchronize, cuStreamIsCapturing
    ] {
        let (at, mark) = (turn.allocate(MIB), event());
        breaks(turn, RELAXED, true, IMPLICIT, |_| code!("cuMemsetD8Async", at, 1_u32, 4_u64, 0_u64));
        breaks(turn, RELAXED, true, IMPLICIT, |_| code!("cuMemcpyDtoD_v2", at, at + 8, 4_u64));
        breaks(turn, GLOBAL, true, IMPLICIT, |_| code!("cuMemcpyDtoD_v2", at, at + 8, 4_u64));
        breaks(turn, RELAXED, true, IMPLICIT, |_| code!("cuStreamSynchronize", 0_u64));
        breaks(turn, RELAXED, true, IMPLICIT, |_| code!("cuStreamQuery", 1_u64));
        breaks(turn, RELAXED, true, IMPLICIT, |_| code!("cuEventRecord", mark, 0_u64));
        breaks(turn, RELAXED, true, IMPLICIT, |_| {
            elsewhere(turn, || code!("cuMemsetD8Async", at, 1_u32, 4_u64, 0_u64))
        });
        let stream = blocking();
        begin(stream, RELAXED);
        fails!(IMPLICIT, "cuStreamIsCapturing", 0_u64, &mut 0_u32);
        assert_eq!((status(stream), end(stream).0), (1, 0));
        // A stream that blocks nobody leaves the legacy one alone.
        let free = turn.stream();
        begin(free, RELAXED);
        ok!("cuMemsetD8Async", at, 1_u32, 4_u64, 0_u64);
        ok!("cuMemcpyDtoD_v2", at, at + 8, 4_u64);
        assert_eq!(end(free).0, 0);
    }

    /// cuda.h, CUDA_ERROR_STREAM_CAPTURE_ISOLATION (905): a dependency on work outside the capture;
    /// CUDA_ERROR_STREAM_CAPTURE_MERGE (902): on work of another capture, which breaks both.
    fn a_capture_depends_on_nothing_outside_it(turn) covers [cuStreamWaitEvent] {
        let (mark, outside) = (event(), turn.stream());
        ok!("cuEventRecord", mark, outside);
        breaks(turn, GLOBAL, false, ISOLATION, |stream| {
            code!("cuStreamWaitEvent", stream, mark, 0_u32)
        });
        let (a, b) = (turn.stream(), turn.stream());
        begin(a, GLOBAL);
        begin(b, GLOBAL);
        ok!("cuEventRecord", mark, a);
        fails!(MERGE, "cuStreamWaitEvent", b, mark, 0_u32);
        assert_eq!((end(a), end(b)), ((INVALIDATED, 0), (INVALIDATED, 0)));
        fails!(CAPTURED_EVENT, "cuStreamWaitEvent", a, mark, 0_u32);
    }

    /// cuda.h, cuStreamAddCallback, cuStreamAttachMemAsync: not in a stream that captures.
    fn what_no_graph_can_hold_breaks_the_capture(turn) covers [
        cuStreamAddCallback, cuStreamAttachMemAsync
    ] {
        let (adder, mut managed) = (crate::streams::adder(), 0_u64);
        ok!("cuMemAllocManaged", &mut managed, MIB, 1_u32);
        breaks(turn, GLOBAL, false, UNSUPPORTED, |stream| {
            code!("cuStreamAddCallback", stream, adder, 0_u64, 0_u32)
        });
        breaks(turn, GLOBAL, false, UNSUPPORTED, |stream| {
            code!("cuStreamAttachMemAsync", stream, managed, 0_u64, 1_u32)
        });
    }

    /// cuda.h, cuThreadExchangeStreamCaptureMode: potentially unsafe calls are prohibited to the
    /// capturing thread unless the capture is RELAXED, and to all threads by a GLOBAL capture;
    /// a thread can exchange its mode for a laxer one. A prohibited call breaks the capture.
    fn unsafe_calls_are_prohibited_as_the_modes_say(turn) covers [cuThreadExchangeStreamCaptureMode] {
        for call in unsafe_calls(turn) {
            breaks(turn, GLOBAL, false, UNSUPPORTED, |_| call());
            breaks(turn, THREAD_LOCAL, false, UNSUPPORTED, |_| call());
            breaks(turn, GLOBAL, false, UNSUPPORTED, |_| elsewhere(turn, &call));
        }
        let allowed = |capture: u32, there: bool, own: u32| {
            let stream = turn.stream();
            let call = || {
                let (mut mode, mut at) = (own, 0_u64);
                ok!("cuThreadExchangeStreamCaptureMode", &mut mode);
                assert_eq!(mode, GLOBAL, "what the thread had before");
                ok!("cuMemAlloc_v2", &mut at, MIB);
                ok!("cuMemFree_v2", at);
                ok!("cuThreadExchangeStreamCaptureMode", &mut mode);
                0
            };
            begin(stream, capture);
            let code = if there { elsewhere(turn, call) } else { call() };
            assert_eq!((code, end(stream).0), (0, 0), "mode {capture}");
        };
        allowed(RELAXED, false, GLOBAL);
        allowed(GLOBAL, false, RELAXED);
        allowed(GLOBAL, true, THREAD_LOCAL);
        allowed(THREAD_LOCAL, true, GLOBAL);
        fails!(1, "cuThreadExchangeStreamCaptureMode", &mut 3_u32);
        fails!(1, "cuThreadExchangeStreamCaptureMode", NULL);
    }

    /// cuda.h, cuStreamGetCaptureInfo: status, an id, the graph, and the nodes that the next one
    /// will depend on; with a stream that does not capture only the status.
    fn a_capture_says_where_it_is(turn) covers [
        cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz, cuStreamGetCaptureInfo_v2,
        cuStreamGetCaptureInfo_v2_ptsz, cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz
    ] {
        let (stream, at, mut ids) = (turn.stream(), turn.allocate(MIB), Vec::new());
        for form in ["", "_ptsz", "_v2", "_v2_ptsz", "_v3", "_v3_ptsz"] {
            let name = format!("cuStreamGetCaptureInfo{form}");
            let (mut state, mut id, mut graph) = (9_u32, 0_u64, 0_usize);
            let (mut list, mut edges, mut count) = (0_usize, 0_usize, 9_u64);
            begin(stream, GLOBAL);
            ok!("cuMemsetD8Async", at, 4_u32, 4_u64, stream);
            if form.starts_with("_v3") {
                ok!(&name, stream, &mut state, &mut id, &mut graph, &mut list, &mut edges, &mut count);
                fails!(1, &name, stream, &mut state, NULL, NULL, NULL, &mut edges, NULL);
            } else if form.starts_with("_v2") {
                ok!(&name, stream, &mut state, &mut id, &mut graph, &mut list, &mut count);
            } else {
                ok!(&name, stream, &mut state, &mut id);
            }
            assert_eq!(state, 1);
            let (code, ended) = end(stream);
            assert_eq!(code, 0);
            if form.starts_with("_v") {
                assert_eq!((graph, count), (ended, 1));
            }
            ids.push(id);
            ok!(&name, stream, &mut state, NULL, NULL, NULL, NULL, NULL);
            assert_eq!(state, 0);
            fails!(1, &name, stream, NULL, NULL, NULL, NULL, NULL, NULL);
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 6);
    }

    /// cuda.h, cuStreamUpdateCaptureDependencies: adds to, or sets, what the stream's next node
    /// depends on; nodes taken out so need not be joined. CUDA_ERROR_ILLEGAL_STATE (401) if the
    /// stream is not capturing.
    fn a_captures_order_can_be_changed(turn) covers [
        cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz,
        cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz
    ] {
        let (stream, at) = (turn.stream(), turn.allocate(MIB));
        for form in ["", "_ptsz", "_v2", "_v2_ptsz"] {
            let name = format!("cuStreamUpdateCaptureDependencies{form}");
            let update = |nodes: &[usize], flags: u32| {
                if form.starts_with("_v2") {
                    code!(&name, stream, nodes, NULL, nodes.len(), flags)
                } else {
                    code!(&name, stream, nodes, nodes.len(), flags)
                }
            };
            assert_eq!(update(&[], 0), 401);
            begin(stream, GLOBAL);
            ok!("cuMemsetD8Async", at, 4_u32, 4_u64, stream);
            let (mut state, mut graph, mut own) = (0_u32, 0_usize, 0_usize);
            ok!("cuStreamGetCaptureInfo_v2", stream, &mut state, NULL, &mut graph, NULL, NULL);
            ok!("cuGraphAddEmptyNode", &mut own, graph, NULL, 0_u64);
            assert_eq!(update(&[own], 1), 0);
            assert_eq!(update(&[0xDEAD], 0), 1);
            assert_eq!(update(&[own], 2), 1);
            ok!("cuMemsetD8Async", at, 5_u32, 4_u64, stream);
            let (code, graph) = end(stream);
            assert_eq!(code, 0);
            let (mut from, mut to, mut count) = ([0_usize; 4], [0_usize; 4], 4_u64);
            ok!("cuGraphGetEdges", graph, &mut from, &mut to, &mut count);
            assert_eq!((count, from[0]), (1, own));
        }
    }

    /// cuda.h, cuStreamBeginCaptureToGraph: new nodes go into an existing graph, the first one
    /// depends on the named nodes; the graph cannot be instantiated until the end.
    fn a_capture_goes_into_a_given_graph(turn) covers [
        cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz
    ] {
        let (stream, at) = (turn.stream(), turn.allocate(MIB));
        for form in ["", "_ptsz"] {
            let (mut graph, mut first, mut exec) = (0_usize, 0_usize, 0_usize);
            ok!("cuGraphCreate", &mut graph, 0_u32);
            ok!("cuGraphAddEmptyNode", &mut first, graph, NULL, 0_u64);
            let name = format!("cuStreamBeginCaptureToGraph{form}");
            fails!(1, &name, stream, graph, &[0xDEAD_usize], NULL, 1_u64, GLOBAL);
            ok!(&name, stream, graph, &[first], NULL, 1_u64, GLOBAL);
            ok!("cuMemsetD8Async", at, 7_u32, 4_u64, stream);
            fails!(1, "cuGraphInstantiateWithFlags", &mut exec, graph, 0_u64);
            assert_eq!(end(stream), (0, graph));
            assert_eq!(nodes(graph), 2);
            turn.write(at, &[0; 4]);
            launch(turn, graph);
            assert_eq!(turn.read(at, 4), [7; 4]);
            ok!("cuGraphDestroy", graph);
        }
    }

    /// cuda.h, CU_EVENT_RECORD_EXTERNAL, CU_EVENT_WAIT_EXTERNAL: while a stream captures, nodes
    /// that record and await the event at each launch.
    fn a_capture_holds_events_of_the_world_outside(turn) covers [
        cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz, cuStreamWaitEvent
    ] {
        let (stream, outside, gate) = (turn.stream(), turn.stream(), turn.allocate(MIB));
        for form in ["", "_ptsz"] {
            let (awaited, recorded) = (event(), event());
            begin(stream, GLOBAL);
            ok!("cuStreamWaitEvent", stream, awaited, 1_u32);
            ok!(&format!("cuEventRecordWithFlags{form}"), recorded, stream, 1_u32);
            let (code, graph) = end(stream);
            assert_eq!((code, nodes(graph)), (0, 2));
            let mut exec = 0_usize;
            ok!("cuGraphInstantiateWithFlags", &mut exec, graph, 0_u64);
            turn.write(gate, &[0; 4]);
            ok!("cuStreamWaitValue32_v2", outside, gate, 1_u32, 1_u32);
            ok!("cuEventRecord", awaited, outside);
            ok!("cuGraphLaunch", exec, stream);
            fails!(600, "cuEventQuery", recorded);
            ok!("cuStreamWriteValue32_v2", turn.stream(), gate, 1_u32, 0_u32);
            ok!("cuEventSynchronize", recorded);
            ok!("cuStreamSynchronize", stream);
        }
    }

    /// cuda.h, cuMemAllocAsync, cuMemFreeAsync: while a stream captures, nodes with memory of the
    /// graph; cuGraphLaunch into a capturing stream is a node that holds the graph.
    fn a_capture_holds_memory_and_graphs(turn) covers [
        cuMemAllocAsync, cuMemFreeAsync, cuGraphLaunch, cuGraphNodeGetType
    ] {
        let (stream, at, before) = (turn.stream(), turn.allocate(MIB), turn.free_bytes());
        let (mut memory, mut inner, mut exec) = (0_u64, 0_usize, 0_usize);
        begin(stream, GLOBAL);
        ok!("cuMemsetD8Async", at, 3_u32, 4_u64, stream);
        ok!("cuStreamEndCapture", stream, &mut inner);
        ok!("cuGraphInstantiateWithFlags", &mut exec, inner, 0_u64);
        begin(stream, GLOBAL);
        ok!("cuMemAllocAsync", &mut memory, 8 * MIB, stream);
        fails!(1, "cuMemFreeAsync", at, stream);
        ok!("cuGraphLaunch", exec, stream);
        ok!("cuMemcpyDtoDAsync_v2", memory, at, 4_u64, stream);
        ok!("cuMemcpyDtoDAsync_v2", at + 4, memory, 4_u64, stream);
        ok!("cuMemFreeAsync", memory, stream);
        let (code, graph) = end(stream);
        assert_eq!((code, turn.free_bytes()), (0, before));
        let (mut list, mut count, mut kinds) = ([0_usize; 8], 8_u64, Vec::new());
        ok!("cuGraphGetNodes", graph, &mut list, &mut count);
        for node in &list[..count as usize] {
            let mut kind = 99_u32;
            ok!("cuGraphNodeGetType", *node, &mut kind);
            kinds.push(kind);
        }
        assert_eq!(kinds, [10, 4, 1, 1, 11]);
        turn.write(at, &[0; 8]);
        launch(turn, graph);
        assert_eq!(turn.read(at, 8), [3; 8]);
        ok!("cuGraphDestroy", graph);
    }

    /// The CUDA programming guide: a stream that goes away with its capture leaves nothing behind;
    /// so does its context.
    /// (cuda.h, cuStreamEndCapture: afterwards potentially unsafe calls are allowed again.)
    fn a_capture_ends_with_its_stream_or_context(turn) covers [cuStreamDestroy_v2, cuCtxDestroy_v2] {
        let (stream, mut at, mut other) = (turn.stream(), 0_u64, 0_usize);
        begin(stream, GLOBAL);
        ok!("cuStreamDestroy_v2", stream);
        ok!("cuMemAlloc_v2", &mut at, MIB);
        ok!("cuMemFree_v2", at);
        ok!("cuCtxCreate_v2", &mut other, 0_u32, 0_u32);
        begin(turn.stream(), GLOBAL);
        ok!("cuCtxDestroy_v2", other);
        ok!("cuMemAlloc_v2", &mut at, MIB);
        ok!("cuMemFree_v2", at);
    }
}
