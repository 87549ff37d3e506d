//! One strand, instruction after instruction, until it ends, waits, meets another strand or has
//! spent its budget. The common instructions are handled in the loop itself; the rest below it.

use super::Context;
use super::access::Env;
use super::block::Common;
use super::collective;
use super::warp::{State, Strand, Warp};
use super::{access, atomic, matrix, print};
use crate::decode::CODE_STEP;
use crate::lanes::{Reg, Row, WARP, lanes};
use crate::program::{Barrier, BarrierKind, Call, Guard, Op, Target, Timer};
use crate::types::{Space, window};
use crate::{Fault, Memory};

/// What a clock read costs: a thread that polls the clock gives way to others early.
const POLL_COST: u64 = 256;
/// What an ordered access or an exchange costs, for the same reason.
const WAIT_COST: u64 = 16;

/// What becomes of a strand after an instruction.
enum Next {
    Continue,
    /// Not here any more, or not ready: the warp chooses anew. The strand's place is up to date.
    Leave,
}

/// A strand being run: its registers out of their frame, its place in hand.
struct Runner<'r, 'a, M: ?Sized> {
    context: &'r Context<'a, M>,
    warp: &'r mut Warp,
    common: &'r mut Common,
    index: usize,
    pc: u32,
    mask: u32,
    frame: usize,
    rows: Vec<Row>,
    cost: u64,
    /// It runs although others are before it.
    late: bool,
}

impl Warp {
    /// Runs strand `index`; gives the steps it took, with what polling costs extra.
    pub(crate) fn run_strand<M: Memory + ?Sized>(
        &mut self,
        context: &Context<'_, M>,
        common: &mut Common,
        index: usize,
        budget: u64,
        late: bool,
    ) -> Result<u64, Fault> {
        let Strand { pc, mask, frame, .. } = self.strands[index];
        let rows = std::mem::take(&mut self.frames.get_mut(frame).rows);
        let before = self.steps;
        let mut runner =
            Runner { context, warp: self, common, index, pc, mask, frame, rows, cost: 0, late };
        runner.run(budget)?;
        let cost = runner.cost;
        Ok(self.steps - before + cost)
    }
}

impl<M: Memory + ?Sized> Runner<'_, '_, M> {
    fn run(&mut self, budget: u64) -> Result<(), Fault> {
        let context = self.context;
        let code = context.program.code.as_slice();
        let mut meeting = self.meeting_point();
        let end = self.warp.steps + budget;
        let mut instructions = 0;
        while self.warp.steps + self.cost < end {
            let inst = &code[self.pc as usize];
            self.warp.steps += 1;
            let active = match inst.guard {
                Guard::Always => self.mask,
                Guard::If(p) => self.mask & holds(&self.rows[p as usize]),
                Guard::Unless(p) => self.mask & !holds(&self.rows[p as usize]),
            };
            instructions += u64::from(active.count_ones());
            match &inst.op {
                Op::Alu(f, operands) => {
                    f(&mut self.rows, active, operands);
                    self.pc += 1;
                }
                Op::Branch { target } => {
                    if active == self.mask {
                        self.pc = *target;
                    } else if active == 0 {
                        self.pc += 1;
                    } else {
                        self.split_off(self.mask & !active, self.pc + 1);
                        self.pc = *target;
                    }
                    meeting = self.meeting_point();
                    if self.warp.strands.len() > 1 && !self.late && !self.is_first() {
                        break;
                    }
                }
                // A guard that holds for nobody skips everything else.
                _ if active == 0 => self.pc += 1,
                op => {
                    if let Next::Leave = self.rare(op, active)? {
                        self.common.instructions += instructions;
                        return Ok(());
                    }
                }
            }
            if self.pc >= meeting {
                break;
            }
        }
        self.common.instructions += instructions;
        self.save(State::Ready);
        Ok(())
    }

    fn meeting_point(&self) -> u32 {
        if self.warp.strands.len() == 1 {
            return u32::MAX;
        }
        self.warp.meeting_point(self.index, self.frame, self.pc)
    }

    /// Whether this strand is still the one that should run: no other of its frame is behind it.
    fn is_first(&self) -> bool {
        let strands = self.warp.strands.iter().enumerate();
        !strands.into_iter().any(|(other, strand)| {
            other != self.index
                && strand.frame == self.frame
                && strand.pc <= self.pc
                && strand.state == State::Ready
        })
    }

    /// Puts place and registers back into the warp.
    fn save(&mut self, state: State) {
        self.warp.frames.get_mut(self.frame).rows = std::mem::take(&mut self.rows);
        let ran_at = self.warp.steps;
        self.warp.strands[self.index] =
            Strand { pc: self.pc, mask: self.mask, frame: self.frame, state, ran_at };
    }

    /// `lanes` go on at `pc` as a strand of their own.
    fn split_off(&mut self, lanes: u32, pc: u32) {
        self.split_off_as(lanes, pc, State::Ready);
    }

    fn split_off_as(&mut self, lanes: u32, pc: u32, state: State) {
        self.mask &= !lanes;
        let ran_at = self.warp.steps;
        self.warp.strands.push(Strand { pc, mask: lanes, frame: self.frame, state, ran_at });
    }

    /// Lanes of this strand for which the guard does not hold take no part in what changes its
    /// place: they go on with the next instruction.
    fn leave_unguarded(&mut self, active: u32) {
        let others = self.mask & !active;
        if others != 0 {
            self.split_off(others, self.pc + 1);
        }
    }

    fn wait(&mut self, state: State) -> Next {
        self.save(state);
        Next::Leave
    }

    fn env(&mut self) -> (Env<'_, M>, &mut Vec<Row>) {
        let env = Env {
            memory: self.context.memory,
            params: self.context.launch.params,
            shared: &mut self.common.shared,
            local: &mut self.warp.frames.local,
        };
        (env, &mut self.rows)
    }

    fn rare(&mut self, op: &Op, active: u32) -> Result<Next, Fault> {
        match op {
            Op::Load(access) | Op::LoadParam(access) => {
                if access.strong {
                    self.cost += WAIT_COST;
                }
                let (mut env, rows) = self.env();
                access::load(&mut env, rows, active, access)?;
            }
            Op::Store(access) => {
                let (mut env, rows) = self.env();
                access::store(&mut env, rows, active, access)?;
            }
            Op::Atomic(atomic) => {
                self.cost += WAIT_COST;
                let (mut env, rows) = self.env();
                atomic::update(&mut env, rows, active, atomic)?;
            }
            Op::Timer { d, which } => self.read_timer(*d, *which, active),
            Op::IsSpace { d, address, space } => self.is_space(*d, *address, *space, active),
            Op::Matrix(m) => matrix::multiply(&mut self.rows, active, m),
            Op::Collective(collective) => {
                let members = collective.members.map(|register| self.rows[register as usize]);
                if let Some(members) = members
                    && let Next::Leave = self.converge(&members)
                {
                    return Ok(Next::Leave);
                }
                collective::exchange(&mut self.rows, active & self.mask, collective);
            }
            _ => return self.flow(op, active),
        }
        self.pc += 1;
        Ok(Next::Continue)
    }

    /// What changes the place of a strand other than by a branch.
    fn flow(&mut self, op: &Op, active: u32) -> Result<Next, Fault> {
        match op {
            Op::BranchIndexed { index, targets } => {
                Ok(self.branch_indexed(*index, targets, active))
            }
            Op::Call(call) => self.call(call, active),
            Op::Return => Ok(self.return_or_exit(active)),
            Op::Exit => Ok(self.exit(active)),
            Op::Trap => Err(Fault::Trap),
            Op::Barrier(barrier) => Ok(self.barrier(barrier, active)),
            Op::WarpBarrier { members } => Ok(self.warp_barrier(*members, active)),
            Op::Sleep { ns } => Ok(self.sleep(*ns, active)),
            // All others were handled before.
            _ => Err(Fault::Unsupported),
        }
    }

    fn read_timer(&mut self, d: Reg, which: Timer, active: u32) {
        self.cost += POLL_COST;
        let now = self.context.now_ns();
        let value = match which {
            Timer::Global | Timer::Clock => now,
            Timer::GlobalLow | Timer::ClockLow => now & 0xffff_ffff,
            Timer::GlobalHigh | Timer::ClockHigh => now >> 32,
        };
        lanes(active).for_each(|lane| self.rows[d as usize][lane] = value);
    }

    fn is_space(&mut self, d: Reg, address: Reg, space: Space, active: u32) {
        for lane in lanes(active) {
            let address = self.rows[address as usize][lane];
            let inside = match space {
                Space::Shared => window::holds(window::SHARED, address),
                Space::Local => window::holds(window::LOCAL, address),
                Space::Param => window::holds(window::PARAM, address),
                _ => address < window::SHARED,
            };
            self.rows[d as usize][lane] = u64::from(inside);
        }
    }

    /// Sees to it that every lane of the strand has the lanes with it that its mask names.
    fn converge(&mut self, members: &Row) -> Next {
        let missing = |lane: usize| members[lane] as u32 & self.warp.live & !self.mask != 0;
        let early = lanes(self.mask).filter(|&lane| missing(lane)).fold(0, |set, l| set | 1 << l);
        if early == 0 {
            return Next::Continue;
        }
        if early == self.mask {
            return self.wait(State::Converging);
        }
        self.split_off_as(early, self.pc, State::Converging);
        Next::Continue
    }

    fn branch_indexed(&mut self, index: Reg, targets: &[u32], active: u32) -> Next {
        self.leave_unguarded(active);
        let mut rest = active;
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            let row = &self.rows[index as usize];
            let chosen = row[first] as u32;
            let same = lanes(rest)
                .filter(|&lane| row[lane] as u32 == chosen)
                .fold(0, |set, lane| set | 1 << lane);
            rest &= !same;
            // An index beyond the list is undefined; it goes on behind the branch.
            let target = targets.get(chosen as usize).copied().unwrap_or(self.pc + 1);
            if rest == 0 {
                self.pc = target;
            } else {
                self.split_off(same, target);
            }
        }
        self.wait(State::Ready)
    }

    fn call(&mut self, call: &Call, active: u32) -> Result<Next, Fault> {
        let function = match call.target {
            Target::Function(index) => index,
            Target::Indirect(register) => {
                // One function at a time; the others come back to this instruction.
                let row = &self.rows[register as usize];
                let address = row[active.trailing_zeros() as usize];
                let same = lanes(active)
                    .filter(|&lane| row[lane] == address)
                    .fold(0, |set, lane| set | 1 << lane);
                if same != self.mask {
                    self.leave_unguarded(active);
                    if same != active {
                        self.split_off(active & !same, self.pc);
                    }
                }
                return self.enter(self.function_at(address, call)?, call, same);
            }
            Target::Print => {
                self.print(call, active)?;
                self.pc += 1;
                return Ok(Next::Continue);
            }
            Target::AssertFail => return Err(Fault::Trap),
        };
        self.leave_unguarded(active);
        self.enter(function, call, active)
    }

    fn function_at(&self, address: u64, call: &Call) -> Result<usize, Fault> {
        let functions = &self.context.program.functions;
        let offset = address.wrapping_sub(window::CODE);
        let index = (offset / CODE_STEP).wrapping_sub(1) as usize;
        match functions.get(index) {
            Some(function)
                if offset % CODE_STEP == 0
                    && function.params.len() == call.arguments.len()
                    && function.returns.len() == call.results.len() =>
            {
                Ok(index)
            }
            _ => Err(Fault::Address { address, bytes: 1, write: false }),
        }
    }

    fn enter(&mut self, function: usize, call: &Call, active: u32) -> Result<Next, Fault> {
        let caller = self.frame;
        self.mask = active;
        self.save(State::Ready);
        let warp = &mut *self.warp;
        let parent = Some((caller, self.pc + 1));
        let callee = warp.frames.push(self.context, &warp.place, function, parent, active)?;
        let target = &self.context.program.functions[function];
        for (argument, param) in call.arguments.iter().zip(&target.params) {
            warp.frames.copy(active, (caller, *argument), (callee, *param));
        }
        let strand = &mut warp.strands[self.index];
        strand.frame = callee;
        strand.pc = target.entry;
        Ok(Next::Leave)
    }

    fn return_or_exit(&mut self, active: u32) -> Next {
        let Some(parent) = self.warp.frames.get(self.frame).parent else {
            return self.exit(active);
        };
        self.leave_unguarded(active);
        self.mask = active;
        self.save(State::Ready);
        let warp = &mut *self.warp;
        let frame = warp.frames.get(self.frame);
        let (function, return_pc) = (frame.function, frame.return_pc);
        let program = self.context.program;
        if let Op::Call(call) = &program.code[return_pc as usize - 1].op {
            for (result, place) in program.functions[function].returns.iter().zip(&call.results) {
                warp.frames.copy(active, (self.frame, *result), (parent, *place));
            }
        }
        warp.frames.leave(self.frame, active);
        let strand = &mut warp.strands[self.index];
        strand.frame = parent;
        strand.pc = return_pc;
        Next::Leave
    }

    fn exit(&mut self, active: u32) -> Next {
        self.mask &= !active;
        self.pc += 1;
        self.save(State::Ready);
        if self.mask == 0 {
            self.warp.strands.swap_remove(self.index);
        }
        self.warp.live &= !active;
        self.warp.frames.exit(self.frame, active);
        self.warp.reconsider();
        Next::Leave
    }

    fn barrier(&mut self, barrier: &Barrier, active: u32) -> Next {
        let first = active.trailing_zeros() as usize;
        let id = (self.rows[barrier.id as usize][first] & 15) as u8;
        let threads = barrier.threads.map(|register| self.rows[register as usize][first] as u32);
        if barrier.kind == BarrierKind::Arrive {
            let whole = active == self.warp.live;
            self.common.arrived[usize::from(id)] +=
                if whole { WARP as u32 } else { active.count_ones() };
            self.pc += 1;
            return Next::Continue;
        }
        self.leave_unguarded(active);
        self.wait(State::Barrier { id, threads })
    }

    fn warp_barrier(&mut self, members: Reg, active: u32) -> Next {
        self.leave_unguarded(active);
        let row = &self.rows[members as usize];
        let members = lanes(active).fold(0, |set, lane| set | row[lane] as u32);
        if members & self.warp.live & !active == 0 {
            // Those without the guard go the same way from here.
            self.pc += 1;
            return self.wait(State::Ready);
        }
        self.save(State::WarpBarrier { members });
        self.warp.reconsider();
        Next::Leave
    }

    /// All lanes sleep as long as the one that sleeps longest.
    fn sleep(&mut self, ns: Reg, active: u32) -> Next {
        self.leave_unguarded(active);
        let row = &self.rows[ns as usize];
        let ns = lanes(active).map(|lane| row[lane] & 0xffff_ffff).max().unwrap_or(0);
        let until_ns = self.context.now_ns().saturating_add(ns);
        self.pc += 1;
        self.wait(State::Asleep { until_ns })
    }

    fn print(&mut self, call: &Call, active: u32) -> Result<(), Fault> {
        let [format, arguments] = call.arguments.as_slice() else {
            return Err(Fault::Unsupported);
        };
        self.warp.frames.get_mut(self.frame).rows = std::mem::take(&mut self.rows);
        for lane in lanes(active) {
            let format = self.warp.frames.value(lane, self.frame, *format);
            let arguments = self.warp.frames.value(lane, self.frame, *arguments);
            let (mut env, _) = self.env();
            let (text, count) = print::format(&mut env, lane, format, arguments)?;
            self.context.memory.print(&text);
            for place in &call.results {
                let frames = &mut self.warp.frames;
                frames.set(lane, self.frame, *place, u64::from(count));
            }
        }
        self.rows = std::mem::take(&mut self.warp.frames.get_mut(self.frame).rows);
        Ok(())
    }
}

/// The lanes in which a predicate holds.
#[inline(always)]
fn holds(row: &Row) -> u32 {
    let mut set = 0;
    for (lane, value) in row.iter().enumerate() {
        set |= ((*value & 1) as u32) << lane;
    }
    set
}
