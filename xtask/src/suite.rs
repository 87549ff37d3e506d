//! `cargo xtask test` and `ci`: everything that a machine without a GPU can check, in order.
//!
//! A step that fails does not stop the ones after it; the last line counts them all.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::command::{cargo, run, target};
use crate::outcome::{Count, SkipKind};
use crate::tools::{Purpose, Venv};
use crate::{artefacts, docs, strangers, supply, symbols, tidy};

/// Crates that plain `cargo clippy` leaves out: they export what a test binary must not.
const CDYLIBS: &[&str] =
    &["halfwarp-core", "simcuda-driver", "simcuda-nvml", "simcuda-cudart", "halfwarp-benches"];

pub(crate) fn test(count: &mut Count) -> Result<()> {
    count.check("build", || artefacts::build().map(|_| ()));
    count.check("build: programs of other languages", strangers::build);
    count.check("format", || run(cargo().args(["fmt", "--all", "--check"])));
    count.check("clippy", || run(clippy().args(["--all-targets", "--", "-D", "warnings"])));
    count.check("clippy: stage one", || {
        let stage_one = ["--package", "halfwarp-stage1", "--profile", "guest"];
        run(clippy().args(stage_one).args(["--", "-D", "warnings"]))
    });
    count.check("clippy: the other libraries", || {
        let mut clippy = clippy();
        for package in CDYLIBS {
            clippy.args(["--package", package]);
        }
        run(clippy.args(["--all-targets", "--", "-D", "warnings"]))
    });
    count.check("tidy", tidy::check);
    count.check("docs: generated parts are current", docs::check);
    supply::check(count);
    symbols::check(count)?;
    count.check("loom: the ledger under every order of threads", || {
        let mut loom = cargo();
        loom.args(["test", "--quiet", "--package", "halfwarp-gate", "--release", "--lib"]);
        run(loom.arg("--target-dir").arg(target().join("loom")).env("RUSTFLAGS", "--cfg loom"))
    });
    cargo_test(count)
}

fn clippy() -> Command {
    let mut clippy = cargo();
    clippy.args(["clippy", "--quiet"]);
    clippy
}

/// `cargo test` with what the tests need beside their own crates, each test counted.
fn cargo_test(count: &mut Count) -> Result<()> {
    let skips = target().join("skips.tsv");
    fs::write(&skips, "")?;
    let mut test = cargo();
    test.args(["test", "--no-fail-fast"])
        .env("HALFWARP_ARTEFACTS", artefacts::folder())
        .env("HALFWARP_SKIPS", &skips)
        .stdout(Stdio::piped());
    if let Ok(venv) = Venv::for_purpose(Purpose::Test) {
        test.env("HALFWARP_PYTHON", venv.python());
    }
    let mut child = test.spawn().context("starting cargo test")?;
    let stdout = child.stdout.take().context("cargo test without stdout")?;
    let mut tally = Tally::default();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        tally.note(&line);
    }
    let status = child.wait()?;
    if !status.success() && tally.failed.is_empty() {
        tally
            .failed
            .push("cargo test: a test program did not build or did not end well".to_owned());
    }
    count.passed += tally.passed;
    count.failed.extend(tally.failed);
    count_skips(count, &skips)
}

/// Tests that could not check anything say so in a file: to cargo they have passed.
fn count_skips(count: &mut Count, skips: &Path) -> Result<()> {
    for line in fs::read_to_string(skips)?.lines() {
        let mut columns = line.splitn(3, '\t');
        let (Some(kind), Some(name), Some(reason)) =
            (columns.next(), columns.next(), columns.next())
        else {
            anyhow::bail!("{} has a line that is no skip: {line:?}", skips.display());
        };
        count.passed = count.passed.saturating_sub(1);
        count.skip(name, kind.parse::<SkipKind>()?, reason);
    }
    Ok(())
}

/// What `cargo test` prints, counted.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: Vec<String>,
}

impl Tally {
    fn note(&mut self, line: &str) {
        if let Some(name) =
            line.trim().strip_prefix("test ").and_then(|l| l.strip_suffix(" ... FAILED"))
        {
            self.failed.push(name.to_owned());
        } else if line.starts_with("test ") && line.ends_with(" ... ok") {
            self.passed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_test_program_counts_once() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "test c ... FAILED",
            "test d ... ok",
            "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            tally.note(line);
        }
        assert_eq!((tally.passed, tally.failed), (2, vec!["c".to_owned()]));
    }
}
