//! Rules: nodes of each kind, in graphs and in ready ones.

use crate::api::{Copy3d, MIB, Side3d};
use crate::call::{NULL, code, fails, ok};
use crate::graphs::{fill, fill_params, launch, ready};
use crate::rule::rules;
use crate::streams::{adder, count};

const STORE: &str = r"
.version 7.5
.target sm_75
.address_size 64
.visible .entry store(.param .u64 at, .param .u64 value)
{
    .reg .u64 %a;
    .reg .u32 %b;
    ld.param.u64 %a, [at];
    ld.param.u32 %b, [value];
    st.global.u32 [%a], %b;
    ret;
}
";

fn graph() -> usize {
    let mut graph = 0_usize;
    ok!("cuGraphCreate", &mut graph, 0_u32);
    graph
}

/// `CUDA_KERNEL_NODE_PARAMS` of the second form; the first is its beginning.
fn kernel(function: usize, params: &[u64; 2]) -> [u64; 9] {
    let one = 1_u64;
    let blocks = [one | one << 32, one | one << 32, one | one << 32, 0];
    let params = params.as_ptr() as u64;
    let mut words = [0; 9];
    words[0] = function as u64;
    // Grid and block are six numbers, then shared memory and a gap.
    words[1..5].copy_from_slice(&blocks);
    words[4] = 0;
    words[5] = params;
    words
}

fn copy(to: u64, from: u64, bytes: u64) -> Copy3d {
    let side = |device| Side3d { kind: 2, device, ..Side3d::default() };
    Copy3d { source: side(from), target: side(to), extent: [bytes, 1, 1] }
}

fn event() -> usize {
    let mut event = 0_usize;
    ok!("cuEventCreate", &mut event, 2_u32);
    event
}

/// `CUgraphNodeParams` of a kind, with the words of its own part.
fn node_params(kind: u64, part: &[u64]) -> [u64; 32] {
    let mut words = [0; 32];
    words[0] = kind;
    words[2..2 + part.len()].copy_from_slice(part);
    words
}

rules! {
    /// cuda.h, cuGraphAddKernelNode, cuGraphKernelNodeGetParams, cuGraphExecKernelNodeSetParams: a
    /// node runs the kernel with the parameters that it was given; what is set in a graph is said
    /// by it, what is set in a ready graph holds for that one only.
    fn a_kernels_node_runs_what_it_was_last_told(turn) covers [
        cuGraphAddKernelNode, cuGraphAddKernelNode_v2, cuGraphKernelNodeGetParams,
        cuGraphKernelNodeGetParams_v2, cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams_v2,
        cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2
    ] {
        let module = turn.module(STORE);
        let (store, at) = (turn.function(module, "store"), turn.allocate(MIB));
        let values = [1_u64, 2, 3];
        let params = values.each_ref().map(|value| [&raw const at as u64, std::ptr::from_ref(value) as u64]);
        for form in ["", "_v2"] {
            let (graph, mut node, mut seen) = (graph(), 0_usize, [0_u64; 9]);
            let add = format!("cuGraphAddKernelNode{form}");
            ok!(&add, &mut node, graph, NULL, 0_u64, &kernel(store, &params[0]));
            ok!(&format!("cuGraphKernelNodeGetParams{form}"), node, &mut seen);
            assert_eq!(seen[..4], kernel(store, &params[0])[..4]);
            let list: *const u8 = std::ptr::with_exposed_provenance(seen[5] as usize);
            let list = crate::call::bytes_at(list, 16);
            let second = u64::from_le_bytes(list[8..].try_into().expect("eight bytes"));
            let value: *const u8 = std::ptr::with_exposed_provenance(second as usize);
            assert_eq!(crate::call::bytes_at(value, 4), [1, 0, 0, 0]);
            ok!(&format!("cuGraphKernelNodeSetParams{form}"), node, &kernel(store, &params[1]));
            let (first, exec) = (ready(graph), ready(graph));
            ok!(&format!("cuGraphExecKernelNodeSetParams{form}"), exec, node, &kernel(store, &params[2]));
            launch(turn, exec);
            assert_eq!(turn.read(at, 4), [3, 0, 0, 0]);
            launch(turn, first);
            assert_eq!(turn.read(at, 4), [2, 0, 0, 0]);
            fails!(400, &add, &mut node, graph, NULL, 0_u64, &kernel(0xDEAD, &params[0]));
            fails!(1, &add, &mut node, graph, NULL, 0_u64, NULL);
            fails!(1, "cuGraphKernelNodeGetParams", 0xDEAD_u64, &mut seen);
        }
    }

    /// cuda.h, cuGraphKernelNodeSetAttribute, cuGraphKernelNodeCopyAttributes: what was set is what
    /// is said, also by the node that it was copied to.
    fn a_kernels_node_keeps_its_attributes(turn) covers [
        cuGraphKernelNodeSetAttribute, cuGraphKernelNodeGetAttribute, cuGraphKernelNodeCopyAttributes
    ] {
        let module = turn.module(STORE);
        let (store, graph, mut a, mut b) = (turn.function(module, "store"), graph(), 0_usize, 0_usize);
        let (at, value) = (turn.allocate(MIB), 1_u64);
        let params = [&raw const at as u64, &raw const value as u64];
        ok!("cuGraphAddKernelNode", &mut a, graph, NULL, 0_u64, &kernel(store, &params));
        ok!("cuGraphAddKernelNode", &mut b, graph, NULL, 0_u64, &kernel(store, &params));
        let (mut wanted, mut seen) = ([0_i32; 16], [9_i32; 16]);
        wanted[0] = -3;
        ok!("cuGraphKernelNodeGetAttribute", a, 8_u32, &mut seen);
        assert_eq!(seen[0], 0);
        ok!("cuGraphKernelNodeSetAttribute", a, 8_u32, &wanted);
        ok!("cuGraphKernelNodeCopyAttributes", b, a);
        ok!("cuGraphKernelNodeSetParams", b, &kernel(store, &params));
        ok!("cuGraphKernelNodeGetAttribute", b, 8_u32, &mut seen);
        assert_eq!(seen, wanted);
        fails!(1, "cuGraphKernelNodeSetAttribute", a, 99_u32, &wanted);
        fails!(1, "cuGraphKernelNodeGetAttribute", 0xDEAD_u64, 8_u32, &mut seen);
    }

    /// cuda.h, cuGraphAddMemsetNode, cuGraphAddMemcpyNode: a fill, a copy; what is set is said and
    /// done; the kinds of memory of a copy cannot change in a ready graph.
    fn fills_and_copies_do_what_they_were_last_told(turn) covers [
        cuGraphAddMemsetNode, cuGraphMemsetNodeGetParams, cuGraphMemsetNodeSetParams,
        cuGraphExecMemsetNodeSetParams, cuGraphAddMemcpyNode, cuGraphMemcpyNodeGetParams,
        cuGraphMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams
    ] {
        let (graph, at, mut node) = (graph(), turn.allocate(MIB), 0_usize);
        let filling = fill(graph, &[], at, 1);
        ok!("cuGraphMemsetNodeSetParams", filling, &fill_params(at, 2));
        let mut seen = [0_u64; 5];
        ok!("cuGraphMemsetNodeGetParams", filling, &mut seen);
        assert_eq!(seen, fill_params(at, 2));
        ok!("cuGraphAddMemcpyNode", &mut node, graph, &[filling], 1_u64, &copy(at + 64, at, 4), 0_u64);
        ok!("cuGraphMemcpyNodeSetParams", node, &copy(at + 128, at, 4));
        let mut said = Copy3d::default();
        ok!("cuGraphMemcpyNodeGetParams", node, &mut said);
        assert_eq!((said.target.device, said.source.device, said.extent), (at + 128, at, [4, 1, 1]));
        turn.write(at, &[0; 256]);
        let exec = ready(graph);
        launch(turn, exec);
        assert_eq!((turn.read(at + 64, 4), turn.read(at + 128, 4)), (vec![0; 4], vec![2; 4]));
        ok!("cuGraphExecMemsetNodeSetParams", exec, filling, &fill_params(at, 5), 0_u64);
        ok!("cuGraphExecMemcpyNodeSetParams", exec, node, &copy(at + 192, at, 4), 0_u64);
        launch(turn, exec);
        assert_eq!((turn.read(at + 128, 4), turn.read(at + 192, 4)), (vec![2; 4], vec![5; 4]));
        let mut host = copy(at, at, 4);
        host.source.kind = 1;
        host.source.host = 4096;
        fails!(1, "cuGraphExecMemcpyNodeSetParams", exec, node, &host, 0_u64);
        fails!(1, "cuGraphExecMemsetNodeSetParams", exec, node, &fill_params(at, 5), 0_u64);
        fails!(1, "cuGraphMemsetNodeGetParams", node, &mut seen);
        fails!(1, "cuGraphAddMemsetNode", &mut node, graph, NULL, 0_u64, &[at, 0, 3 << 32, 1, 1], 0_u64);
        fails!(201, "cuGraphAddMemcpyNode", &mut node, graph, NULL, 0_u64, &copy(at, at, 4), 0xDEAD_u64);
    }

    /// cuda.h, cuGraphAddHostNode: calls a function of the host with its data.
    fn a_hosts_node_calls_what_it_was_last_told(turn) covers [
        cuGraphAddHostNode, cuGraphHostNodeGetParams, cuGraphHostNodeSetParams,
        cuGraphExecHostNodeSetParams
    ] {
        let (graph, mut node, mut seen) = (graph(), 0_usize, [0_u64; 2]);
        ok!("cuGraphAddHostNode", &mut node, graph, NULL, 0_u64, &[adder(), 0]);
        ok!("cuGraphHostNodeSetParams", node, &[adder(), 3]);
        ok!("cuGraphHostNodeGetParams", node, &mut seen);
        assert_eq!(seen, [adder(), 3]);
        let (exec, before) = (ready(graph), (count(3), count(2)));
        launch(turn, exec);
        ok!("cuGraphExecHostNodeSetParams", exec, node, &[adder(), 2]);
        launch(turn, exec);
        assert_eq!((count(3), count(2)), (before.0 + 1, before.1 + 1));
        fails!(1, "cuGraphAddHostNode", &mut node, graph, NULL, 0_u64, &[0_u64, 0]);
        fails!(1, "cuGraphHostNodeSetParams", 0xDEAD_u64, &[adder(), 0]);
    }

    /// cuda.h, cuGraphAddChildGraphNode: a copy of the graph within the graph, launched in its
    /// place; cuGraphChildGraphNodeGetGraph gives that copy, which the node owns.
    fn a_graph_within_a_graph_has_its_turn(turn) covers [
        cuGraphAddChildGraphNode, cuGraphChildGraphNodeGetGraph, cuGraphExecChildGraphNodeSetParams
    ] {
        let (outer, inner, at) = (graph(), graph(), turn.allocate(MIB));
        let (mut node, mut within) = (0_usize, 0_usize);
        fill(inner, &[], at, 2);
        let first = fill(outer, &[], at, 1);
        ok!("cuGraphAddChildGraphNode", &mut node, outer, &[first], 1_u64, inner);
        ok!("cuGraphChildGraphNodeGetGraph", node, &mut within);
        assert!(within != inner);
        fails!(1, "cuGraphDestroy", within);
        let exec = ready(outer);
        launch(turn, exec);
        assert_eq!(turn.read(at, 4), [2; 4]);
        let (other, longer) = (graph(), graph());
        fill(other, &[], at, 3);
        ok!("cuGraphExecChildGraphNodeSetParams", exec, node, other);
        launch(turn, exec);
        assert_eq!(turn.read(at, 4), [3; 4]);
        fails!(1, "cuGraphExecChildGraphNodeSetParams", exec, node, longer);
        fails!(1, "cuGraphAddChildGraphNode", &mut node, outer, NULL, 0_u64, outer);
        fails!(1, "cuGraphChildGraphNodeGetGraph", first, &mut within);
        ok!("cuGraphDestroy", outer);
        fails!(1, "cuGraphGetNodes", within, NULL, &mut 0_u64);
    }

    /// cuda.h, cuGraphAddEventRecordNode, cuGraphAddEventWaitNode: the event is recorded, and
    /// awaited, at each launch.
    fn a_graph_records_and_awaits_events(turn) covers [
        cuGraphAddEventRecordNode, cuGraphAddEventWaitNode, cuGraphEventRecordNodeGetEvent,
        cuGraphEventRecordNodeSetEvent, cuGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeSetEvent,
        cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventWaitNodeSetEvent
    ] {
        let (graph, stream, other, gate) = (graph(), turn.stream(), turn.stream(), turn.allocate(MIB));
        let (awaited, recorded, spare) = (event(), event(), event());
        let (mut wait, mut record, mut seen) = (0_usize, 0_usize, 0_usize);
        ok!("cuGraphAddEventWaitNode", &mut wait, graph, NULL, 0_u64, spare);
        ok!("cuGraphAddEventRecordNode", &mut record, graph, &[wait], 1_u64, spare);
        ok!("cuGraphEventWaitNodeSetEvent", wait, awaited);
        ok!("cuGraphEventWaitNodeGetEvent", wait, &mut seen);
        assert_eq!(seen, awaited);
        ok!("cuGraphEventRecordNodeSetEvent", record, recorded);
        ok!("cuGraphEventRecordNodeGetEvent", record, &mut seen);
        assert_eq!(seen, recorded);
        let exec = ready(graph);
        for _ in 0..2 {
            turn.write(gate, &[0; 4]);
            ok!("cuStreamWaitValue32_v2", other, gate, 1_u32, 1_u32);
            ok!("cuEventRecord", awaited, other);
            ok!("cuGraphLaunch", exec, stream);
            fails!(600, "cuEventQuery", recorded);
            ok!("cuStreamWriteValue32_v2", turn.stream(), gate, 1_u32, 0_u32);
            ok!("cuEventSynchronize", recorded);
        }
        ok!("cuGraphExecEventWaitNodeSetEvent", exec, wait, spare);
        ok!("cuGraphExecEventRecordNodeSetEvent", exec, record, spare);
        launch(turn, exec);
        ok!("cuEventQuery", spare);
        fails!(400, "cuGraphAddEventWaitNode", &mut wait, graph, NULL, 0_u64, 0xDEAD_u64);
        fails!(1, "cuGraphEventRecordNodeGetEvent", wait, &mut seen);
    }

    /// cuda.h, cuGraphAddBatchMemOpNode: operations on memory words in the order of the array.
    fn a_graph_writes_words_in_order(turn) covers [
        cuGraphAddBatchMemOpNode, cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeSetParams,
        cuGraphExecBatchMemOpNodeSetParams
    ] {
        let (graph, at, mut node) = (graph(), turn.allocate(MIB), 0_usize);
        let op = |value: u64| [2_u64, at, value, 0, 0, 0];
        let params = |ops: &[[u64; 6]]| [0, ops.len() as u64, ops.as_ptr() as u64, 0];
        let (one, two) = ([op(1)], [op(2), op(3)]);
        ok!("cuGraphAddBatchMemOpNode", &mut node, graph, NULL, 0_u64, &params(&one));
        let mut seen = [0_u64; 4];
        ok!("cuGraphBatchMemOpNodeGetParams", node, &mut seen);
        assert_eq!(seen[1] as u32, 1);
        let exec = ready(graph);
        launch(turn, exec);
        assert_eq!(turn.read(at, 4), [1, 0, 0, 0]);
        ok!("cuGraphExecBatchMemOpNodeSetParams", exec, node, &params(&two));
        launch(turn, exec);
        assert_eq!(turn.read(at, 4), [3, 0, 0, 0]);
        ok!("cuGraphBatchMemOpNodeSetParams", node, &params(&two));
        ok!("cuGraphBatchMemOpNodeGetParams", node, &mut seen);
        assert_eq!(seen[1] as u32, 2);
        fails!(1, "cuGraphAddBatchMemOpNode", &mut node, graph, NULL, 0_u64, &params(&[]));
    }

    /// cuda.h, cuGraphAddMemAllocNode, cuGraphAddMemFreeNode: an address that is fixed when the
    /// node is made, memory from a launch to the free; what is not freed cannot be taken by a
    /// second launch. cuDeviceGetGraphMemAttribute counts it, cuDeviceGraphMemTrim gives back what
    /// is not in use.
    fn a_graph_takes_memory_and_gives_it(turn) covers [
        cuGraphAddMemAllocNode, cuGraphMemAllocNodeGetParams, cuGraphAddMemFreeNode,
        cuGraphMemFreeNodeGetParams, cuDeviceGetGraphMemAttribute, cuDeviceSetGraphMemAttribute,
        cuDeviceGraphMemTrim
    ] {
        let attribute = |number: u32| {
            let mut bytes = 9_u64;
            ok!("cuDeviceGetGraphMemAttribute", 0_u32, number, &mut bytes);
            bytes
        };
        ok!("cuDeviceSetGraphMemAttribute", 0_u32, 1_u32, &0_u64);
        let before = turn.free_bytes();
        let (graph, mut node, mut params) = (graph(), 0_usize, [0_u64; 15]);
        params[0] = 1;
        params[1] = 1;
        params[13] = 8 * MIB;
        ok!("cuGraphAddMemAllocNode", &mut node, graph, NULL, 0_u64, &mut params);
        let (at, mut seen) = (params[14], [0_u64; 15]);
        ok!("cuGraphMemAllocNodeGetParams", node, &mut seen);
        assert_eq!((seen[13], seen[14]), (8 * MIB, at));
        fails!(801, "cuGraphClone", &mut 0_usize, graph);
        let (filling, exec) = (fill(graph, &[node], at, 7), ready(graph));
        launch(turn, exec);
        assert_eq!(turn.read(at, 4), [7; 4]);
        assert_eq!((attribute(0), attribute(1), attribute(2)), (8 * MIB, 8 * MIB, 8 * MIB));
        fails!(1, "cuGraphLaunch", exec, turn.stream());
        ok!("cuMemFree_v2", at);
        assert_eq!((attribute(0), attribute(1), attribute(2)), (0, 8 * MIB, 8 * MIB));
        fails!(801, "cuGraphInstantiateWithFlags", &mut 0_usize, graph, 0_u64);
        ok!("cuGraphExecDestroy", exec);
        let mut free = 0_usize;
        ok!("cuGraphAddMemFreeNode", &mut free, graph, &[filling], 1_u64, at);
        let mut said = 0_u64;
        ok!("cuGraphMemFreeNodeGetParams", free, &mut said);
        assert_eq!(said, at);
        fails!(1, "cuGraphAddMemFreeNode", &mut free, graph, &[filling], 1_u64, at);
        let exec = ready(graph);
        launch(turn, exec);
        launch(turn, exec);
        assert_eq!((attribute(0), turn.free_bytes()), (0, before - 8 * MIB));
        ok!("cuDeviceGraphMemTrim", 0_u32);
        assert_eq!((attribute(2), turn.free_bytes()), (0, before));
        launch(turn, exec);
        ok!("cuGraphExecDestroy", exec);
        fails!(1, "cuDeviceGetGraphMemAttribute", 0_u32, 9_u32, &mut said);
        fails!(1, "cuDeviceSetGraphMemAttribute", 0_u32, 1_u32, &1_u64);
        fails!(101, "cuDeviceGraphMemTrim", 9_u32);
    }

    /// cuda.h, cuGraphAddNode, CUgraphNodeParams: a node of the kind that the structure names.
    fn a_node_of_any_kind_is_made_asked_and_changed(turn) covers [
        cuGraphAddNode, cuGraphAddNode_v2, cuGraphAddNode_v3, cuGraphNodeGetParams,
        cuGraphNodeSetParams, cuGraphNodeSetParams_v2, cuGraphExecNodeSetParams
    ] {
        let at = turn.allocate(MIB);
        let filling = |value: u32| node_params(2, &fill_params(at, value));
        for form in ["", "_v2", "_v3"] {
            let (graph, mut node, mut seen) = (graph(), 0_usize, [0_u64; 32]);
            let name = format!("cuGraphAddNode{form}");
            if form.is_empty() {
                ok!(&name, &mut node, graph, NULL, 0_u64, &mut filling(1));
                fails!(1, &name, &mut node, graph, NULL, 0_u64, &mut node_params(99, &[]));
                fails!(1, &name, &mut node, graph, NULL, 0_u64, NULL);
            } else {
                ok!(&name, &mut node, graph, NULL, NULL, 0_u64, &mut filling(1));
            }
            ok!("cuGraphNodeGetParams", node, &mut seen);
            assert_eq!((seen[0], &seen[2..7]), (2, &fill_params(at, 1)[..]));
            let set = if form == "_v3" { "cuGraphNodeSetParams_v2" } else { "cuGraphNodeSetParams" };
            ok!(set, node, &mut filling(2));
            let exec = ready(graph);
            launch(turn, exec);
            assert_eq!(turn.read(at, 4), [2; 4]);
            ok!("cuGraphExecNodeSetParams", exec, node, &mut filling(3));
            launch(turn, exec);
            assert_eq!(turn.read(at, 4), [3; 4]);
            fails!(1, set, node, &mut node_params(5, &[]));
            fails!(1, "cuGraphExecNodeSetParams", exec, node, &mut node_params(5, &[]));
        }
    }
}
