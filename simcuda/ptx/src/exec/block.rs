//! A block: its warps in turn, its shared memory, and its barriers.

use super::Context;
use super::access::Scratch;
use super::warp::{State, Warp};
use crate::Fault;
use crate::lanes::{Row, WARP, lanes};
use crate::program::{Barrier, BarrierKind, Op, Special};

/// Steps a warp gets before the next has its turn.
const WARP_TURN: u64 = 4096;
const BARRIERS: usize = 16;

/// Which block and which warp: what the special registers are made from.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) block: [u32; 3],
    pub(crate) warp: u32,
}

impl Place {
    pub(crate) fn special(&self, context: &Context<'_>, special: Special) -> Row {
        let [x, y, _] = context.launch.block;
        let axis_of = |thread: u32, axis: u8| match axis {
            0 => thread % x,
            1 => thread / x % y,
            _ => thread / x / y,
        };
        let of_lane = |lane: u32| match special {
            Special::Tid(axis) => axis_of(self.warp * WARP as u32 + lane, axis),
            Special::Ntid(axis) => context.launch.block[usize::from(axis)],
            Special::Ctaid(axis) => self.block[usize::from(axis)],
            Special::Nctaid(axis) => context.launch.grid[usize::from(axis)],
            Special::LaneId => lane,
            Special::WarpId => self.warp,
            Special::Nwarpid => context.threads().div_ceil(WARP as u32),
            Special::LanemaskEq => 1 << lane,
            Special::LanemaskLt => (1 << lane) - 1,
            Special::LanemaskLe => u32::MAX >> (31 - lane),
            Special::LanemaskGt => !(u32::MAX >> (31 - lane)),
            Special::LanemaskGe => !((1 << lane) - 1),
            Special::DynamicSharedBytes => context.launch.dynamic_shared_bytes,
            Special::TotalSharedBytes => context.shared_bytes() as u32,
        };
        std::array::from_fn(|lane| u64::from(of_lane(lane as u32)))
    }
}

/// What a block's warps share.
pub(crate) struct Common {
    pub(crate) shared: Vec<u8>,
    /// Threads that arrived at a barrier without waiting.
    pub(crate) arrived: [u32; BARRIERS],
    pub(crate) instructions: u64,
    pub(crate) scratch: Scratch,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            shared: Vec::new(),
            arrived: [0; BARRIERS],
            instructions: 0,
            scratch: [0; size_of::<Scratch>()],
        }
    }
}

#[derive(Default)]
pub(crate) struct Block {
    warps: Vec<Warp>,
    common: Common,
    /// The warp whose turn is next.
    cursor: usize,
    pub(crate) instructions: u64,
}

/// How a turn ended.
pub(crate) enum Outcome {
    Finished,
    /// There is more to do, now or when others have done theirs.
    Waiting,
    Asleep {
        until_ns: u64,
    },
}

impl Block {
    pub(crate) fn start(&mut self, context: &Context<'_>, at: [u32; 3]) {
        let threads = context.threads();
        self.warps.resize_with(threads.div_ceil(WARP as u32) as usize, Warp::default);
        for (index, warp) in self.warps.iter_mut().enumerate() {
            let first = (index * WARP) as u32;
            let live = u32::MAX >> (32 - (threads - first).min(32));
            warp.start(context, Place { block: at, warp: index as u32 }, live);
        }
        self.common.shared.clear();
        self.common.shared.resize(context.shared_bytes(), 0);
        self.common.arrived = [0; BARRIERS];
        self.cursor = 0;
    }

    /// Runs the warps in turn until all are done, none can go on, or `budget` is spent.
    pub(crate) fn turn(&mut self, context: &Context<'_>, budget: u64) -> Result<Outcome, Fault> {
        let mut left = budget;
        loop {
            let mut ran = false;
            self.wake(context);
            let count = self.warps.len();
            for _ in 0..count {
                let warp = &mut self.warps[self.cursor];
                self.cursor = (self.cursor + 1) % count;
                if !warp.can_run() {
                    continue;
                }
                if context.memory.stop() {
                    return Err(Fault::Stopped);
                }
                ran = true;
                let spent = warp.run(context, &mut self.common, WARP_TURN)?;
                left = left.saturating_sub(spent);
                if left == 0 {
                    break;
                }
            }
            let instructions = std::mem::take(&mut self.common.instructions);
            context.memory.executed(instructions);
            self.instructions += instructions;
            ran |= self.release_barriers(context);
            if self.warps.iter().all(Warp::is_done) {
                return Ok(Outcome::Finished);
            }
            if !ran {
                let until = self.warps.iter().filter_map(Warp::wakes_at_ns).min();
                return until.map(|until_ns| Outcome::Asleep { until_ns }).ok_or(Fault::Deadlock);
            }
            if left == 0 {
                return Ok(Outcome::Waiting);
            }
        }
    }

    fn wake(&mut self, context: &Context<'_>) {
        if self.warps.iter().any(|warp| warp.wakes_at_ns().is_some()) {
            let now_ns = context.now_ns();
            self.warps.iter_mut().for_each(|warp| warp.wake(now_ns));
        }
    }

    /// Completes every barrier for which enough threads have come; true when one was.
    fn release_barriers(&mut self, context: &Context<'_>) -> bool {
        let waiting = self.warps.iter().flat_map(|warp| &warp.strands).fold(
            0_u32,
            |set, strand| match strand.state {
                State::Barrier { id, .. } => set | 1 << id,
                _ => set,
            },
        );
        let mut released = false;
        for id in lanes(waiting) {
            released |= self.release_barrier(context, id);
        }
        released
    }

    fn release_barrier(&mut self, context: &Context<'_>, id: usize) -> bool {
        let mut expected = None;
        let (mut come, mut live, mut waiting) = (self.common.arrived[id], 0, 0);
        for warp in &self.warps {
            let mut here = 0;
            for strand in &warp.strands {
                if let State::Barrier { id: at, threads } = strand.state
                    && usize::from(at) == id
                {
                    here |= strand.mask;
                    expected = expected.or(threads);
                }
            }
            // A barrier counts whole warps: what a warp has lost or never had counts as come.
            let whole = here == warp.live && here != 0;
            come += if whole { WARP as u32 } else { here.count_ones() };
            waiting += here.count_ones();
            live += warp.live.count_ones();
        }
        let complete = match expected {
            Some(threads) => come >= threads,
            None => waiting == live,
        };
        if complete {
            self.open_barrier(context, id);
            self.common.arrived[id] = 0;
        }
        complete
    }

    /// Lets everybody at the barrier go on, handing out the result of a reduction.
    fn open_barrier(&mut self, context: &Context<'_>, id: usize) {
        let mut count = 0;
        let mut total = 0;
        self.each_waiting(context, id, |_, mask, barrier, rows| {
            let predicate = &rows[barrier.predicate as usize];
            if barrier.kind != BarrierKind::Sync {
                count += lanes(mask).filter(|&lane| predicate[lane] & 1 != 0).count() as u64;
            }
            total += u64::from(mask.count_ones());
        });
        self.each_waiting(context, id, |state, mask, barrier, rows| {
            let result = match barrier.kind {
                BarrierKind::Sync | BarrierKind::Arrive => None,
                BarrierKind::Popc => Some(count),
                BarrierKind::And => Some(u64::from(count == total)),
                BarrierKind::Or => Some(u64::from(count != 0)),
            };
            if let Some(value) = result {
                lanes(mask).for_each(|lane| rows[barrier.d as usize][lane] = value);
            }
            *state = State::Ready;
        });
    }

    fn each_waiting(
        &mut self,
        context: &Context<'_>,
        id: usize,
        mut visit: impl FnMut(&mut State, u32, &Barrier, &mut [Row]),
    ) {
        for warp in &mut self.warps {
            for strand in &mut warp.strands {
                if !matches!(strand.state, State::Barrier { id: at, .. } if usize::from(at) == id) {
                    continue;
                }
                let Op::Barrier(barrier) = &context.program.code[strand.pc as usize].op else {
                    continue;
                };
                let rows = &mut warp.frames.get_mut(strand.frame).rows;
                visit(&mut strand.state, strand.mask, barrier, rows);
                if strand.state == State::Ready {
                    strand.pc += 1;
                }
            }
        }
    }
}
