//! Counting what passed, failed and could not be checked, and saying so at the end.
//!
//! A check that is skipped has a kind. In CI, what a registry could have brought is no excuse.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;

/// Why a check was not made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SkipKind {
    /// A package that pip or cargo brings is not there.
    Registry,
    /// Needs an NVIDIA GPU.
    Gpu,
    /// Needs rights or a kernel that this machine does not give.
    Machine,
    /// Fails today; `tests/known-failing.toml` says why.
    KnownFailing,
}

impl fmt::Display for SkipKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Registry => "a package could not be fetched",
            Self::Gpu => "no NVIDIA GPU here",
            Self::Machine => "this machine does not allow it",
            Self::KnownFailing => "known to fail, see tests/known-failing.toml",
        })
    }
}

impl std::str::FromStr for SkipKind {
    type Err = anyhow::Error;

    /// As `tests/` writes it into the file of skips.
    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "registry" => Self::Registry,
            "gpu" => Self::Gpu,
            "machine" => Self::Machine,
            "known-failing" => Self::KnownFailing,
            other => anyhow::bail!("{other:?} is no kind of skip"),
        })
    }
}

/// The running count of one command.
#[derive(Default, Debug)]
pub(crate) struct Count {
    pub(crate) passed: usize,
    pub(crate) failed: Vec<String>,
    skipped: BTreeMap<SkipKind, Vec<String>>,
}

impl Count {
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        match check() {
            Ok(()) => {
                println!("ok    {name}");
                self.passed += 1;
            }
            Err(error) => {
                println!("FAIL  {name}\n      {}", format!("{error:#}").replace('\n', "\n      "));
                self.failed.push(name.to_owned());
            }
        }
    }

    pub(crate) fn skip(&mut self, name: &str, kind: SkipKind, reason: &str) {
        if kind == SkipKind::Registry && in_ci() {
            println!("FAIL  {name}\n      {reason}");
            self.failed.push(name.to_owned());
            return;
        }
        println!("skip  {name}: {reason}");
        self.skipped.entry(kind).or_default().push(name.to_owned());
    }

    /// Prints the summary, its last line alone and in the form that tools read; true if all is well.
    pub(crate) fn finish(&self) -> bool {
        println!();
        for name in &self.failed {
            println!("failed: {name}");
        }
        for (kind, names) in &self.skipped {
            println!("skipped, {kind}: {} ({})", names.len(), names.join(", "));
        }
        let skipped: usize = self.skipped.values().map(Vec::len).sum();
        println!("{} passed, {} failed, {skipped} skipped", self.passed, self.failed.len());
        self.failed.is_empty()
    }
}

pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}
