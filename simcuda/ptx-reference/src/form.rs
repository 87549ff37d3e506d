//! A form: one way to write an instruction (or a chain that shares the carry), and what it computes.

use crate::{bits, compare, convert, floats, ints};

/// What a register holds. Registers have no types here, only widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Predicate,
    B16,
    B32,
    B64,
}

impl Kind {
    /// All bits that a register of this kind has.
    pub(crate) fn mask(self) -> u64 {
        match self {
            Self::Predicate => 1,
            Self::B16 => 0xffff,
            Self::B32 => 0xffff_ffff,
            Self::B64 => u64::MAX,
        }
    }

    pub(crate) fn of_bits(bits: u32) -> Self {
        match bits {
            1 => Self::Predicate,
            8 | 16 => Self::B16,
            32 => Self::B32,
            _ => Self::B64,
        }
    }
}

/// How a constant may stand in place of a source register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Constants {
    None,
    Integers,
    Singles,
    Doubles,
}

/// A computation of two sources, in lists of opcodes that share their shape.
pub(crate) type Two = fn(u64, u64) -> u64;
pub(crate) type Compute = Box<dyn Fn(&[u64]) -> u64>;

/// `text` has `{d}` for the destination and `{0}`, `{1}`… for the sources.
pub struct Form {
    pub name: String,
    pub(crate) text: String,
    pub(crate) result: Kind,
    pub(crate) sources: Vec<Kind>,
    pub(crate) constants: Constants,
    /// Sources are zero-extended to 64 bits; the result is cut to its kind.
    pub(crate) compute: Compute,
}

impl std::fmt::Debug for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Form").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Form {
    /// The plain shape: opcode, destination, sources.
    pub(crate) fn plain(
        name: impl Into<String>,
        result: Kind,
        sources: &[Kind],
        compute: impl Fn(&[u64]) -> u64 + 'static,
    ) -> Self {
        let name = name.into();
        let operands: String = (0..sources.len()).map(|i| format!(", {{{i}}}")).collect();
        let text = format!("{name} {{d}}{operands};");
        Self::written(name, text, result, sources, compute)
    }

    pub(crate) fn written(
        name: impl Into<String>,
        text: impl Into<String>,
        result: Kind,
        sources: &[Kind],
        compute: impl Fn(&[u64]) -> u64 + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            result,
            sources: sources.to_vec(),
            constants: Constants::None,
            compute: Box::new(compute),
        }
    }

    pub(crate) fn with(mut self, constants: Constants) -> Self {
        self.constants = constants;
        self
    }
}

/// All computing forms that are known here, always in the same order.
pub fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    ints::add_forms(&mut forms);
    bits::add_forms(&mut forms);
    floats::add_forms(&mut forms);
    compare::add_forms(&mut forms);
    convert::add_forms(&mut forms);
    forms
}
