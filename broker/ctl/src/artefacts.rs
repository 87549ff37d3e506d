//! Where the other built things lie: beside our own file, the simulator in `sim/`, samples in
//! `samples/`.

use std::path::PathBuf;

use crate::failure::Failure;

#[derive(Clone, Debug)]
pub(crate) struct Artefacts {
    pub(crate) dir: PathBuf,
}

impl Artefacts {
    /// The directory our own file is in, links resolved.
    pub(crate) fn beside_self() -> Result<Self, Failure> {
        let own = std::env::current_exe()
            .map_err(|error| Failure::io("finding our own file", &error, "is /proc mounted?"))?;
        match own.parent() {
            Some(dir) => Ok(Self { dir: dir.to_owned() }),
            None => Err(Failure::new(
                "finding our own directory",
                format!("{} has none", own.display()),
                "",
            )),
        }
    }

    pub(crate) fn library(&self) -> PathBuf {
        self.dir.join("libhalfwarp.so")
    }

    pub(crate) fn core_library(&self) -> PathBuf {
        self.dir.join("libhalfwarp-core.so")
    }

    pub(crate) fn broker(&self) -> PathBuf {
        self.dir.join("halfwarpd")
    }

    pub(crate) fn sim(&self) -> PathBuf {
        self.dir.join("sim")
    }

    pub(crate) fn sample(&self, name: &str) -> PathBuf {
        self.dir.join("samples").join(name)
    }

    /// `path`, if it is there; else what is missing and why that matters.
    pub(crate) fn need(&self, path: PathBuf, what: &str) -> Result<PathBuf, Failure> {
        if path.exists() {
            return Ok(path);
        }
        Err(Failure::new(
            format!("looking for {what} beside halfwarp"),
            format!("{} is not there", path.display()),
            "install the parts of one release in one directory",
        ))
    }
}
