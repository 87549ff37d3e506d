//! Nodes that stand for more than a command: graphs within graphs, events, operations on memory
//! words, memory that is taken and given.

use crate::entry::{Done, Sim};
use crate::graph::Graph;
use crate::graph_memory::{self, GraphBlock};
use crate::graph_task::{BARRIER, BatchTask, FLUSH, Task, WAIT_32, WAIT_64, WRITE_32, WRITE_64};
use crate::layout::{AllocateParams, BatchParams, MemOp};
use crate::{context, event, graph, graph_exec, process, raw};
use shim_cuda_headers::*;
use std::sync::Arc;

const PINNED: u32 = 1;
const ON_DEVICE: u32 = 1;

pub(crate) fn child(graph: CUgraph) -> Result<Task, CUresult> {
    Ok(Task::Child(graph::find(graph)?.copy(true)?))
}

pub(crate) fn child_of(task: &Task) -> Result<Arc<Graph>, CUresult> {
    match task {
        Task::Child(child) => Ok(Arc::clone(child)),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

pub(crate) fn wait(event: CUevent) -> Result<Task, CUresult> {
    event::check(event)?;
    Ok(Task::Wait(event.0))
}

pub(crate) fn record(event: CUevent) -> Result<Task, CUresult> {
    event::check(event)?;
    Ok(Task::Record(event.0))
}

/// Reads operations on memory words, and refuses what no driver has.
pub(crate) fn operations(ops: *const MemOp, count: u32) -> Result<Vec<MemOp>, CUresult> {
    const MOST: u32 = 256;
    if count > MOST {
        return Err(CUresult::INVALID_VALUE);
    }
    let ops = raw::get_all(ops, count as usize)?;
    for op in &ops {
        let bytes = match op.operation {
            WAIT_32 | WRITE_32 => 4,
            WAIT_64 | WRITE_64 => 8,
            FLUSH | BARRIER => continue,
            _ => return Err(CUresult::INVALID_VALUE),
        };
        if op.address == 0 || !op.address.is_multiple_of(bytes) {
            return Err(CUresult::INVALID_VALUE);
        }
    }
    Ok(ops)
}

pub(crate) fn batch(params: &BatchParams) -> Result<Task, CUresult> {
    let context = context::named(CUcontext(params.context))?.handle;
    let ops = std::ptr::with_exposed_provenance(params.ops);
    let ops = operations(ops, params.count)?;
    if params.flags != 0 || ops.is_empty() {
        return Err(CUresult::INVALID_VALUE);
    }
    Ok(Task::Batch(BatchTask { context, flags: params.flags, ops: ops.into() }))
}

pub(crate) fn batch_params(task: &Task) -> Result<BatchParams, CUresult> {
    let Task::Batch(batch) = task else { return Err(CUresult::INVALID_VALUE) };
    Ok(BatchParams {
        context: batch.context,
        count: batch.ops.len() as u32,
        // Good as long as the node has these operations.
        ops: batch.ops.as_ptr().expose_provenance(),
        flags: batch.flags,
    })
}

pub(crate) fn allocate(params: &mut AllocateParams) -> Result<Task, CUresult> {
    let pool = &params.pool;
    if params.bytes == 0
        || pool.alloc_type != PINNED
        || pool.location.kind != ON_DEVICE
        || pool.handle_types != 0
    {
        return Err(CUresult::INVALID_VALUE);
    }
    process::card(pool.location.id)?;
    let context = context::current_handle();
    let block = GraphBlock::new(pool.location.id, context, params.bytes as u64)?;
    params.address = block.base;
    Ok(Task::Allocate(graph_memory::register(block)))
}

pub(crate) fn allocate_params(task: &Task) -> Result<AllocateParams, CUresult> {
    let Task::Allocate(block) = task else { return Err(CUresult::INVALID_VALUE) };
    let location = CUmemLocation { kind: ON_DEVICE, id: block.device };
    Ok(AllocateParams {
        pool: CUmemPoolProps_v1 {
            alloc_type: PINNED,
            handle_types: 0,
            location,
            win32_security_attributes: std::ptr::null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        },
        access: 0,
        access_count: 0,
        bytes: block.size as usize,
        address: block.base,
    })
}

/// A free names what a node of the same graph takes, and only once.
pub(crate) fn free(graph: CUgraph, address: u64) -> Result<Task, CUresult> {
    let graph = graph::find(graph)?;
    let nodes = graph.nodes();
    let taken = nodes.values().find_map(|node| match &node.task {
        Task::Allocate(block) if block.base == address => Some(Arc::clone(block)),
        _ => None,
    });
    let given = |node: &graph::Node| matches!(&node.task, Task::Free(b) if b.base == address);
    if nodes.values().any(given) {
        return Err(CUresult::INVALID_VALUE);
    }
    taken.map(Task::Free).ok_or(CUresult::INVALID_VALUE)
}

impl Sim {
    pub(crate) fn cuGraphAddChildGraphNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        inner: CUgraph,
    ) -> Done {
        if graph == inner {
            return Err(CUresult::INVALID_VALUE);
        }
        graph::add_node(node, graph, after, count, child(inner)?)
    }

    pub(crate) fn cuGraphChildGraphNodeGetGraph(node: CUgraphNode, graph: *mut CUgraph) -> Done {
        raw::put(graph, CUgraph(child_of(&graph::task_of(node)?)?.handle()))
    }

    pub(crate) fn cuGraphExecChildGraphNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        inner: CUgraph,
    ) -> Done {
        graph_exec::set_child(exec, node, &*graph::find(inner)?)
    }

    pub(crate) fn cuGraphAddEventRecordNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        event: CUevent,
    ) -> Done {
        graph::add_node(node, graph, after, count, record(event)?)
    }

    pub(crate) fn cuGraphAddEventWaitNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        event: CUevent,
    ) -> Done {
        graph::add_node(node, graph, after, count, wait(event)?)
    }

    pub(crate) fn cuGraphEventRecordNodeGetEvent(node: CUgraphNode, event: *mut CUevent) -> Done {
        let Task::Record(found) = graph::task_of(node)? else {
            return Err(CUresult::INVALID_VALUE);
        };
        raw::put(event, CUevent(found))
    }

    pub(crate) fn cuGraphEventWaitNodeGetEvent(node: CUgraphNode, event: *mut CUevent) -> Done {
        let Task::Wait(found) = graph::task_of(node)? else {
            return Err(CUresult::INVALID_VALUE);
        };
        raw::put(event, CUevent(found))
    }

    pub(crate) fn cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent) -> Done {
        graph::set_task(node, record(event)?)
    }

    pub(crate) fn cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent) -> Done {
        graph::set_task(node, wait(event)?)
    }

    pub(crate) fn cuGraphExecEventRecordNodeSetEvent(
        exec: CUgraphExec,
        node: CUgraphNode,
        event: CUevent,
    ) -> Done {
        graph_exec::set_task(exec, node, record(event)?)
    }

    pub(crate) fn cuGraphExecEventWaitNodeSetEvent(
        exec: CUgraphExec,
        node: CUgraphNode,
        event: CUevent,
    ) -> Done {
        graph_exec::set_task(exec, node, wait(event)?)
    }

    pub(crate) fn cuGraphAddBatchMemOpNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
    ) -> Done {
        graph::add_node(node, graph, after, count, batch(&raw::get(params.cast())?)?)
    }

    pub(crate) fn cuGraphBatchMemOpNodeGetParams(
        node: CUgraphNode,
        params: *mut CUDA_BATCH_MEM_OP_NODE_PARAMS,
    ) -> Done {
        raw::put(params.cast(), batch_params(&graph::task_of(node)?)?)
    }

    pub(crate) fn cuGraphBatchMemOpNodeSetParams(
        node: CUgraphNode,
        params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
    ) -> Done {
        graph::set_task(node, batch(&raw::get(params.cast())?)?)
    }

    pub(crate) fn cuGraphExecBatchMemOpNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
    ) -> Done {
        graph_exec::set_task(exec, node, batch(&raw::get(params.cast())?)?)
    }

    pub(crate) fn cuGraphAddMemAllocNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
    ) -> Done {
        let mut asked = raw::get(params.cast())?;
        let task = allocate(&mut asked)?;
        graph::add_node(node, graph, after, count, task)?;
        raw::put(params.cast(), asked)
    }

    pub(crate) fn cuGraphMemAllocNodeGetParams(
        node: CUgraphNode,
        params: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
    ) -> Done {
        raw::put(params.cast(), allocate_params(&graph::task_of(node)?)?)
    }

    pub(crate) fn cuGraphAddMemFreeNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        address: CUdeviceptr,
    ) -> Done {
        graph::add_node(node, graph, after, count, free(graph, address)?)
    }

    pub(crate) fn cuGraphMemFreeNodeGetParams(node: CUgraphNode, to: *mut CUdeviceptr) -> Done {
        let Task::Free(block) = graph::task_of(node)? else {
            return Err(CUresult::INVALID_VALUE);
        };
        raw::put(to, block.base)
    }
}
