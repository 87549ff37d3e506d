//! Nodes that a program makes by hand: kernels, copies, fills, host functions; and their
//! parameters, asked for and changed, in a graph and in one that is ready.

use crate::command::Fill;
use crate::entry::{Done, Sim};
use crate::graph_task::{CopyTask, KernelTask, Task};
use crate::launch::{KernelLaunch, Shape};
use crate::layout::{CopyParams, HostParams, KernelParams, KernelParamsV1};
use crate::{array_copy, context, function, graph, graph_exec, raw};
use shim_cuda_headers::*;
use std::sync::Arc;

fn pointer<T>(word: usize) -> *mut T {
    std::ptr::with_exposed_provenance_mut(word)
}

pub(crate) fn kernel(node: &KernelParams) -> Result<Task, CUresult> {
    let KernelParamsV1 { grid, block, shared_bytes, params, extra, .. } = node.v1;
    let shape = Shape { grid, block, shared_bytes };
    // A function, or a library's kernel in its place.
    let handle = if node.v1.function == 0 { node.kernel } else { node.v1.function };
    let function = function::find(CUfunction(handle))?;
    let launch = KernelLaunch::new(&function, shape, pointer(params), pointer(extra))?;
    Ok(Task::Kernel(KernelTask {
        launch: Arc::new(launch),
        context: function.module.context,
        attributes: Vec::new(),
    }))
}

fn kernel_v1(params: *const CUDA_KERNEL_NODE_PARAMS_v1) -> Result<Task, CUresult> {
    kernel(&KernelParams { v1: raw::get(params.cast())?, kernel: 0, context: 0 })
}

pub(crate) fn kernel_params(task: &Task) -> Result<KernelParams, CUresult> {
    let Task::Kernel(kernel) = task else { return Err(CUresult::INVALID_VALUE) };
    let launch = &kernel.launch;
    let shape = launch.shape();
    let v1 = KernelParamsV1 {
        function: function::handle_of(launch.module(), launch.name()).unwrap_or(0),
        grid: shape.grid,
        block: shape.block,
        shared_bytes: shape.shared_bytes,
        params: launch.param_list(),
        extra: 0,
    };
    Ok(KernelParams { v1, kernel: 0, context: kernel.context })
}

pub(crate) fn fill(
    params: &CUDA_MEMSET_NODE_PARAMS_v1,
    context: CUcontext,
) -> Result<Task, CUresult> {
    if ![1, 2, 4].contains(&params.element_size) || params.width == 0 || params.height == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let context = context::named(context)?.handle;
    let fill = Fill {
        base: params.dst,
        value: params.value,
        element_bytes: params.element_size.into(),
        width: params.width as u64,
        height: params.height as u64,
        pitch: params.pitch as u64,
    };
    Ok(Task::Fill { fill, context })
}

pub(crate) fn fill_params(task: &Task) -> Result<(CUDA_MEMSET_NODE_PARAMS_v1, usize), CUresult> {
    let Task::Fill { fill, context } = task else { return Err(CUresult::INVALID_VALUE) };
    let params = CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: fill.base,
        pitch: fill.pitch as usize,
        value: fill.value,
        element_size: fill.element_bytes as u32,
        width: fill.width as usize,
        height: fill.height as usize,
    };
    Ok((params, *context))
}

pub(crate) fn copy(params: &CopyParams, context: CUcontext) -> Result<Task, CUresult> {
    let context = context::named(context)?.handle;
    let copy = array_copy::of(&params.of_driver(), true)?;
    Ok(Task::Copy(Box::new(CopyTask { copy, params: *params, context })))
}

pub(crate) fn copy_params(task: &Task) -> Result<(CopyParams, usize), CUresult> {
    match task {
        Task::Copy(task) => Ok((task.params, task.context)),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

pub(crate) fn host(params: &HostParams) -> Result<Task, CUresult> {
    match params.function {
        0 => Err(CUresult::INVALID_VALUE),
        function => Ok(Task::Host { function, data: params.data }),
    }
}

pub(crate) fn host_params(task: &Task) -> Result<HostParams, CUresult> {
    match task {
        Task::Host { function, data } => Ok(HostParams { function: *function, data: *data }),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// A copy keeps the kinds of memory that it was made with, when it is changed in a ready graph.
fn same_kinds(exec: CUgraphExec, node: CUgraphNode, params: &CopyParams) -> Done {
    let (before, _) = copy_params(&graph_exec::task_of(exec, node)?)?;
    let kinds = |params: &CopyParams| (params.src.memory_type, params.dst.memory_type);
    if kinds(&before) == kinds(params) { Ok(()) } else { Err(CUresult::INVALID_VALUE) }
}

impl Sim {
    pub(crate) fn cuGraphAddEmptyNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
    ) -> Done {
        graph::add_node(node, graph, after, count, Task::Empty)
    }

    pub(crate) fn cuGraphAddKernelNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) -> Done {
        graph::add_node(node, graph, after, count, kernel_v1(params)?)
    }

    pub(crate) fn cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS_v2,
    ) -> Done {
        graph::add_node(node, graph, after, count, kernel(&raw::get(params.cast())?)?)
    }

    pub(crate) fn cuGraphKernelNodeGetParams(
        node: CUgraphNode,
        params: *mut CUDA_KERNEL_NODE_PARAMS_v1,
    ) -> Done {
        raw::put(params.cast(), kernel_params(&graph::task_of(node)?)?.v1)
    }

    pub(crate) fn cuGraphKernelNodeGetParams_v2(
        node: CUgraphNode,
        params: *mut CUDA_KERNEL_NODE_PARAMS_v2,
    ) -> Done {
        raw::put(params.cast(), kernel_params(&graph::task_of(node)?)?)
    }

    pub(crate) fn cuGraphKernelNodeSetParams(
        node: CUgraphNode,
        params: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) -> Done {
        graph::set_task(node, kernel_v1(params)?)
    }

    pub(crate) fn cuGraphKernelNodeSetParams_v2(
        node: CUgraphNode,
        params: *const CUDA_KERNEL_NODE_PARAMS_v2,
    ) -> Done {
        graph::set_task(node, kernel(&raw::get(params.cast())?)?)
    }

    pub(crate) fn cuGraphExecKernelNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) -> Done {
        graph_exec::set_task(exec, node, kernel_v1(params)?)
    }

    pub(crate) fn cuGraphExecKernelNodeSetParams_v2(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_KERNEL_NODE_PARAMS_v2,
    ) -> Done {
        graph_exec::set_task(exec, node, kernel(&raw::get(params.cast())?)?)
    }

    pub(crate) fn cuGraphAddMemsetNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_MEMSET_NODE_PARAMS_v1,
        context: CUcontext,
    ) -> Done {
        graph::add_node(node, graph, after, count, fill(&raw::get(params)?, context)?)
    }

    pub(crate) fn cuGraphMemsetNodeGetParams(
        node: CUgraphNode,
        params: *mut CUDA_MEMSET_NODE_PARAMS_v1,
    ) -> Done {
        raw::put(params, fill_params(&graph::task_of(node)?)?.0)
    }

    pub(crate) fn cuGraphMemsetNodeSetParams(
        node: CUgraphNode,
        params: *const CUDA_MEMSET_NODE_PARAMS_v1,
    ) -> Done {
        let (_, context) = fill_params(&graph::task_of(node)?)?;
        graph::set_task(node, fill(&raw::get(params)?, CUcontext(context))?)
    }

    pub(crate) fn cuGraphExecMemsetNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_MEMSET_NODE_PARAMS_v1,
        context: CUcontext,
    ) -> Done {
        graph_exec::set_task(exec, node, fill(&raw::get(params)?, context)?)
    }

    pub(crate) fn cuGraphAddMemcpyNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_MEMCPY3D_v2,
        context: CUcontext,
    ) -> Done {
        graph::add_node(node, graph, after, count, copy(&raw::get(params.cast())?, context)?)
    }

    pub(crate) fn cuGraphMemcpyNodeGetParams(
        node: CUgraphNode,
        params: *mut CUDA_MEMCPY3D_v2,
    ) -> Done {
        raw::put(params.cast(), copy_params(&graph::task_of(node)?)?.0)
    }

    pub(crate) fn cuGraphMemcpyNodeSetParams(
        node: CUgraphNode,
        params: *const CUDA_MEMCPY3D_v2,
    ) -> Done {
        let (_, context) = copy_params(&graph::task_of(node)?)?;
        graph::set_task(node, copy(&raw::get(params.cast())?, CUcontext(context))?)
    }

    pub(crate) fn cuGraphExecMemcpyNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_MEMCPY3D_v2,
        context: CUcontext,
    ) -> Done {
        let params: CopyParams = raw::get(params.cast())?;
        same_kinds(exec, node, &params)?;
        graph_exec::set_task(exec, node, copy(&params, context)?)
    }

    pub(crate) fn cuGraphAddHostNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_HOST_NODE_PARAMS_v1,
    ) -> Done {
        graph::add_node(node, graph, after, count, host(&raw::get(params.cast())?)?)
    }

    pub(crate) fn cuGraphHostNodeGetParams(
        node: CUgraphNode,
        params: *mut CUDA_HOST_NODE_PARAMS_v1,
    ) -> Done {
        raw::put(params.cast(), host_params(&graph::task_of(node)?)?)
    }

    pub(crate) fn cuGraphHostNodeSetParams(
        node: CUgraphNode,
        params: *const CUDA_HOST_NODE_PARAMS_v1,
    ) -> Done {
        graph::set_task(node, host(&raw::get(params.cast())?)?)
    }

    pub(crate) fn cuGraphExecHostNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_HOST_NODE_PARAMS_v1,
    ) -> Done {
        graph_exec::set_task(exec, node, host(&raw::get(params.cast())?)?)
    }
}
