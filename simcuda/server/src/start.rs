//! Leaving a server behind: a second process in a session of its own, with no descriptor of the
//! program that happened to need a GPU first.

use crate::{Options, descriptors};
use anyhow::{Context, Result, bail};
use std::io::Read;
use std::process::{Command, Stdio};

/// Returns when the server listens; what it had to say instead is the error.
pub(crate) fn start(options: &Options) -> Result<()> {
    descriptors::close_inherited();
    let own = std::env::current_exe().context("finding the server's own file")?;
    let mut child = Command::new(own)
        .arg("serve")
        .arg("--detached")
        .arg("--folder")
        .arg(&options.folder)
        .args(["--machine", &options.machine, "--profile", &options.profile])
        .args(["--linger-ms", &options.linger_ms.to_string(), "--faults", &options.faults])
        .args(options.stay.then_some("--stay"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting the server")?;
    let mut said = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut said)?;
    }
    if said.trim() == descriptors::READY {
        return Ok(());
    }
    child.wait()?;
    bail!("{}", said.trim().trim_start_matches("Error: "))
}
