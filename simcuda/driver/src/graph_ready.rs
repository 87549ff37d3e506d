//! The calls that make a graph ready, and the one that changes a ready graph by another graph.

use crate::entry::{Done, Sim};
use crate::graph::{self, Graph};
use crate::graph_exec::{self, Exec, Step, UPLOAD, instantiate, steps_of};
use crate::graph_task::Task;
use crate::layout::{InstantiateParams, UpdateResult};
use crate::{raw, stream};
use shim_cuda_headers::*;
use std::ffi::{c_char, c_ulonglong};

/// `CUgraphInstantiateResult`.
const READY: u32 = 0;
const FAILED: u32 = 1;
const INVALID_STRUCTURE: u32 = 2;
const NODE_NOT_SUPPORTED: u32 = 3;

/// `CUgraphExecUpdateResult`.
const UPDATED: u32 = 0;
const TOPOLOGY_CHANGED: u32 = 2;
const KIND_CHANGED: u32 = 3;
const PARAMETERS_CHANGED: u32 = 5;
const UNSUPPORTED_FUNCTION_CHANGE: u32 = 7;

/// Why an update is impossible, and which node of the new graph is the reason.
struct Difference {
    result: u32,
    node: usize,
}

fn compare(old: &[Step], new: &[Step]) -> Result<(), Difference> {
    if old.len() != new.len() {
        return Err(Difference { result: TOPOLOGY_CHANGED, node: 0 });
    }
    for (old, new) in old.iter().zip(new) {
        let differs = |result| Err(Difference { result, node: new.node });
        if old.task.kind() != new.task.kind() {
            return differs(KIND_CHANGED);
        }
        if old.after != new.after {
            return differs(TOPOLOGY_CHANGED);
        }
        match (&old.task, &new.task) {
            (Task::Kernel(a), Task::Kernel(b)) if a.context != b.context => {
                return differs(UNSUPPORTED_FUNCTION_CHANGE);
            }
            (Task::Copy(a), Task::Copy(b))
                if a.params.src.memory_type != b.params.src.memory_type
                    || a.params.dst.memory_type != b.params.dst.memory_type =>
            {
                return differs(PARAMETERS_CHANGED);
            }
            (Task::Allocate(a), Task::Allocate(b)) | (Task::Free(a), Task::Free(b))
                if a.base != b.base =>
            {
                return differs(PARAMETERS_CHANGED);
            }
            (Task::Child(_), Task::Child(_)) => compare(&old.inner, &new.inner)?,
            _ => {}
        }
    }
    Ok(())
}

fn update(exec: &Exec, graph: &Graph) -> Result<(), Difference> {
    let topology = Difference { result: TOPOLOGY_CHANGED, node: 0 };
    let new = steps_of(graph).ok_or(topology)?;
    let mut steps = exec.steps();
    compare(&steps, &new)?;
    for (old, new) in steps.iter_mut().zip(new) {
        // The step keeps the name of the node that it came from.
        old.task = new.task;
        old.inner = new.inner;
    }
    Ok(())
}

impl Sim {
    pub(crate) fn cuGraphInstantiateWithFlags(
        exec: *mut CUgraphExec,
        graph: CUgraph,
        flags: c_ulonglong,
    ) -> Done {
        let graph = graph::find(graph)?;
        if exec.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(exec, instantiate(&graph, flags)?)
    }

    pub(crate) fn cuGraphInstantiateWithParams(
        exec: *mut CUgraphExec,
        graph: CUgraph,
        params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) -> Done {
        let mut asked: InstantiateParams = raw::get(params.cast())?;
        let graph = graph::find(graph)?;
        if exec.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        if asked.flags & UPLOAD != 0 {
            stream::resolve(CUstream(asked.upload_stream))?;
        }
        let made = instantiate(&graph, asked.flags);
        asked.error_node = 0;
        asked.result = match &made {
            Ok(_) => READY,
            Err(CUresult::NOT_SUPPORTED) => NODE_NOT_SUPPORTED,
            Err(_) if steps_of(&graph).is_none() => INVALID_STRUCTURE,
            Err(_) => FAILED,
        };
        raw::put(params.cast(), asked)?;
        raw::put(exec, made?)
    }

    pub(crate) fn cuGraphInstantiate_v2(
        exec: *mut CUgraphExec,
        graph: CUgraph,
        error_node: *mut CUgraphNode,
        log: *mut c_char,
        bytes: usize,
    ) -> Done {
        raw::put_if_wanted(error_node, CUgraphNode(0));
        if !log.is_null() && bytes > 0 {
            raw::put(log, 0)?;
        }
        Self::cuGraphInstantiateWithFlags(exec, graph, 0)
    }

    pub(crate) fn cuGraphInstantiate(
        exec: *mut CUgraphExec,
        graph: CUgraph,
        error_node: *mut CUgraphNode,
        log: *mut c_char,
        bytes: usize,
    ) -> Done {
        Self::cuGraphInstantiate_v2(exec, graph, error_node, log, bytes)
    }

    pub(crate) fn cuGraphExecUpdate_v2(
        exec: CUgraphExec,
        graph: CUgraph,
        result: *mut CUgraphExecUpdateResultInfo,
    ) -> Done {
        let (exec, graph) = (graph_exec::find(exec)?, graph::find(graph)?);
        if result.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        match update(&exec, &graph) {
            Ok(()) => {
                raw::put(result.cast(), UpdateResult { result: UPDATED, ..Default::default() })
            }
            Err(Difference { result: why, node }) => {
                let answer = UpdateResult { result: why, error_node: node, error_from_node: 0 };
                raw::put(result.cast(), answer)?;
                Err(CUresult::GRAPH_EXEC_UPDATE_FAILURE)
            }
        }
    }

    pub(crate) fn cuGraphExecUpdate(
        exec: CUgraphExec,
        graph: CUgraph,
        error_node: *mut CUgraphNode,
        result: *mut CUgraphExecUpdateResult,
    ) -> Done {
        let mut answer = UpdateResult::default();
        let done = Self::cuGraphExecUpdate_v2(exec, graph, (&raw mut answer).cast());
        raw::put_if_wanted(error_node, CUgraphNode(answer.error_node));
        raw::put_if_wanted(result, answer.result);
        done
    }
}
