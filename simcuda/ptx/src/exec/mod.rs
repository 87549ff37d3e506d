//! Running a decoded kernel. From outside in: this file takes the blocks of a grid through their
//! turns, `block.rs` the warps of a block and its barriers, `warp.rs` the diverged parts of a warp,
//! `step.rs` one instruction after the other.

mod access;
mod atomic;
mod block;
mod collective;
mod flow;
mod frame;
mod heap;
mod matrix;
mod print;
mod step;
mod waiting;
mod warp;

use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;

use crate::lanes::{Row, WARP};
use crate::program::{Guard, Op, Program, Seed};
use crate::{Fault, Kernel, Launch, Memory, Module, Stats};
use block::{Block, Outcome};
use frame::Image;

/// Steps of warps that a block gets before the next one is let in.
const BLOCK_TURN: u64 = 1 << 18;
/// Memory that blocks in flight may take together.
const RESIDENT_BYTES: usize = 256 << 20;
const MAX_BLOCK_THREADS: u64 = 1024;
const MAX_DYNAMIC_SHARED_BYTES: u64 = 1 << 20;
/// The longest sleep between two questions whether to stop.
const SLEEP_STEP_NS: u64 = 10_000_000;

/// What all blocks of a launch share.
pub(crate) struct Context<'a> {
    pub(crate) program: &'a Program,
    pub(crate) launch: &'a Launch<'a>,
    pub(crate) memory: &'a dyn Memory,
    pub(crate) function: usize,
    /// Where dynamic shared memory begins.
    pub(crate) dynamic_shared: usize,
    /// Start values of the registers of each function, made when first needed.
    images: Vec<OnceCell<Image>>,
    /// Time that has passed for certain, whatever the implementer's clock says.
    slept_until_ns: Cell<u64>,
}

impl Context<'_> {
    pub(crate) fn now_ns(&self) -> u64 {
        self.memory.now_ns().max(self.slept_until_ns.get())
    }

    pub(crate) fn threads(&self) -> u32 {
        self.launch.block.iter().product()
    }

    pub(crate) fn shared_bytes(&self) -> usize {
        self.dynamic_shared + self.launch.dynamic_shared_bytes as usize
    }

    pub(crate) fn image(&self, function: usize) -> &Image {
        self.images[function].get_or_init(|| self.make_image(function))
    }

    fn make_image(&self, function: usize) -> Image {
        let function = &self.program.functions[function];
        let mut image = Image::new(function.registers as usize);
        for &(register, seed) in &function.seeds {
            let value = match seed {
                Seed::Bits(bits) => bits,
                Seed::Global(index, offset) => self.launch.globals[index].wrapping_add(offset),
                Seed::DynamicShared(offset) => (self.dynamic_shared as u64).wrapping_add(offset),
                Seed::FrameLocal(offset) => {
                    image.local.push((register, offset));
                    continue;
                }
                Seed::Special(special) => {
                    image.special.push((register, special));
                    continue;
                }
            };
            image.rows[register as usize] = [value; WARP];
        }
        image
    }

    /// Passes time until `until_ns`; false when asked to stop.
    fn sleep(&self, until_ns: u64) -> bool {
        let mut now = self.now_ns();
        while now < until_ns {
            if self.memory.stop() {
                return false;
            }
            let step = (until_ns - now).min(SLEEP_STEP_NS);
            self.memory.sleep_ns(step);
            now += step;
            self.slept_until_ns.set(now);
        }
        true
    }
}

pub(crate) fn run(
    module: &Module,
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &dyn Memory,
) -> Result<Stats, Fault> {
    let threads: u64 = launch.block.iter().map(|&n| u64::from(n)).fold(1, u64::saturating_mul);
    let shared = u64::from(launch.dynamic_shared_bytes);
    let fits = threads <= MAX_BLOCK_THREADS && shared <= MAX_DYNAMIC_SHARED_BYTES;
    if launch.globals.len() < module.globals.len() || !fits {
        return Err(Fault::Unsupported);
    }
    let Some(function) = kernel.function else { return Ok(Stats::default()) };
    if threads == 0 || launch.grid.contains(&0) {
        return Ok(Stats::default());
    }
    let functions = module.program.functions.len();
    let context = Context {
        program: &module.program,
        launch,
        memory,
        function,
        dynamic_shared: kernel.shared_bytes.next_multiple_of(16),
        images: std::iter::repeat_with(OnceCell::new).take(functions).collect(),
        slept_until_ns: Cell::new(0),
    };
    if does_nothing(&context) {
        let blocks = launch.grid.iter().map(|&n| u64::from(n)).fold(1, u64::saturating_mul);
        return Ok(Stats { instructions: blocks.saturating_mul(threads) });
    }
    Grid::new(&context).run()
}

/// A kernel that only ends need not be run, however many blocks it has.
fn does_nothing(context: &Context<'_>) -> bool {
    let entry = context.program.functions[context.function].entry;
    let first = &context.program.code[entry as usize];
    first.guard == Guard::Always && matches!(first.op, Op::Exit | Op::Return)
}

/// Blocks in flight, and which comes next.
struct Grid<'c, 'a> {
    context: &'c Context<'a>,
    next: [u32; 3],
    all_started: bool,
    resident: VecDeque<Block>,
    most_resident: usize,
    spare: Option<Block>,
    instructions: u64,
}

impl<'c, 'a> Grid<'c, 'a> {
    fn new(context: &'c Context<'a>) -> Self {
        let warps = context.threads().div_ceil(WARP as u32) as usize;
        let rows = context.program.functions[context.function].registers as usize;
        let local = context.program.functions[context.function].local_bytes;
        let block_bytes = warps * (rows * size_of::<Row>() + WARP * local) + context.shared_bytes();
        Self {
            context,
            next: [0; 3],
            all_started: false,
            resident: VecDeque::new(),
            most_resident: (RESIDENT_BYTES / block_bytes.max(1))
                .min(context.memory.resident_blocks().map_or(usize::MAX, |n| n as usize))
                .clamp(1, 1 << 16),
            spare: None,
            instructions: 0,
        }
    }

    fn run(mut self) -> Result<Stats, Fault> {
        self.start_one();
        // Blocks in a row that had nothing to do but sleep, and the earliest time one wakes.
        let (mut asleep, mut earliest_ns) = (0, u64::MAX);
        while let Some(mut block) = self.resident.pop_front() {
            let outcome = block.turn(self.context, BLOCK_TURN)?;
            self.instructions += std::mem::take(&mut block.instructions);
            match outcome {
                Outcome::Finished => {
                    self.spare = Some(block);
                    (asleep, earliest_ns) = (0, u64::MAX);
                    if self.resident.is_empty() {
                        self.start_one();
                    }
                    continue;
                }
                Outcome::Waiting => (asleep, earliest_ns) = (0, u64::MAX),
                Outcome::Asleep { until_ns } => {
                    asleep += 1;
                    earliest_ns = earliest_ns.min(until_ns);
                }
            }
            self.resident.push_back(block);
            if self.resident.len() < self.most_resident && self.start_one() {
                // The newcomer has its turn before the others have another.
                self.resident.rotate_right(1);
            } else if asleep >= self.resident.len() {
                if !self.context.sleep(earliest_ns) {
                    return Err(Fault::Stopped);
                }
                (asleep, earliest_ns) = (0, u64::MAX);
            }
        }
        Ok(Stats { instructions: self.instructions })
    }

    /// Lets the next block in; false when all have been.
    fn start_one(&mut self) -> bool {
        if self.all_started {
            return false;
        }
        let mut block = self.spare.take().unwrap_or_default();
        block.start(self.context, self.next);
        self.resident.push_back(block);
        for axis in 0..3 {
            self.next[axis] += 1;
            if self.next[axis] < self.context.launch.grid[axis] {
                return true;
            }
            self.next[axis] = 0;
        }
        self.all_started = true;
        true
    }
}
