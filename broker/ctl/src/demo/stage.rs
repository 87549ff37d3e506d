//! What a demo needs around its tenants: a directory for their output, a broker, and with simulated
//! cards a machine of its own. All of it is gone when the demo is.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Child,
    time::{Duration, Instant},
};

use halfwarp_rest::Gpu;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    args::BrokerArgs,
    artefacts::Artefacts,
    broker::{self, Origin, Place, asking},
    client::Client,
    failure::Failure,
};

/// The file whose absence says that no NVIDIA driver is loaded.
const DRIVER_DEVICE: &str = "/dev/nvidiactl";

/// From asking the broker to end until it is ended.
const END_DEADLINE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Stage {
    pub(super) dir: PathBuf,
    pub(super) place: Place,
    pub(super) client: Client,
    broker: Option<Child>,
}

impl Stage {
    pub(super) fn set(which: &BrokerArgs, artefacts: &Artefacts) -> Result<Self, Failure> {
        let mut which = which.clone();
        if which.sim.is_none() && which.broker.is_none() && !Path::new(DRIVER_DEVICE).exists() {
            eprintln!("halfwarp: no GPU here ({DRIVER_DEVICE} is absent): simulating one");
            which.sim = Some("t4".into());
        }
        let (place, dir) = Place::of_a_demo(&which)?;
        broker::prepare(&dir)?;
        let (client, broker) = match place.origin {
            Origin::Private => {
                let private = broker::private(&place, artefacts).inspect_err(|_| remove(&dir))?;
                (private.client, private.child)
            }
            Origin::Named | Origin::Node => (Client::new(&place.dir)?, None),
        };
        Ok(Self { dir, place, client, broker })
    }

    /// The first card.
    pub(super) fn card(&self) -> Result<Gpu, Failure> {
        let gpus = self.client.gpus().map_err(|error| error.failure(asking(&self.client)))?;
        gpus.into_iter().next().ok_or_else(|| {
            Failure::new(
                asking(&self.client),
                "it has no card",
                "`halfwarp doctor` checks the host",
            )
        })
    }

    /// Ends what was started and removes what was made.
    pub(super) fn strike(&mut self) {
        if self.place.dir == self.dir {
            self.end_broker();
            self.end_machine();
        }
        remove(&self.dir);
    }

    fn end_broker(&mut self) {
        let Some(mut broker) = self.broker.take() else { return };
        if let Some(pid) = i32::try_from(broker.id()).ok().and_then(Pid::from_raw) {
            // It can only have ended already.
            let _ = kill_process(pid, Signal::TERM);
        }
        let until = Instant::now() + END_DEADLINE;
        while Instant::now() < until {
            if !matches!(broker.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = broker.kill().and_then(|()| broker.wait());
    }

    /// The simulated machine's server is nobody's child; who it is, its socket says.
    fn end_machine(&self) {
        let Some(sim) = &self.place.sim else { return };
        let Some(sockets) = &sim.sockets else { return };
        let mut name = sim.machine.clone();
        name.push(".sock");
        if let Ok(stream) = UnixStream::connect(sockets.join(name))
            && let Ok(server) = rustix::net::sockopt::socket_peercred(&stream)
        {
            let _ = kill_process(server.pid, Signal::TERM);
        }
    }
}

impl Drop for Stage {
    /// Also when the demo fails half way.
    fn drop(&mut self) {
        if self.dir.exists() {
            self.strike();
        }
    }
}

fn remove(dir: &Path) {
    // A server that is just ending may still be removing files of its own.
    for _ in 0..10 {
        match fs::remove_dir_all(dir) {
            Ok(()) => return,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
