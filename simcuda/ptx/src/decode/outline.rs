//! The module level of one text or of several that are linked: which variables and functions exist,
//! what each name means in each text, where shared memory lies.

use std::collections::HashMap;

use super::lower::Symbol;
use super::{Outline, Signature, local_offset, place_shared};
use crate::ast::{FunctionText, Linkage, Source, Variable};
use crate::error::{LinkError, PtxError, Result};
use crate::program::Place;
use crate::types::Space;

/// One text of those that are linked.
pub(crate) struct Unit<'a> {
    pub(crate) name: &'a str,
    pub(crate) source: Source<'a>,
}

pub(super) type Symbols<'a> = HashMap<&'a str, Symbol<'a>>;

/// The definition that a name means in other texts.
#[derive(Clone, Copy)]
struct Export {
    unit: usize,
    linkage: Linkage,
    size: usize,
}

type Exports<'a> = HashMap<&'a str, Export>;

pub(super) fn outline<'a>(units: &[Unit<'a>]) -> Result<Outline<'a>, LinkError> {
    let exports = exports(units)?;
    let mut outline = Outline::default();
    let in_unit =
        |index: usize| move |error| LinkError::Text { unit: units[index].name.to_owned(), error };
    for (index, unit) in units.iter().enumerate() {
        outline.symbols.push(HashMap::new());
        for variable in &unit.source.variables {
            let linkage = variable.linkage;
            if linkage != Linkage::External && is_chosen(&exports, variable.name, linkage, index) {
                outline.variable(index, variable).map_err(in_unit(index))?;
            }
        }
        for (text, linkage) in defined_here(unit) {
            if is_chosen(&exports, text.name, linkage, index) {
                outline.declare(index, text).map_err(in_unit(index))?;
            }
        }
    }
    for (index, unit) in units.iter().enumerate() {
        outline.foreign(index, unit, &exports).map_err(in_unit(index))?;
    }
    outline.winners = exports.iter().map(|(name, export)| (*name, export.unit)).collect();
    Ok(outline)
}

/// All that the text says about functions whose body it has, with the linkage of that body.
fn defined_here<'u, 'a>(
    unit: &'u Unit<'a>,
) -> impl Iterator<Item = (&'u FunctionText<'a>, Linkage)> {
    let functions = &unit.source.functions;
    let bodies: HashMap<&str, Linkage> = functions
        .iter()
        .filter(|text| text.body.is_some())
        .map(|text| (text.name, linkage_of(text)))
        .collect();
    functions.iter().filter_map(move |text| Some((text, *bodies.get(text.name)?)))
}

/// How a definition is seen from other texts. The host finds kernels by name, whatever they say of
/// themselves.
fn linkage_of(text: &FunctionText<'_>) -> Linkage {
    match text.linkage {
        Linkage::Local if text.entry => Linkage::Visible,
        linkage => linkage,
    }
}

/// Whether this text's definition of `name` is the one that counts: its own, or the chosen one.
fn is_chosen(exports: &Exports<'_>, name: &str, linkage: Linkage, unit: usize) -> bool {
    linkage == Linkage::Local || exports.get(name).is_none_or(|export| export.unit == unit)
}

/// Which text's definition each name means outside: a strong one before a weak one, the first of
/// several weak ones, the largest of several common ones.
fn exports<'a>(units: &[Unit<'a>]) -> Result<Exports<'a>, LinkError> {
    let mut exports = HashMap::new();
    for (unit, text) in units.iter().enumerate() {
        for variable in &text.source.variables {
            let Variable { name, linkage, size, .. } = *variable;
            claim(&mut exports, units, name, Export { unit, linkage, size })?;
        }
        for function in text.source.functions.iter().filter(|text| text.body.is_some()) {
            let linkage = linkage_of(function);
            claim(&mut exports, units, function.name, Export { unit, linkage, size: 0 })?;
        }
    }
    Ok(exports)
}

fn claim<'a>(
    exports: &mut Exports<'a>,
    units: &[Unit<'a>],
    name: &'a str,
    new: Export,
) -> Result<(), LinkError> {
    use Linkage::{Common, External, Local, Visible, Weak};
    if matches!(new.linkage, Local | External) {
        return Ok(());
    }
    let Some(old) = exports.get_mut(name) else {
        exports.insert(name, new);
        return Ok(());
    };
    match (old.linkage, new.linkage) {
        // Twice in one text is that text's own error.
        _ if old.unit == new.unit => {}
        (Visible, Visible) => {
            return Err(LinkError::Duplicate {
                symbol: name.to_owned(),
                first: units[old.unit].name.to_owned(),
                second: units[new.unit].name.to_owned(),
            });
        }
        (Weak | Common, Visible) | (Weak, Common) => *old = new,
        (Common, Common) if new.size > old.size => *old = new,
        _ => {}
    }
    Ok(())
}

impl<'a> Outline<'a> {
    fn variable(&mut self, unit: usize, variable: &Variable<'a>) -> Result<()> {
        let element_bytes = variable.ty.bytes();
        let symbol = match variable.space {
            Space::Shared if variable.size == 0 => Symbol::DynamicShared { element_bytes },
            Space::Shared => {
                let offset = place_shared(&mut self.shared_bytes, variable)?;
                Symbol::Shared { offset, size: variable.size, element_bytes }
            }
            _ => {
                self.globals.push((unit, variable.clone()));
                Symbol::Global { index: self.globals.len() - 1, element_bytes }
            }
        };
        self.define(unit, variable.name, symbol, variable.line)
    }

    fn define(&mut self, unit: usize, name: &'a str, symbol: Symbol<'a>, line: u32) -> Result<()> {
        match self.symbols[unit].insert(name, symbol) {
            None => Ok(()),
            Some(_) => Err(PtxError::new(line, format!("`{name}` is defined twice"))),
        }
    }

    /// A function may be declared any number of times and defined once.
    fn declare(&mut self, unit: usize, text: &FunctionText<'a>) -> Result<()> {
        let twice = || PtxError::new(text.line, format!("`{}` is defined twice", text.name));
        let known = match self.symbols[unit].get(text.name) {
            Some(Symbol::Function(index)) => Some(*index),
            Some(_) => return Err(twice()),
            None => None,
        };
        let mut signature = signature(text);
        let Some(index) = known else {
            let index = self.signatures.len();
            self.symbols[unit].insert(text.name, Symbol::Function(index));
            self.signatures.push(signature);
            return Ok(());
        };
        if !signature.external && !self.signatures[index].external {
            return Err(twice());
        }
        signature.external &= self.signatures[index].external;
        if !signature.external && text.body.is_some() {
            self.signatures[index] = signature;
        }
        Ok(())
    }

    /// What a text names and another one has, or nobody.
    fn foreign(&mut self, index: usize, unit: &Unit<'a>, exports: &Exports<'a>) -> Result<()> {
        let elsewhere = |outline: &Self, name: &str| {
            let export = exports.get(name).filter(|export| export.unit != index)?;
            outline.symbols[export.unit].get(name).cloned()
        };
        for variable in &unit.source.variables {
            if self.symbols[index].contains_key(variable.name) {
                continue;
            }
            if let Some(symbol) = elsewhere(self, variable.name) {
                self.symbols[index].insert(variable.name, symbol);
            } else if variable.linkage == Linkage::External {
                let element_bytes = variable.ty.bytes();
                let symbol = match variable.space {
                    Space::Shared => Symbol::DynamicShared { element_bytes },
                    _ => Symbol::Undefined,
                };
                self.symbols[index].insert(variable.name, symbol);
            }
        }
        for text in &unit.source.functions {
            match self.symbols[index].get(text.name) {
                Some(Symbol::Function(known)) if !self.signatures[*known].external => {}
                _ => match elsewhere(self, text.name) {
                    Some(symbol) => drop(self.symbols[index].insert(text.name, symbol)),
                    None => self.declare(index, text)?,
                },
            }
        }
        Ok(())
    }

    /// Whether this text's body of a function is the one that is used.
    pub(super) fn uses_body(&self, unit: usize, text: &FunctionText<'_>) -> bool {
        linkage_of(text) == Linkage::Local
            || self.winners.get(text.name).is_none_or(|&winner| winner == unit)
    }
}

/// Results first, then parameters, each at its alignment: in registers of its own or in the
/// frame's local memory. `Lowering` lays them out the same way.
fn signature<'a>(text: &FunctionText<'a>) -> Signature<'a> {
    let (mut local, mut registers) = (0, 0);
    let mut place = |variable: &Variable<'_>| {
        if variable.space == Space::Reg {
            registers += 1;
            return Place::Register(registers - 1);
        }
        let offset = local_offset(&mut local, variable);
        Place::Local { offset, size: variable.size }
    };
    let returns = text.returns.iter().map(&mut place).collect();
    let params = if text.entry { Vec::new() } else { text.params.iter().map(place).collect() };
    Signature { name: text.name, external: text.body.is_none(), params, returns }
}
