//! Logic, shifts, comparison, selection and moves.

use super::lower::Lowering;
use super::modifiers::Modifiers;
use crate::ast::{Instruction, Operand};
use crate::error::Result;
use crate::lanes::Reg;
use crate::ops::{bits, compare};
use crate::program::{Guard, Seed};
use crate::types::{Ty, window};

impl<'a> Lowering<'_, 'a> {
    /// False when the opcode belongs to another file.
    pub(super) fn logic(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<bool> {
        match ins.opcode {
            "and" | "or" | "xor" => {
                let ty = self.one_type(m)?;
                self.apply(bits::binary_op(ins.opcode, ty), ins, ty, &[ty, ty], 0)?;
            }
            "not" | "cnot" => {
                let ty = self.one_type(m)?;
                self.apply(bits::unary_op(ins.opcode, ty), ins, ty, &[ty], 0)?;
            }
            "popc" | "clz" | "brev" => {
                let ty = self.one_type(m)?;
                let to = if ins.opcode == "brev" { ty } else { Ty::U32 };
                self.apply(bits::unary_op(ins.opcode, ty), ins, to, &[ty], 0)?;
            }
            "shl" | "shr" => {
                let ty = self.one_type(m)?;
                let f = bits::shift(ins.opcode, ty.as_int());
                self.apply(f, ins, ty, &[ty, Ty::U32], 0)?;
            }
            "shf" | "bfind" | "bfe" | "bfi" | "bmsk" | "szext" | "prmt" | "lop3" => {
                self.bit_field(ins, m)?;
            }
            "setp" => self.set_predicate(ins, m)?,
            "set" => self.set(ins, m)?,
            "selp" => {
                let ty = self.one_type(m)?;
                self.apply(Some(compare::selp()), ins, ty, &[ty, ty, Ty::Pred], 0)?;
            }
            "slct" => {
                let k = m.take_float_flags();
                let (ty, by) = (self.one_type(m)?, self.one_type(m)?);
                self.apply(compare::slct(by), ins, ty, &[ty, ty, by], k)?;
            }
            "testp" => {
                let name = m.take_first().ok_or_else(|| self.unknown())?;
                let ty = self.one_type(m)?;
                self.apply(compare::testp(name, ty), ins, Ty::Pred, &[ty], 0)?;
            }
            "mov" => self.mov(ins, m)?,
            "cvta" => self.convert_address(ins, m)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn bit_field(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let wrap = m.take("wrap");
        let _default = m.take("clamp");
        match ins.opcode {
            "shf" => {
                let left = m.take("l");
                if !left && !m.take("r") {
                    return Err(self.unknown());
                }
                let ty = self.one_type(m)?;
                self.apply(Some(bits::funnel(left, wrap)), ins, ty, &[ty, ty, Ty::U32], 0)
            }
            "bfind" => {
                let amount = m.take("shiftamt");
                let ty = self.one_type(m)?;
                self.apply(bits::bfind(ty, amount), ins, Ty::U32, &[ty], 0)
            }
            "bfe" => {
                let ty = self.one_type(m)?;
                self.apply(bits::bfe(ty), ins, ty, &[ty, Ty::U32, Ty::U32], 0)
            }
            "bfi" => self.insert_field(ins, m),
            "bmsk" => {
                let ty = self.one_type(m)?;
                self.apply(Some(bits::bmsk(wrap)), ins, ty, &[Ty::U32, Ty::U32], 0)
            }
            "szext" => {
                let ty = self.one_type(m)?;
                self.apply(bits::szext(ty, wrap), ins, ty, &[ty, Ty::U32], 0)
            }
            "prmt" => {
                let ty = self.one_type(m)?;
                let f = bits::prmt(m.take_first());
                self.apply(f, ins, ty, &[ty, ty, Ty::U32], 0)
            }
            _ => self.lop3(ins, m),
        }
    }

    fn insert_field(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let ty = self.one_type(m)?;
        let [d, a, b, position, length] = self.operands(ins)?;
        let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
        let position = self.source(position, Ty::U32)?;
        let length = self.source(length, Ty::U32)?;
        let d = self.destination(d, ty)?;
        let insert = bits::bfi(ty).ok_or_else(|| self.unknown())?;
        let field = self.fresh(Ty::U32);
        self.emit_alu(bits::field(), field, [position, length, length], 0);
        self.emit_alu(insert, d, [a, b, field], 0);
        Ok(())
    }

    fn lop3(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let ty = self.one_type(m)?;
        let [d, a, b, c, table] = self.operands(ins)?;
        let Operand::Int(table) = *table else {
            return Err(self.misfit("its table must be a constant"));
        };
        let (a, b, c) = (self.source(a, ty)?, self.source(b, ty)?, self.source(c, ty)?);
        let d = self.destination(d, ty)?;
        self.emit_alu(bits::lop3(), d, [a, b, c], table as u32);
        Ok(())
    }

    /// `setp.cmp{.bool}.type p{|q}, a, b{, c}`: the comparison, its inverse for `q`, each combined
    /// with `c`.
    fn set_predicate(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let k = m.take_float_flags();
        let name = m.take_first().ok_or_else(|| self.unknown())?;
        let combine = take_bool(m);
        let ty = self.one_type(m)?;
        let f = compare::compare(name, ty).ok_or_else(|| self.unknown())?;
        let expected = 3 + usize::from(combine.is_some());
        if ins.operands.len() != expected {
            return Err(self.misfit(&format!("it takes {expected} operands")));
        }
        let a = self.source(&ins.operands[1], ty)?;
        let b = self.source(&ins.operands[2], ty)?;
        let (p, q) = match ins.operands[0] {
            Operand::Pair(p, q) => {
                let p = self.destination(&Operand::Name(p), Ty::Pred)?;
                (p, Some(self.destination(&Operand::Name(q), Ty::Pred)?))
            }
            ref single => (self.destination(single, Ty::Pred)?, None),
        };
        if combine.is_none() && q.is_none() {
            self.emit_alu(f, p, [a, b, b], k);
            return Ok(());
        }
        let c = match ins.operands.get(3) {
            Some(operand) => Some(self.source(operand, Ty::Pred)?),
            None => None,
        };
        self.pin_guard();
        let truth = self.fresh(Ty::Pred);
        self.emit_alu(f, truth, [a, b, b], k);
        let inverse = self.fresh(Ty::Pred);
        self.logic_of("not", inverse, truth, truth)?;
        // Both results before either is written: `c` may be one of the destinations.
        if let (Some(combine), Some(c)) = (combine, c) {
            self.logic_of(combine, truth, truth, c)?;
            self.logic_of(combine, inverse, inverse, c)?;
        }
        self.emit_alu(bits::copy(), p, [truth; 3], 0);
        if let Some(q) = q {
            self.emit_alu(bits::copy(), q, [inverse; 3], 0);
        }
        Ok(())
    }

    fn logic_of(&mut self, opcode: &str, d: Reg, a: Reg, b: Reg) -> Result<()> {
        let f = bits::binary_op(opcode, Ty::Pred).or_else(|| bits::unary_op(opcode, Ty::Pred));
        let f = f.ok_or_else(|| self.unknown())?;
        self.emit_alu(f, d, [a, b, b], 0);
        Ok(())
    }

    /// Several steps under one guard: the guard's value now, should a step write its register.
    pub(super) fn pin_guard(&mut self) {
        let (Guard::If(register) | Guard::Unless(register)) = self.guard else { return };
        let pinned = self.fresh(Ty::Pred);
        let guard = std::mem::replace(&mut self.guard, Guard::Always);
        self.emit_alu(bits::copy(), pinned, [register; 3], 0);
        self.guard = match guard {
            Guard::Unless(_) => Guard::Unless(pinned),
            _ => Guard::If(pinned),
        };
    }

    fn set(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let k = m.take_float_flags();
        // GCC writes the comparison behind the result's type.
        let name = m.take_as(comparison).ok_or_else(|| self.unknown())?;
        let combine = take_bool(m);
        let (to, from) = (self.one_type(m)?, self.one_type(m)?);
        let f = compare::compare(name, from).ok_or_else(|| self.unknown())?;
        let result = compare::set_result(to).ok_or_else(|| self.unknown())?;
        if ins.operands.len() != 3 + usize::from(combine.is_some()) {
            return Err(self.misfit("it has the wrong number of operands"));
        }
        let a = self.source(&ins.operands[1], from)?;
        let b = self.source(&ins.operands[2], from)?;
        let truth = self.fresh(Ty::Pred);
        self.emit_alu(f, truth, [a, b, b], k);
        if let Some(combine) = combine {
            let c = self.source(&ins.operands[3], Ty::Pred)?;
            self.logic_of(combine, truth, truth, c)?;
        }
        let d = self.destination(&ins.operands[0], to)?;
        self.emit_alu(result, d, [truth; 3], 0);
        Ok(())
    }

    fn mov(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let count = if m.take("v2") { 2 } else { 1 + 3 * usize::from(m.take("v4")) };
        let ty = self.one_type(m)?;
        let [d, a] = self.operands(ins)?;
        if count > 1 {
            let (d, a) = (self.elements(d, count)?, self.elements(a, count)?);
            let from: Vec<Reg> = a.iter().map(|a| self.source(a, ty)).collect::<Result<_>>()?;
            for (d, a) in d.iter().zip(from) {
                let d = self.destination(d, ty)?;
                self.emit_alu(bits::copy(), d, [a; 3], 0);
            }
            return Ok(());
        }
        // The name of a vector stands for its registers.
        let whole = |operand: &Operand<'a>| match operand {
            Operand::Name(name) => self.components(name).map(Operand::Vector),
            _ => None,
        };
        let (d, a) =
            (&whole(d).unwrap_or_else(|| d.clone()), &whole(a).unwrap_or_else(|| a.clone()));
        match (d, a) {
            (Operand::Vector(pieces), whole) => self.unpack(pieces, whole, ty),
            (whole, Operand::Vector(pieces)) => self.pack(whole, pieces, ty),
            _ => {
                let a = self.source(a, ty)?;
                let d = self.destination(d, ty)?;
                let cut = ty.bytes() == 4 && self.type_of(a).bytes() > 4;
                let f = if cut { bits::copy32() } else { bits::copy() };
                self.emit_alu(f, d, [a; 3], 0);
                Ok(())
            }
        }
    }

    /// The type of one of `count` equal pieces of `ty`.
    fn piece(&self, ty: Ty, count: usize) -> Result<Ty> {
        match (ty.bytes(), count) {
            (8, 2) => Ok(Ty::B32),
            (8, 4) | (4, 2) => Ok(Ty::B16),
            (4, 4) | (2, 2) => Ok(Ty::B8),
            _ => Err(self.misfit("the pieces do not make up the whole")),
        }
    }

    fn unpack(&mut self, pieces: &[Operand<'a>], whole: &Operand<'a>, ty: Ty) -> Result<()> {
        let piece = self.piece(ty, pieces.len())?;
        let whole = self.source(whole, ty)?;
        let width = 8 * piece.bytes() as u32;
        for (i, operand) in pieces.iter().enumerate() {
            let d = self.destination(operand, piece)?;
            self.emit_alu(bits::unpack(), d, [whole; 3], (width * i as u32) | (width << 8));
        }
        Ok(())
    }

    fn pack(&mut self, whole: &Operand<'a>, pieces: &[Operand<'a>], ty: Ty) -> Result<()> {
        let piece = self.piece(ty, pieces.len())?;
        let width = 8 * piece.bytes() as u32;
        let sources: Vec<Reg> =
            pieces.iter().map(|operand| self.source(operand, piece)).collect::<Result<_>>()?;
        let d = self.destination(whole, ty)?;
        let mut sum = sources[0];
        for (i, &source) in sources.iter().enumerate().skip(1) {
            let next = if i + 1 == sources.len() { d } else { self.fresh(ty) };
            self.emit_alu(bits::pack(), next, [sum, source, source], width * i as u32);
            sum = next;
        }
        Ok(())
    }

    /// Between an address in a space and a generic one: the windows of what lives inside the
    /// interpreter, the identity for the rest.
    fn convert_address(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        use crate::types::Space;
        let to_space = m.take("to");
        let space = m.take_space().ok_or_else(|| self.unknown())?;
        let ty = self.one_type(m)?;
        let [d, a] = self.operands(ins)?;
        let a = self.source(a, ty)?;
        let d = self.destination(d, ty)?;
        let base = match space {
            Space::Shared => window::SHARED,
            Space::Local => window::LOCAL,
            Space::Param if self.entry => window::PARAM,
            // The parameters of a function lie in local memory.
            Space::Param => window::LOCAL,
            _ => 0,
        };
        if base == 0 {
            self.emit_alu(bits::copy(), d, [a; 3], 0);
            return Ok(());
        }
        let base = if to_space { base.wrapping_neg() } else { base };
        let base = self.constant(Seed::Bits(base), Ty::U64);
        let add = crate::ops::int::binary_op("add", Ty::U64, false);
        let add = add.ok_or_else(|| self.unknown())?;
        self.emit_alu(add, d, [a, base, base], 0);
        Ok(())
    }
}

fn comparison(word: &str) -> Option<&'static str> {
    const NAMES: [&str; 18] = [
        "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu",
        "gtu", "geu", "num", "nan",
    ];
    NAMES.into_iter().find(|name| *name == word)
}

fn take_bool(m: &mut Modifiers<'_>) -> Option<&'static str> {
    m.take_as(|word| {
        Some(match word {
            "and" => "and",
            "or" => "or",
            "xor" => "xor",
            _ => return None,
        })
    })
}
