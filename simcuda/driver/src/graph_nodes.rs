//! Nodes that a program adds to a graph by hand: kernels, fills, host functions.

use crate::command::{Fill, Work};
use crate::entry::{Done, Sim};
use crate::launch::{KernelLaunch, Shape};
use crate::{function, graph, raw};
use shim_cuda_headers::*;
use std::ffi::{c_uint, c_void};
use std::sync::Arc;

/// The older form of a kernel node: without kernel handle and context.
#[repr(C)]
#[derive(Clone, Copy)]
struct KernelNodeV1 {
    function: CUfunction,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct HostNodeV1 {
    function: *mut c_void,
    data: *mut c_void,
}

fn kernel(node: &KernelNodeV1) -> Result<Work, CUresult> {
    let shape = Shape { grid: node.grid, block: node.block, shared_bytes: node.shared_bytes };
    let function = function::find(node.function)?;
    Ok(Work::Kernel(Arc::new(KernelLaunch::new(&function, shape, node.params, node.extra)?)))
}

impl Sim {
    pub(crate) fn cuGraphAddKernelNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) -> Done {
        let work = kernel(&raw::get(params.cast())?)?;
        graph::add_node(node, graph, after, count, work)
    }

    pub(crate) fn cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS_v2,
    ) -> Done {
        let asked = raw::get(params)?;
        // A function, or a library's kernel in its place.
        let function = if asked.func.0 == 0 { CUfunction(asked.kern.0) } else { asked.func };
        let work = kernel(&KernelNodeV1 {
            function,
            grid: asked.grid_dim,
            block: asked.block_dim,
            shared_bytes: asked.shared_mem_bytes,
            params: asked.kernel_params,
            extra: asked.extra,
        })?;
        graph::add_node(node, graph, after, count, work)
    }

    pub(crate) fn cuGraphAddMemsetNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_MEMSET_NODE_PARAMS_v1,
        _: CUcontext,
    ) -> Done {
        let asked = raw::get(params)?;
        if ![1, 2, 4].contains(&asked.element_size) || asked.width == 0 || asked.height == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let work = Work::Fill(Fill {
            base: asked.dst,
            value: asked.value,
            element_bytes: asked.element_size.into(),
            width: asked.width as u64,
            height: asked.height as u64,
            pitch: asked.pitch as u64,
        });
        graph::add_node(node, graph, after, count, work)
    }

    pub(crate) fn cuGraphAddHostNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_HOST_NODE_PARAMS_v1,
    ) -> Done {
        let asked: HostNodeV1 = raw::get(params.cast())?;
        if asked.function.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let (function, data) = (asked.function.expose_provenance(), asked.data.expose_provenance());
        graph::add_node(node, graph, after, count, Work::Host { function, data })
    }
}
