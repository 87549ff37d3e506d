//! Where a broker serves: the directory of its two sockets, chosen from options and surroundings.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{args::BrokerArgs, artefacts::Artefacts, failure::Failure};

/// The node's broker.
const NODE_DIR: &str = "/run/halfwarp";

/// A path of a unix socket has room for 107 bytes.
const SOCKET_PATH_BYTES: usize = 107;

/// How a run directory was chosen, which decides whether a broker may be started in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// `--broker`.
    Named,
    /// The node's, because it has an `api.sock`.
    Node,
    /// This user's own.
    Private,
}

/// A simulated machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sim {
    pub(crate) machine: OsString,
    pub(crate) profile: OsString,
    /// Directory of the simulated `libcuda.so.1` and `libnvidia-ml.so.1`.
    pub(crate) libraries: PathBuf,
    /// Directory of the machine's sockets, if not the usual one.
    pub(crate) sockets: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    pub(crate) origin: Origin,
    pub(crate) sim: Option<Sim>,
}

/// What the choice depends on beside the options.
#[derive(Debug)]
struct Surroundings {
    node_dir: PathBuf,
    runtime_dir: Option<PathBuf>,
    uid: u32,
    machine: Option<OsString>,
    profile: Option<OsString>,
}

impl Surroundings {
    fn of_this_process() -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            node_dir: NODE_DIR.into(),
            runtime_dir: set("XDG_RUNTIME_DIR").map(PathBuf::from),
            uid: rustix::process::getuid().as_raw(),
            machine: set("SIMCUDA_MACHINE"),
            profile: set("SIMCUDA_PROFILE"),
        }
    }

    /// This user's directory for brokers of their own.
    fn private_dir(&self) -> PathBuf {
        match &self.runtime_dir {
            Some(dir) => dir.join("halfwarp"),
            None => PathBuf::from(format!("/tmp/halfwarp-{}", self.uid)),
        }
    }
}

impl Place {
    pub(crate) fn choose(which: &BrokerArgs) -> Result<Self, Failure> {
        let artefacts = Artefacts::beside_self()?;
        Self::choose_in(&Surroundings::of_this_process(), which, &artefacts)
    }

    /// A place for a demo: all that it makes lies in one directory, which is returned as well, and a
    /// simulated machine is its own.
    pub(crate) fn of_a_demo(which: &BrokerArgs) -> Result<(Self, PathBuf), Failure> {
        let mut surroundings = Surroundings::of_this_process();
        let name = format!("demo-{}", std::process::id());
        let dir = surroundings.private_dir().join(&name);
        if which.sim.is_none() || which.broker.is_some() {
            return Ok((Self::choose(which)?, dir));
        }
        surroundings.machine = Some(name.into());
        let mut place = Self::choose_in(&surroundings, which, &Artefacts::beside_self()?)?;
        place.dir.clone_from(&dir);
        if let Some(sim) = &mut place.sim {
            sim.sockets = Some(dir.join("simcuda"));
        }
        Ok((place, dir))
    }

    fn choose_in(
        surroundings: &Surroundings,
        which: &BrokerArgs,
        artefacts: &Artefacts,
    ) -> Result<Self, Failure> {
        let sim = match &which.sim {
            Some(profile) => Some(sim(surroundings, profile, artefacts)?),
            None => None,
        };
        let (dir, origin) = match (&which.broker, &sim) {
            (Some(dir), _) => {
                (std::path::absolute(dir).unwrap_or_else(|_| dir.clone()), Origin::Named)
            }
            (None, Some(sim)) => {
                let mut name = OsString::from("sim-");
                name.push(&sim.machine);
                (surroundings.private_dir().join(name), Origin::Private)
            }
            (None, None) if surroundings.node_dir.join("api.sock").exists() => {
                (surroundings.node_dir.clone(), Origin::Node)
            }
            (None, None) => (surroundings.private_dir(), Origin::Private),
        };
        let longest = dir.join("join.sock");
        if longest.as_os_str().len() > SOCKET_PATH_BYTES {
            return Err(Failure::new(
                format!("placing a broker's sockets in {}", dir.display()),
                format!("a socket's path may have {SOCKET_PATH_BYTES} bytes"),
                "name a shorter directory with --broker or XDG_RUNTIME_DIR",
            ));
        }
        Ok(Self { dir, origin, sim })
    }
}

/// The simulated machine that `--sim[=FILE]` means. A profile named on the command line has a
/// machine of its own, so that asking for other cards never meets the ones already running.
fn sim(
    surroundings: &Surroundings,
    asked: &OsString,
    artefacts: &Artefacts,
) -> Result<Sim, Failure> {
    let (profile, own_machine) = if asked.is_empty() {
        let profile = surroundings.profile.clone().unwrap_or_else(|| "t4".into());
        (profile, "default".into())
    } else {
        let stem = Path::new(asked).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        (asked.clone(), OsString::from(stem.unwrap_or_default()))
    };
    let machine = surroundings.machine.clone().unwrap_or(own_machine);
    let plain = |text: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        !text.is_empty() && !text.starts_with('.') && text.len() <= 40 && text.bytes().all(allowed)
    };
    if !machine.to_str().is_some_and(plain) {
        return Err(Failure::new(
            "choosing a simulated machine",
            format!("{machine:?} cannot be a machine's name"),
            "set SIMCUDA_MACHINE to at most 40 letters, digits, '-', '_' or '.'",
        ));
    }
    let profile = profile_path(profile)?;
    let libraries = artefacts.need(artefacts.sim(), "the simulated driver")?;
    sound_profile(&libraries, &profile)?;
    Ok(Sim { machine, profile, libraries, sockets: None })
}

/// A path is made absolute, because the broker runs elsewhere; a shipped profile's name stays.
fn profile_path(profile: OsString) -> Result<OsString, Failure> {
    let path = Path::new(&profile);
    if path.components().count() < 2 && path.extension().is_none() {
        return Ok(profile);
    }
    path.canonicalize().map(PathBuf::into_os_string).map_err(|error| {
        Failure::io(
            format!("reading the profile {}", path.display()),
            &error,
            "name a TOML file or a shipped profile, for example --sim=t4",
        )
    })
}

/// Has the simulated machine's own program read the profile: what is wrong with it is then said here,
/// and not where a driver fails to start.
fn sound_profile(libraries: &Path, profile: &OsString) -> Result<(), Failure> {
    let mut check = Command::new(libraries.join("simcudad"));
    let Ok(checked) = check.arg("check").arg(profile).stdin(Stdio::null()).output() else {
        // Without that program the broker will say what is missing.
        return Ok(());
    };
    if checked.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&checked.stderr);
    let found: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Err(Failure::new(
        format!("reading the profile {}", profile.display()),
        found.join(" ").trim_start_matches("Error: "),
        "`--sim=t4` is a shipped one",
    ))
}

/// Run directories of simulated machines below a private one.
pub(super) fn simulated(place: &Place) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(&place.dir) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("sim-"))
        .map(|entry| entry.path())
        .filter(|dir| dir.join("api.sock").exists())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        root: tempfile::TempDir,
        surroundings: Surroundings,
        artefacts: Artefacts,
    }

    fn scene() -> Scene {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(root.path().join("hw/sim")).expect("a directory");
        let surroundings = Surroundings {
            node_dir: root.path().join("node"),
            runtime_dir: None,
            uid: 1024,
            machine: None,
            profile: None,
        };
        let artefacts = Artefacts { dir: root.path().join("hw") };
        Scene { root, surroundings, artefacts }
    }

    impl Scene {
        fn choose(&self, which: &BrokerArgs) -> Place {
            Place::choose_in(&self.surroundings, which, &self.artefacts).expect("a place")
        }
    }

    fn simulated(profile: &str) -> BrokerArgs {
        BrokerArgs { sim: Some(profile.into()), broker: None }
    }

    #[test]
    fn the_nodes_broker_is_meant_where_it_serves_and_else_the_users_own() {
        let mut scene = scene();
        let place = scene.choose(&BrokerArgs::default());
        assert_eq!((place.dir, place.origin), ("/tmp/halfwarp-1024".into(), Origin::Private));
        scene.surroundings.runtime_dir = Some("/run/user/1024".into());
        let place = scene.choose(&BrokerArgs::default());
        assert_eq!(place.dir, Path::new("/run/user/1024/halfwarp"));
        std::fs::create_dir(&scene.surroundings.node_dir).expect("a directory");
        std::fs::write(scene.root.path().join("node/api.sock"), "").expect("a file");
        let place = scene.choose(&BrokerArgs::default());
        assert_eq!((place.dir, place.origin), (scene.root.path().join("node"), Origin::Node));
    }

    #[test]
    fn simulated_cards_never_meet_the_nodes_broker_nor_those_of_another_profile() {
        let mut scene = scene();
        std::fs::create_dir(&scene.surroundings.node_dir).expect("a directory");
        std::fs::write(scene.root.path().join("node/api.sock"), "").expect("a file");
        let place = scene.choose(&simulated(""));
        assert_eq!(place.dir, Path::new("/tmp/halfwarp-1024/sim-default"));
        assert_eq!(place.sim.expect("simulated").profile, "t4");
        let place = scene.choose(&simulated("h200"));
        assert_eq!(place.dir, Path::new("/tmp/halfwarp-1024/sim-h200"));
        scene.surroundings.machine = Some("mine".into());
        let place = scene.choose(&simulated("h200"));
        assert_eq!(place.dir, Path::new("/tmp/halfwarp-1024/sim-mine"));
    }

    #[test]
    fn a_machine_name_cannot_leave_the_directory() {
        let mut scene = scene();
        for name in ["../x", "a/b", "..", "", "a b"] {
            scene.surroundings.machine = Some(name.into());
            let refused = Place::choose_in(&scene.surroundings, &simulated("t4"), &scene.artefacts);
            assert!(refused.is_err(), "{name:?} was taken");
        }
    }

    #[test]
    fn a_directory_too_long_for_a_socket_is_refused_in_words() {
        let scene = scene();
        let which = BrokerArgs { sim: None, broker: Some("/".into()) };
        assert_eq!(scene.choose(&which).origin, Origin::Named);
        let which = BrokerArgs { sim: None, broker: Some(format!("/{}", "d".repeat(120)).into()) };
        let refused = Place::choose_in(&scene.surroundings, &which, &scene.artefacts);
        assert!(refused.expect_err("refused").to_string().contains("107 bytes"));
    }

    #[test]
    fn a_profile_file_that_is_not_there_is_refused() {
        let scene = scene();
        let refused =
            Place::choose_in(&scene.surroundings, &simulated("none/x.toml"), &scene.artefacts);
        assert!(refused.expect_err("refused").to_string().contains("none/x.toml"));
    }
}
