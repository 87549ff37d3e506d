//! Loads, stores and atomics.

use super::lower::Lowering;
use super::modifiers::Modifiers;
use crate::ast::{Instruction, Operand};
use crate::error::Result;
use crate::lanes::Reg;
use crate::program::{Access, Atomic, AtomicKind, Op};
use crate::types::{Space, Ty};

impl<'a> Lowering<'_, 'a> {
    /// False when the opcode belongs to another file.
    pub(super) fn memory(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<bool> {
        match ins.opcode {
            "ld" | "ldu" => self.load(ins, m)?,
            "st" => self.store(ins, m)?,
            "atom" | "red" => self.atomic(ins, m)?,
            "isspacep" => {
                let space = m.take_space().ok_or_else(|| self.unknown())?;
                let [d, a] = self.operands(ins)?;
                let address = self.source(a, Ty::U64)?;
                let d = self.destination(d, Ty::Pred)?;
                self.emit(Op::IsSpace { d, address, space });
            }
            // Hints and orders that a sequential memory keeps by itself.
            "membar" | "fence" | "prefetch" | "prefetchu" | "discard" | "applypriority" => {
                m.drop_matching(|_| true);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn access(
        &mut self,
        ins: &Instruction<'a>,
        m: &mut Modifiers<'a>,
        address: usize,
    ) -> Result<(Access, Ty)> {
        let strong = take_order(m);
        m.drop_matching(|word| {
            matches!(word, "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt" | "nc")
                || word.starts_with("L1::")
                || word.starts_with("L2::")
        });
        let count = match (m.take("v2"), m.take("v4")) {
            (false, false) => 1,
            (true, false) => 2,
            (false, true) => 4,
            (true, true) => return Err(self.unknown()),
        };
        let space = m.take_space().unwrap_or(Space::Generic);
        let ty = self.one_type(m)?;
        if ty == Ty::Pred || ins.operands.len() != 2 {
            return Err(self.misfit("it takes an address and a register or vector"));
        }
        let (register, offset, implied) = self.address(&ins.operands[address], space)?;
        let space = match (space, implied) {
            // A `.param` variable of a call sequence is local memory.
            (Space::Param, Space::Local) | (Space::Generic, _) => implied,
            (Space::Param, _) if !self.entry => Space::Local,
            _ => space,
        };
        let access = Access {
            space,
            address: register,
            offset,
            bytes: ty.bytes(),
            count,
            registers: [0; 4],
            sign_bits: 0,
            register_mask: u64::MAX,
            strong,
        };
        Ok((access, ty))
    }

    fn load(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let (mut access, ty) = self.access(ins, m, 1)?;
        let operands = self.elements(&ins.operands[0], access.count)?;
        let mut widest = 0;
        for (slot, operand) in access.registers.iter_mut().zip(&operands) {
            *slot = self.destination(operand, ty)?;
            widest = widest.max(self.type_of(*slot).bytes());
        }
        if ty.is_signed() && widest > ty.bytes() {
            access.sign_bits = 8 * ty.bytes() as u32;
            access.register_mask = u64::MAX >> (64 - 8 * widest as u32);
        }
        let access = Box::new(access);
        self.emit(match access.space {
            Space::Param => Op::LoadParam(access),
            _ => Op::Load(access),
        });
        Ok(())
    }

    fn store(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let (mut access, ty) = self.access(ins, m, 0)?;
        if matches!(access.space, Space::Param | Space::Const) {
            return Err(self.misfit("what it would write is read-only"));
        }
        let operands = self.elements(&ins.operands[1], access.count)?;
        for (slot, operand) in access.registers.iter_mut().zip(&operands) {
            *slot = self.source(operand, ty)?;
        }
        self.emit(Op::Store(Box::new(access)));
        Ok(())
    }

    pub(super) fn elements(&self, operand: &Operand<'a>, count: usize) -> Result<Vec<Operand<'a>>> {
        let elements = match operand {
            Operand::Vector(elements) => elements.clone(),
            Operand::Name(name) if count > 1 => self.components(name).unwrap_or_default(),
            single => vec![single.clone()],
        };
        if elements.len() != count {
            return Err(self.misfit(&format!("it takes {count} registers")));
        }
        Ok(elements)
    }

    fn atomic(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        take_order(m);
        m.take("noftz");
        let space = m.take_space().unwrap_or(Space::Generic);
        let kind = m.take_as(kind_named).ok_or_else(|| self.unknown())?;
        let ty = self.one_type(m)?;
        if !allowed(kind, ty) {
            return Err(self.unknown());
        }
        let has_result = ins.opcode == "atom";
        let expected = 2 + usize::from(has_result) + usize::from(kind == AtomicKind::Cas);
        if ins.operands.len() != expected {
            return Err(self.misfit(&format!("it takes {expected} operands")));
        }
        let (result, rest) = ins.operands.split_at(usize::from(has_result));
        let (address, offset, implied) = self.address(&rest[0], space)?;
        let space = if space == Space::Generic { implied } else { space };
        if !matches!(space, Space::Generic | Space::Global | Space::Shared) {
            return Err(self.misfit("atomics are for global and shared memory"));
        }
        let b = self.source(&rest[1], ty)?;
        let c = match rest.get(2) {
            Some(operand) => self.source(operand, ty)?,
            None => b,
        };
        let d: Option<Reg> = match result.first() {
            Some(operand) => Some(self.destination(operand, ty)?),
            None => None,
        };
        self.emit(Op::Atomic(Box::new(Atomic { kind, ty, space, address, offset, d, b, c })));
        Ok(())
    }
}

/// Memory order and scope: all accesses here are sequentially consistent. True for the ordered
/// ones, by which a thread may wait for another.
fn take_order(m: &mut Modifiers<'_>) -> bool {
    let _the_default = m.take("weak");
    let mut strong = false;
    for word in ["volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"] {
        strong |= m.take(word);
    }
    for word in ["cta", "cluster", "gpu", "sys"] {
        m.take(word);
    }
    strong
}

fn kind_named(word: &str) -> Option<AtomicKind> {
    Some(match word {
        "and" => AtomicKind::And,
        "or" => AtomicKind::Or,
        "xor" => AtomicKind::Xor,
        "exch" => AtomicKind::Exch,
        "cas" => AtomicKind::Cas,
        "add" => AtomicKind::Add,
        "inc" => AtomicKind::Inc,
        "dec" => AtomicKind::Dec,
        "min" => AtomicKind::Min,
        "max" => AtomicKind::Max,
        _ => return None,
    })
}

fn allowed(kind: AtomicKind, ty: Ty) -> bool {
    use AtomicKind::{Add, And, Cas, Dec, Exch, Inc, Max, Min, Or, Xor};
    match kind {
        And | Or | Xor => matches!(ty, Ty::B32 | Ty::B64),
        Exch => matches!(ty, Ty::B32 | Ty::B64),
        Cas => matches!(ty, Ty::B16 | Ty::B32 | Ty::B64),
        Inc | Dec => ty == Ty::U32,
        Min | Max => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64),
        Add => !matches!(ty.bytes(), 1) && !matches!(ty, Ty::Tf32 | Ty::U16 | Ty::S16 | Ty::B16),
    }
}
