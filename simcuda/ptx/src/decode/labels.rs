//! Labels: where branches go, known or not when the branch is lowered. A label is seen from its
//! block and the blocks inside it.

use super::lower::Lowering;
use crate::error::{PtxError, Result};
use crate::program::Op;

/// A branch whose label was not known when it was written.
pub(super) struct Fixup<'a> {
    at: usize,
    /// Which entry of an indexed branch; 0 otherwise.
    slot: usize,
    scope: usize,
    label: &'a str,
    line: u32,
}

impl<'a> Lowering<'_, 'a> {
    /// A branch to `label`, now or when it becomes known.
    pub(super) fn emit_branch(&mut self, label: &'a str) {
        self.fix(self.code.len(), 0, label);
        self.emit(Op::Branch { target: 0 });
    }

    pub(super) fn fix(&mut self, at: usize, slot: usize, label: &'a str) {
        self.fixups.push(Fixup { at, slot, scope: self.scope, label, line: self.line });
    }

    pub(super) fn resolve_labels(&mut self) -> Result<()> {
        for fixup in std::mem::take(&mut self.fixups) {
            let mut scope = fixup.scope;
            let target = loop {
                if let Some(&target) = self.scopes[scope].labels.get(fixup.label) {
                    break target;
                }
                if scope == 0 {
                    return Err(PtxError::new(
                        fixup.line,
                        format!("there is no label `{}`", fixup.label),
                    ));
                }
                scope = self.scopes[scope].parent;
            };
            match &mut self.code[fixup.at].op {
                Op::Branch { target: slot } => *slot = target,
                Op::BranchIndexed { targets, .. } => targets[fixup.slot] = target,
                _ => {}
            }
        }
        Ok(())
    }
}
