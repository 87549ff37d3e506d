//! Programs in their structured form: what is generated, evaluated and written as text.

use crate::form::Kind;

/// How many registers of each kind a program has.
pub(crate) fn registers(kind: Kind) -> usize {
    match kind {
        Kind::Predicate => 4,
        _ => 8,
    }
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Predicate, Kind::B16, Kind::B32, Kind::B64];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) kind: Kind,
    pub(crate) index: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Register(Register),
    Constant(u64),
}

/// The predicate that a step hangs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub(crate) predicate: usize,
    pub(crate) negated: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Compute {
        form: usize,
        guard: Option<Guard>,
        d: Register,
        sources: Vec<Source>,
    },
    If {
        guard: Guard,
        then: Vec<Self>,
        other: Vec<Self>,
    },
    /// As often as the lowest two bits of a 32-bit register say when the loop begins.
    Repeat {
        times: usize,
        body: Vec<Self>,
    },
    /// A loop that some lanes leave before its last round.
    LeaveWhen {
        rounds: u64,
        guard: Guard,
        body: Vec<Self>,
    },
    Switch {
        by: usize,
        cases: Vec<Vec<Self>>,
    },
    Memory(crate::memory::Access),
    Warp(crate::warp::Exchange),
    /// A value through shared memory and a barrier: each thread reads another's.
    Pass {
        value: Register,
        stride: usize,
    },
    Call(crate::calls::Call),
}

/// One kernel.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) functions: Vec<Vec<Step>>,
    pub(crate) steps: Vec<Step>,
}
