//! The process that a tenant lives for: one of our own that outlives `halfwarp run` for as long as any
//! process carries the tenant's token in its environment.
//!
//! A daemon leaves its parent before its first CUDA call: the program that was started ends at once,
//! nothing of the tenant has joined yet, and what goes on is no child of ours any more. The token says
//! that it belongs to the tenant, and only a process that carries it can join.
//! It decides nothing: the broker ends the tenant when this process and the last joined one have ended.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::Timespec,
    process::{Pid, PidfdFlags, pidfd_open, setsid},
};

use crate::failure::Failure;

/// The hidden command by which a keeper is started.
pub(crate) const COMMAND: &str = "keep";
/// How long without a look where the kernel can't tell of a process's end.
const LOOK: Duration = Duration::from_millis(500);

/// A keeper that waits to be told its token. When we end, however we end, it begins to look.
pub(super) struct Keeper {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Keeper {
    pub(super) fn start() -> Result<Self, Failure> {
        let starting =
            |error| Failure::io("starting the process that the tenant lives for", &error, "");
        let own = std::env::current_exe().map_err(starting)?;
        let mut child = Command::new(own)
            .arg(COMMAND)
            // Nor does it carry an outer tenant's token, or anybody's library.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(starting)?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives it the token. A keeper that has died meanwhile keeps nothing, which the broker sees.
    pub(super) fn keep(&mut self, token: &str) {
        if let Some(pipe) = &mut self.pipe {
            let _ = writeln!(pipe, "{token}");
        }
    }
}

/// Whether any process carries the token.
pub(super) fn carried(token: &str) -> bool {
    !carriers(token).is_empty()
}

/// What the keeper does: waits for `halfwarp run` to end, then for the last process with the token.
pub(crate) fn keep() -> ExitCode {
    // Out of the terminal's reach and of signals to the group; fails only for one that leads a group.
    let _ = setsid();
    let mut token = String::new();
    if std::io::stdin().read_to_string(&mut token).is_err() || token.trim().is_empty() {
        return ExitCode::SUCCESS;
    }
    loop {
        let carriers = carriers(token.trim());
        if carriers.is_empty() {
            return ExitCode::SUCCESS;
        }
        wait_for_one(&carriers);
    }
}

/// Returns when one of these processes has ended, or it is time for another look.
fn wait_for_one(pids: &[Pid]) {
    let open = |pid: &Pid| pidfd_open(*pid, PidfdFlags::empty()).ok();
    let descriptors: Vec<_> = pids.iter().filter_map(open).collect();
    if descriptors.len() < pids.len() {
        // Ended already, or a kernel without pidfds.
        return std::thread::sleep(LOOK.min(Duration::from_millis(50)));
    }
    let mut polled: Vec<_> = descriptors.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let _ = poll(&mut polled, None::<&Timespec>);
}

/// Living processes with the token in the environment they were started with. None is missed that
/// lives at the end: one that was not there at the beginning makes another look.
fn carriers(token: &str) -> Vec<Pid> {
    let wanted = format!("HALFWARP_TENANT={token}");
    let mut before = pids();
    loop {
        let carries = |pid: &i32| carries(*pid, wanted.as_bytes());
        let found: Vec<i32> = before.iter().copied().filter(carries).collect();
        let after = pids();
        if !found.is_empty() || after.is_subset(&before) {
            return found.into_iter().filter_map(Pid::from_raw).collect();
        }
        before = after;
    }
}

fn carries(pid: i32, variable: &[u8]) -> bool {
    // One that has ended has an empty environment; one of another user can't be read.
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|own| own == variable)
}

fn pids() -> BTreeSet<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeSet::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
