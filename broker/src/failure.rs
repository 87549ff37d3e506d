//! Why the broker could not serve: what was tried, what was found, what to do.

use std::fmt;

#[derive(Debug)]
pub(crate) struct Failure {
    tried: String,
    found: String,
    help: String,
}

impl Failure {
    pub(crate) fn new(
        tried: impl Into<String>,
        found: impl fmt::Display,
        help: impl Into<String>,
    ) -> Self {
        Self { tried: tried.into(), found: found.to_string(), help: help.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.tried, self.found, self.help)
    }
}

impl std::error::Error for Failure {}
