//! Why a PTX text was refused: the line and the reason. Not what goes wrong while a kernel runs
//! (`Fault` in `lib.rs`). Likewise why several could not be linked.

use std::fmt;

/// A refusal of a PTX text, with the line (from 1) it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxError {
    pub line: u32,
    pub reason: String,
    /// The name that another text would have to define.
    undefined: Option<String>,
}

impl PtxError {
    pub(crate) fn new(line: u32, reason: impl Into<String>) -> Self {
        Self { line, reason: reason.into(), undefined: None }
    }

    /// Something is used that is only declared.
    pub(crate) fn undefined(line: u32, name: &str) -> Self {
        let reason = format!("`{name}` has no definition in this module");
        Self { line, reason, undefined: Some(name.to_owned()) }
    }
}

impl fmt::Display for PtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ptx line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for PtxError {}

/// Why texts could not be made into one module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// One of the texts is refused for itself.
    Text { unit: String, error: PtxError },
    /// A name is used that none of the texts defines.
    Undefined { symbol: String, unit: String, line: u32 },
    /// Two texts define a name that both make visible.
    Duplicate { symbol: String, first: String, second: String },
}

impl LinkError {
    pub(crate) fn of(unit: &str, error: PtxError) -> Self {
        let unit = unit.to_owned();
        let line = error.line;
        match error.undefined {
            Some(symbol) => Self::Undefined { symbol, unit, line },
            None => Self::Text { unit, error },
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { unit, error } => write!(f, "{unit}: {error}"),
            Self::Undefined { symbol, unit, .. } => {
                write!(f, "`{symbol}`, which `{unit}` refers to, is defined nowhere")
            }
            Self::Duplicate { symbol, first, second } => {
                write!(f, "`{symbol}` is defined both in `{first}` and in `{second}`")
            }
        }
    }
}

impl std::error::Error for LinkError {}

pub(crate) type Result<T, E = PtxError> = std::result::Result<T, E>;
