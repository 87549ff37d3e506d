//! One strand, instruction after instruction, until it ends, waits, meets another strand or has
//! spent its budget. The common instructions are handled in the loop itself; the rest below it.

use super::Context;
use super::access::{Env, Home, Scratch};
use super::block::Common;
use super::collective;
use super::waiting::Look;
use super::warp::{State, Strand, Warp};
use super::{access, atomic, matrix};
use crate::Fault;
use crate::lanes::{Reg, Row, lanes};
use crate::program::{Access, Atomic, Guard, Op, Timer};
use crate::types::{Space, window};

/// What an ordered access or an exchange costs: a thread that waits gives way to others early.
const WAIT_COST: u64 = 16;

/// What becomes of a strand after an instruction.
pub(super) enum Next {
    Continue,
    /// Not here any more, or not ready: the warp chooses anew. The strand's place is up to date.
    Leave,
}

/// A strand being run: its registers out of their frame, its place in hand.
pub(super) struct Runner<'r, 'a> {
    pub(super) context: &'r Context<'a>,
    pub(super) warp: &'r mut Warp,
    pub(super) common: &'r mut Common,
    pub(super) index: usize,
    pub(super) pc: u32,
    pub(super) mask: u32,
    pub(super) frame: usize,
    pub(super) rows: Vec<Row>,
    /// It runs although others are before it.
    late: bool,
}

impl Warp {
    /// Runs strand `index`; gives the steps it took, with what polling costs extra.
    pub(crate) fn run_strand(
        &mut self,
        context: &Context<'_>,
        common: &mut Common,
        index: usize,
        budget: u64,
        late: bool,
    ) -> Result<u64, Fault> {
        let Strand { pc, mask, frame, .. } = self.strands[index];
        let rows = std::mem::take(&mut self.frames.get_mut(frame).rows);
        let before = self.steps;
        let mut runner = Runner { context, warp: self, common, index, pc, mask, frame, rows, late };
        runner.run(budget)?;
        Ok(self.steps - before)
    }
}

impl Runner<'_, '_> {
    fn run(&mut self, budget: u64) -> Result<(), Fault> {
        let context = self.context;
        let code = context.program.code.as_slice();
        let mut meeting = self.meeting_point();
        let end = self.warp.steps + budget;
        let mut instructions = 0;
        while self.warp.steps < end {
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
    pub(super) fn save(&mut self, state: State) {
        self.warp.frames.get_mut(self.frame).rows = std::mem::take(&mut self.rows);
        let ran_at = self.warp.steps;
        self.warp.strands[self.index] =
            Strand { pc: self.pc, mask: self.mask, frame: self.frame, state, ran_at };
    }

    /// `lanes` go on at `pc` as a strand of their own.
    pub(super) fn split_off(&mut self, lanes: u32, pc: u32) {
        self.split_off_as(lanes, pc, State::Ready);
    }

    pub(super) fn split_off_as(&mut self, lanes: u32, pc: u32, state: State) {
        self.mask &= !lanes;
        let ran_at = self.warp.steps;
        self.warp.strands.push(Strand { pc, mask: lanes, frame: self.frame, state, ran_at });
    }

    /// Lanes of this strand for which the guard does not hold take no part in what changes its
    /// place: they go on with the next instruction.
    pub(super) fn leave_unguarded(&mut self, active: u32) {
        let others = self.mask & !active;
        if others != 0 {
            self.split_off(others, self.pc + 1);
        }
    }

    pub(super) fn wait(&mut self, state: State) -> Next {
        self.save(state);
        Next::Leave
    }

    pub(super) fn env(&mut self) -> (Env<'_>, &mut Vec<Row>, &mut Scratch) {
        let env = Env {
            memory: self.context.memory,
            params: self.context.launch.params,
            shared: &mut self.common.shared,
            local: &mut self.warp.frames.local,
        };
        (env, &mut self.rows, &mut self.common.scratch)
    }

    fn rare(&mut self, op: &Op, active: u32) -> Result<Next, Fault> {
        match op {
            Op::Load(access) | Op::LoadParam(access) => return self.load(access, active),
            Op::Store(access) => {
                if !matches!(access.space, Space::Local | Space::Shared) {
                    self.warp.waits.stored();
                }
                let (mut env, rows, scratch) = self.env();
                access::store(&mut env, scratch, rows, active, access)?;
            }
            Op::Atomic(atomic) => return self.exchange(atomic, active),
            Op::Timer { d, which } => return Ok(self.read_timer(*d, *which, active)),
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

    fn load(&mut self, access: &Access, active: u32) -> Result<Next, Fault> {
        if access.strong {
            self.warp.steps += WAIT_COST;
        }
        let lane = active.trailing_zeros() as usize;
        let address = self.rows[access.address as usize][lane].wrapping_add(access.offset);
        let (mut env, rows, scratch) = self.env();
        access::load(&mut env, scratch, rows, active, access)?;
        self.pc += 1;
        let value = self.rows[access.registers[0] as usize][lane];
        let look = if access.strong { Look::Ordered } else { Look::Plain };
        Ok(self.looked(access.space, address, value, look))
    }

    fn exchange(&mut self, atomic: &Atomic, active: u32) -> Result<Next, Fault> {
        self.warp.steps += WAIT_COST;
        let lane = active.trailing_zeros() as usize;
        let address = self.rows[atomic.address as usize][lane].wrapping_add(atomic.offset);
        let (mut env, rows, _) = self.env();
        atomic::update(&mut env, rows, active, atomic)?;
        self.pc += 1;
        match atomic.d {
            Some(d) => {
                let value = self.rows[d as usize][lane];
                Ok(self.looked(atomic.space, address, value, Look::Exchange))
            }
            None => {
                self.warp.waits.stored();
                Ok(Next::Continue)
            }
        }
    }

    /// The strand has seen memory; if it only waits for it to change, it sleeps a little.
    fn looked(&mut self, space: Space, address: u64, value: u64, look: Look) -> Next {
        if Env::home(space, address).0 != Home::Device {
            return Next::Continue;
        }
        match self.warp.waits.looked(address, value, look) {
            None => Next::Continue,
            Some(ns) => {
                self.context.memory.polls();
                self.sleep_for(ns)
            }
        }
    }

    fn read_timer(&mut self, d: Reg, which: Timer, active: u32) -> Next {
        let now = self.context.now_ns();
        if let Some(ns) = self.warp.waits.before_clock(now) {
            return self.sleep_for(ns);
        }
        let value = match which {
            Timer::Global | Timer::Clock => now,
            Timer::GlobalLow | Timer::ClockLow => now & 0xffff_ffff,
            Timer::GlobalHigh | Timer::ClockHigh => now >> 32,
        };
        lanes(active).for_each(|lane| self.rows[d as usize][lane] = value);
        self.pc += 1;
        Next::Continue
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
