//! Debian packages that tests need, unpacked beside each other in a folder of the user's cache: nothing
//! is installed on the machine, no right is needed but that of fetching.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{output, run};
use crate::tools::{Pin, Source, cache_folder, fnv1a, pins};

/// The folder with every Debian pin in it; made if it is not there.
pub(crate) fn tree() -> Result<PathBuf> {
    let wanted: Vec<Pin> = pins()?.into_iter().filter(|pin| pin.source == Source::Debian).collect();
    let named: Vec<String> =
        wanted.iter().map(|pin| format!("{}={}", pin.name, pin.version)).collect();
    let cache = cache_folder()?;
    let tree = cache.join(format!("debian-{:016x}", fnv1a(named.join(" ").as_bytes())));
    fs::create_dir_all(&cache)?;
    let lock = File::create(tree.with_extension("lock"))?;
    lock.lock().context("waiting for another xtask that fetches the same packages")?;
    let mark = tree.join("complete");
    if !mark.exists() {
        println!("fetching {} into {}", named.join(", "), tree.display());
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir_all(&tree)?;
        for pin in &wanted {
            fetch(pin, &tree)?;
        }
        fs::write(&mark, named.join("\n") + "\n")?;
    }
    Ok(tree)
}

/// Downloads one package and unpacks it.
fn fetch(pin: &Pin, tree: &Path) -> Result<()> {
    let downloads = tree.join("downloads").join(&pin.name);
    fs::create_dir_all(&downloads)?;
    let get = |what: &str| {
        output(Command::new("apt-get").args(["download", what]).current_dir(&downloads))
    };
    let pinned = format!("{}={}", pin.name, pin.version);
    if get(&pinned).is_err() {
        // A machine that has never asked has no lists; Debian keeps only the newest of a release.
        let _ = output(Command::new("apt-get").args(["update", "-qq"]));
        if get(&pinned).is_err() {
            get(&pin.name).with_context(|| format!("fetching Debian's {}", pin.name))?;
            println!("Debian has {} in another version than {}", pin.name, pin.version);
        }
    }
    for package in fs::read_dir(&downloads)? {
        run(Command::new("dpkg-deb").arg("-x").arg(package?.path()).arg(tree))?;
    }
    Ok(())
}
