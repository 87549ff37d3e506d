//! `state.json`: what outlives a broker that is killed. Written beside and renamed, so that a reader
//! finds the old or the new. Not flushed to the disk: it need not outlive the machine, as no tenant
//! does.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use halfwarp_broker_core::{Runner, Saved, SavedGpu, SavedTenant};
use halfwarp_rest::Mode;
use serde::{Deserialize, Serialize};

use crate::{failure::Failure, peer};

const FORMAT: u32 = 1;

#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    /// Whether the last write failed and that was said.
    failing: bool,
}

#[derive(Serialize, Deserialize, Default)]
struct Kept {
    format: u32,
    next_tenant: u64,
    tenants: Vec<KeptTenant>,
    context_units: BTreeMap<String, u32>,
    modes: BTreeMap<String, Mode>,
    #[serde(default)]
    leases_ms: BTreeMap<String, u16>,
    #[serde(default)]
    next_chunk: u32,
}

#[derive(Serialize, Deserialize)]
struct KeptTenant {
    id: u64,
    token: String,
    name: String,
    uid: u32,
    priority: u16,
    #[serde(default)]
    group: Option<String>,
    runner: Option<(u32, u64)>,
    ending: bool,
    started_at: u64,
    #[serde(default)]
    may_end: bool,
    #[serde(default)]
    swap: bool,
    #[serde(default)]
    suspended: bool,
    gpus: Vec<KeptGpu>,
    pids: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct KeptGpu {
    uuid: String,
    request_units: u32,
    limit_units: u32,
    share: u8,
    share_limit: u8,
}

/// A token as text.
pub(crate) fn hex(token: &[u8; 16]) -> String {
    token.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32)?;
    Some(number.to_be_bytes())
}

impl Store {
    pub(crate) fn at(run_dir: &Path) -> Self {
        Self { path: run_dir.join("state.json"), failing: false }
    }

    /// What an earlier broker kept. A file that can't be understood is set aside, not lost.
    pub(crate) fn load(&self) -> Result<Saved, Failure> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Saved::default()),
            Err(error) => {
                let tried = format!("reading {}", self.path.display());
                return Err(Failure::new(tried, error, "make it readable, or remove it"));
            }
        };
        let read = serde_json::from_slice::<Kept>(&text).map_err(|error| error.to_string());
        let read = read.and_then(|kept| match kept.format {
            FORMAT => kept.saved().ok_or_else(|| "a UUID or a token is none".to_owned()),
            other => Err(format!("it has format {other}, and this broker reads {FORMAT}")),
        });
        read.or_else(|error| {
            let aside = self.path.with_extension("json.unreadable");
            tracing::warn!(
                "{} cannot be read ({error}); it is now {}, and its tenants are not known",
                self.path.display(),
                aside.display(),
            );
            fs::rename(&self.path, &aside).map(|()| Saved::default()).map_err(|error| {
                let tried = format!("setting {} aside", self.path.display());
                Failure::new(tried, error, "move it away")
            })
        })
    }

    pub(crate) fn write(&self, saved: &Saved) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(&Kept::of(saved))?;
        let beside = self.path.with_extension("json.new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        let written = file.write_all(&text).and_then(|()| {
            halfwarp_label::state_before_rename();
            fs::rename(&beside, &self.path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        halfwarp_label::state_renamed();
        written
    }

    /// Keeps this. A failure is said once; the broker serves on with what it has in memory.
    pub(crate) fn save(&mut self, saved: &Saved) {
        match self.write(saved) {
            Ok(()) => self.failing = false,
            Err(error) if !self.failing => {
                self.failing = true;
                let path = self.path.display();
                tracing::error!("writing {path}: {error}; a restart would lose newer tenants");
            }
            Err(_) => {}
        }
    }
}

impl Kept {
    fn of(saved: &Saved) -> Self {
        let tenants = saved.tenants.iter().map(|tenant| KeptTenant {
            id: tenant.id,
            token: hex(&tenant.token),
            name: tenant.name.clone(),
            uid: tenant.uid,
            priority: tenant.priority,
            group: tenant.group.clone(),
            runner: tenant.runner.map(|runner| (runner.pid, runner.started_ticks)),
            ending: tenant.ending,
            started_at: tenant.started_at_s,
            may_end: tenant.may_end,
            swap: tenant.swap,
            suspended: tenant.suspended,
            gpus: tenant
                .gpus
                .iter()
                .map(|gpu| KeptGpu {
                    uuid: gpu.uuid.to_string(),
                    request_units: gpu.request_units,
                    limit_units: gpu.limit_units,
                    share: gpu.share_percent,
                    share_limit: gpu.share_limit_percent,
                })
                .collect(),
            pids: tenant.pids.clone(),
        });
        Self {
            format: FORMAT,
            next_tenant: saved.next_tenant,
            tenants: tenants.collect(),
            context_units: saved.contexts.iter().map(|(u, n)| (u.to_string(), *n)).collect(),
            modes: saved.modes.iter().map(|(u, mode)| (u.to_string(), *mode)).collect(),
            leases_ms: saved.leases_ms.iter().map(|(u, ms)| (u.to_string(), *ms)).collect(),
            next_chunk: saved.next_chunk,
        }
    }

    fn saved(self) -> Option<Saved> {
        let contexts = self.context_units.into_iter().map(|(u, n)| Some((u.parse().ok()?, n)));
        let modes = self.modes.into_iter().map(|(u, mode)| Some((u.parse().ok()?, mode)));
        let leases = self.leases_ms.into_iter().map(|(u, ms)| Some((u.parse().ok()?, ms)));
        Some(Saved {
            next_tenant: self.next_tenant,
            tenants: self.tenants.into_iter().map(KeptTenant::saved).collect::<Option<_>>()?,
            contexts: contexts.collect::<Option<_>>()?,
            modes: modes.collect::<Option<_>>()?,
            leases_ms: leases.collect::<Option<_>>()?,
            next_chunk: self.next_chunk,
        })
    }
}

impl KeptTenant {
    fn saved(self) -> Option<SavedTenant> {
        let gpus = self.gpus.into_iter().map(|gpu| {
            Some(SavedGpu {
                uuid: gpu.uuid.parse().ok()?,
                request_units: gpu.request_units,
                limit_units: gpu.limit_units,
                share_percent: gpu.share,
                share_limit_percent: gpu.share_limit,
            })
        });
        Some(SavedTenant {
            id: self.id,
            token: unhex(&self.token)?,
            name: self.name,
            uid: self.uid,
            priority: self.priority,
            group: self.group,
            runner: self.runner.map(|(pid, started_ticks)| Runner { pid, started_ticks }),
            ending: self.ending,
            started_at_s: self.started_at,
            may_end: self.may_end,
            swap: self.swap,
            suspended: self.suspended,
            gpus: gpus.collect::<Option<_>>()?,
            // Only who lives can come back.
            pids: self.pids.into_iter().filter(|pid| peer::runner(*pid).is_some()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwarp_broker_core::Uuid;

    fn saved() -> Saved {
        let uuid = Uuid([7; 16]);
        let gpu = SavedGpu {
            uuid,
            request_units: 1,
            limit_units: 2,
            share_percent: 3,
            share_limit_percent: 4,
        };
        let tenant = SavedTenant {
            id: 5,
            token: *b"0123456789abcdef",
            name: "a \"name\"".to_owned(),
            uid: 6,
            priority: 7,
            group: Some("job".to_owned()),
            runner: Some(Runner { pid: 8, started_ticks: 9 }),
            ending: true,
            started_at_s: 10,
            may_end: true,
            swap: true,
            suspended: true,
            gpus: vec![gpu],
            pids: vec![std::process::id()],
        };
        Saved {
            next_tenant: 6,
            tenants: vec![tenant],
            contexts: [(uuid, 11)].into(),
            modes: [(uuid, Mode::Fair)].into(),
            leases_ms: [(uuid, 50)].into(),
            next_chunk: 4096,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::at(dir.path());
        assert_eq!(store.load().expect("none yet"), Saved::default());
        store.write(&saved()).expect("written");
        assert_eq!(store.load().expect("read"), saved());
        let mode = fs::metadata(dir.path().join("state.json")).expect("there").permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    }

    #[test]
    fn a_state_that_cannot_be_read_is_set_aside() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::at(dir.path());
        for text in ["", "{", "null", "{\"format\": 99}", "\u{0}\u{1}"] {
            fs::write(dir.path().join("state.json"), text).expect("written");
            assert_eq!(store.load().expect("set aside"), Saved::default());
            let aside = fs::read_to_string(dir.path().join("state.json.unreadable"));
            assert_eq!(aside.expect("kept"), text);
        }
    }

    #[test]
    fn processes_that_have_ended_are_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::at(dir.path());
        let mut saved = saved();
        saved.tenants[0].pids.push(u32::MAX);
        store.write(&saved).expect("written");
        assert_eq!(store.load().expect("read").tenants[0].pids, [std::process::id()]);
    }
}
