//! Executable graphs with memory nodes: what their nodes take on a card, and whether they have it since
//! the reserve was last trimmed.

use shim_cuda_headers::CUgraphExec;

use crate::{Slot, spread::Map};

/// What an executable graph takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GraphMemory {
    slot: Slot,
    units: u32,
    backed: bool,
}

#[derive(Debug, Default)]
pub struct Graphs(Map<CUgraphExec, GraphMemory>);

impl Graphs {
    /// An executable graph with memory nodes was made.
    pub fn enter(&mut self, exec: CUgraphExec, slot: Slot, units: u32) {
        self.0.insert(exec, GraphMemory { slot, units, backed: false });
    }

    /// What its launch may add to the reserve; `None` for one that has all it takes.
    #[must_use]
    pub fn wants(&self, exec: CUgraphExec) -> Option<(Slot, u32)> {
        self.0.get(&exec).filter(|graph| !graph.backed).map(|graph| (graph.slot, graph.units))
    }

    /// It was launched, and keeps what it took.
    pub fn backed(&mut self, exec: CUgraphExec) {
        if let Some(graph) = self.0.get_mut(&exec) {
            graph.backed = true;
        }
    }

    /// What was not in use went back to the card.
    pub fn trimmed(&mut self, slot: Slot) {
        for graph in self.0.values_mut().filter(|graph| graph.slot == slot) {
            graph.backed = false;
        }
    }

    /// It is about to be destroyed: the handle may come again.
    pub fn take(&mut self, exec: CUgraphExec) -> Option<GraphMemory> {
        self.0.remove(&exec)
    }

    /// It was not.
    pub fn restore(&mut self, exec: CUgraphExec, graph: GraphMemory) {
        self.0.entry(exec).or_insert(graph);
    }
}
