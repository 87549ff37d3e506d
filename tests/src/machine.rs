//! A simulated machine of a test's own: its run directory, its cards, its private broker.
//!
//! Everything is told apart by one variable, `XDG_RUNTIME_DIR`, which names a folder that no other
//! test has. Whatever still carries that name when the test ends is killed.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use halfwarp_rest::{Event, Gpu, Tenant};
use tempfile::TempDir;

use crate::{Ended, Running, artefact, finish, on_a_device, start};

/// Variables that would lead out of the machine.
const LEAD_OUT: &[&str] = &[
    "HALFWARP_TENANT",
    "HALFWARP_JOIN",
    "SIMCUDA_DIR",
    "SIMCUDA_MACHINE",
    "SIMCUDA_PROFILE",
    "SIMCUDA_FAULTS",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
];
const LISTING: Duration = Duration::from_secs(20);

/// A machine with cards of one profile.
#[derive(Debug)]
pub struct Machine {
    runtime: TempDir,
    sim: Option<String>,
}

impl Machine {
    /// With one card of 16 GiB.
    #[must_use]
    pub fn new() -> Self {
        Self::with_profile("t4")
    }

    /// With the cards of a shipped profile; on a device, with the device's.
    ///
    /// # Panics
    ///
    /// If no folder can be made for it.
    #[must_use]
    pub fn with_profile(profile: &str) -> Self {
        // Short: a unix socket's path has 107 bytes.
        let runtime = tempfile::Builder::new().prefix("hw").tempdir().expect("a folder");
        let sim = (!on_a_device()).then(|| format!("--sim={profile}"));
        Self { runtime, sim }
    }

    /// The folder that `XDG_RUNTIME_DIR` names in this machine.
    #[must_use]
    pub fn runtime_dir(&self) -> &Path {
        self.runtime.path()
    }

    /// Where the private broker keeps its sockets and log.
    #[must_use]
    pub fn broker_dir(&self) -> PathBuf {
        let private = self.runtime.path().join("halfwarp");
        match &self.sim {
            Some(_) => private.join(format!("sim-{}", self.machine_name())),
            None => private,
        }
    }

    /// The profile of a simulated machine.
    pub(crate) fn profile(&self) -> Option<&str> {
        Some(self.sim.as_deref()?.trim_start_matches("--sim="))
    }

    /// The name by which `halfwarp run --sim=PROFILE` knows the simulated machine.
    pub(crate) fn machine_name(&self) -> &str {
        Path::new(self.profile().unwrap_or_default())
            .file_stem()
            .and_then(OsStr::to_str)
            .unwrap_or_default()
    }

    /// `halfwarp` with this machine's surroundings, nothing else of ours in its environment.
    pub fn halfwarp<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(artefact("halfwarp"));
        command.args(arguments);
        self.surround(&mut command);
        command
    }

    /// Puts a program into this machine without making it a tenant.
    pub fn surround(&self, command: &mut Command) {
        for name in LEAD_OUT {
            command.env_remove(name);
        }
        command.env("XDG_RUNTIME_DIR", self.runtime.path()).env("SIMCUDA_STRICT", "1");
    }

    /// A program on the simulated driver, without Halfwarp.
    #[must_use]
    pub fn natively(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.surround(&mut command);
        if let Some(sim) = &self.sim {
            command
                .env("SIMCUDA_PROFILE", sim.trim_start_matches("--sim="))
                .env("SIMCUDA_MACHINE", self.machine_name())
                .env("LD_LIBRARY_PATH", artefact("sim"));
        }
        command
    }

    /// `halfwarp run OPTIONS -- …` in this machine.
    #[must_use]
    pub fn tenant(&self, options: &[&str]) -> Tenancy {
        let mut command = self.halfwarp(["run"]);
        command.args(&self.sim).args(options).arg("--");
        Tenancy { command }
    }

    /// The broker's tenants, by `halfwarp ps`.
    #[must_use]
    pub fn tenants(&self) -> Vec<Tenant> {
        self.listing("ps")
    }

    /// The tenant of this name.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn tenant_named(&self, name: &str) -> Tenant {
        let tenants = self.tenants();
        let found = tenants.iter().find(|tenant| tenant.name == name).cloned();
        found.unwrap_or_else(|| panic!("no tenant is called {name}: {tenants:?}"))
    }

    /// The cards, by `halfwarp gpus`.
    #[must_use]
    pub fn gpus(&self) -> Vec<Gpu> {
        self.listing("gpus")
    }

    /// What has happened, by `halfwarp events`.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let ended = self.list("events");
        let text = ended.stdout.trim();
        // One list, or one event a line: both are read.
        if text.starts_with('[') {
            return serde_json::from_str(text).expect("a list of events");
        }
        text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
    }

    /// What tells `halfwarp` which broker is meant.
    #[must_use]
    pub fn broker_arguments(&self) -> Option<&str> {
        self.sim.as_deref()
    }

    /// The process id of this machine's broker (not that of its NVML child), if one runs.
    #[must_use]
    pub fn broker_pid(&self) -> Option<u32> {
        let is_broker = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.first().is_some_and(|program| program.ends_with(b"halfwarpd"))
                && words.contains(&b"--run-dir".as_slice())
        };
        self.processes().into_iter().find(is_broker)
    }

    fn listing<T: serde::de::DeserializeOwned>(&self, what: &str) -> Vec<T> {
        let ended = self.list(what);
        serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("halfwarp {what} -o json: {error}: {}", ended.all()))
    }

    fn list(&self, what: &str) -> Ended {
        let mut command = self.halfwarp([what, "-o", "json"]);
        let ended = finish(command.args(&self.sim), LISTING);
        assert!(ended.status.success(), "halfwarp {what}: {}", ended.all());
        ended
    }

    /// Processes that carry this machine's name in their environment.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let mark = format!("XDG_RUNTIME_DIR={}\0", self.runtime.path().display());
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid: &u32| {
                let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment.windows(mark.len()).any(|window| window == mark.as_bytes())
            })
            .collect()
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let own = std::process::id();
        for pid in self.processes().into_iter().filter(|pid| *pid != own) {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        if std::thread::panicking()
            && let Ok(log) = fs::read_to_string(self.broker_dir().join("broker.log"))
        {
            eprintln!("broker.log of this machine:\n{log}");
        }
    }
}

/// A program about to be run as a tenant.
#[derive(Debug)]
pub struct Tenancy {
    command: Command,
}

impl Tenancy {
    /// The program and its arguments.
    #[must_use]
    pub fn program<S: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.command.args(words);
        self
    }

    /// A variable for `halfwarp run`, which passes it on.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it to its end.
    #[must_use]
    pub fn finish(mut self, deadline: Duration) -> Ended {
        finish(&mut self.command, deadline)
    }

    /// Starts it.
    #[must_use]
    pub fn start(mut self) -> Running {
        start(&mut self.command)
    }
}
