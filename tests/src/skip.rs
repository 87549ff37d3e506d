//! A test that cannot check anything here says so: cargo counts it as passed, `cargo xtask test` reads
//! the note and counts it as skipped.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Why; `cargo xtask test` knows these words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkipKind {
    /// A package that pip brings is not there.
    Registry,
    /// Needs an NVIDIA GPU.
    Gpu,
    /// Needs rights or a kernel that this machine does not give.
    Machine,
    /// Fails today, as `tests/known-failing.toml` says.
    KnownFailing,
}

/// Notes that the test of this name has checked nothing.
///
/// # Panics
///
/// If the note cannot be written: an uncounted skip would look like a pass.
pub fn skip(test: &str, kind: SkipKind, reason: &str) {
    let kind = match kind {
        SkipKind::Registry => "registry",
        SkipKind::Gpu => "gpu",
        SkipKind::Machine => "machine",
        SkipKind::KnownFailing => "known-failing",
    };
    let reason = reason.replace(['\n', '\t'], " ");
    eprintln!("skipped, {kind}: {test}: {reason}");
    let Some(file) = std::env::var_os("HALFWARP_SKIPS") else { return };
    let mut notes =
        OpenOptions::new().append(true).open(file).expect("HALFWARP_SKIPS names a file");
    // One write a line: several tests may note at once.
    notes.write_all(format!("{kind}\t{test}\t{reason}\n").as_bytes()).expect("a skip can be noted");
}
