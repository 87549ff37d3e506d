//! Branches, calls, and what ends a thread.

use super::lower::{Lowering, Symbol};
use super::modifiers::Modifiers;
use crate::ast::{Instruction, Operand};
use crate::error::{PtxError, Result};
use crate::program::{Call, Guard, Op, Place, Target};
use crate::types::Ty;

impl<'a> Lowering<'_, 'a> {
    /// False when the opcode belongs to another file.
    pub(super) fn flow(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<bool> {
        m.take("uni");
        match ins.opcode {
            "bra" => {
                let [Operand::Name(label)] = self.operands(ins)? else {
                    return Err(self.misfit("it takes a label"));
                };
                self.emit_branch(label);
            }
            "brx" => self.indexed_branch(ins, m)?,
            "call" => self.call(ins)?,
            "ret" => self.emit_plain(ins, Op::Return)?,
            "exit" => self.emit_plain(ins, Op::Exit)?,
            "trap" => self.emit_plain(ins, Op::Trap)?,
            "nanosleep" => {
                let ty = self.one_type(m)?;
                let [ns] = self.operands(ins)?;
                let ns = self.source(ns, ty)?;
                self.emit(Op::Sleep { ns });
            }
            // Nobody listens.
            "brkpt" | "pmevent" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn emit_plain(&mut self, ins: &Instruction<'a>, op: Op) -> Result<()> {
        let [] = self.operands(ins)?;
        self.emit(op);
        Ok(())
    }

    fn indexed_branch(&mut self, ins: &Instruction<'a>, m: &mut Modifiers<'a>) -> Result<()> {
        if !m.take("idx") {
            return Err(self.unknown());
        }
        let [index, Operand::Name(list)] = self.operands(ins)? else {
            return Err(self.misfit("it takes an index and a list of targets"));
        };
        let index = self.source(index, Ty::U32)?;
        let Some(Symbol::Targets(labels)) = self.lookup(list).cloned() else {
            return Err(self.error(format!("`{list}` is not a list of branch targets")));
        };
        let at = self.code.len();
        for (slot, label) in labels.iter().enumerate() {
            self.fix(at, slot, label);
        }
        self.emit(Op::BranchIndexed { index, targets: vec![0; labels.len()].into() });
        Ok(())
    }

    /// `call (results), function, (arguments)`, each list optional; an indirect call names a
    /// register and a prototype.
    fn call(&mut self, ins: &Instruction<'a>) -> Result<()> {
        let mut operands = ins.operands.iter().peekable();
        let results = match operands.next_if(|o| matches!(o, Operand::List(_))) {
            Some(Operand::List(list)) => list.as_slice(),
            _ => &[],
        };
        let Some(Operand::Name(name)) = operands.next() else {
            return Err(self.misfit("it takes the name of a function"));
        };
        let arguments = match operands.next_if(|o| matches!(o, Operand::List(_))) {
            Some(Operand::List(list)) => list.as_slice(),
            _ => &[],
        };
        let (target, params, returns) = self.call_target(name)?;
        let arguments = self.places(arguments, params, false)?;
        let results = self.places(results, returns, true)?;
        self.emit(Op::Call(Box::new(Call { target, arguments, results })));
        Ok(())
    }

    /// The target, and how many parameters and results it has where that is known.
    fn call_target(&mut self, name: &str) -> Result<(Target, Option<usize>, Option<usize>)> {
        if let Some(register) = self.register(name) {
            self.uses.indirect_calls = true;
            return Ok((Target::Indirect(register), None, None));
        }
        let Some(&Symbol::Function(index)) = self.lookup(name) else {
            return Err(self.error(format!("function `{name}` is not declared")));
        };
        let signature = &self.outline.signatures[index];
        let counts = (Some(signature.params.len()), Some(signature.returns.len()));
        let target = match (signature.external, signature.name) {
            (false, _) => {
                self.uses.calls.push(index);
                Target::Function(index)
            }
            (true, "vprintf") => Target::Print,
            (true, "__assertfail") => Target::AssertFail,
            (true, name @ ("malloc" | "free")) => {
                self.uses.heap = true;
                if name == "malloc" { Target::Allocate } else { Target::Free }
            }
            (true, name) => return Err(PtxError::undefined(self.line, name)),
        };
        Ok((target, counts.0, counts.1))
    }

    fn places(
        &mut self,
        operands: &[Operand<'a>],
        expected: Option<usize>,
        written: bool,
    ) -> Result<Vec<Place>> {
        if expected.is_some_and(|count| count != operands.len()) {
            return Err(self.misfit("the call does not fit the function's declaration"));
        }
        let mut places = Vec::with_capacity(operands.len());
        for operand in operands {
            let local = match operand {
                Operand::Name(name) => self.local_place(name),
                _ => None,
            };
            places.push(match (local, written) {
                (Some(place), _) => place,
                (None, true) => Place::Register(self.destination(operand, Ty::B64)?),
                (None, false) => Place::Register(self.source(operand, Ty::B64)?),
            });
        }
        Ok(places)
    }

    /// Whether the instruction in hand has a guard.
    pub(super) fn is_guarded(&self) -> bool {
        self.guard != Guard::Always
    }
}
