//! `cargo xtask device`: the checks that need an NVIDIA GPU.
//!
//! `--pack` gathers what such a machine needs, which may have no compiler, into one archive. Without
//! `--pack` it runs on the machine it is called on, and where there is no GPU it checks nothing and
//! says so.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::artefacts;
use crate::command::{cargo, output, root, run, target};

/// The driver's control node: there is no NVIDIA GPU to use without it.
const CONTROL_NODE: &str = "/dev/nvidiactl";
const NO_GPU: u8 = 2;

pub(crate) fn check(pack_only: bool) -> Result<ExitCode> {
    if pack_only {
        let archive = pack()?;
        println!("packed {}", archive.display());
        return Ok(ExitCode::SUCCESS);
    }
    if !Path::new(CONTROL_NODE).exists() {
        println!("no NVIDIA GPU here ({CONTROL_NODE} does not exist): nothing was checked");
        println!(
            "on a machine that has one, unpack what `cargo xtask device --pack` makes and run ./check"
        );
        return Ok(ExitCode::from(NO_GPU));
    }
    let folder = gather()?;
    println!("checks on this GPU: {}", checks().join(", "));
    run(Command::new("bash").arg("check").current_dir(&folder))?;
    Ok(ExitCode::SUCCESS)
}

/// Everything beside the driver: artefacts, the test program, a script that runs it.
fn pack() -> Result<PathBuf> {
    let folder = gather()?;
    let archive = target().join("halfwarp-device.tar.gz");
    run(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&folder).arg("."))?;
    Ok(archive)
}

fn gather() -> Result<PathBuf> {
    let hw = artefacts::build()?;
    let folder = target().join("device");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    run(Command::new("cp").arg("-a").arg(&hw).arg(folder.join("hw")))?;
    std::fs::copy(test_program()?, folder.join("cases"))?;
    // The real driver is asked, so the simulated one stays at home.
    std::fs::remove_dir_all(folder.join("hw/sim"))?;
    std::fs::write(
        folder.join("check"),
        format!(
            "#!/bin/bash\n# Runs every case that a GPU can check, one at a time.\ncd \"$(dirname \"$0\")\" || exit 2\n\
             [ -e {CONTROL_NODE} ] || {{ echo 'no NVIDIA GPU here'; exit {NO_GPU}; }}\n\
             HALFWARP_ARTEFACTS=$PWD/hw HALFWARP_DEVICE=1 exec ./cases --test-threads=1\n"
        ),
    )?;
    Ok(folder)
}

#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

/// Where cargo put the program that runs the C cases.
fn test_program() -> Result<PathBuf> {
    let messages = output(cargo().args([
        "test",
        "--quiet",
        "--package",
        "halfwarp-tests",
        "--test",
        "cases",
        "--no-run",
        "--message-format",
        "json",
    ]))?;
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok()?.executable)
        .next_back()
        .context("cargo named no test program for `cases`")
}

/// Names of the C cases, each of which runs on a card as it does on the simulated one.
fn checks() -> Vec<String> {
    let files = std::fs::read_dir(root().join("tests/cases/c")).into_iter().flatten().flatten();
    let mut names: Vec<String> = files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}
