//! Graphs: tasks with an order among them. What is made, cloned and destroyed; how the order is
//! kept. Launching is [`crate::graph_exec`]'s business.
//!
//! A node's handle is its name everywhere, also here: nodes are never moved or renumbered.

use crate::entry::{Done, Sim};
use crate::graph_task::{KernelTask, Task};
use crate::raw;
use crate::registry::Registry;
use crate::user_object::Held;
use shim_cuda_headers::*;
use std::collections::{BTreeMap, HashSet};
use std::ffi::{c_char, c_uint, c_ulonglong};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

static GRAPHS: Registry<Graph> = Registry::new(0x40);
static NODES: Registry<Weak<Graph>> = Registry::new(0x42);
static LAST_ID: AtomicU32 = AtomicU32::new(0);

/// What a dependency carries besides itself: ports and a kind; all zero is the ordinary one.
pub(crate) type EdgeData = [u8; 8];

/// A dependency on the node with this handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) data: EdgeData,
}

impl Edge {
    pub(crate) fn plain(from: usize) -> Self {
        Self { from, data: [0; 8] }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) task: Task,
    pub(crate) after: Vec<Edge>,
    /// Number within its graph, in the order of creation.
    pub(crate) local: u32,
}

/// Nodes by handle, which is the order in which they were made.
pub(crate) type Nodes = BTreeMap<usize, Node>;

#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) id: u32,
    handle: AtomicUsize,
    nodes: Mutex<Nodes>,
    last_local: AtomicU32,
    /// A capture puts nodes into it.
    pub(crate) capturing: AtomicBool,
    /// A node of another graph owns it.
    is_child: bool,
    /// For a clone: which node came of which.
    from: BTreeMap<usize, usize>,
    /// Made ready and not destroyed since, if it may be only once.
    pub(crate) ready: AtomicBool,
    pub(crate) held: Mutex<Held>,
}

impl Graph {
    pub(crate) fn new() -> Self {
        Self { id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1, ..Self::default() }
    }

    pub(crate) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn handle(&self) -> usize {
        self.handle.load(Ordering::Relaxed)
    }

    /// Adds a node that follows the named ones; says its handle.
    pub(crate) fn add(self: &Arc<Self>, task: Task, after: Vec<Edge>) -> usize {
        let handle = NODES.fresh();
        NODES.insert(handle, Arc::new(Arc::downgrade(self)));
        let local = self.last_local.fetch_add(1, Ordering::Relaxed);
        self.nodes().insert(handle, Node { task, after, local });
        handle
    }

    /// Handles in an order that respects all dependencies, or `None` if they make a circle.
    pub(crate) fn in_order(nodes: &Nodes) -> Option<Vec<usize>> {
        let mut done = HashSet::new();
        let mut order = Vec::with_capacity(nodes.len());
        while order.len() < nodes.len() {
            let before = order.len();
            for (handle, node) in nodes {
                if !done.contains(handle) && node.after.iter().all(|edge| done.contains(&edge.from))
                {
                    done.insert(*handle);
                    order.push(*handle);
                }
            }
            if order.len() == before {
                return None;
            }
        }
        Some(order)
    }

    /// The nodes that come before one of these, and these.
    pub(crate) fn before(nodes: &Nodes, ends: impl Iterator<Item = usize>) -> HashSet<usize> {
        let mut seen = HashSet::new();
        let mut open: Vec<usize> = ends.collect();
        while let Some(handle) = open.pop() {
            if seen.insert(handle)
                && let Some(node) = nodes.get(&handle)
            {
                open.extend(node.after.iter().map(|edge| edge.from));
            }
        }
        seen
    }

    /// Whether it takes or gives memory, which forbids much.
    pub(crate) fn has_memory(&self) -> bool {
        self.nodes().values().any(|node| node.task.is_memory())
    }

    /// A copy with nodes of its own.
    pub(crate) fn copy(&self, is_child: bool) -> Result<Arc<Self>, CUresult> {
        let nodes = self.nodes().clone();
        if nodes.values().any(|node| node.task.is_memory()) {
            return Err(CUresult::NOT_SUPPORTED);
        }
        let from: BTreeMap<usize, usize> =
            nodes.keys().map(|handle| (*handle, NODES.fresh())).collect();
        let copied: Result<Nodes, CUresult> = nodes
            .into_iter()
            .map(|(handle, node)| {
                let task = match node.task {
                    Task::Child(child) => Task::Child(child.copy(true)?),
                    task => task,
                };
                let after = node.after.into_iter().filter_map(|edge| {
                    Some(Edge { from: *from.get(&edge.from)?, data: edge.data })
                });
                Ok((from[&handle], Node { task, after: after.collect(), local: node.local }))
            })
            .collect();
        let copy = Arc::new(Self {
            nodes: Mutex::new(copied?),
            last_local: AtomicU32::new(self.last_local.load(Ordering::Relaxed)),
            is_child,
            from,
            held: Mutex::new(self.held().clone()),
            ..Self::new()
        });
        for handle in copy.nodes().keys() {
            NODES.insert(*handle, Arc::new(Arc::downgrade(&copy)));
        }
        if is_child {
            register(&copy);
        }
        Ok(copy)
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the graph a handle.
pub(crate) fn register(graph: &Arc<Graph>) -> CUgraph {
    let handle = GRAPHS.fresh();
    graph.handle.store(handle, Ordering::Relaxed);
    GRAPHS.insert(handle, Arc::clone(graph));
    CUgraph(handle)
}

/// The graph and its nodes are known no more, nor are those inside it.
pub(crate) fn forget(graph: &Arc<Graph>) {
    GRAPHS.remove(graph.handle());
    for (handle, node) in graph.nodes().iter() {
        NODES.remove(*handle);
        if let Task::Child(child) = &node.task {
            forget(child);
        }
    }
}

pub(crate) fn find(graph: CUgraph) -> Result<Arc<Graph>, CUresult> {
    GRAPHS.get(graph.0).ok_or(CUresult::INVALID_VALUE)
}

/// The graph that the node is in.
pub(crate) fn of_node(node: CUgraphNode) -> Result<Arc<Graph>, CUresult> {
    NODES.get(node.0).and_then(|graph| graph.upgrade()).ok_or(CUresult::INVALID_VALUE)
}

/// What the node does.
pub(crate) fn task_of(node: CUgraphNode) -> Result<Task, CUresult> {
    let graph = of_node(node)?;
    let nodes = graph.nodes();
    nodes.get(&node.0).map(|node| node.task.clone()).ok_or(CUresult::INVALID_VALUE)
}

/// Has the node do something else of the same kind.
pub(crate) fn set_task(node: CUgraphNode, task: Task) -> Done {
    let graph = of_node(node)?;
    let mut nodes = graph.nodes();
    let node = nodes.get_mut(&node.0).ok_or(CUresult::INVALID_VALUE)?;
    if node.task.kind() != task.kind() {
        return Err(CUresult::INVALID_VALUE);
    }
    // A kernel's attributes stay, unless they are what is set.
    node.task = match (&node.task, task) {
        (Task::Kernel(before), Task::Kernel(after)) if after.attributes.is_empty() => {
            Task::Kernel(KernelTask { attributes: before.attributes.clone(), ..after })
        }
        (_, task) => task,
    };
    Ok(())
}

/// The named nodes of the graph as dependencies; one named twice is an error, as with the driver.
pub(crate) fn edges(
    graph: &Graph,
    after: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
) -> Result<Vec<Edge>, CUresult> {
    let handles = raw::get_all(after, count)?;
    let data: Vec<EdgeData> =
        if data.is_null() { vec![[0; 8]; count] } else { raw::get_all(data.cast(), count)? };
    let nodes = graph.nodes();
    let mut seen = HashSet::new();
    let known = |node: &CUgraphNode| nodes.contains_key(&node.0);
    if !handles.iter().all(|node| known(node) && seen.insert(node.0)) {
        return Err(CUresult::INVALID_VALUE);
    }
    Ok(handles.into_iter().zip(data).map(|(node, data)| Edge { from: node.0, data }).collect())
}

/// Adds a node to the graph for the program.
pub(crate) fn add_node(
    node: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    task: Task,
) -> Done {
    let graph = find(graph)?;
    if node.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let after = edges(&graph, after, std::ptr::null(), count)?;
    raw::put(node, CUgraphNode(graph.add(task, after)))
}

impl Sim {
    pub(crate) fn cuGraphCreate(graph: *mut CUgraph, flags: c_uint) -> Done {
        if graph.is_null() || flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(graph, register(&Arc::new(Graph::new())))
    }

    pub(crate) fn cuGraphDestroy(graph: CUgraph) -> Done {
        let found = find(graph)?;
        if found.is_child || found.capturing.load(Ordering::Relaxed) {
            return Err(CUresult::INVALID_VALUE);
        }
        forget(&found);
        Held::let_go(&mut found.held());
        Ok(())
    }

    pub(crate) fn cuGraphClone(clone: *mut CUgraph, graph: CUgraph) -> Done {
        let graph = find(graph)?;
        if clone.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(clone, register(&graph.copy(false)?))
    }

    pub(crate) fn cuGraphNodeFindInClone(
        found: *mut CUgraphNode,
        node: CUgraphNode,
        clone: CUgraph,
    ) -> Done {
        let clone = find(clone)?;
        let copied = *clone.from.get(&node.0).ok_or(CUresult::INVALID_VALUE)?;
        if !clone.nodes().contains_key(&copied) {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(found, CUgraphNode(copied))
    }

    pub(crate) fn cuGraphGetId(graph: CUgraph, id: *mut c_uint) -> Done {
        raw::put(id, find(graph)?.id)
    }

    pub(crate) fn cuGraphNodeGetContainingGraph(node: CUgraphNode, graph: *mut CUgraph) -> Done {
        raw::put(graph, CUgraph(of_node(node)?.handle()))
    }

    pub(crate) fn cuGraphNodeGetLocalId(node: CUgraphNode, id: *mut c_uint) -> Done {
        let graph = of_node(node)?;
        let local = graph.nodes().get(&node.0).map(|node| node.local);
        raw::put(id, local.ok_or(CUresult::INVALID_VALUE)?)
    }

    pub(crate) fn cuGraphNodeGetToolsId(node: CUgraphNode, id: *mut c_ulonglong) -> Done {
        of_node(node)?;
        raw::put(id, node.0 as c_ulonglong)
    }

    pub(crate) fn cuGraphDestroyNode(node: CUgraphNode) -> Done {
        let graph = of_node(node)?;
        let mut nodes = graph.nodes();
        let task = nodes.get(&node.0).map(|node| node.task.clone());
        match task.ok_or(CUresult::INVALID_VALUE)? {
            task if task.is_memory() => return Err(CUresult::NOT_SUPPORTED),
            Task::Child(child) => forget(&child),
            _ => {}
        }
        if graph.capturing.load(Ordering::Relaxed) {
            return Err(CUresult::INVALID_VALUE);
        }
        nodes.remove(&node.0);
        nodes.values_mut().for_each(|other| other.after.retain(|edge| edge.from != node.0));
        NODES.remove(node.0);
        Ok(())
    }

    /// Writes the graph for people, in the language of Graphviz.
    pub(crate) fn cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, _: c_uint) -> Done {
        use std::fmt::Write as _;
        let (graph, path) = (find(graph)?, raw::text(path)?);
        let mut text = String::from("digraph dot {\n");
        for node in graph.nodes().values() {
            let _ = writeln!(text, "  n{} [label=\"{}\"];", node.local, node.task.name());
        }
        let nodes = graph.nodes();
        for node in nodes.values() {
            for before in node.after.iter().filter_map(|edge| nodes.get(&edge.from)) {
                let _ = writeln!(text, "  n{} -> n{};", before.local, node.local);
            }
        }
        text.push_str("}\n");
        std::fs::write(path, text).map_err(|_| CUresult::OPERATING_SYSTEM)
    }
}
