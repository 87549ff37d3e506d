//! Exchanges between the lanes of whole warps.

use crate::program::{Register, Source};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Up,
    Down,
    Bfly,
    Idx,
    All,
    Any,
    Uni,
    Ballot,
    MatchAny32,
    MatchAny64,
    MatchAll,
    Add,
    Min,
    Max,
    And,
    ActiveMask,
    BarrierPopc,
    BarrierAnd,
    BarrierOr,
}

pub(crate) const ALL: [What; 19] = [
    What::Up,
    What::Down,
    What::Bfly,
    What::Idx,
    What::All,
    What::Any,
    What::Uni,
    What::Ballot,
    What::MatchAny32,
    What::MatchAny64,
    What::MatchAll,
    What::Add,
    What::Min,
    What::Max,
    What::And,
    What::ActiveMask,
    What::BarrierPopc,
    What::BarrierAnd,
    What::BarrierOr,
];

impl What {
    pub(crate) fn opcode(self) -> &'static str {
        match self {
            Self::Up => "shfl.sync.up.b32",
            Self::Down => "shfl.sync.down.b32",
            Self::Bfly => "shfl.sync.bfly.b32",
            Self::Idx => "shfl.sync.idx.b32",
            Self::All => "vote.sync.all.pred",
            Self::Any => "vote.sync.any.pred",
            Self::Uni => "vote.sync.uni.pred",
            Self::Ballot => "vote.sync.ballot.b32",
            Self::MatchAny32 => "match.any.sync.b32",
            Self::MatchAny64 => "match.any.sync.b64",
            Self::MatchAll => "match.all.sync.b32",
            Self::Add => "redux.sync.add.s32",
            Self::Min => "redux.sync.min.s32",
            Self::Max => "redux.sync.max.u32",
            Self::And => "redux.sync.and.b32",
            Self::ActiveMask => "activemask.b32",
            Self::BarrierPopc => "bar.red.popc.u32",
            Self::BarrierAnd => "bar.red.and.pred",
            Self::BarrierOr => "bar.red.or.pred",
        }
    }

    pub(crate) fn is_shuffle(self) -> bool {
        matches!(self, Self::Up | Self::Down | Self::Bfly | Self::Idx)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) what: What,
    pub(crate) d: Register,
    /// Second result of a shuffle and of `match.all`.
    pub(crate) p: usize,
    pub(crate) a: Register,
    /// Distance or lane, and bound with segment, of a shuffle.
    pub(crate) b: Source,
    pub(crate) c: u64,
}

/// Which lane a shuffle reads, and whether that is in its bounds: the ISA's pseudocode.
pub(crate) fn source_lane(what: What, lane: i32, b: u64, c: u64) -> (usize, bool) {
    let (b, bound, segment) = ((b & 31) as i32, (c & 31) as i32, (c >> 8 & 31) as i32);
    let most = (lane & segment) | (bound & !segment);
    let least = lane & segment;
    let (from, inside) = match what {
        What::Up => (lane - b, lane - b >= most),
        What::Down => (lane + b, lane + b <= most),
        What::Bfly => (lane ^ b, lane ^ b <= most),
        _ => {
            let from = least | (b & !segment);
            (from, from <= most)
        }
    };
    (if inside { from } else { lane } as usize & 31, inside)
}
