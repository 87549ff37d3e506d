//! `cargo xtask device`: the checks that need an NVIDIA GPU.
//!
//! `--pack` gathers what such a machine needs, which may have no compiler, into one archive. Without
//! `--pack` it runs on the machine it is called on, and where there is no GPU it checks nothing and
//! says so.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::artefacts;
use crate::command::{cargo, output, root, run, target};

/// The driver's control node: there is no NVIDIA GPU to use without it.
const CONTROL_NODE: &str = "/dev/nvidiactl";
const NO_GPU: u8 = 2;

/// What a machine with a GPU runs: the host's state, for the reader; every case that a GPU can check,
/// one at a time; the demo.
const CHECK: &str = r#"#!/bin/bash
# Checks Halfwarp on this machine's GPU. Needs NVIDIA's driver and nothing else.
cd "$(dirname "$0")" || exit 2
[ -e /dev/nvidiactl ] || { echo 'no NVIDIA GPU here'; exit 2; }
export HALFWARP_ARTEFACTS=$PWD/hw HALFWARP_DEVICE=1
failed=0
hw/halfwarp doctor || echo 'doctor found what is marked fail'
./cases --test-threads=1 || failed=1
hw/halfwarp demo || failed=1
exit $failed
"#;
/// What a pack may weigh.
const PACK_BYTES: u64 = 60 << 20;

pub(crate) fn check(pack_only: bool) -> Result<ExitCode> {
    if pack_only {
        pack()?;
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
fn pack() -> Result<()> {
    let folder = gather()?;
    let archive = target().join("halfwarp-device.tar.gz");
    run(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&folder).arg("."))?;
    let bytes = std::fs::metadata(&archive)?.len();
    println!("{:>10} KiB  {}", bytes.div_ceil(1024), archive.display());
    ensure!(bytes <= PACK_BYTES, "the pack has {bytes} bytes, more than {PACK_BYTES}");
    Ok(())
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
    let script = folder.join("check");
    std::fs::write(&script, CHECK)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
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
