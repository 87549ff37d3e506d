//! A failure of our own, in the one form all of them have: what was tried, what was found, what to
//! do. Not the program's failure: its exit code is passed on.

use std::{fmt, io};

#[derive(Debug)]
pub(crate) enum Failure {
    Said {
        tried: String,
        found: String,
        help: String,
    },
    /// Whoever read our output has closed it (`halfwarp events | head`): the end, and no error.
    ReaderGone,
}

impl Failure {
    pub(crate) fn new(
        tried: impl Into<String>,
        found: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self::Said { tried: tried.into(), found: found.into(), help: help.into() }
    }

    /// A failed system call, with the help that goes with its kind.
    pub(crate) fn io(tried: impl Into<String>, error: &io::Error, help: &str) -> Self {
        let help = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on that disk",
            io::ErrorKind::ReadOnlyFilesystem => {
                "name a writable directory with --broker or XDG_RUNTIME_DIR"
            }
            _ => help,
        };
        Self::new(tried, error.to_string(), help)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said { tried, found, help } => {
                write!(f, "{tried}: {found}")?;
                if help.is_empty() { Ok(()) } else { write!(f, "; {help}") }
            }
            Self::ReaderGone => f.write_str("whoever read the output has gone"),
        }
    }
}
