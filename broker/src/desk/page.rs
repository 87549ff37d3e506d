//! The desk's part in the pages: words that the core wants written.

use halfwarp_broker_core::Action;

use super::Inner;

impl Inner {
    /// Writes what one action says into the page of its process, if it has one.
    pub(super) fn write_page(&self, action: &Action) {
        let client = match action {
            Action::Headcount { client, .. } => client,
            Action::Gate { at, .. }
            | Action::Residency { at, .. }
            | Action::Limit { at, .. }
            | Action::Exhausted { at, .. } => &at.client,
            _ => return,
        };
        let Some(pages) = self.pages(*client) else { return };
        match action {
            Action::Headcount { processes, .. } => pages.set_processes(*processes),
            Action::Gate { at, words } => pages.set_lease(at.slot, *words),
            Action::Residency { at, words } => pages.set_residency(at.slot, *words),
            Action::Limit { at, limit_units } => pages.set_limit(at.slot, *limit_units),
            Action::Exhausted { at, units } => pages.set_exhausted(at.slot, *units),
            _ => {}
        }
    }
}
