//! The variables a tenant's program gets. They name the tenant, the library and the cards; they
//! carry no limit.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use halfwarp_rest::Admitted;

use crate::{broker::Sim, failure::Failure};

/// What chooses a simulated machine.
pub(crate) const SIM_ENVIRONMENT: [&str; 3] = ["SIMCUDA_MACHINE", "SIMCUDA_PROFILE", "SIMCUDA_DIR"];

/// `library`, if the loader can be told to preload it: it takes blanks and colons for separators.
pub(crate) fn preloadable(library: PathBuf) -> Result<PathBuf, Failure> {
    if library.as_os_str().as_bytes().iter().any(|b| b.is_ascii_whitespace() || *b == b':') {
        return Err(Failure::new(
            format!("preloading {}", library.display()),
            "the loader reads a blank or colon in LD_PRELOAD as the end of a name",
            "install halfwarp in a directory without them",
        ));
    }
    Ok(library)
}

/// Variables to set; `now` says what one is set to at present.
pub(super) fn of_a_tenant(
    admitted: &Admitted,
    library: &Path,
    sim: Option<&Sim>,
    now: impl Fn(&str) -> Option<OsString>,
) -> Vec<(&'static str, OsString)> {
    let mut variables = vec![
        ("HALFWARP_TENANT", OsString::from(&admitted.token)),
        ("HALFWARP_JOIN", OsString::from(&admitted.join_socket)),
        ("LD_PRELOAD", preload(library, now("LD_PRELOAD"))),
        ("CUDA_VISIBLE_DEVICES", OsString::from(admitted.gpus.join(","))),
        // Ours, NVML's and the program's indices are then the same.
        ("CUDA_DEVICE_ORDER", OsString::from("PCI_BUS_ID")),
    ];
    if let Some(sim) = sim {
        variables.extend(sim.environment(now("LD_LIBRARY_PATH")));
    }
    variables
}

/// Ours first, so that a look-up by name meets it; then what was there.
fn preload(library: &Path, now: Option<OsString>) -> OsString {
    let mut list = library.as_os_str().to_owned();
    let now = now.unwrap_or_default();
    let separator = |b: &u8| *b == b':' || b.is_ascii_whitespace();
    for entry in now.as_bytes().split(separator).filter(|entry| !entry.is_empty()) {
        if entry != library.as_os_str().as_bytes() {
            list.push(":");
            list.push(OsStr::from_bytes(entry));
        }
    }
    list
}

impl Sim {
    /// Variables by which a process uses this simulated machine; `library_path` is what
    /// `LD_LIBRARY_PATH` is at present.
    pub(crate) fn environment(
        &self,
        library_path: Option<OsString>,
    ) -> Vec<(&'static str, OsString)> {
        let mut path = self.libraries.as_os_str().to_owned();
        if let Some(rest) = library_path.filter(|rest| !rest.is_empty()) {
            path.push(":");
            path.push(rest);
        }
        let mut variables = vec![
            ("LD_LIBRARY_PATH", path),
            (SIM_ENVIRONMENT[0], self.machine.clone()),
            (SIM_ENVIRONMENT[1], self.profile.clone()),
        ];
        if let Some(sockets) = &self.sockets {
            variables.push((SIM_ENVIRONMENT[2], sockets.clone().into_os_string()));
        }
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(now: &[(&str, &str)], sim: Option<&Sim>) -> Vec<(&'static str, OsString)> {
        let admitted = Admitted {
            id: 1,
            token: "0".repeat(32),
            join_socket: "/run/x/join.sock".to_owned(),
            gpus: vec!["GPU-a".to_owned(), "GPU-b".to_owned()],
        };
        of_a_tenant(&admitted, Path::new("/hw/libhalfwarp.so"), sim, |name| {
            now.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value))
        })
    }

    fn value(variables: &[(&'static str, OsString)], name: &str) -> Option<String> {
        let found = variables.iter().find(|(n, _)| *n == name)?;
        Some(found.1.to_string_lossy().into_owned())
    }

    #[test]
    fn a_tenant_is_named_and_its_cards_listed_in_bus_order() {
        let variables = built(&[], None);
        let get = |name| value(&variables, name);
        assert_eq!(get("HALFWARP_TENANT"), Some("0".repeat(32)));
        assert_eq!(get("HALFWARP_JOIN").as_deref(), Some("/run/x/join.sock"));
        assert_eq!(get("CUDA_VISIBLE_DEVICES").as_deref(), Some("GPU-a,GPU-b"));
        assert_eq!(get("CUDA_DEVICE_ORDER").as_deref(), Some("PCI_BUS_ID"));
        assert_eq!(get("LD_PRELOAD").as_deref(), Some("/hw/libhalfwarp.so"));
        assert_eq!(get("LD_LIBRARY_PATH"), None);
    }

    #[test]
    fn our_library_is_preloaded_first_and_once() {
        let variables = built(&[("LD_PRELOAD", "a.so /hw/libhalfwarp.so:b.so")], None);
        let preload = value(&variables, "LD_PRELOAD");
        assert_eq!(preload.as_deref(), Some("/hw/libhalfwarp.so:a.so:b.so"));
    }

    #[test]
    fn a_simulated_machine_comes_first_on_the_library_path() {
        let sim = Sim {
            machine: "default".into(),
            profile: "t4".into(),
            libraries: "/hw/sim".into(),
            sockets: None,
        };
        let variables = built(&[("LD_LIBRARY_PATH", "/opt/lib")], Some(&sim));
        let get = |name| value(&variables, name);
        assert_eq!(get("LD_LIBRARY_PATH").as_deref(), Some("/hw/sim:/opt/lib"));
        assert_eq!(get("SIMCUDA_MACHINE").as_deref(), Some("default"));
        assert_eq!(get("SIMCUDA_PROFILE").as_deref(), Some("t4"));
        let variables = built(&[], Some(&sim));
        assert_eq!(value(&variables, "LD_LIBRARY_PATH").as_deref(), Some("/hw/sim"));
    }

    #[test]
    fn a_path_that_the_loader_would_split_is_refused() {
        assert!(preloadable("/opt/half warp/lib.so".into()).is_err());
        assert!(preloadable("/opt/half:warp/lib.so".into()).is_err());
        assert!(preloadable("/opt/halfwarp/lib.so".into()).is_ok());
    }
}
