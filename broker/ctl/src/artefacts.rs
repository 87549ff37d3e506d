//! Where the other built things lie: beside our own file, the simulator in `sim/`, samples in
//! `samples/`.

use std::path::PathBuf;

use halfwarp_gate::stage;

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

    /// The library to preload, if it is one. The loader goes on without a file that it cannot use, and
    /// the program would run without its limits.
    pub(crate) fn sound_library(&self) -> Result<PathBuf, Failure> {
        let path = self.need(self.library(), "the library")?;
        let tried = || format!("reading {}", path.display());
        let help = "install the parts of one release in one directory";
        let file = std::fs::read(&path).map_err(|error| Failure::io(tried(), &error, help))?;
        if file.starts_with(b"\x7fELF") && is_stage_one(&file) {
            return Ok(path);
        }
        Err(Failure::new(tried(), "it is not Halfwarp's library", help))
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

/// Whether a file is the preloaded library: it alone has this symbol.
pub(crate) fn is_stage_one(file: &[u8]) -> bool {
    contains(file, stage::MARK_SYMBOL.to_bytes_with_nul())
}

pub(crate) fn contains(file: &[u8], bytes: &[u8]) -> bool {
    file.windows(bytes.len()).any(|window| window == bytes)
}
