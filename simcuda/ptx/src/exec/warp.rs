//! A warp whose lanes may be at different places. Lanes at one place form a *strand*; of several
//! strands the deepest call runs first, then the lowest address, so that strands meet again where
//! their paths do. A strand that has waited long runs out of order: lanes may spin for each other.

use super::Context;
use super::block::{Common, Place};
use super::frame::Frames;
use super::waiting::Waits;
use crate::Fault;

/// Steps after which a strand no longer yields to those before it.
const PATIENCE: u64 = 20_000;
/// Steps that such a strand runs for.
const RELIEF: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// At a `.sync` instruction, until the lanes it names are there too.
    Converging,
    /// At `bar.warp.sync`.
    WarpBarrier {
        members: u32,
    },
    /// At a barrier of the block; the instruction is finished by whoever opens it.
    Barrier {
        id: u8,
        threads: Option<u32>,
    },
    Asleep {
        until_ns: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Strand {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) frame: usize,
    pub(crate) state: State,
    /// The warp's step count when this strand last ran.
    pub(crate) ran_at: u64,
}

#[derive(Default)]
pub(crate) struct Warp {
    pub(crate) place: Place,
    /// Lanes that have not exited.
    pub(crate) live: u32,
    pub(crate) strands: Vec<Strand>,
    pub(crate) frames: Frames,
    pub(crate) steps: u64,
    pub(crate) waits: Waits,
}

impl Warp {
    pub(crate) fn start(&mut self, context: &Context<'_>, place: Place, live: u32) {
        self.place = place;
        self.live = live;
        self.steps = 0;
        self.waits = Waits::default();
        self.frames.clear();
        self.strands.clear();
        // The first frame always fits: the decoder bounds a function's local memory.
        if let Ok(frame) = self.frames.push(context, &place, context.function, None, live) {
            let pc = context.program.functions[context.function].entry;
            let strand = Strand { pc, mask: live, frame, state: State::Ready, ran_at: 0 };
            self.strands.push(strand);
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.strands.is_empty()
    }

    pub(crate) fn can_run(&self) -> bool {
        self.strands.iter().any(|strand| strand.state == State::Ready)
    }

    /// When the first sleeper wakes; None when none sleeps.
    pub(crate) fn wakes_at_ns(&self) -> Option<u64> {
        let times = self.strands.iter().filter_map(|strand| match strand.state {
            State::Asleep { until_ns } => Some(until_ns),
            _ => None,
        });
        times.min()
    }

    pub(crate) fn wake(&mut self, now_ns: u64) {
        for strand in &mut self.strands {
            if matches!(strand.state, State::Asleep { until_ns } if until_ns <= now_ns) {
                strand.state = State::Ready;
                strand.ran_at = self.steps;
            }
        }
    }

    /// Runs strands until none is ready or `budget` is spent; gives what was spent.
    pub(crate) fn run(
        &mut self,
        context: &Context<'_>,
        common: &mut Common,
        budget: u64,
    ) -> Result<u64, Fault> {
        let mut spent = 0;
        while spent < budget {
            let Some((index, late)) = self.choose() else { break };
            let index = self.merge_into(index);
            let left = budget - spent;
            let left = if late { left.min(RELIEF) } else { left };
            spent += self.run_strand(context, common, index, left, late)?;
        }
        Ok(spent)
    }

    /// The strand to run, and whether it runs out of order.
    fn choose(&self) -> Option<(usize, bool)> {
        if let [only] = self.strands.as_slice() {
            return (only.state == State::Ready).then_some((0, false));
        }
        let ready =
            || self.strands.iter().enumerate().filter(|(_, strand)| strand.state == State::Ready);
        let (longest, oldest) = ready().min_by_key(|(_, strand)| strand.ran_at)?;
        if self.steps - oldest.ran_at > PATIENCE {
            return Some((longest, true));
        }
        let first = ready().min_by_key(|(_, strand)| {
            (std::cmp::Reverse(self.frames.get(strand.frame).depth), strand.pc)
        });
        first.map(|(index, _)| (index, false))
    }

    /// Joins to the chosen strand all others at its place; gives where it is now.
    fn merge_into(&mut self, index: usize) -> usize {
        if self.strands.len() == 1 {
            return index;
        }
        let mut chosen = self.strands[index];
        let mut at = 0;
        self.strands.retain(|strand| {
            at += 1;
            let meets = strand.pc == chosen.pc
                && strand.frame == chosen.frame
                && matches!(strand.state, State::Ready | State::Converging);
            if meets {
                chosen.mask |= strand.mask;
            }
            !meets
        });
        self.strands.push(chosen);
        self.strands.len() - 1
    }

    /// The nearest address ahead of `pc` at which strand `index` would meet another.
    pub(crate) fn meeting_point(&self, index: usize, frame: usize, pc: u32) -> u32 {
        let others = self.strands.iter().enumerate().filter(|(other, strand)| {
            *other != index
                && strand.frame == frame
                && strand.pc > pc
                && matches!(strand.state, State::Ready | State::Converging)
        });
        others.map(|(_, strand)| strand.pc).min().unwrap_or(u32::MAX)
    }

    /// Some lanes have exited or arrived: whoever waits inside the warp looks again.
    pub(crate) fn reconsider(&mut self) {
        let present = self.strands.iter().fold(0, |set, strand| match strand.state {
            State::WarpBarrier { .. } => set | strand.mask,
            _ => set,
        });
        for strand in &mut self.strands {
            match strand.state {
                State::Converging => strand.state = State::Ready,
                State::WarpBarrier { members } if members & self.live & !present == 0 => {
                    strand.state = State::Ready;
                    strand.pc += 1;
                }
                _ => {}
            }
        }
    }
}
