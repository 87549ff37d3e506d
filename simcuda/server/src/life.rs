//! How long a machine has lived, and whether it is to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Life {
    /// As it was named at the start.
    pub(crate) profile: String,
    pub(crate) since: Instant,
    /// Stays without clients.
    pub(crate) stays: bool,
    ending: AtomicBool,
}

impl Life {
    pub(crate) fn new(profile: String, stays: bool) -> Self {
        Self { profile, since: Instant::now(), stays, ending: AtomicBool::new(false) }
    }

    /// The server ends at its next look.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
}
