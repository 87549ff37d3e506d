//! Why a PTX text was refused: the line and the reason. Not what goes wrong while a kernel runs
//! (`Fault` in `lib.rs`).

use std::fmt;

/// A refusal of a PTX text, with the line (from 1) it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxError {
    pub line: u32,
    pub reason: String,
}

impl PtxError {
    pub(crate) fn new(line: u32, reason: impl Into<String>) -> Self {
        Self { line, reason: reason.into() }
    }
}

impl fmt::Display for PtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ptx line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for PtxError {}

pub(crate) type Result<T> = std::result::Result<T, PtxError>;
