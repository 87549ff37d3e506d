//! Where things lie: the folder of sockets, the files of one machine, and the server's program.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The server's program, beside the libraries.
pub const SERVER: &str = "simcudad";

/// The files of one simulated machine.
#[derive(Clone, Debug)]
pub struct Place {
    pub folder: PathBuf,
    pub machine: String,
}

impl Place {
    /// As the environment names it.
    pub fn from_environment() -> io::Result<Self> {
        let machine = text("SIMCUDA_MACHINE").unwrap_or_else(|| "default".to_owned());
        Self::new(default_folder(), machine)
    }

    /// Refuses names that would leave the folder.
    pub fn new(folder: PathBuf, machine: String) -> io::Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if machine.is_empty()
            || machine.starts_with('.')
            || machine.len() > 64
            || !machine.chars().all(plain)
        {
            let why = format!(
                "SIMCUDA_MACHINE is {machine:?}; use up to 64 letters, digits, '-', '_' or '.'"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Self { folder: std::path::absolute(folder)?, machine })
    }

    /// Where the server listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join(format!("{}.sock", self.machine))
    }

    /// Faults that a process must know of when it loads the driver; there only if there are any.
    #[must_use]
    pub fn early_faults(&self) -> PathBuf {
        self.folder.join(format!("{}.faults", self.machine))
    }

    /// Held by a client while it looks for the server and starts it.
    #[must_use]
    pub fn start_lock(&self) -> PathBuf {
        self.folder.join(format!("{}.start", self.machine))
    }

    /// Held by the server as long as it lives.
    #[must_use]
    pub fn server_lock(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.machine))
    }

    /// Makes the folder, for this user alone; refuses one that is another user's.
    pub fn make_folder(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let owner = std::fs::metadata(&self.folder)?.uid();
        let me = rustix::process::geteuid().as_raw();
        if owner != me && me != 0 {
            let why = format!(
                "{} belongs to user {owner}, not to {me}; set SIMCUDA_DIR",
                self.folder.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(())
    }
}

/// Where the environment says that machines lie.
#[must_use]
pub fn default_folder() -> PathBuf {
    if let Some(folder) = text("SIMCUDA_DIR") {
        return PathBuf::from(folder);
    }
    match text("XDG_RUNTIME_DIR") {
        Some(runtime) => Path::new(&runtime).join("simcuda"),
        None => PathBuf::from(format!("/tmp/simcuda-{}", rustix::process::geteuid().as_raw())),
    }
}

/// A variable that is set and not empty.
fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The server's program: beside the file that this very code was loaded from.
pub fn server_program() -> io::Result<PathBuf> {
    let own = own_file()?;
    let folder = own.parent().unwrap_or_else(|| Path::new("/"));
    let candidate = folder.join(SERVER);
    if candidate.exists() {
        return Ok(candidate);
    }
    let why = format!(
        "looked for the simulated machine's server at {} and found nothing",
        candidate.display()
    );
    Err(io::Error::new(io::ErrorKind::NotFound, why))
}

/// Path of the library or program that holds this code, from the kernel's list of mappings.
fn own_file() -> io::Result<PathBuf> {
    let here = own_file as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    maps.lines()
        .find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let start = usize::from_str_radix(start, 16).ok()?;
            let end = usize::from_str_radix(end, 16).ok()?;
            let path = &rest[rest.find('/')?..];
            (start..end).contains(&here).then(|| PathBuf::from(path))
        })
        .ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "own file is not in /proc/self/maps")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_name_cannot_leave_its_folder() {
        for bad in ["", "../x", "a/b", ".hidden", "a b"] {
            assert!(Place::new("/run/x".into(), bad.to_owned()).is_err(), "{bad:?} was accepted");
        }
        let place = Place::new("/run/x".into(), "node-1".to_owned()).expect("a plain name");
        assert_eq!(place.socket(), Path::new("/run/x/node-1.sock"));
    }

    #[test]
    fn own_file_is_the_running_test() {
        let expected = std::env::current_exe().expect("a test has a file");
        assert_eq!(own_file().expect("found"), expected);
    }
}
