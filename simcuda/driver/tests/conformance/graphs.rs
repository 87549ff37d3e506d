//! Rules: graphs as wholes: made, ordered, cloned, made ready, changed, launched.

use crate::api::{MIB, Turn};
use crate::call::{NULL, code, fails, ok};
use crate::rule::rules;
use crate::streams::{adder, count};

fn graph() -> usize {
    let mut graph = 0_usize;
    ok!("cuGraphCreate", &mut graph, 0_u32);
    graph
}

fn empty(graph: usize, after: &[usize]) -> usize {
    let mut node = 0_usize;
    ok!("cuGraphAddEmptyNode", &mut node, graph, after, after.len());
    node
}

/// A node that fills four bytes.
pub(crate) fn fill(graph: usize, after: &[usize], at: u64, value: u32) -> usize {
    let mut node = 0_usize;
    let params = fill_params(at, value);
    ok!("cuGraphAddMemsetNode", &mut node, graph, after, after.len(), &params, 0_u64);
    node
}

/// `CUDA_MEMSET_NODE_PARAMS`: four bytes of the value.
pub(crate) fn fill_params(at: u64, value: u32) -> [u64; 5] {
    [at, 0, u64::from(value) | 1 << 32, 4, 1]
}

pub(crate) fn ready(graph: usize) -> usize {
    let mut exec = 0_usize;
    ok!("cuGraphInstantiateWithFlags", &mut exec, graph, 0_u64);
    exec
}

pub(crate) fn launch(turn: &Turn, exec: usize) {
    let stream = turn.stream();
    ok!("cuGraphLaunch", exec, stream);
    ok!("cuStreamSynchronize", stream);
}

/// A list that a call answers with: first its length, then itself.
fn list(ask: impl Fn(Option<&mut [usize]>, &mut u64) -> u32) -> Vec<usize> {
    let (mut count, mut items) = (0_u64, [9_usize; 8]);
    assert_eq!(ask(None, &mut count), 0);
    let wanted = count;
    count = 8;
    assert_eq!(ask(Some(&mut items), &mut count), 0);
    assert_eq!(count, wanted);
    assert!(items[count as usize..].iter().all(|item| *item == 0), "what is left over is null");
    items[..count as usize].to_vec()
}

fn place(items: Option<&mut [usize]>) -> u64 {
    items.map_or(NULL, |items| items.as_mut_ptr() as u64)
}

rules! {
    /// cuda.h, cuGraphCreate, cuGraphAddEmptyNode, cuGraphGetNodes, cuGraphGetRootNodes,
    /// cuGraphGetEdges: nodes, those without dependencies, and pairs of dependencies; without room
    /// only their number, with too much null for what is over. cuGraphDestroyNode takes a node and
    /// its edges out, cuGraphDestroy all.
    fn a_graph_knows_its_nodes_and_their_order(_turn) covers [
        cuGraphCreate, cuGraphDestroy, cuGraphAddEmptyNode, cuGraphDestroyNode, cuGraphGetNodes,
        cuGraphGetRootNodes, cuGraphGetEdges, cuGraphGetEdges_v2, cuGraphNodeGetDependencies,
        cuGraphNodeGetDependencies_v2, cuGraphNodeGetDependentNodes,
        cuGraphNodeGetDependentNodes_v2, cuGraphNodeGetType
    ] {
        let graph = graph();
        let a = empty(graph, &[]);
        let (b, c) = (empty(graph, &[a]), empty(graph, &[a]));
        let d = empty(graph, &[b, c]);
        let nodes = |name| list(|items, count| code!(name, graph, place(items), count));
        assert_eq!(nodes("cuGraphGetNodes"), [a, b, c, d]);
        assert_eq!(nodes("cuGraphGetRootNodes"), [a]);
        for form in ["", "_v2"] {
            let of = |base: &str, node: usize| {
                list(|items, count| match form {
                    "" => code!(base, node, place(items), count),
                    _ => code!(&format!("{base}_v2"), node, place(items), NULL, count),
                })
            };
            assert_eq!(of("cuGraphNodeGetDependencies", d), [b, c]);
            assert_eq!(of("cuGraphNodeGetDependentNodes", a), [b, c]);
            let (mut from, mut to, mut count) = ([0_usize; 8], [0_usize; 8], 8_u64);
            match form {
                "" => ok!("cuGraphGetEdges", graph, &mut from, &mut to, &mut count),
                _ => ok!("cuGraphGetEdges_v2", graph, &mut from, &mut to, NULL, &mut count),
            }
            let pairs: Vec<_> = from.into_iter().zip(to).take(count as usize).collect();
            assert_eq!(pairs, [(a, b), (a, c), (b, d), (c, d)]);
        }
        let mut kind = 99_u32;
        ok!("cuGraphNodeGetType", d, &mut kind);
        assert_eq!(kind, 5);
        ok!("cuGraphDestroyNode", b);
        assert_eq!(nodes("cuGraphGetNodes"), [a, c, d]);
        fails!(1, "cuGraphDestroyNode", b);
        fails!(1, "cuGraphAddEmptyNode", &mut 0_usize, graph, &[a, a], 2_u64);
        fails!(1, "cuGraphAddEmptyNode", &mut 0_usize, graph, &[b], 1_u64);
        fails!(1, "cuGraphAddEmptyNode", NULL, graph, NULL, 0_u64);
        ok!("cuGraphDestroy", graph);
        fails!(1, "cuGraphDestroy", graph);
        fails!(1, "cuGraphNodeGetType", d, &mut kind);
        fails!(1, "cuGraphCreate", NULL, 0_u32);
        fails!(1, "cuGraphCreate", &mut kind, 1_u32);
    }

    /// cuda.h, cuGraphAddDependencies, cuGraphRemoveDependencies: an existing dependency cannot be
    /// added, one that is not there cannot be removed; edge data is asked for with the edge, and a
    /// query that would lose it is CUDA_ERROR_LOSSY_QUERY (402).
    fn dependencies_are_added_and_removed(_turn) covers [
        cuGraphAddDependencies, cuGraphAddDependencies_v2, cuGraphRemoveDependencies,
        cuGraphRemoveDependencies_v2
    ] {
        let graph = graph();
        let (a, b) = (empty(graph, &[]), empty(graph, &[]));
        let roots = || list(|items, count| code!("cuGraphGetRootNodes", graph, place(items), count));
        ok!("cuGraphAddDependencies", graph, &[a], &[b], 1_u64);
        assert_eq!(roots(), [a]);
        fails!(1, "cuGraphAddDependencies", graph, &[a], &[b], 1_u64);
        fails!(1, "cuGraphAddDependencies", graph, &[a], &[a], 1_u64);
        ok!("cuGraphRemoveDependencies", graph, &[a], &[b], 1_u64);
        assert_eq!(roots(), [a, b]);
        fails!(1, "cuGraphRemoveDependencies", graph, &[a], &[b], 1_u64);
        let programmatic = [0_u8, 0, 1, 0, 0, 0, 0, 0];
        ok!("cuGraphAddDependencies_v2", graph, &[a], &[b], &programmatic, 1_u64);
        let (mut node, mut edge, mut count) = (0_usize, [0_u8; 8], 1_u64);
        fails!(402, "cuGraphNodeGetDependencies", b, &mut node, &mut count);
        ok!("cuGraphNodeGetDependencies_v2", b, &mut node, &mut edge, &mut count);
        assert_eq!((node, edge), (a, programmatic));
        fails!(1, "cuGraphRemoveDependencies_v2", graph, &[a], &[b], NULL, 1_u64);
        ok!("cuGraphRemoveDependencies_v2", graph, &[a], &[b], &programmatic, 1_u64);
        assert_eq!(roots(), [a, b]);
        ok!("cuGraphDestroy", graph);
    }

    /// cuda.h, cuGraphClone: a copy that can be changed apart; cuGraphNodeFindInClone: which node
    /// of it came of which; ids of graphs, and of nodes within them.
    fn a_clone_is_apart_and_knows_where_it_came_from(turn) covers [
        cuGraphClone, cuGraphNodeFindInClone, cuGraphGetId, cuGraphNodeGetLocalId,
        cuGraphNodeGetToolsId, cuGraphNodeGetContainingGraph, cuGraphDebugDotPrint
    ] {
        let (graph, at) = (graph(), turn.allocate(MIB));
        let node = fill(graph, &[], at, 1);
        let (mut clone, mut copied) = (0_usize, 0_usize);
        ok!("cuGraphClone", &mut clone, graph);
        ok!("cuGraphNodeFindInClone", &mut copied, node, clone);
        assert!(copied != node);
        ok!("cuGraphMemsetNodeSetParams", copied, &fill_params(at, 2));
        launch(turn, ready(graph));
        assert_eq!(turn.read(at, 4), [1; 4]);
        launch(turn, ready(clone));
        assert_eq!(turn.read(at, 4), [2; 4]);
        let (mut ids, mut local, mut tools, mut within) = ([0_u32; 2], [9_u32; 2], [0_u64; 2], 0_usize);
        for (index, (graph, node)) in [(graph, node), (clone, copied)].into_iter().enumerate() {
            ok!("cuGraphGetId", graph, &mut ids[index]);
            ok!("cuGraphNodeGetLocalId", node, &mut local[index]);
            ok!("cuGraphNodeGetToolsId", node, &mut tools[index]);
            ok!("cuGraphNodeGetContainingGraph", node, &mut within);
            assert_eq!(within, graph);
        }
        assert!(ids[0] != ids[1] && local[0] == local[1] && tools[0] != tools[1]);
        let file = std::env::temp_dir().join(format!("conformance-{}.dot", std::process::id()));
        let path = std::ffi::CString::new(file.to_str().expect("text")).expect("no null");
        ok!("cuGraphDebugDotPrint", graph, path.as_ptr() as u64, 0_u32);
        assert!(std::fs::read_to_string(&file).expect("the file").contains("digraph"));
        std::fs::remove_file(file).expect("the file is there");
        ok!("cuGraphDestroyNode", copied);
        fails!(1, "cuGraphNodeFindInClone", &mut copied, node, clone);
        ok!("cuGraphDestroy", clone);
        ok!("cuGraphDestroy", graph);
        fails!(1, "cuGraphClone", &mut clone, graph);
    }

    /// cuda.h, cuGraphInstantiate: a graph with a circle cannot be made ready; what is ready does
    /// not change with the graph, and is launched as a whole in its order, again and again.
    fn a_ready_graph_is_launched_as_often_as_one_likes(turn) covers [
        cuGraphInstantiate, cuGraphInstantiate_v2, cuGraphInstantiateWithFlags,
        cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz, cuGraphLaunch,
        cuGraphLaunch_ptsz, cuGraphUpload, cuGraphUpload_ptsz, cuGraphExecDestroy,
        cuGraphExecGetFlags, cuGraphExecGetId
    ] {
        let (graph, at, stream) = (graph(), turn.allocate(MIB), turn.stream());
        let first = fill(graph, &[], at, 1);
        let last = fill(graph, &[first], at, 2);
        let (mut execs, mut error, mut log) = ([0_usize; 5], 9_usize, [1_u8; 8]);
        ok!("cuGraphInstantiate", &mut execs[0], graph, &mut error, &mut log, 8_u64);
        ok!("cuGraphInstantiate_v2", &mut execs[1], graph, &mut error, &mut log, 8_u64);
        ok!("cuGraphInstantiateWithFlags", &mut execs[2], graph, 8_u64);
        for (index, form) in ["", "_ptsz"].into_iter().enumerate() {
            let mut params = [2_u64, stream as u64, 9, 9];
            ok!(&format!("cuGraphInstantiateWithParams{form}"), &mut execs[3 + index], graph, &mut params);
            assert_eq!((params[2], params[3] as u32), (0, 0));
        }
        ok!("cuGraphMemsetNodeSetParams", last, &fill_params(at, 3));
        let (mut flags, mut ids) = (0_u64, [0_u32; 2]);
        ok!("cuGraphExecGetFlags", execs[2], &mut flags);
        ok!("cuGraphExecGetId", execs[0], &mut ids[0]);
        ok!("cuGraphExecGetId", execs[1], &mut ids[1]);
        assert!(flags == 8 && ids[0] != ids[1]);
        for (index, exec) in execs.into_iter().enumerate() {
            let form = ["", "_ptsz"][index % 2];
            ok!(&format!("cuGraphUpload{form}"), exec, stream);
            for _ in 0..3 {
                turn.write(at, &[0; 4]);
                ok!(&format!("cuGraphLaunch{form}"), exec, stream);
                ok!("cuStreamSynchronize", stream);
                assert_eq!(turn.read(at, 4), [2; 4]);
            }
            ok!("cuGraphExecDestroy", exec);
            fails!(1, &format!("cuGraphLaunch{form}"), exec, stream);
            fails!(1, "cuGraphExecDestroy", exec);
        }
        ok!("cuGraphAddDependencies", graph, &[last], &[first], 1_u64);
        fails!(1, "cuGraphInstantiateWithFlags", &mut execs[0], graph, 0_u64);
        let mut params = [0_u64, 0, 0, 0];
        fails!(1, "cuGraphInstantiateWithParams", &mut execs[0], graph, &mut params);
        assert_eq!(params[3] as u32, 2);
        fails!(1, "cuGraphInstantiateWithFlags", NULL, graph, 0_u64);
        fails!(1, "cuGraphInstantiateWithFlags", &mut execs[0], graph, 0x100_u64);
        ok!("cuGraphDestroy", graph);
    }

    /// cuda.h, cuGraphExecUpdate: parameters of a graph of the same topology come in; else
    /// CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910), the reason and the node, and nothing is changed.
    fn a_ready_graph_takes_over_another_of_its_shape(turn) covers [
        cuGraphExecUpdate, cuGraphExecUpdate_v2
    ] {
        let (one, two, at) = (graph(), graph(), turn.allocate(MIB));
        fill(one, &[], at, 1);
        let other = fill(two, &[], at, 2);
        for form in ["", "_v2"] {
            let exec = ready(one);
            let update = |graph: usize| {
                let (mut node, mut result, mut info) = (9_usize, 9_u32, [9_u64; 3]);
                if form.is_empty() {
                    let code = code!("cuGraphExecUpdate", exec, graph, &mut node, &mut result);
                    (code, result, node)
                } else {
                    let code = code!("cuGraphExecUpdate_v2", exec, graph, &mut info);
                    (code, info[0] as u32, info[1] as usize)
                }
            };
            assert_eq!(update(two), (0, 0, 0));
            launch(turn, exec);
            assert_eq!(turn.read(at, 4), [2; 4]);
            let longer = graph();
            fill(longer, &[], at, 3);
            empty(longer, &[]);
            assert_eq!(update(longer), (910, 2, 0));
            let kind = graph();
            let node = empty(kind, &[]);
            assert_eq!(update(kind), (910, 3, node));
            launch(turn, exec);
            assert_eq!(turn.read(at, 4), [2; 4]);
            ok!("cuGraphExecDestroy", exec);
        }
        fails!(1, "cuGraphExecUpdate_v2", 0xDEAD_u64, two, &mut [0_u64; 3]);
        ok!("cuGraphDestroyNode", other);
    }

    /// cuda.h, cuGraphNodeSetEnabled: a node that is not enabled does nothing; kernel, memset and
    /// memcpy nodes only.
    fn a_node_of_a_ready_graph_is_switched_off_and_on(turn) covers [
        cuGraphNodeSetEnabled, cuGraphNodeGetEnabled
    ] {
        let (graph, at) = (graph(), turn.allocate(MIB));
        let first = fill(graph, &[], at, 1);
        let (second, none) = (fill(graph, &[first], at, 2), empty(graph, &[]));
        let (exec, mut enabled) = (ready(graph), 9_u32);
        for (wanted, byte) in [(0_u32, 1_u8), (1, 2)] {
            ok!("cuGraphNodeSetEnabled", exec, second, wanted);
            ok!("cuGraphNodeGetEnabled", exec, second, &mut enabled);
            assert_eq!(enabled, wanted);
            launch(turn, exec);
            assert_eq!(turn.read(at, 4), [byte; 4]);
        }
        fails!(1, "cuGraphNodeSetEnabled", exec, none, 0_u32);
        fails!(1, "cuGraphNodeGetEnabled", exec, none, &mut enabled);
    }

    /// cuda.h, cuUserObjectCreate, cuGraphRetainUserObject: the destructor runs when the last
    /// reference is gone, the graphs' included; references can be moved to a graph.
    fn a_user_object_lives_as_long_as_a_graph_holds_it(_turn) covers [
        cuUserObjectCreate, cuUserObjectRetain, cuUserObjectRelease, cuGraphRetainUserObject,
        cuGraphReleaseUserObject
    ] {
        let (graph, mut object, before) = (graph(), 0_usize, count(2));
        ok!("cuUserObjectCreate", &mut object, 2_u64, adder(), 1_u32, 1_u32);
        ok!("cuUserObjectRetain", object, 1_u32);
        ok!("cuGraphRetainUserObject", graph, object, 1_u32, 1_u32);
        ok!("cuGraphRetainUserObject", graph, object, 2_u32, 0_u32);
        ok!("cuUserObjectRelease", object, 1_u32);
        ok!("cuGraphReleaseUserObject", graph, object, 1_u32);
        fails!(1, "cuGraphReleaseUserObject", graph, object, 3_u32);
        assert_eq!(count(2), before);
        ok!("cuGraphDestroy", graph);
        assert_eq!(count(2), before + 1);
        fails!(1, "cuUserObjectRetain", object, 1_u32);
        fails!(1, "cuUserObjectCreate", &mut object, 2_u64, adder(), 1_u32, 0_u32);
        fails!(1, "cuUserObjectCreate", &mut object, 2_u64, NULL, 1_u32, 1_u32);
    }
}
