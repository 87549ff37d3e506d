//! Graphs: commands with an order among them, and their launching as a whole.

use crate::command::Work;
use crate::entry::{Done, Sim};
use crate::registry::Registry;
use crate::{raw, stream};
use shim_cuda_headers::*;
use std::collections::HashSet;
use std::ffi::{c_char, c_uint, c_ulonglong};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static GRAPHS: Registry<Graph> = Registry::new(0x40);
static EXECS: Registry<Exec> = Registry::new(0x41);
static NODES: Registry<NodeName> = Registry::new(0x42);

/// What a node's handle stands for.
#[derive(Debug)]
struct NodeName {
    graph: Arc<Graph>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) work: Work,
    after: Vec<usize>,
    handle: usize,
}

/// Nodes are added, never taken out; each follows only earlier ones, unless edges were added.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Mutex<Vec<Node>>,
}

/// A graph made ready: its commands in an order that respects all edges.
#[derive(Debug)]
struct Exec {
    works: Mutex<Vec<Work>>,
}

impl Graph {
    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a node that follows the named ones; says its index.
    pub(crate) fn add(&self, work: Work, after: Vec<usize>) -> usize {
        let mut nodes = self.nodes();
        nodes.push(Node { work, after, handle: NODES.fresh() });
        nodes.len() - 1
    }

    /// Whether every node is one of `tail` or comes before one.
    pub(crate) fn ends_in(&self, tail: &[usize]) -> bool {
        let nodes = self.nodes();
        let followed: HashSet<usize> =
            nodes.iter().flat_map(|node| node.after.iter().copied()).collect();
        (0..nodes.len()).all(|node| followed.contains(&node) || tail.contains(&node))
    }

    /// The commands in order, or `None` if the edges make a circle.
    fn in_order(&self) -> Option<Vec<Work>> {
        let nodes = self.nodes();
        let mut done = vec![false; nodes.len()];
        let mut works = Vec::with_capacity(nodes.len());
        while works.len() < nodes.len() {
            let before = works.len();
            for (index, node) in nodes.iter().enumerate() {
                if !done[index] && node.after.iter().all(|other| done[*other]) {
                    done[index] = true;
                    works.push(node.work.clone());
                }
            }
            if works.len() == before {
                return None;
            }
        }
        Some(works)
    }
}

/// Gives the graph a handle.
pub(crate) fn register(graph: Arc<Graph>) -> CUgraph {
    let handle = GRAPHS.fresh();
    GRAPHS.insert(handle, graph);
    CUgraph(handle)
}

fn find(graph: CUgraph) -> Result<Arc<Graph>, CUresult> {
    GRAPHS.get(graph.0).ok_or(CUresult::INVALID_VALUE)
}

/// Adds a node to the graph for the program, behind `count` nodes of its.
pub(crate) fn add_node(
    node: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    work: Work,
) -> Done {
    let graph = find(graph)?;
    if node.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let after: Result<Vec<usize>, CUresult> =
        raw::get_all(after, count)?.into_iter().map(|handle| graph.index_of(handle)).collect();
    let index = graph.add(work, after?);
    raw::put(node, graph.handle_of(index))
}

impl Graph {
    fn index_of(&self, node: CUgraphNode) -> Result<usize, CUresult> {
        self.nodes().iter().position(|n| n.handle == node.0).ok_or(CUresult::INVALID_VALUE)
    }

    fn handle_of(self: &Arc<Self>, index: usize) -> CUgraphNode {
        let handle = self.nodes()[index].handle;
        if NODES.get(handle).is_none() {
            NODES.insert(handle, Arc::new(NodeName { graph: Arc::clone(self) }));
        }
        CUgraphNode(handle)
    }
}

impl Sim {
    pub(crate) fn cuGraphCreate(graph: *mut CUgraph, flags: c_uint) -> Done {
        if graph.is_null() || flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(graph, register(Arc::new(Graph::default())))
    }

    pub(crate) fn cuGraphDestroy(graph: CUgraph) -> Done {
        let gone = GRAPHS.remove(graph.0).ok_or(CUresult::INVALID_VALUE)?;
        NODES.remove_all(|name| Arc::ptr_eq(&name.graph, &gone));
        Ok(())
    }

    pub(crate) fn cuGraphClone(clone: *mut CUgraph, graph: CUgraph) -> Done {
        let mut nodes = find(graph)?.nodes().clone();
        nodes.iter_mut().for_each(|node| node.handle = NODES.fresh());
        raw::put(clone, register(Arc::new(Graph { nodes: Mutex::new(nodes) })))
    }

    pub(crate) fn cuGraphAddEmptyNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
    ) -> Done {
        add_node(node, graph, after, count, Work::Nothing)
    }

    pub(crate) fn cuGraphAddDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        count: usize,
    ) -> Done {
        let graph = find(graph)?;
        let (from, to) = (raw::get_all(from, count)?, raw::get_all(to, count)?);
        for (from, to) in from.into_iter().zip(to) {
            let (from, to) = (graph.index_of(from)?, graph.index_of(to)?);
            graph.nodes()[to].after.push(from);
        }
        Ok(())
    }

    pub(crate) fn cuGraphGetNodes(
        graph: CUgraph,
        nodes: *mut CUgraphNode,
        count: *mut usize,
    ) -> Done {
        let graph = find(graph)?;
        let there = graph.nodes().len();
        if nodes.is_null() {
            return raw::put(count, there);
        }
        let room = raw::get(count)?;
        for index in 0..room {
            let handle = if index < there { graph.handle_of(index) } else { CUgraphNode(0) };
            raw::put_at(nodes, index, handle)?;
        }
        raw::put(count, room.min(there))
    }

    pub(crate) fn cuGraphInstantiateWithFlags(
        exec: *mut CUgraphExec,
        graph: CUgraph,
        _: c_ulonglong,
    ) -> Done {
        let works = find(graph)?.in_order().ok_or(CUresult::INVALID_VALUE)?;
        raw::put(exec, CUgraphExec(EXECS.add(Exec { works: Mutex::new(works) })))
    }

    pub(crate) fn cuGraphInstantiate_v2(
        exec: *mut CUgraphExec,
        graph: CUgraph,
        _: *mut CUgraphNode,
        _: *mut c_char,
        _: usize,
    ) -> Done {
        Self::cuGraphInstantiateWithFlags(exec, graph, 0)
    }

    pub(crate) fn cuGraphInstantiate(
        exec: *mut CUgraphExec,
        graph: CUgraph,
        node: *mut CUgraphNode,
        log: *mut c_char,
        bytes: usize,
    ) -> Done {
        Self::cuGraphInstantiate_v2(exec, graph, node, log, bytes)
    }

    pub(crate) fn cuGraphUpload(exec: CUgraphExec, stream: CUstream) -> Done {
        EXECS.get(exec.0).ok_or(CUresult::INVALID_VALUE)?;
        stream::resolve(stream).map(drop)
    }

    pub(crate) fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) -> Done {
        let exec = EXECS.get(exec.0).ok_or(CUresult::INVALID_VALUE)?;
        let stream = stream::resolve(stream)?;
        let works = exec.works.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for work in &works {
            if let Work::Begin(block) = work {
                block.obtain()?;
            }
        }
        works.into_iter().try_for_each(|work| stream.submit(work).map(drop))
    }

    pub(crate) fn cuGraphExecDestroy(exec: CUgraphExec) -> Done {
        EXECS.remove(exec.0).map(drop).ok_or(CUresult::INVALID_VALUE)
    }

    pub(crate) fn cuGraphExecUpdate_v2(
        exec: CUgraphExec,
        graph: CUgraph,
        result: *mut CUgraphExecUpdateResultInfo,
    ) -> Done {
        let exec = EXECS.get(exec.0).ok_or(CUresult::INVALID_VALUE)?;
        let works = find(graph)?.in_order().ok_or(CUresult::INVALID_VALUE)?;
        let mut held = exec.works.lock().unwrap_or_else(PoisonError::into_inner);
        let same = held.len() == works.len()
            && held
                .iter()
                .zip(&works)
                .all(|(a, b)| std::mem::discriminant(a) == std::mem::discriminant(b));
        // The first field of the answer says what differed: 0 nothing, 2 the topology.
        raw::put_if_wanted(result.cast::<c_uint>(), if same { 0 } else { 2 });
        if !same {
            return Err(CUresult::GRAPH_EXEC_UPDATE_FAILURE);
        }
        *held = works;
        Ok(())
    }
}
