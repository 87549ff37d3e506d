//! What changes the place of a strand other than by a branch: calls and returns, exits, barriers,
//! sleep, and the waiting of lanes for each other.

use super::heap::Heap;
use super::print;
use super::step::{Next, Runner};
use super::warp::State;
use crate::Fault;
use crate::decode::CODE_STEP;
use crate::lanes::{Reg, Row, WARP, lanes};
use crate::program::{Barrier, BarrierKind, Call, Op, Target};
use crate::types::window;

impl Runner<'_, '_> {
    /// What changes the place of a strand other than by a branch.
    pub(super) fn flow(&mut self, op: &Op, active: u32) -> Result<Next, Fault> {
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

    /// Sees to it that every lane of the strand has the lanes with it that its mask names.
    pub(super) fn converge(&mut self, members: &Row) -> Next {
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
            Target::Allocate | Target::Free => {
                self.heap(call, active)?;
                self.pc += 1;
                return Ok(Next::Continue);
            }
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
                if function.defined
                    && offset.is_multiple_of(CODE_STEP)
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
        self.warp.waits.slept();
        self.pc += 1;
        self.sleep_for(ns)
    }

    /// The strand, whose place is up to date, goes on when so much time has passed.
    pub(super) fn sleep_for(&mut self, ns: u64) -> Next {
        let until_ns = self.context.now_ns().saturating_add(ns);
        self.wait(State::Asleep { until_ns })
    }

    /// `malloc` and `free`, lane after lane.
    fn heap(&mut self, call: &Call, active: u32) -> Result<(), Fault> {
        let (Some(index), [argument]) = (self.context.program.heap, call.arguments.as_slice())
        else {
            return Err(Fault::Unsupported);
        };
        let heap = Heap { memory: self.context.memory, base: self.context.launch.globals[index] };
        self.warp.frames.get_mut(self.frame).rows = std::mem::take(&mut self.rows);
        for lane in lanes(active) {
            let frames = &mut self.warp.frames;
            let argument = frames.value(lane, self.frame, *argument);
            match (call.target, call.results.first()) {
                (Target::Allocate, Some(result)) => {
                    let address = heap.allocate(argument)?;
                    frames.set(lane, self.frame, *result, address);
                }
                (Target::Allocate, None) => {}
                _ => heap.free(argument)?,
            }
        }
        self.rows = std::mem::take(&mut self.warp.frames.get_mut(self.frame).rows);
        Ok(())
    }

    fn print(&mut self, call: &Call, active: u32) -> Result<(), Fault> {
        let [format, arguments] = call.arguments.as_slice() else {
            return Err(Fault::Unsupported);
        };
        self.warp.frames.get_mut(self.frame).rows = std::mem::take(&mut self.rows);
        for lane in lanes(active) {
            let format = self.warp.frames.value(lane, self.frame, *format);
            let arguments = self.warp.frames.value(lane, self.frame, *arguments);
            let (mut env, ..) = self.env();
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
