//! Barriers and exchanges between the lanes of a warp.

use super::lower::Lowering;
use super::modifiers::Modifiers;
use crate::ast::{Instruction, Operand};
use crate::error::Result;
use crate::lanes::Reg;
use crate::program::{Barrier, BarrierKind, Collective, CollectiveKind, Matrix, Op};
use crate::types::Ty;

impl<'a> Lowering<'_, 'a> {
    /// False when nobody knows the opcode.
    pub(super) fn warp(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<bool> {
        match ins.opcode {
            "bar" | "barrier" => self.barrier(ins, m)?,
            "shfl" => self.shuffle(ins, m)?,
            "vote" => self.vote(ins, m)?,
            "match" => self.matching(ins, m)?,
            "redux" => self.reduce(ins, m)?,
            "activemask" => {
                let ty = self.one_type(m)?;
                let [d] = self.operands(ins)?;
                let d = self.destination(d, ty)?;
                self.collective(CollectiveKind::ActiveMask, ty, d, [0; 3], None);
            }
            "mma" => self.matrix(ins, m)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn barrier(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        m.take("cta");
        m.take("aligned");
        if m.take("warp") {
            if !m.take("sync") {
                return Err(self.unknown());
            }
            let [members] = self.operands(ins)?;
            let members = self.source(members, Ty::B32)?;
            self.emit(Op::WarpBarrier { members });
            return Ok(());
        }
        if m.take("red") {
            return self.barrier_reduction(ins, m);
        }
        let kind = if m.take("arrive") { BarrierKind::Arrive } else { BarrierKind::Sync };
        if kind == BarrierKind::Sync && !m.take("sync") {
            return Err(self.unknown());
        }
        if ins.operands.is_empty() || ins.operands.len() > 2 {
            return Err(self.misfit("it takes a barrier and a number of threads"));
        }
        let id = self.source(&ins.operands[0], Ty::U32)?;
        let threads = match ins.operands.get(1) {
            Some(operand) => Some(self.source(operand, Ty::U32)?),
            None => None,
        };
        let barrier = Barrier { kind, id, threads, d: 0, predicate: 0 };
        self.emit(Op::Barrier(Box::new(barrier)));
        Ok(())
    }

    fn barrier_reduction(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let kind = m.take_as(|word| {
            Some(match word {
                "popc" => BarrierKind::Popc,
                "and" => BarrierKind::And,
                "or" => BarrierKind::Or,
                _ => return None,
            })
        });
        let kind = kind.ok_or_else(|| self.unknown())?;
        let ty = self.one_type(m)?;
        let (d, id, threads, predicate) = match ins.operands.as_slice() {
            [d, id, predicate] => (d, id, None, predicate),
            [d, id, threads, predicate] => (d, id, Some(threads), predicate),
            _ => return Err(self.misfit("it has the wrong number of operands")),
        };
        let id = self.source(id, Ty::U32)?;
        let threads = match threads {
            Some(operand) => Some(self.source(operand, Ty::U32)?),
            None => None,
        };
        let predicate = self.source(predicate, Ty::Pred)?;
        let d = self.destination(d, ty)?;
        self.emit(Op::Barrier(Box::new(Barrier { kind, id, threads, d, predicate })));
        Ok(())
    }

    fn collective(
        &mut self,
        kind: CollectiveKind,
        ty: Ty,
        d: Reg,
        [a, b, c]: [Reg; 3],
        members: Option<Reg>,
    ) {
        let collective = Collective { kind, ty, d, p: None, a, b, c, members };
        self.emit(Op::Collective(Box::new(collective)));
    }

    fn shuffle(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let sync = m.take("sync");
        let kind = m.take_as(|word| {
            Some(match word {
                "up" => CollectiveKind::ShuffleUp,
                "down" => CollectiveKind::ShuffleDown,
                "bfly" => CollectiveKind::ShuffleBfly,
                "idx" => CollectiveKind::ShuffleIdx,
                _ => return None,
            })
        });
        let kind = kind.ok_or_else(|| self.unknown())?;
        let ty = self.one_type(m)?;
        if ins.operands.len() != 4 + usize::from(sync) {
            return Err(self.misfit("it has the wrong number of operands"));
        }
        let a = self.source(&ins.operands[1], ty)?;
        let b = self.source(&ins.operands[2], Ty::U32)?;
        let c = self.source(&ins.operands[3], Ty::U32)?;
        let members = match ins.operands.get(4) {
            Some(operand) => Some(self.source(operand, Ty::B32)?),
            None => None,
        };
        let (d, p) = self.pair(&ins.operands[0], ty)?;
        self.emit(Op::Collective(Box::new(Collective { kind, ty, d, p, a, b, c, members })));
        Ok(())
    }

    /// `d` or `d|p`.
    fn pair(&mut self, operand: &Operand<'a>, ty: Ty) -> Result<(Reg, Option<Reg>)> {
        match *operand {
            Operand::Pair(d, p) => {
                let d = self.destination(&Operand::Name(d), ty)?;
                Ok((d, Some(self.destination(&Operand::Name(p), Ty::Pred)?)))
            }
            ref single => Ok((self.destination(single, ty)?, None)),
        }
    }

    fn vote(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let sync = m.take("sync");
        let kind = m.take_as(|word| {
            Some(match word {
                "all" => CollectiveKind::VoteAll,
                "any" => CollectiveKind::VoteAny,
                "uni" => CollectiveKind::VoteUni,
                "ballot" => CollectiveKind::Ballot,
                _ => return None,
            })
        });
        // `.uni` was taken for the hint that branches carry.
        let kind = kind.unwrap_or(CollectiveKind::VoteUni);
        let ty = self.one_type(m)?;
        if ins.operands.len() != 2 + usize::from(sync) {
            return Err(self.misfit("it has the wrong number of operands"));
        }
        let a = self.source(&ins.operands[1], Ty::Pred)?;
        let members = match ins.operands.get(2) {
            Some(operand) => Some(self.source(operand, Ty::B32)?),
            None => None,
        };
        let d = self.destination(&ins.operands[0], ty)?;
        self.collective(kind, ty, d, [a; 3], members);
        Ok(())
    }

    fn matching(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let all = m.take("all");
        if !(all || m.take("any")) || !m.take("sync") {
            return Err(self.unknown());
        }
        let kind = if all { CollectiveKind::MatchAll } else { CollectiveKind::MatchAny };
        let ty = self.one_type(m)?;
        let [d, a, members] = self.operands(ins)?;
        let a = self.source(a, ty)?;
        let members = Some(self.source(members, Ty::B32)?);
        let (d, p) = self.pair(d, Ty::B32)?;
        self.emit(Op::Collective(Box::new(Collective { kind, ty, d, p, a, b: a, c: a, members })));
        Ok(())
    }

    fn reduce(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let kind = m.take_as(|word| {
            Some(match word {
                "add" => CollectiveKind::ReduceAdd,
                "min" => CollectiveKind::ReduceMin,
                "max" => CollectiveKind::ReduceMax,
                "and" => CollectiveKind::ReduceAnd,
                "or" => CollectiveKind::ReduceOr,
                "xor" => CollectiveKind::ReduceXor,
                _ => return None,
            })
        });
        let kind = kind.filter(|_| m.take("sync")).ok_or_else(|| self.unknown())?;
        let ty = self.one_type(m)?;
        if !matches!(ty, Ty::U32 | Ty::S32 | Ty::B32) {
            return Err(self.unknown());
        }
        let [d, a, members] = self.operands(ins)?;
        let a = self.source(a, ty)?;
        let members = Some(self.source(members, Ty::B32)?);
        let d = self.destination(d, ty)?;
        self.collective(kind, ty, d, [a; 3], members);
        Ok(())
    }

    /// `mma.sync.aligned.m16n8kK.row.col.D.A.B.C` for the 16-bit formats and tf32.
    fn matrix(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let known = m.take("sync") && m.take("aligned") && m.take("row") && m.take("col");
        let k = m.take_as(|word| word.strip_prefix("m16n8k")?.parse::<usize>().ok());
        let types = (m.take_type(), m.take_type(), m.take_type(), m.take_type());
        let (Some(k), (Some(sum), Some(input), Some(other), Some(start))) = (k, types) else {
            return Err(self.unknown());
        };
        let depth = match input {
            Ty::F16 | Ty::Bf16 => k == 8 || k == 16,
            Ty::Tf32 => k == 4 || k == 8,
            _ => false,
        };
        let sums = [sum, start].iter().all(|ty| match ty {
            Ty::F32 => true,
            Ty::F16 => input == Ty::F16,
            _ => false,
        });
        if !known || !depth || !sums || input != other || self.is_guarded() {
            return Err(self.unknown());
        }
        let [d, a, b, c] = self.operands(ins)?;
        // 16 rows of A and 8 columns of B over 32 lanes, in registers of 32 bits.
        let per_lane = 16 * k * input.bytes() / 4 / 32;
        let width = |ty: Ty| if ty == Ty::F32 { 4 } else { 2 };
        let a = self.fragment(a, per_lane, false)?;
        let b = self.fragment(b, per_lane / 2, false)?;
        let c = self.fragment(c, width(start), false)?;
        let d = self.fragment(d, width(sum), true)?;
        let half_sums = (sum == Ty::F16, start == Ty::F16);
        self.emit(Op::Matrix(Box::new(Matrix { k, input, half_sums, d, a, b, c })));
        Ok(())
    }

    fn fragment(&mut self, operand: &Operand<'a>, count: usize, written: bool) -> Result<Vec<Reg>> {
        let elements = match operand {
            Operand::Vector(elements) => elements.as_slice(),
            single => std::slice::from_ref(single),
        };
        if elements.len() != count {
            return Err(self.misfit(&format!("a fragment takes {count} registers")));
        }
        elements
            .iter()
            .map(|element| {
                if written {
                    self.destination(element, Ty::B32)
                } else {
                    self.source(element, Ty::B32)
                }
            })
            .collect()
    }
}
