//! The calls for nodes of any kind: their parameters are the kind and that kind's own structure.

use crate::entry::{Done, Sim};
use crate::graph_task::{KernelTask, Task};
use crate::layout::{
    AllocateParams, CopyNodeParams, FillParams, HostParams, NODE_PART_BYTES, NodeHead,
};
use crate::{graph, graph_exec, graph_nodes, graph_parts, raw};
use shim_cuda_headers::*;

/// The kind's own part of the structure.
fn part<T>(params: *mut CUgraphNodeParams) -> *mut T {
    params.cast::<u8>().wrapping_add(NODE_PART_BYTES).cast()
}

/// Makes the task that the structure describes.
fn task(graph: Option<CUgraph>, params: *mut CUgraphNodeParams) -> Result<Task, CUresult> {
    let head: NodeHead = raw::get(params.cast())?;
    match head.kind {
        0 => graph_nodes::kernel(&raw::get(part(params))?),
        1 => {
            let asked: CopyNodeParams = raw::get(part(params))?;
            graph_nodes::copy(&asked.copy, CUcontext(asked.context))
        }
        2 => {
            let asked: FillParams = raw::get(part(params))?;
            graph_nodes::fill(&asked.v1, CUcontext(asked.context))
        }
        3 => graph_nodes::host(&raw::get::<HostParams>(part(params))?),
        4 => graph_parts::child(raw::get(part(params))?),
        5 => Ok(Task::Empty),
        6 => graph_parts::wait(raw::get(part(params))?),
        7 => graph_parts::record(raw::get(part(params))?),
        10 => {
            let mut asked: AllocateParams = raw::get(part(params))?;
            let task = graph_parts::allocate(&mut asked)?;
            raw::put(part(params), asked)?;
            Ok(task)
        }
        11 => graph_parts::free(graph.ok_or(CUresult::INVALID_VALUE)?, raw::get(part(params))?),
        12 => graph_parts::batch(&raw::get(part(params))?),
        8 | 9 | 13..=18 => Err(CUresult::NOT_SUPPORTED),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// Describes the task.
fn describe(task: &Task, params: *mut CUgraphNodeParams) -> Done {
    raw::put(params.cast(), NodeHead { kind: task.kind(), reserved: [0; 3] })?;
    match task {
        Task::Kernel(_) => raw::put(part(params), graph_nodes::kernel_params(task)?),
        Task::Copy(_) => {
            let (copy, context) = graph_nodes::copy_params(task)?;
            raw::put(part(params), CopyNodeParams { flags: 0, reserved: 0, context, copy })
        }
        Task::Fill { .. } => {
            let (v1, context) = graph_nodes::fill_params(task)?;
            raw::put(part(params), FillParams { v1, context })
        }
        Task::Host { .. } => raw::put(part(params), graph_nodes::host_params(task)?),
        Task::Child(child) => raw::put(part(params), CUgraph(child.handle())),
        Task::Empty => Ok(()),
        Task::Wait(event) | Task::Record(event) => raw::put(part(params), CUevent(*event)),
        Task::Allocate(_) => raw::put(part(params), graph_parts::allocate_params(task)?),
        Task::Free(block) => raw::put(part(params), block.base),
        Task::Batch(_) => raw::put(part(params), graph_parts::batch_params(task)?),
    }
}

/// Attributes that a kernel's node keeps, by the header's numbers.
fn is_kernel_attribute(attribute: CUkernelNodeAttrID) -> bool {
    matches!(attribute, 1..=4 | 5..=10 | 11 | 13 | 14 | 16..=18)
}

fn kernel_of(task: Task) -> Result<KernelTask, CUresult> {
    match task {
        Task::Kernel(kernel) => Ok(kernel),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

impl Sim {
    pub(crate) fn cuGraphAddNode_v2(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        data: *const CUgraphEdgeData,
        count: usize,
        params: *mut CUgraphNodeParams,
    ) -> Done {
        let found = graph::find(graph)?;
        if node.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let after = graph::edges(&found, after, data, count)?;
        let task = task(Some(graph), params)?;
        raw::put(node, CUgraphNode(found.add(task, after)))
    }

    pub(crate) fn cuGraphAddNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *mut CUgraphNodeParams,
    ) -> Done {
        Self::cuGraphAddNode_v2(node, graph, after, std::ptr::null(), count, params)
    }

    pub(crate) fn cuGraphAddNode_v3(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        data: *const CUgraphEdgeData,
        count: usize,
        params: *mut CUgraphNodeParams,
    ) -> Done {
        Self::cuGraphAddNode_v2(node, graph, after, data, count, params)
    }

    pub(crate) fn cuGraphNodeSetParams(node: CUgraphNode, params: *mut CUgraphNodeParams) -> Done {
        let before = graph::task_of(node)?;
        // These are what they are.
        if before.is_memory() || matches!(before, Task::Child(_)) {
            return Err(CUresult::INVALID_VALUE);
        }
        graph::set_task(node, task(None, params)?)
    }

    pub(crate) fn cuGraphNodeSetParams_v2(
        node: CUgraphNode,
        params: *mut CUgraphNodeParams,
    ) -> Done {
        Self::cuGraphNodeSetParams(node, params)
    }

    pub(crate) fn cuGraphNodeGetParams(node: CUgraphNode, params: *mut CUgraphNodeParams) -> Done {
        describe(&graph::task_of(node)?, params)
    }

    pub(crate) fn cuGraphExecNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *mut CUgraphNodeParams,
    ) -> Done {
        graph_exec::find(exec)?;
        let head: NodeHead = raw::get(params.cast())?;
        const CHILD: u32 = 4;
        if head.kind == CHILD {
            let graph = graph::find(raw::get(part(params))?)?;
            return graph_exec::set_child(exec, node, &graph);
        }
        graph_exec::set_task(exec, node, task(None, params)?)
    }

    /// Partial: says what was set.
    pub(crate) fn cuGraphKernelNodeGetAttribute(
        node: CUgraphNode,
        attribute: CUkernelNodeAttrID,
        value: *mut CUkernelNodeAttrValue_v1,
    ) -> Done {
        let kernel = kernel_of(graph::task_of(node)?)?;
        if !is_kernel_attribute(attribute) {
            return Err(CUresult::INVALID_VALUE);
        }
        let set = kernel.attributes.iter().find(|(number, _)| *number == attribute);
        raw::put(value.cast(), set.map_or([0_u8; 64], |(_, value)| *value))
    }

    /// Partial: remembered, changes nothing.
    pub(crate) fn cuGraphKernelNodeSetAttribute(
        node: CUgraphNode,
        attribute: CUkernelNodeAttrID,
        value: *const CUkernelNodeAttrValue_v1,
    ) -> Done {
        let mut kernel = kernel_of(graph::task_of(node)?)?;
        let value: [u8; 64] = raw::get(value.cast())?;
        if !is_kernel_attribute(attribute) {
            return Err(CUresult::INVALID_VALUE);
        }
        kernel.attributes.retain(|(number, _)| *number != attribute);
        kernel.attributes.push((attribute, value));
        graph::set_task(node, Task::Kernel(kernel))
    }

    /// Partial: copies what was set.
    pub(crate) fn cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode) -> Done {
        let from = kernel_of(graph::task_of(from)?)?;
        let to_task = kernel_of(graph::task_of(to)?)?;
        let attributes = from.attributes;
        graph::set_task(to, Task::Kernel(KernelTask { attributes, ..to_task }))
    }
}
