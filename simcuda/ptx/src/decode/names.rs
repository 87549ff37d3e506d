//! Names inside a function: what they mean in a scope, and which register they are, alone, as one of a
//! numbered group, or as a part of a vector.

use super::lower::{Lowering, Symbol};
use crate::ast::Operand;
use crate::error::Result;
use crate::lanes::Reg;
use crate::types::Ty;

/// The registers of a vector, in order.
const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];
/// Digits of a register's number: no group is larger than 64 bits can say.
const MAX_DIGITS: usize = 20;
impl<'a> Lowering<'_, 'a> {
    pub(super) fn declare_registers(
        &mut self,
        name: &'a str,
        ty: Ty,
        count: Option<u64>,
        lanes: usize,
    ) -> Result<u32> {
        let group = self.groups;
        self.groups += 1;
        self.define(name, Symbol::Registers { ty, group, count, lanes })?;
        Ok(group)
    }

    pub(super) fn define(&mut self, name: &'a str, symbol: Symbol<'a>) -> Result<()> {
        match self.scopes[self.scope].symbols.insert(name, symbol) {
            None => Ok(()),
            Some(_) => Err(self.error(format!("`{name}` is defined twice"))),
        }
    }

    /// What `name` means here: the innermost scope first, the module last.
    pub(super) fn lookup(&self, name: &str) -> Option<&Symbol<'a>> {
        let mut scope = self.scope;
        loop {
            let here = &self.scopes[scope];
            if let Some(symbol) = here.symbols.get(name).or_else(|| here.numbered.get(name)) {
                return Some(symbol);
            }
            if scope == 0 {
                return self.outline.symbols[self.unit].get(name);
            }
            scope = self.scopes[scope].parent;
        }
    }

    /// The register `name`, declared alone or as one of a numbered group.
    pub(super) fn register(&mut self, name: &str) -> Option<Reg> {
        if let Some(&Symbol::Registers { ty, group, count: None, lanes: 1 }) = self.lookup(name) {
            return Some(self.numbered(group, 0, ty));
        }
        let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        // `%r1<10>` declares `%r10` to `%r19`: the number may be any tail of the digits.
        for split in digits.max(name.len().saturating_sub(MAX_DIGITS))..name.len() {
            let (prefix, number) = name.split_at(split);
            if number.len() > 1 && number.starts_with('0') {
                continue;
            }
            if let Some(&Symbol::Registers { ty, group, count: Some(count), .. }) =
                self.lookup(prefix)
                && let Ok(number) = number.parse::<u64>()
                && number < count
            {
                return Some(self.numbered(group, number, ty));
            }
        }
        None
    }

    /// One register of a vector.
    pub(super) fn component(&mut self, name: &str, member: &str) -> Option<Reg> {
        let Some(&Symbol::Registers { ty, group, count: None, lanes }) = self.lookup(name) else {
            return None;
        };
        let index = COMPONENTS.iter().position(|c| *c == member).filter(|index| *index < lanes)?;
        (lanes > 1).then(|| self.numbered(group, index as u64, ty))
    }

    /// The registers of a vector, or none if `name` is not one.
    pub(super) fn components(&self, name: &'a str) -> Option<Vec<Operand<'a>>> {
        match self.lookup(name) {
            Some(Symbol::Registers { lanes, .. }) if *lanes > 1 => Some(
                COMPONENTS[..*lanes].iter().map(|member| Operand::Member(name, member)).collect(),
            ),
            _ => None,
        }
    }

    /// Only registers that are used get a row.
    pub(super) fn numbered(&mut self, group: u32, number: u64, ty: Ty) -> Reg {
        if let Some(&register) = self.named.get(&(group, number)) {
            return register;
        }
        let register = self.fresh(ty);
        self.named.insert((group, number), register);
        register
    }
}
