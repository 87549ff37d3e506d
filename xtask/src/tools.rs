//! Tools from outside that building and testing need, pinned in `tools.toml`, kept out of the checkout.
//!
//! PyPI packages go into one virtual environment per purpose under the user's cache folder; its name
//! holds a hash of the pins, so a changed pin makes a new one. Rust crates are cargo's business.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::command::{output, shown};

#[derive(Deserialize)]
struct Pins {
    tool: Vec<Pin>,
}

/// One line of `tools.toml`.
#[derive(Deserialize, Clone)]
pub(crate) struct Pin {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) source: Source,
    #[serde(rename = "for")]
    pub(crate) purpose: Purpose,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    Pypi,
    Debian,
    Npm,
    Crate,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Purpose {
    Build,
    Test,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Test => "test",
        }
    }
}

pub(crate) fn pins() -> Result<Vec<Pin>> {
    let pins: Pins = toml::from_str(include_str!("../tools.toml")).context("xtask/tools.toml")?;
    Ok(pins.tool)
}

/// A virtual environment with every PyPI pin of one purpose in it.
pub(crate) struct Venv {
    folder: PathBuf,
}

impl Venv {
    /// Finds it in the cache or makes it; a failed attempt leaves nothing that passes for whole.
    pub(crate) fn for_purpose(purpose: Purpose) -> Result<Self> {
        let wanted: Vec<String> = pins()?
            .iter()
            .filter(|pin| pin.purpose == purpose && pin.source == Source::Pypi)
            .map(|pin| format!("{}=={}", pin.name, pin.version))
            .collect();
        let python = output(Command::new("python3").arg("--version")).context(
            "python3 is needed to fetch the pinned tools (Debian: python3, python3-venv)",
        )?;
        let stamp = fnv1a(format!("{}{}", python, wanted.join(" ")).as_bytes());
        let cache = cache_folder()?;
        let venv = Self { folder: cache.join(format!("tools-{}-{stamp:016x}", purpose.name())) };

        fs::create_dir_all(&cache).with_context(|| format!("making {}", cache.display()))?;
        let lock = File::create(venv.folder.with_extension("lock"))?;
        lock.lock().context("waiting for another xtask that installs the same tools")?;
        if !venv.complete_mark().exists() {
            venv.install(&wanted)?;
        }
        Ok(venv)
    }

    fn install(&self, wanted: &[String]) -> Result<()> {
        println!("fetching {} into {}", wanted.join(", "), self.folder.display());
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)
                .with_context(|| format!("clearing half-made {}", self.folder.display()))?;
        }
        output(Command::new("python3").args(["-m", "venv"]).arg(&self.folder)).context(
            "python3 could not make a virtual environment (Debian: apt-get install python3-venv)",
        )?;
        let mut pip = Command::new(self.python());
        pip.args(["-m", "pip", "install", "--quiet", "--no-input"]).args(wanted);
        if let Err(error) = output(&mut pip) {
            bail!(
                "could not fetch the pinned tools: {error:#}\n\
                 needed once: the network, or a pip configured with a mirror that has {}; \
                 try by hand: {}",
                wanted.join(", "),
                shown(&pip)
            );
        }
        fs::write(self.complete_mark(), wanted.join("\n") + "\n")?;
        Ok(())
    }

    pub(crate) fn python(&self) -> PathBuf {
        self.bin().join("python3")
    }

    /// Where its packages lie.
    pub(crate) fn site_packages(&self) -> Result<PathBuf> {
        let script = "import sysconfig; print(sysconfig.get_path('purelib'))";
        Ok(PathBuf::from(output(Command::new(self.python()).args(["-c", script]))?.trim()))
    }

    pub(crate) fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn complete_mark(&self) -> PathBuf {
        self.folder.join("complete")
    }
}

/// `$XDG_CACHE_HOME/halfwarp`, else `~/.cache/halfwarp`.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir()
            .context("neither XDG_CACHE_HOME nor HOME is set: no place for the pinned tools")?
            .join(".cache"),
    };
    Ok(base.join("halfwarp"))
}

/// A short name for a list of pins; not a defence against anybody.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
