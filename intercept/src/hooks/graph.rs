//! Memory nodes of graphs. Their memory is the driver's, one reserve for each device
//! ([`halfwarp_books::Source::Graphs`]), taken when a graph with such nodes is uploaded or launched and
//! kept until it is trimmed: so it is charged as a pool is, by what the driver says it has reserved.
//!
//! A graph with a node that can never fit is refused when it is instantiated; one whose nodes do not
//! fit now when it is uploaded or launched. What it takes is reckoned as the sum of its nodes: a driver
//! that lets one follow another in the same memory takes less, and less is charged afterwards.

use std::ffi::{c_char, c_uint, c_ulonglong, c_void};

use halfwarp_api::{bytes, units};
use halfwarp_books::{PoolId, Slot, Source};
use shim_cuda_headers::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUdevice, CUdeviceptr, CUgraph, CUgraphExec, CUgraphNode,
    CUmemPoolProps_v1, CUresult, CUstream, DriverFn,
};

use super::{context, joined, linear::refuse, pool};
use crate::{process::Process, real::call, sys::Errno};

/// `CU_GRAPH_NODE_TYPE_GRAPH`, `CU_GRAPH_NODE_TYPE_MEM_ALLOC`.
const CHILD: c_uint = 4;
const ALLOCATES: c_uint = 10;
/// Graphs within graphs go this deep at most before they are taken for a mistake.
const DEEP: u32 = 16;

/// What a node that allocates was made with: the head of `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[repr(C)]
struct AllocParams {
    props: CUmemPoolProps_v1,
    access: *const c_void,
    access_count: usize,
    bytes: usize,
    address: CUdeviceptr,
    /// Later versions may write more.
    more: [u64; 8],
}

/// What the nodes of a graph take, together and the largest, on the device of the last.
#[derive(Clone, Copy, Default)]
struct Takes {
    device: CUdevice,
    sum_bytes: u64,
    most_bytes: u64,
}

/// The nodes of a graph.
fn nodes(graph: CUgraph) -> Vec<CUgraphNode> {
    let mut count = 0_usize;
    // SAFETY: a writable count and no room for nodes.
    let code = unsafe { call::cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count) };
    if !code.is_ok() || count == 0 {
        return Vec::new();
    }
    let mut nodes = vec![CUgraphNode(0); count];
    // SAFETY: room for that many nodes.
    let code = unsafe { call::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count) };
    nodes.truncate(if code.is_ok() { count } else { 0 });
    nodes
}

fn add_up(graph: CUgraph, depth: u32, takes: &mut Takes) {
    for node in nodes(graph) {
        let mut kind: c_uint = 0;
        // SAFETY: a writable type.
        let code = unsafe { call::cuGraphNodeGetType(node, (&raw mut kind).cast()) };
        match kind {
            _ if !code.is_ok() => {}
            CHILD if depth < DEEP => {
                let mut child = CUgraph(0);
                // SAFETY: a writable graph.
                let code = unsafe { call::cuGraphChildGraphNodeGetGraph(node, &raw mut child) };
                if code.is_ok() {
                    add_up(child, depth + 1, takes);
                }
            }
            ALLOCATES => add_node(node, takes),
            _ => {}
        }
    }
}

fn add_node(node: CUgraphNode, takes: &mut Takes) {
    // SAFETY: all-zero is a valid value of plain data and null pointers.
    let mut params: AllocParams = unsafe { std::mem::zeroed() };
    // SAFETY: writable, and at least as long as what the driver writes.
    let code = unsafe { call::cuGraphMemAllocNodeGetParams(node, (&raw mut params).cast()) };
    if code.is_ok() {
        takes.device = params.props.location.id;
        takes.sum_bytes = takes.sum_bytes.saturating_add(params.bytes as u64);
        takes.most_bytes = takes.most_bytes.max(params.bytes as u64);
    }
}

/// Lets the driver make an executable graph, unless a node of it can never fit.
fn instantiate(
    process: &Process,
    function: DriverFn,
    graph: CUgraph,
    out: *mut CUgraphExec,
    make: impl FnOnce() -> CUresult,
) -> CUresult {
    let mut takes = Takes::default();
    add_up(graph, 0, &mut takes);
    let slot = process.slot_of(takes.device).filter(|_| takes.sum_bytes > 0 && !out.is_null());
    let Some(slot) = slot else { return make() };
    if takes.most_bytes > bytes(process.limit_units(slot)) {
        return refuse(process, function, slot, takes.most_bytes);
    }
    let code = make();
    if code.is_ok() {
        // SAFETY: the driver succeeded, so it has written the graph.
        let exec = unsafe { out.read() };
        let units = units(takes.sum_bytes).unwrap_or(u32::MAX);
        process.books().graphs.enter(exec, slot, units);
        process.note_graph_memory();
    }
    code
}

/// The reserve of graphs on a card.
fn reserve_of(process: &Process, slot: Slot) -> Option<PoolId> {
    let source = Source::Graphs(process.device_of(slot)?);
    let id = process.books().pools.meet(source, slot, false);
    process.note_pool();
    Some(id)
}

/// Makes the graphs of a card give back what they do not use.
fn trim(process: &Process, slot: Slot) {
    let Some(device) = process.device_of(slot) else { return };
    // SAFETY: a device of this process; what is in use stays.
    let _ = unsafe { call::cuDeviceGraphMemTrim(device) };
    process.books().graphs.trimmed(slot);
    pool::settle_all(process, Some(slot));
}

/// Gets what a graph's nodes take charged, lets it go, and sets the charge to what it has become.
fn launch(
    process: &Process,
    function: DriverFn,
    exec: CUgraphExec,
    go: impl FnOnce() -> CUresult,
) -> CUresult {
    if !process.has_graph_memory() {
        return go();
    }
    let taken = process.books().graphs.wants(exec);
    let Some((slot, wanted)) = taken else { return go() };
    let Some(id) = reserve_of(process, slot) else { return go() };
    if context::seen(process, slot).is_err() {
        return refuse(process, function, slot, bytes(wanted));
    }
    if pool::charge(process, slot, wanted).is_err() {
        // What earlier graphs do not use any more may be what is missing.
        trim(process, slot);
        if pool::charge(process, slot, wanted).is_err() {
            return refuse(process, function, slot, bytes(wanted));
        }
    }
    process.books().pools.begin(id, wanted);
    let code = go();
    {
        let mut books = process.books();
        books.pools.end(id, wanted, false);
        if code.is_ok() {
            books.graphs.backed(exec);
        }
    }
    pool::settle_one(process, id);
    code
}

macro_rules! instantiates {
    ($($symbol:ident ($($arg:ident: $ty:ty),*);)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(
            out: *mut CUgraphExec,
            graph: CUgraph,
            $($arg: $ty),*
        ) -> CUresult {
            // SAFETY: the arguments are the caller's, passed on unchanged.
            let make = || unsafe { call::$symbol(out, graph, $($arg),*) };
            let process = joined!(make());
            let _errno = Errno::keep();
            instantiate(process, DriverFn::$symbol, graph, out, make)
        }
    )*};
}

instantiates! {
    cuGraphInstantiate(node: *mut CUgraphNode, log: *mut c_char, length: usize);
    cuGraphInstantiate_v2(node: *mut CUgraphNode, log: *mut c_char, length: usize);
    cuGraphInstantiateWithFlags(flags: c_ulonglong);
    cuGraphInstantiateWithParams(params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS);
    cuGraphInstantiateWithParams_ptsz(params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS);
}

macro_rules! launches {
    ($($symbol:ident)*) => {$(
        pub(crate) unsafe extern "C" fn $symbol(exec: CUgraphExec, stream: CUstream) -> CUresult {
            // SAFETY: the arguments are the caller's, passed on unchanged.
            let go = || unsafe { call::$symbol(exec, stream) };
            let process = joined!(go());
            launch(process, DriverFn::$symbol, exec, go)
        }
    )*};
}

launches! { cuGraphLaunch cuGraphLaunch_ptsz cuGraphUpload cuGraphUpload_ptsz }

pub(crate) unsafe extern "C" fn cuGraphExecDestroy(exec: CUgraphExec) -> CUresult {
    // SAFETY: the argument is the caller's, passed on unchanged.
    let destroy = || unsafe { call::cuGraphExecDestroy(exec) };
    let process = joined!(destroy());
    if !process.has_graph_memory() {
        return destroy();
    }
    let _errno = Errno::keep();
    let taken = process.books().graphs.take(exec);
    let code = destroy();
    if let (Some(taken), false) = (taken, code.is_ok()) {
        process.books().graphs.restore(exec, taken);
    }
    pool::settle_all(process, None);
    code
}

pub(crate) unsafe extern "C" fn cuDeviceGraphMemTrim(device: CUdevice) -> CUresult {
    // SAFETY: the argument is the caller's, passed on unchanged.
    let code = unsafe { call::cuDeviceGraphMemTrim(device) };
    let process = joined!(code);
    let _errno = Errno::keep();
    if let Some(slot) = process.slot_of(device).filter(|_| code.is_ok()) {
        process.books().graphs.trimmed(slot);
        pool::settle_all(process, Some(slot));
    }
    code
}
