//! What a module is after decoding: functions of instructions whose operands are indices. The
//! decoder makes it, `exec/` runs it; neither text nor names of registers are left.

use crate::lanes::{Alu, AluFn, Reg};
use crate::types::{Space, Ty};

/// All code of a module; a program counter is an index into `code`.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) code: Vec<Inst>,
    pub(crate) functions: Vec<Function>,
    /// The module variable that is the heap, where `malloc` or `free` is called.
    pub(crate) heap: Option<usize>,
}

/// A kernel or a device function.
#[derive(Debug, Default)]
pub(crate) struct Function {
    /// False for a declaration without a body.
    pub(crate) defined: bool,
    pub(crate) entry: u32,
    pub(crate) registers: u32,
    /// Registers that hold a value before the first instruction.
    pub(crate) seeds: Vec<(Reg, Seed)>,
    /// Bytes of `.local` and `.param` variables of one thread.
    pub(crate) local_bytes: usize,
    pub(crate) params: Vec<Place>,
    pub(crate) returns: Vec<Place>,
}

/// What a constant register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Seed {
    Bits(u64),
    /// Address of a module variable plus an offset.
    Global(usize, u64),
    /// Offset of the dynamic shared memory plus an offset.
    DynamicShared(u64),
    /// Offset of this frame's local memory plus an offset.
    FrameLocal(u64),
    Special(Special),
}

/// Read-only registers whose value does not change while a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    Nwarpid,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    DynamicSharedBytes,
    TotalSharedBytes,
}

/// Where a parameter, an argument or a result lies in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Register(Reg),
    Local { offset: usize, size: usize },
}

#[derive(Debug)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) guard: Guard,
}

/// The predicate an instruction hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    Always,
    If(Reg),
    Unless(Reg),
}

#[derive(Debug)]
pub(crate) enum Op {
    Alu(AluFn, Alu),
    LoadParam(Box<Access>),
    Load(Box<Access>),
    Store(Box<Access>),
    Atomic(Box<Atomic>),
    Branch { target: u32 },
    BranchIndexed { index: Reg, targets: Box<[u32]> },
    Call(Box<Call>),
    Return,
    Exit,
    Trap,
    Barrier(Box<Barrier>),
    WarpBarrier { members: Reg },
    Collective(Box<Collective>),
    Timer { d: Reg, which: Timer },
    Sleep { ns: Reg },
    IsSpace { d: Reg, address: Reg, space: Space },
    Matrix(Box<Matrix>),
}

/// An access of a vector of equal elements: `count` of `bytes` each.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) space: Space,
    pub(crate) address: Reg,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    pub(crate) count: usize,
    /// Destinations of a load, sources of a store.
    pub(crate) registers: [Reg; 4],
    /// Bits of a loaded element to extend its sign from; 0 for none.
    pub(crate) sign_bits: u32,
    /// What a destination register can hold.
    pub(crate) register_mask: u64,
    /// `.volatile`, `.acquire` and the like: others may be waited for.
    pub(crate) strong: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicKind {
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Add,
    Inc,
    Dec,
    Min,
    Max,
}

#[derive(Debug)]
pub(crate) struct Atomic {
    pub(crate) kind: AtomicKind,
    pub(crate) ty: Ty,
    pub(crate) space: Space,
    pub(crate) address: Reg,
    pub(crate) offset: u64,
    /// None for `red`.
    pub(crate) d: Option<Reg>,
    pub(crate) b: Reg,
    pub(crate) c: Reg,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) target: Target,
    pub(crate) arguments: Vec<Place>,
    pub(crate) results: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Function(usize),
    /// A register with a function's address.
    Indirect(Reg),
    /// `vprintf`.
    Print,
    /// `__assertfail`.
    AssertFail,
    /// `malloc`.
    Allocate,
    /// `free`.
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    Sync,
    Arrive,
    Popc,
    And,
    Or,
}

#[derive(Debug)]
pub(crate) struct Barrier {
    pub(crate) kind: BarrierKind,
    pub(crate) id: Reg,
    pub(crate) threads: Option<Reg>,
    /// Of a reduction: destination, predicate, and whether it is negated.
    pub(crate) d: Reg,
    pub(crate) predicate: Reg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollectiveKind {
    ShuffleUp,
    ShuffleDown,
    ShuffleBfly,
    ShuffleIdx,
    VoteAll,
    VoteAny,
    VoteUni,
    Ballot,
    MatchAny,
    MatchAll,
    ActiveMask,
    ReduceAdd,
    ReduceMin,
    ReduceMax,
    ReduceAnd,
    ReduceOr,
    ReduceXor,
}

/// An exchange between the lanes of a warp.
#[derive(Debug)]
pub(crate) struct Collective {
    pub(crate) kind: CollectiveKind,
    pub(crate) ty: Ty,
    pub(crate) d: Reg,
    /// Second destination of `shfl` and `match.all`.
    pub(crate) p: Option<Reg>,
    pub(crate) a: Reg,
    pub(crate) b: Reg,
    pub(crate) c: Reg,
    /// Who takes part; None for the forms without `.sync`.
    pub(crate) members: Option<Reg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    Global,
    GlobalLow,
    GlobalHigh,
    ClockLow,
    ClockHigh,
    Clock,
}

/// `mma.sync`: D = A·B + C, each matrix spread over the registers of a warp.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) k: usize,
    pub(crate) input: Ty,
    pub(crate) half_sums: (bool, bool),
    pub(crate) d: Vec<Reg>,
    pub(crate) a: Vec<Reg>,
    pub(crate) b: Vec<Reg>,
    pub(crate) c: Vec<Reg>,
}
