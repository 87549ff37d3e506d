//! A PTX text as written: declarations, functions and instructions with their operands still by
//! name. Nothing is resolved or checked against the instruction set here.

use crate::types::{Space, Ty};

/// What a module declares, in order.
#[derive(Debug, Default)]
pub(crate) struct Source<'a> {
    pub(crate) variables: Vec<Variable<'a>>,
    pub(crate) functions: Vec<FunctionText<'a>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Variable<'a> {
    pub(crate) name: &'a str,
    pub(crate) line: u32,
    pub(crate) space: Space,
    pub(crate) ty: Ty,
    pub(crate) align: usize,
    pub(crate) size: usize,
    pub(crate) init: Vec<Init<'a>>,
    pub(crate) linkage: Linkage,
    /// `name<2>`: stands for `name0` and `name1`.
    pub(crate) count: Option<u64>,
}

/// Who may mean a variable or function of a module by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Linkage {
    /// Only its own text.
    #[default]
    Local,
    Visible,
    /// Gives way to a visible one.
    Weak,
    /// Of several the largest stands for all.
    Common,
    /// Declared here, defined elsewhere.
    External,
}

/// One element of an initialiser.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Init<'a> {
    Bits(u64),
    Address { of: &'a str, addend: u64 },
}

#[derive(Debug)]
pub(crate) struct FunctionText<'a> {
    pub(crate) name: &'a str,
    pub(crate) line: u32,
    pub(crate) entry: bool,
    pub(crate) linkage: Linkage,
    pub(crate) returns: Vec<Variable<'a>>,
    pub(crate) params: Vec<Variable<'a>>,
    pub(crate) max_threads: Option<u32>,
    /// None for a declaration.
    pub(crate) body: Option<Vec<Statement<'a>>>,
}

#[derive(Debug)]
pub(crate) enum Statement<'a> {
    Open,
    Close,
    Label {
        name: &'a str,
        line: u32,
    },
    Registers {
        ty: Ty,
        name: &'a str,
        count: Option<u64>,
        /// 2 or 4 of a vector, else 1.
        lanes: usize,
    },
    Variable(Variable<'a>),
    /// `name: .branchtargets a, b, c;`
    Targets {
        name: &'a str,
        labels: Vec<&'a str>,
    },
    Instruction(Instruction<'a>),
}

#[derive(Debug)]
pub(crate) struct Instruction<'a> {
    pub(crate) line: u32,
    pub(crate) guard: Option<Guard<'a>>,
    pub(crate) opcode: &'a str,
    pub(crate) modifiers: Vec<&'a str>,
    pub(crate) operands: Vec<Operand<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard<'a> {
    pub(crate) register: &'a str,
    pub(crate) negated: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Operand<'a> {
    Name(&'a str),
    /// `!%p`
    Not(&'a str),
    /// `%tid.x`
    Member(&'a str, &'a str),
    /// `%p|%q`
    Pair(&'a str, &'a str),
    /// `name[3]`: an element's address.
    Element(&'a str, u64),
    /// `name+8`: an address some bytes on.
    Offset(&'a str, u64),
    Int(u64),
    Single(u32),
    Double(u64),
    /// `[base+offset]`
    Address {
        base: Base<'a>,
        offset: u64,
    },
    /// `{a, b}`
    Vector(Vec<Self>),
    /// `(a, b)` of a call.
    List(Vec<Self>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Base<'a> {
    Name(&'a str),
    Absolute,
}
