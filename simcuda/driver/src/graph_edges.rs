//! The order within a graph: dependencies added, removed and asked for; what nodes there are.

use crate::entry::{Done, Sim};
use crate::graph::{self, Edge, EdgeData, Graph};
use crate::raw;
use shim_cuda_headers::*;
use std::sync::Arc;

/// Answers with a list by the driver's rule: without room for it only its length is said; with
/// room, what fits, and null for places that are left over.
fn list(
    answer: &[(usize, EdgeData)],
    nodes: *mut CUgraphNode,
    data: *mut CUgraphEdgeData,
    count: *mut usize,
) -> Done {
    if nodes.is_null() {
        if !data.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        return raw::put(count, answer.len());
    }
    if data.is_null() && answer.iter().any(|(_, data)| *data != [0; 8]) {
        return Err(CUresult::LOSSY_QUERY);
    }
    let room = raw::get(count)?;
    for index in 0..room {
        let (handle, edge) = answer.get(index).copied().unwrap_or((0, [0; 8]));
        raw::put_at(nodes, index, CUgraphNode(handle))?;
        if !data.is_null() {
            raw::put_at(data.cast::<EdgeData>(), index, edge)?;
        }
    }
    raw::put(count, room.min(answer.len()))
}

fn handles(graph: &Graph, chosen: impl Fn(&graph::Node) -> bool) -> Vec<(usize, EdgeData)> {
    let nodes = graph.nodes();
    nodes.iter().filter(|(_, node)| chosen(node)).map(|(handle, _)| (*handle, [0; 8])).collect()
}

/// The pairs of nodes that the caller names, all of this graph.
fn pairs(
    graph: &Graph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
) -> Result<Vec<(usize, Edge)>, CUresult> {
    let (from, to) = (raw::get_all(from, count)?, raw::get_all(to, count)?);
    let data: Vec<EdgeData> =
        if data.is_null() { vec![[0; 8]; count] } else { raw::get_all(data.cast(), count)? };
    let nodes = graph.nodes();
    let mut pairs = Vec::with_capacity(count);
    for ((from, to), data) in from.into_iter().zip(to).zip(data) {
        let (Some(before), Some(after)) = (nodes.get(&from.0), nodes.get(&to.0)) else {
            return Err(CUresult::INVALID_VALUE);
        };
        if from.0 == to.0 {
            return Err(CUresult::INVALID_VALUE);
        }
        // What takes or gives memory stays where it was put.
        if before.task.is_memory() || after.task.is_memory() {
            return Err(CUresult::NOT_SUPPORTED);
        }
        pairs.push((to.0, Edge { from: from.0, data }));
    }
    Ok(pairs)
}

fn add(graph: &Arc<Graph>, pairs: &[(usize, Edge)]) -> Done {
    let mut nodes = graph.nodes();
    let there = |(to, edge): &(usize, Edge)| nodes[to].after.contains(edge);
    if pairs.iter().any(there) {
        return Err(CUresult::INVALID_VALUE);
    }
    for (to, edge) in pairs {
        if let Some(node) = nodes.get_mut(to) {
            node.after.push(*edge);
        }
    }
    Ok(())
}

fn remove(graph: &Arc<Graph>, pairs: &[(usize, Edge)]) -> Done {
    let mut nodes = graph.nodes();
    let there = |(to, edge): &(usize, Edge)| nodes[to].after.contains(edge);
    if !pairs.iter().all(there) {
        return Err(CUresult::INVALID_VALUE);
    }
    for (to, edge) in pairs {
        if let Some(node) = nodes.get_mut(to) {
            node.after.retain(|other| other != edge);
        }
    }
    Ok(())
}

/// All dependencies: from, to, what they carry; in the order of the nodes that have them.
fn all(graph: &Graph) -> Vec<(usize, usize, EdgeData)> {
    let nodes = graph.nodes();
    let of = |(to, node): (&usize, &graph::Node)| {
        let to = *to;
        node.after.iter().map(move |edge| (edge.from, to, edge.data)).collect::<Vec<_>>()
    };
    nodes.iter().flat_map(of).collect()
}

fn dependents(node: CUgraphNode) -> Result<Vec<(usize, EdgeData)>, CUresult> {
    let graph = graph::of_node(node)?;
    let edges = all(&graph).into_iter().filter(|(from, ..)| *from == node.0);
    Ok(edges.map(|(_, to, data)| (to, data)).collect())
}

fn dependencies(node: CUgraphNode) -> Result<Vec<(usize, EdgeData)>, CUresult> {
    let graph = graph::of_node(node)?;
    let edges = all(&graph).into_iter().filter(|(_, to, _)| *to == node.0);
    Ok(edges.map(|(from, _, data)| (from, data)).collect())
}

impl Sim {
    pub(crate) fn cuGraphAddDependencies_v2(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        data: *const CUgraphEdgeData,
        count: usize,
    ) -> Done {
        let graph = graph::find(graph)?;
        let pairs = pairs(&graph, from, to, data, count)?;
        add(&graph, &pairs)
    }

    pub(crate) fn cuGraphAddDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        count: usize,
    ) -> Done {
        Self::cuGraphAddDependencies_v2(graph, from, to, std::ptr::null(), count)
    }

    pub(crate) fn cuGraphRemoveDependencies_v2(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        data: *const CUgraphEdgeData,
        count: usize,
    ) -> Done {
        let graph = graph::find(graph)?;
        let pairs = pairs(&graph, from, to, data, count)?;
        remove(&graph, &pairs)
    }

    pub(crate) fn cuGraphRemoveDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        count: usize,
    ) -> Done {
        Self::cuGraphRemoveDependencies_v2(graph, from, to, std::ptr::null(), count)
    }

    pub(crate) fn cuGraphGetNodes(
        graph: CUgraph,
        nodes: *mut CUgraphNode,
        count: *mut usize,
    ) -> Done {
        let graph = graph::find(graph)?;
        list(&handles(&graph, |_| true), nodes, std::ptr::null_mut(), count)
    }

    pub(crate) fn cuGraphGetRootNodes(
        graph: CUgraph,
        nodes: *mut CUgraphNode,
        count: *mut usize,
    ) -> Done {
        let graph = graph::find(graph)?;
        let roots = handles(&graph, |node| node.after.is_empty());
        list(&roots, nodes, std::ptr::null_mut(), count)
    }

    pub(crate) fn cuGraphGetEdges_v2(
        graph: CUgraph,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        data: *mut CUgraphEdgeData,
        count: *mut usize,
    ) -> Done {
        let edges = all(&*graph::find(graph)?);
        if from.is_null() != to.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let room = if from.is_null() { 0 } else { raw::get(count)? };
        let ends = |end: fn(&(usize, usize, EdgeData)) -> usize| {
            edges.iter().map(|edge| (end(edge), edge.2)).collect::<Vec<_>>()
        };
        list(&ends(|edge| edge.0), from, data, count)?;
        if from.is_null() {
            return Ok(());
        }
        raw::put(count, room)?;
        // What they carry was written beside the first list.
        let plain: Vec<_> = ends(|edge| edge.1).into_iter().map(|(to, _)| (to, [0; 8])).collect();
        list(&plain, to, std::ptr::null_mut(), count)
    }

    pub(crate) fn cuGraphGetEdges(
        graph: CUgraph,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        count: *mut usize,
    ) -> Done {
        Self::cuGraphGetEdges_v2(graph, from, to, std::ptr::null_mut(), count)
    }

    pub(crate) fn cuGraphNodeGetDependencies_v2(
        node: CUgraphNode,
        nodes: *mut CUgraphNode,
        data: *mut CUgraphEdgeData,
        count: *mut usize,
    ) -> Done {
        list(&dependencies(node)?, nodes, data, count)
    }

    pub(crate) fn cuGraphNodeGetDependencies(
        node: CUgraphNode,
        nodes: *mut CUgraphNode,
        count: *mut usize,
    ) -> Done {
        list(&dependencies(node)?, nodes, std::ptr::null_mut(), count)
    }

    pub(crate) fn cuGraphNodeGetDependentNodes_v2(
        node: CUgraphNode,
        nodes: *mut CUgraphNode,
        data: *mut CUgraphEdgeData,
        count: *mut usize,
    ) -> Done {
        list(&dependents(node)?, nodes, data, count)
    }

    pub(crate) fn cuGraphNodeGetDependentNodes(
        node: CUgraphNode,
        nodes: *mut CUgraphNode,
        count: *mut usize,
    ) -> Done {
        list(&dependents(node)?, nodes, std::ptr::null_mut(), count)
    }

    pub(crate) fn cuGraphNodeGetType(node: CUgraphNode, kind: *mut CUgraphNodeType) -> Done {
        raw::put(kind, graph::task_of(node)?.kind())
    }
}
