//! The state while one function is lowered: scopes, registers, constants, labels, and the walk
//! over its statements. What an instruction becomes is decided in the files beside this one.

use std::collections::HashMap;

use super::labels::Fixup;
use super::modifiers::Modifiers;
use super::{Outline, Uses, local_offset, param_layout, place_shared};
use crate::ast::{FunctionText, Instruction, Statement, Variable};
use crate::error::{PtxError, Result};
use crate::lanes::{Alu, AluFn, Reg};
use crate::program::{Function, Guard, Inst, Op, Place, Seed};
use crate::types::{Space, Ty};

/// Registers of one function that are used, constants among them.
const MAX_REGISTERS: usize = 1 << 16;
/// Entries of all lists of branch targets of one function.
const MAX_TARGETS: usize = 1 << 20;
/// Variables that one declaration may stand for.
const MAX_NUMBERED: u64 = 4096;
/// The local memory CUDA allows a thread.
const MAX_LOCAL_BYTES: usize = 512 << 10;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Symbol<'a> {
    Registers {
        ty: Ty,
        group: u32,
        count: Option<u64>,
        lanes: usize,
    },
    Local {
        offset: usize,
        size: usize,
        element_bytes: usize,
    },
    KernelParam {
        offset: usize,
    },
    Shared {
        offset: usize,
        size: usize,
        element_bytes: usize,
    },
    DynamicShared {
        element_bytes: usize,
    },
    Global {
        index: usize,
        element_bytes: usize,
    },
    Function(usize),
    Targets(Vec<&'a str>),
    /// Declared, and defined in none of the texts.
    Undefined,
}

#[derive(Default)]
pub(super) struct Scope<'a> {
    pub(super) parent: usize,
    pub(super) symbols: HashMap<&'a str, Symbol<'a>>,
    /// Names that the text does not have as such: those of `name<2>`.
    pub(super) numbered: HashMap<String, Symbol<'a>>,
    pub(super) labels: HashMap<&'a str, u32>,
}

pub(super) struct Lowering<'m, 'a> {
    pub(super) outline: &'m Outline<'a>,
    /// Which of the texts this one is.
    pub(super) unit: usize,
    pub(super) code: &'m mut Vec<Inst>,
    pub(super) entry: bool,
    pub(super) uses: Uses,
    pub(super) line: u32,
    pub(super) guard: Guard,
    /// The instruction in hand as written, for errors.
    text: String,
    pub(super) scopes: Vec<Scope<'a>>,
    pub(super) scope: usize,
    types: Vec<Ty>,
    pub(super) groups: u32,
    pub(super) named: HashMap<(u32, u64), Reg>,
    constants: HashMap<Seed, Reg>,
    seeds: Vec<(Reg, Seed)>,
    pub(super) fixups: Vec<Fixup<'a>>,
    carry: Option<Reg>,
    local_bytes: usize,
    shared_bytes: usize,
    globals: Vec<Variable<'a>>,
    function: Function,
}

pub(super) struct Lowered<'a> {
    pub(super) function: Function,
    pub(super) uses: Uses,
    pub(super) globals: Vec<Variable<'a>>,
    pub(super) shared_bytes: usize,
}

impl<'m, 'a> Lowering<'m, 'a> {
    pub(super) fn new(
        outline: &'m Outline<'a>,
        unit: usize,
        code: &'m mut Vec<Inst>,
        text: &FunctionText<'a>,
        index: usize,
    ) -> Result<Self> {
        let signature = &outline.signatures[index];
        let entry = code.len() as u32;
        let function = Function {
            defined: true,
            entry,
            params: signature.params.clone(),
            returns: signature.returns.clone(),
            ..Function::default()
        };
        let mut lowering = Self {
            outline,
            unit,
            code,
            entry: text.entry,
            uses: Uses::default(),
            line: text.line,
            guard: Guard::Always,
            text: String::new(),
            scopes: vec![Scope::default()],
            scope: 0,
            types: Vec::new(),
            groups: 0,
            named: HashMap::new(),
            constants: HashMap::new(),
            seeds: Vec::new(),
            fixups: Vec::new(),
            carry: None,
            local_bytes: 0,
            shared_bytes: outline.shared_bytes,
            globals: Vec::new(),
            function,
        };
        lowering.formals(text)?;
        Ok(lowering)
    }

    /// In the order of `signature`, so that callers and body agree on the places.
    fn formals(&mut self, text: &FunctionText<'a>) -> Result<()> {
        if text.entry {
            for (variable, param) in text.params.iter().zip(param_layout(text)?) {
                self.define(variable.name, Symbol::KernelParam { offset: param.offset })?;
            }
            return Ok(());
        }
        for variable in text.returns.iter().chain(&text.params) {
            if variable.space == Space::Reg {
                let group = self.declare_registers(variable.name, variable.ty, None, 1)?;
                let register = self.fresh(variable.ty);
                self.named.insert((group, 0), register);
            } else {
                self.local_variable(variable)?;
            }
        }
        Ok(())
    }

    pub(super) fn run(mut self, text: &FunctionText<'a>) -> Result<Lowered<'a>> {
        for statement in text.body.iter().flatten() {
            self.statement(statement)?;
        }
        // Whoever falls off the end returns.
        self.guard = Guard::Always;
        self.emit(Op::Return);
        if self.types.len() > MAX_REGISTERS || self.fixups.len() > MAX_TARGETS {
            return Err(PtxError::new(
                text.line,
                format!("function `{}` has too many registers or branches", text.name),
            ));
        }
        self.resolve_labels()?;
        self.function.registers = self.types.len() as u32;
        self.function.seeds = self.seeds;
        self.function.local_bytes = self.local_bytes.next_multiple_of(16);
        Ok(Lowered {
            function: self.function,
            uses: self.uses,
            globals: self.globals,
            shared_bytes: self.shared_bytes,
        })
    }

    fn statement(&mut self, statement: &Statement<'a>) -> Result<()> {
        match statement {
            Statement::Open => {
                self.scopes.push(Scope { parent: self.scope, ..Scope::default() });
                self.scope = self.scopes.len() - 1;
                Ok(())
            }
            Statement::Close => {
                self.scope = self.scopes[self.scope].parent;
                Ok(())
            }
            Statement::Label { name, line } => {
                let at = self.code.len() as u32;
                match self.scopes[self.scope].labels.insert(name, at) {
                    None => Ok(()),
                    Some(_) => Err(PtxError::new(*line, format!("label `{name}` is set twice"))),
                }
            }
            Statement::Registers { ty, name, count, lanes } => {
                self.declare_registers(name, *ty, *count, *lanes).map(|_| ())
            }
            Statement::Variable(variable) => self.variable(variable),
            Statement::Targets { name, labels } => {
                self.define(name, Symbol::Targets(labels.clone()))
            }
            Statement::Instruction(instruction) => {
                if self.fixups.len() > MAX_TARGETS {
                    return Err(self.error("there are too many branches"));
                }
                self.instruction(instruction)
            }
        }
    }

    fn variable(&mut self, variable: &Variable<'a>) -> Result<()> {
        self.line = variable.line;
        let element_bytes = variable.ty.bytes();
        let symbol = match variable.space {
            Space::Local | Space::Param => return self.local_variable(variable),
            Space::Shared if variable.size == 0 => Symbol::DynamicShared { element_bytes },
            Space::Shared => {
                let offset = place_shared(&mut self.shared_bytes, variable)?;
                Symbol::Shared { offset, size: variable.size, element_bytes }
            }
            _ => {
                let index = self.outline.globals.len() + self.globals.len();
                self.globals.push(variable.clone());
                Symbol::Global { index, element_bytes }
            }
        };
        self.define(variable.name, symbol)
    }

    fn local_variable(&mut self, variable: &Variable<'a>) -> Result<()> {
        let Some(count) = variable.count else {
            let symbol = self.local_symbol(variable)?;
            return self.define(variable.name, symbol);
        };
        if count > MAX_NUMBERED {
            return Err(PtxError::new(
                variable.line,
                format!("`{}` stands for more than {MAX_NUMBERED} variables", variable.name),
            ));
        }
        for number in 0..count {
            let symbol = self.local_symbol(variable)?;
            let name = format!("{}{number}", variable.name);
            self.scopes[self.scope].numbered.insert(name, symbol);
        }
        Ok(())
    }

    fn local_symbol(&mut self, variable: &Variable<'a>) -> Result<Symbol<'a>> {
        let offset = local_offset(&mut self.local_bytes, variable);
        if self.local_bytes > MAX_LOCAL_BYTES {
            return Err(PtxError::new(
                variable.line,
                format!("local memory is over {MAX_LOCAL_BYTES} bytes a thread"),
            ));
        }
        let element_bytes = variable.ty.bytes();
        Ok(Symbol::Local { offset, size: variable.size, element_bytes })
    }

    /// A register no name refers to.
    pub(super) fn fresh(&mut self, ty: Ty) -> Reg {
        self.types.push(ty);
        self.types.len() as Reg - 1
    }

    pub(super) fn type_of(&self, register: Reg) -> Ty {
        self.types[register as usize]
    }

    /// The register that holds `seed` from the start.
    pub(super) fn constant(&mut self, seed: Seed, ty: Ty) -> Reg {
        if let Some(&register) = self.constants.get(&seed) {
            return register;
        }
        let register = self.fresh(ty);
        self.constants.insert(seed, register);
        self.seeds.push((register, seed));
        register
    }

    pub(super) fn bits(&mut self, value: u64) -> Reg {
        self.constant(Seed::Bits(value), Ty::B64)
    }

    /// The flag that `.cc` sets.
    pub(super) fn carry_register(&mut self) -> Reg {
        if let Some(register) = self.carry {
            return register;
        }
        let register = self.fresh(Ty::U32);
        self.carry = Some(register);
        register
    }

    pub(super) fn emit(&mut self, op: Op) {
        self.code.push(Inst { op, guard: self.guard });
    }

    pub(super) fn emit_alu(&mut self, f: AluFn, d: Reg, sources: [Reg; 3], k: u32) {
        let [a, b, c] = sources;
        self.emit(Op::Alu(f, Alu { d, a, b, c, k }));
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) -> Result<()> {
        self.line = instruction.line;
        self.text.clear();
        self.text.push_str(instruction.opcode);
        for modifier in &instruction.modifiers {
            self.text.push('.');
            self.text.push_str(modifier);
        }
        self.guard = Guard::Always;
        if let Some(guard) = instruction.guard {
            let register = self.register(guard.register).filter(|&r| self.type_of(r) == Ty::Pred);
            let register = register
                .ok_or_else(|| self.error(format!("`{}` is not a predicate", guard.register)))?;
            self.guard = if guard.negated { Guard::Unless(register) } else { Guard::If(register) };
        }
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let understood = self.arithmetic(instruction, &mut modifiers)?
            || self.logic(instruction, &mut modifiers)?
            || self.memory(instruction, &mut modifiers)?
            || self.flow(instruction, &mut modifiers)?
            || self.warp(instruction, &mut modifiers)?;
        if understood && modifiers.is_empty() { Ok(()) } else { Err(self.unknown()) }
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> PtxError {
        PtxError::new(self.line, reason)
    }

    /// The instruction is not one this interpreter runs.
    pub(super) fn unknown(&self) -> PtxError {
        self.error(format!("unknown instruction `{}`", self.text))
    }

    /// The operands of the instruction in hand are not what it takes.
    pub(super) fn misfit(&self, what: &str) -> PtxError {
        self.error(format!("`{}`: {what}", self.text))
    }

    /// The local places of the arguments of a call: names of `.param` variables.
    pub(super) fn local_place(&self, name: &str) -> Option<Place> {
        match self.lookup(name) {
            Some(&Symbol::Local { offset, size, .. }) => Some(Place::Local { offset, size }),
            _ => None,
        }
    }
}
