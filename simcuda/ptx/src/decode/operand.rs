//! Operands into registers: named ones, literals and addresses as constants, special registers.

use super::function_address;
use super::lower::{Lowering, Symbol};
use crate::ast::{Base, Operand};
use crate::error::{PtxError, Result};
use crate::lanes::{Reg, WARP};
use crate::ops::bits;
use crate::ops::convert::{Literal, literal};
use crate::program::{Op, Seed, Special, Timer};
use crate::types::{Space, Ty};

impl<'a> Lowering<'_, 'a> {
    /// The register that holds the value of `operand` for an instruction working in `ty`.
    pub(super) fn source(&mut self, operand: &Operand<'a>, ty: Ty) -> Result<Reg> {
        match operand {
            Operand::Name(name) => self.named_source(name, ty),
            Operand::Member(name, member) => {
                if let Some(register) = self.component(name, member) {
                    return Ok(register);
                }
                let special = special_of(name, member)
                    .ok_or_else(|| self.misfit(&format!("`{name}.{member}` is not a register")))?;
                Ok(self.constant(Seed::Special(special), Ty::U32))
            }
            Operand::Int(value) if ty == Ty::Pred => Ok(self.bits(u64::from(*value != 0))),
            // The half types have no literals of their own: their bits stand for them.
            Operand::Int(value) if !matches!(ty, Ty::F32 | Ty::F64) => {
                Ok(self.bits(value & ty.mask()))
            }
            Operand::Int(0) => Ok(self.bits(0)),
            Operand::Int(_) => Err(self.misfit("an integer stands where a float is needed")),
            Operand::Single(bits) => self.float(ty, Literal::Single(f32::from_bits(*bits))),
            Operand::Double(bits) => self.float(ty, Literal::Double(f64::from_bits(*bits))),
            Operand::Element(name, index) => {
                let (seed, element_bytes) = self.address_of(name)?;
                Ok(self.offset_seed(seed, index.wrapping_mul(element_bytes)))
            }
            Operand::Offset(name, offset) => {
                let (seed, _) = self.address_of(name)?;
                Ok(self.offset_seed(seed, *offset))
            }
            Operand::Not(name) if ty == Ty::Pred => {
                let plain = self.named_source(name, ty)?;
                let inverse = self.fresh(Ty::Pred);
                if let Some(not) = bits::unary_op("not", Ty::Pred) {
                    self.emit_alu(not, inverse, [plain; 3], 0);
                }
                Ok(inverse)
            }
            _ => Err(self.misfit("an operand is of the wrong kind")),
        }
    }

    fn float(&mut self, ty: Ty, value: Literal) -> Result<Reg> {
        let ty = match ty {
            Ty::U32 | Ty::S32 => Ty::B32,
            Ty::U64 | Ty::S64 => Ty::B64,
            other => other,
        };
        match literal(ty, value) {
            Some(bits) => Ok(self.bits(bits)),
            None => Err(self.misfit("a float stands where another type is needed")),
        }
    }

    fn named_source(&mut self, name: &'a str, ty: Ty) -> Result<Reg> {
        if let Some(register) = self.register(name) {
            if (self.type_of(register) == Ty::Pred) != (ty == Ty::Pred) {
                return Err(self.misfit(&format!("`{name}` is of the wrong type")));
            }
            return Ok(register);
        }
        if let Some(which) = timer_of(name) {
            let d = self.fresh(Ty::U64);
            self.emit(Op::Timer { d, which });
            return Ok(d);
        }
        if let Some(seed) = fixed_of(name) {
            return Ok(self.constant(seed, Ty::U32));
        }
        let (seed, _) = self.address_of(name)?;
        Ok(self.constant(seed, Ty::U64))
    }

    /// The address of a variable or function in its own space, and the size of an element.
    pub(super) fn address_of(&mut self, name: &str) -> Result<(Seed, u64)> {
        let (seed, element_bytes) = match self.lookup(name) {
            Some(&Symbol::Local { offset, element_bytes, .. }) => {
                (Seed::FrameLocal(offset as u64), element_bytes)
            }
            Some(&Symbol::KernelParam { offset }) => (Seed::Bits(offset as u64), 1),
            Some(&Symbol::Shared { offset, size, element_bytes }) => {
                self.uses.shared_end = self.uses.shared_end.max(offset + size);
                (Seed::Bits(offset as u64), element_bytes)
            }
            Some(&Symbol::DynamicShared { element_bytes }) => {
                (Seed::DynamicShared(0), element_bytes)
            }
            Some(&Symbol::Global { index, element_bytes }) => {
                (Seed::Global(index, 0), element_bytes)
            }
            Some(&Symbol::Function(index)) => {
                self.uses.indirect_calls = true;
                (Seed::Bits(function_address(index)), 1)
            }
            Some(Symbol::Undefined) => return Err(PtxError::undefined(self.line, name)),
            _ => return Err(self.error(format!("`{name}` is not declared"))),
        };
        Ok((seed, element_bytes as u64))
    }

    fn offset_seed(&mut self, seed: Seed, by: u64) -> Reg {
        let moved = match seed {
            Seed::Bits(bits) => Seed::Bits(bits.wrapping_add(by)),
            Seed::Global(index, offset) => Seed::Global(index, offset.wrapping_add(by)),
            Seed::DynamicShared(offset) => Seed::DynamicShared(offset.wrapping_add(by)),
            Seed::FrameLocal(offset) => Seed::FrameLocal(offset.wrapping_add(by)),
            Seed::Special(special) => Seed::Special(special),
        };
        self.constant(moved, Ty::U64)
    }

    /// The register an instruction writes; `_` is one that nobody reads.
    pub(super) fn destination(&mut self, operand: &Operand<'a>, ty: Ty) -> Result<Reg> {
        let (name, register) = match operand {
            Operand::Name("_") => return Ok(self.fresh(ty)),
            Operand::Name(name) => (name, self.register(name)),
            Operand::Member(name, member) => (name, self.component(name, member)),
            _ => return Err(self.misfit("the destination is not a register")),
        };
        let register =
            register.ok_or_else(|| self.misfit(&format!("`{name}` is not a register")))?;
        if (self.type_of(register) == Ty::Pred) != (ty == Ty::Pred) {
            return Err(self.misfit(&format!("`{name}` is of the wrong type")));
        }
        Ok(register)
    }

    /// Base register, constant offset, and the space that the base's name implies.
    pub(super) fn address(
        &mut self,
        operand: &Operand<'a>,
        space: Space,
    ) -> Result<(Reg, u64, Space)> {
        let Operand::Address { base, offset } = *operand else {
            return Err(self.misfit("an address in brackets is missing"));
        };
        let Base::Name(name) = base else {
            return Ok((self.bits(0), offset, space));
        };
        if let Some(register) = self.register(name) {
            return Ok((register, offset, space));
        }
        let implied = match self.lookup(name) {
            Some(Symbol::Local { .. }) => Space::Local,
            Some(Symbol::Shared { .. } | Symbol::DynamicShared { .. }) => Space::Shared,
            Some(Symbol::KernelParam { .. }) => Space::Param,
            Some(Symbol::Global { .. }) => Space::Global,
            Some(Symbol::Undefined) => return Err(PtxError::undefined(self.line, name)),
            _ => return Err(self.error(format!("`{name}` is not declared"))),
        };
        let (seed, _) = self.address_of(name)?;
        Ok((self.constant(seed, Ty::U64), offset, implied))
    }
}

fn special_of(name: &str, member: &str) -> Option<Special> {
    let axis = match member {
        "x" => 0,
        "y" => 1,
        "z" => 2,
        _ => return None,
    };
    Some(match name {
        "%tid" => Special::Tid(axis),
        "%ntid" => Special::Ntid(axis),
        "%ctaid" => Special::Ctaid(axis),
        "%nctaid" => Special::Nctaid(axis),
        _ => return None,
    })
}

/// Names whose value is known before the thread starts.
fn fixed_of(name: &str) -> Option<Seed> {
    let special = match name {
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::Nwarpid,
        "%lanemask_eq" => Special::LanemaskEq,
        "%lanemask_le" => Special::LanemaskLe,
        "%lanemask_lt" => Special::LanemaskLt,
        "%lanemask_ge" => Special::LanemaskGe,
        "%lanemask_gt" => Special::LanemaskGt,
        "%dynamic_smem_size" => Special::DynamicSharedBytes,
        "%total_smem_size" => Special::TotalSharedBytes,
        "WARP_SZ" => return Some(Seed::Bits(WARP as u64)),
        "%nsmid" => return Some(Seed::Bits(1)),
        "%smid" | "%gridid" => return Some(Seed::Bits(0)),
        _ if name.starts_with("%envreg") || name.starts_with("%pm") => {
            return Some(Seed::Bits(0));
        }
        _ => return None,
    };
    Some(Seed::Special(special))
}

fn timer_of(name: &str) -> Option<Timer> {
    Some(match name {
        "%globaltimer" => Timer::Global,
        "%globaltimer_lo" => Timer::GlobalLow,
        "%globaltimer_hi" => Timer::GlobalHigh,
        "%clock" => Timer::ClockLow,
        "%clock_hi" => Timer::ClockHigh,
        "%clock64" => Timer::Clock,
        _ => return None,
    })
}
