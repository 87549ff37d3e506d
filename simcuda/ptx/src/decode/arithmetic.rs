//! Arithmetic of integers and floats, and conversion.

use super::lower::Lowering;
use super::modifiers::Modifiers;
use crate::ast::{Instruction, Operand};
use crate::error::Result;
use crate::lanes::AluFn;
use crate::ops::int::Part;
use crate::ops::{bits, convert, float, half, int, transcendental};
use crate::rounding::flag;
use crate::types::Ty;

impl<'a> Lowering<'_, 'a> {
    /// False when the opcode belongs to another file.
    pub(super) fn arithmetic(
        &mut self,
        ins: &Instruction<'a>,
        m: &mut Modifiers<'a>,
    ) -> Result<bool> {
        match ins.opcode {
            "add" | "sub" if m.take("cc") => self.carry(ins, m, false, true)?,
            "addc" | "subc" => {
                let sets = m.take("cc");
                self.carry(ins, m, true, sets)?;
            }
            "mad" if m.take("cc") => self.mad_carry(ins, m, false, true)?,
            "madc" => {
                let sets = m.take("cc");
                self.mad_carry(ins, m, true, sets)?;
            }
            "add" | "sub" | "mul" | "div" | "rem" | "min" | "max" => self.two_sources(ins, m)?,
            "copysign" => self.two_sources(ins, m)?,
            "neg" | "abs" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => {
                self.one_source(ins, m)?;
            }
            "fma" | "mad" => self.three_sources(ins, m)?,
            "mul24" | "mad24" => self.short_product(ins, m)?,
            "sad" => {
                let ty = self.one_type(m)?;
                self.apply(int::sad(ty), ins, ty, &[ty, ty, ty], 0)?;
            }
            "dp4a" => {
                let (a, b) = (self.one_type(m)?, self.one_type(m)?);
                self.apply(int::dp4a(a, b), ins, Ty::B32, &[Ty::B32, Ty::B32, Ty::B32], 0)?;
            }
            "dp2a" => {
                let high = take_part(m).ok_or_else(|| self.unknown())? == Part::High;
                let (a, b) = (self.one_type(m)?, self.one_type(m)?);
                let f = int::dp2a(a, b, high);
                self.apply(f, ins, Ty::B32, &[Ty::B32, Ty::B32, Ty::B32], 0)?;
            }
            "vadd" | "vsub" => self.video(ins, m)?,
            "cvt" => self.convert(ins, m)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn one_type(&mut self, m: &mut Modifiers<'a>) -> Result<Ty> {
        m.take_type().ok_or_else(|| self.unknown())
    }

    /// Emits `f` with the operands as they stand: a destination, then a source for each type.
    pub(super) fn apply(
        &mut self,
        f: Option<AluFn>,
        ins: &Instruction<'a>,
        to: Ty,
        from: &[Ty],
        k: u32,
    ) -> Result<()> {
        let f = f.ok_or_else(|| self.unknown())?;
        if ins.operands.len() != from.len() + 1 {
            return Err(self.misfit(&format!("it takes {} operands", from.len() + 1)));
        }
        let mut sources = [0; 3];
        for ((slot, operand), &ty) in sources.iter_mut().zip(&ins.operands[1..]).zip(from) {
            *slot = self.source(operand, ty)?;
        }
        let d = self.destination(&ins.operands[0], to)?;
        self.emit_alu(f, d, sources, k);
        Ok(())
    }

    fn one_source(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let ty = self.one_type(m)?;
        let k = m.take_flags_of(ty);
        let f = float::unary_op(ins.opcode, ty)
            .or_else(|| half::unary_op(ins.opcode, ty))
            .or_else(|| transcendental::unary_op(ins.opcode, ty))
            .or_else(|| int::unary_op(ins.opcode, ty).filter(|_| k == 0));
        self.apply(f, ins, ty, &[ty], k)
    }

    fn two_sources(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let part = take_part(m);
        let ty = self.one_type(m)?;
        let mut k = m.take_flags_of(ty);
        if m.take("NaN") {
            k |= float::PROPAGATE_NAN;
        }
        if m.take("xorsign") && m.take("abs") {
            k |= float::XORSIGN_ABS;
        }
        let int_ty = ty.as_int();
        let (f, to) = match (ins.opcode, part) {
            ("mul", Some(part)) if k == 0 => (int::mul(int_ty, part), widened(ty, part)),
            _ if !matches!(part, None | Some(Part::Low)) => (None, ty),
            ("min" | "max", _) if matches!(ty, Ty::F32 | Ty::F64) => {
                (float::min_max(ins.opcode, ty), ty)
            }
            _ => {
                let f = float::binary_op(ins.opcode, ty, k)
                    .or_else(|| half::binary_op(ins.opcode, ty))
                    .or_else(|| int::binary_op(ins.opcode, ty, k & flag::SATURATE != 0));
                (f, ty)
            }
        };
        self.apply(f, ins, to, &[ty, ty], k)
    }

    fn three_sources(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let part = take_part(m);
        let ty = self.one_type(m)?;
        let k = m.take_flags_of(ty);
        if let Some(part) = part {
            let f = int::mad(ty.as_int(), part, k & flag::SATURATE != 0);
            let wide = widened(ty, part);
            return self.apply(f, ins, wide, &[ty, ty, wide], k);
        }
        let f = float::fma(ty, k).or_else(|| half::fma(ty));
        self.apply(f, ins, ty, &[ty, ty, ty], k)
    }

    /// `mul24` and `mad24`; the sum of the latter is a second step.
    fn short_product(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let part = take_part(m).ok_or_else(|| self.unknown())?;
        let saturating = m.take("sat");
        let ty = self.one_type(m)?;
        if ins.opcode == "mul24" {
            return self.apply(int::mul24(ty, part), ins, ty, &[ty, ty], 0);
        }
        let [d, a, b, c] = self.operands(ins)?;
        let (a, b, c) = (self.source(a, ty)?, self.source(b, ty)?, self.source(c, ty)?);
        let mul = int::mul24(ty, part).ok_or_else(|| self.unknown())?;
        let add = int::binary_op("add", ty, saturating).ok_or_else(|| self.unknown())?;
        let product = self.fresh(ty);
        let d = self.destination(d, ty)?;
        self.emit_alu(mul, product, [a, b, b], 0);
        self.emit_alu(add, d, [product, c, c], 0);
        Ok(())
    }

    /// Exactly as many operands as the pattern has.
    pub(super) fn operands<'i, const N: usize>(
        &self,
        ins: &'i Instruction<'a>,
    ) -> Result<[&'i Operand<'a>; N]> {
        let operands: Vec<_> = ins.operands.iter().collect();
        operands.try_into().map_err(|_| self.misfit(&format!("it takes {N} operands")))
    }

    /// `add.cc`, `addc`, `sub.cc`, `subc`: sum and carry are two computations.
    fn carry(
        &mut self,
        ins: &Instruction<'a>,
        m: &mut Modifiers<'a>,
        reads: bool,
        sets: bool,
    ) -> Result<()> {
        let ty = self.one_type(m)?;
        let [d, a, b] = self.operands(ins)?;
        let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
        let d = self.destination(d, ty)?;
        self.carry_step(ins.opcode.starts_with("sub"), ty, [d, a, b], reads, sets)
    }

    fn carry_step(
        &mut self,
        subtract: bool,
        ty: Ty,
        [d, a, b]: [u32; 3],
        reads: bool,
        sets: bool,
    ) -> Result<()> {
        let (value, out) = if subtract {
            (int::sub_with_borrow(ty), int::borrow_of_sub(ty))
        } else {
            (int::add_with_carry(ty), int::carry_of_add(ty))
        };
        let (Some(value), Some(out)) = (value, out) else { return Err(self.unknown()) };
        let flag = self.carry_register();
        let carry_in = if reads { flag } else { self.bits(0) };
        let next = self.fresh(Ty::U32);
        self.emit_alu(out, next, [a, b, carry_in], 0);
        self.emit_alu(value, d, [a, b, carry_in], 0);
        if sets {
            self.emit_alu(bits::copy(), flag, [next; 3], 0);
        }
        Ok(())
    }

    fn mad_carry(
        &mut self,
        ins: &Instruction<'a>,
        m: &mut Modifiers<'a>,
        reads: bool,
        sets: bool,
    ) -> Result<()> {
        let part = take_part(m).ok_or_else(|| self.unknown())?;
        let ty = self.one_type(m)?;
        let [d, a, b, c] = self.operands(ins)?;
        let (a, b, c) = (self.source(a, ty)?, self.source(b, ty)?, self.source(c, ty)?);
        let d = self.destination(d, ty)?;
        let mul = int::mul(ty.as_int(), part).ok_or_else(|| self.unknown())?;
        let product = self.fresh(ty);
        self.emit_alu(mul, product, [a, b, b], 0);
        self.carry_step(false, ty, [d, product, c], reads, sets)
    }

    /// `vadd` and `vsub` on whole words: a sum, and what `.add`, `.min` or `.max` makes of it with the
    /// third source.
    fn video(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let (to, a_type, b_type) = (self.one_type(m)?, self.one_type(m)?, self.one_type(m)?);
        let words = |ty: &Ty| matches!(ty, Ty::U32 | Ty::S32);
        if ![to, a_type, b_type].iter().all(words) {
            return Err(self.unknown());
        }
        let first = int::binary_op(&ins.opcode[1..], to, false).ok_or_else(|| self.unknown())?;
        let second = ["add", "min", "max"].into_iter().find(|word| m.take(word));
        let Some(second) = second else {
            return self.apply(Some(first), ins, to, &[a_type, b_type], 0);
        };
        let second = int::binary_op(second, to, false).ok_or_else(|| self.unknown())?;
        let [d, a, b, c] = self.operands(ins)?;
        let (a, b, c) = (self.source(a, a_type)?, self.source(b, b_type)?, self.source(c, to)?);
        let sum = self.fresh(to);
        let d = self.destination(d, to)?;
        self.emit_alu(first, sum, [a, b, b], 0);
        self.emit_alu(second, d, [sum, c, c], 0);
        Ok(())
    }

    fn convert(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        let mut k = m.take_float_flags();
        let (to, from) = (self.one_type(m)?, self.one_type(m)?);
        if matches!(to, Ty::F16x2 | Ty::Bf16x2) {
            let f = if from == Ty::F32 { convert::pack_pair(to) } else { None };
            return self.apply(f, ins, to, &[from, from], k);
        }
        let f = convert::convert(to, from, k);
        let [d, a] = self.operands(ins)?;
        let f = f.ok_or_else(|| self.unknown())?;
        let a = self.source(a, from)?;
        let d = self.destination(d, to)?;
        if !to.is_float() {
            // A signed result fills its register with its sign.
            k |= convert::integer_destination(to, self.type_of(d).bytes());
        }
        self.emit_alu(f, d, [a; 3], k);
        Ok(())
    }
}

fn take_part(m: &mut Modifiers<'_>) -> Option<Part> {
    m.take_as(|word| {
        Some(match word {
            "lo" => Part::Low,
            "hi" => Part::High,
            "wide" => Part::Wide,
            _ => return None,
        })
    })
}

/// The type of a product.
fn widened(ty: Ty, part: Part) -> Ty {
    match (part, ty.bytes()) {
        (Part::Wide, 2) => Ty::B32,
        (Part::Wide, 4) => Ty::B64,
        _ => ty,
    }
}
