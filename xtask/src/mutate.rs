//! `cargo xtask mutate NAME`: breaks the code on purpose, one switch at a time, and sees whether a test
//! notices. The switches stand in `tests/mutations/NAME.toml`.
//!
//! The checkout is left alone: each switch is thrown in a copy of it, of which only the two stages of
//! the library are built; the tests are this checkout's own, run on artefacts in which those two are
//! replaced.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::artefacts::{self, GUESTS};
use crate::command::{cargo, output, root, run, target};
use crate::outcome::Count;
use crate::strangers;
use crate::tools::{Purpose, Venv};

#[derive(Deserialize)]
struct List {
    switch: Vec<Switch>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Switch {
    /// What it does, for people.
    name: String,
    file: String,
    find: String,
    replace: String,
    /// Files of `tests/tests`, run in this order until one fails.
    tests: Vec<String>,
}

/// Where everything of this command lies.
struct Place {
    copy: PathBuf,
    /// Artefacts with the two stages replaced.
    hw: PathBuf,
}

/// `only`: switches whose name contains this.
pub(crate) fn check(count: &mut Count, name: &str, only: Option<&str>) -> Result<()> {
    let list = root().join("tests/mutations").join(name).with_extension("toml");
    let text = fs::read_to_string(&list).with_context(|| format!("{}", list.display()))?;
    let list: List = toml::from_str(&text).with_context(|| format!("{}", list.display()))?;
    let hw = artefacts::build()?;
    strangers::build()?;
    let place = prepare(&hw)?;
    build(&place).context("the copy does not build as it is")?;
    let chosen = |switch: &&Switch| only.is_none_or(|only| switch.name.contains(only));
    let mut survivors = Vec::new();
    for switch in list.switch.iter().filter(chosen) {
        count.check(&switch.name, || match thrown(switch, &place)? {
            Some(test) => {
                println!("caught by {test}");
                Ok(())
            }
            None => {
                survivors.push(switch.name.clone());
                bail!("survived {}", switch.tests.join(", "))
            }
        });
    }
    println!("{} survived{}", survivors.len(), if survivors.is_empty() { "" } else { ":" });
    for name in survivors {
        println!("  {name}");
    }
    Ok(())
}

/// Copies what git knows or would know of the checkout, and links the artefacts.
fn prepare(hw: &Path) -> Result<Place> {
    let place = Place { copy: target().join("mutate/tree"), hw: target().join("mutate/hw") };
    for folder in [&place.copy, &place.hw] {
        let _ = fs::remove_dir_all(folder);
    }
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    for file in output(&mut list)?.split('\0').filter(|file| !file.is_empty()) {
        let (from, to) = (root().join(file), place.copy.join(file));
        fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
        if from.is_file() {
            fs::copy(&from, &to).with_context(|| format!("copying {}", from.display()))?;
        }
    }
    // Hard links: a test finds a file by its real path, and its neighbours beside that.
    run(Command::new("cp").arg("-al").arg(hw).arg(&place.hw))?;
    Ok(place)
}

/// Builds the two stages of the copy and puts them among the artefacts.
fn build(place: &Place) -> Result<()> {
    for guest in GUESTS {
        let mut zigbuild = artefacts::guest_build(guest)?;
        zigbuild
            .current_dir(&place.copy)
            .env("CARGO_TARGET_DIR", target().join("mutate/target"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        output(&mut zigbuild)?;
        let built = artefacts::guest_file(&target().join("mutate/target"), guest);
        let fresh = place.hw.join(".new");
        fs::copy(&built, &fresh).with_context(|| format!("copying {}", built.display()))?;
        fs::rename(&fresh, place.hw.join(guest.name))?;
    }
    Ok(())
}

/// The test that noticed, or `None` if none did.
fn thrown(switch: &Switch, place: &Place) -> Result<Option<String>> {
    let file = place.copy.join(&switch.file);
    let whole = fs::read_to_string(&file).with_context(|| format!("reading {}", switch.file))?;
    let times = whole.matches(&switch.find).count();
    if times != 1 {
        bail!("{} has the text to replace {times} times, not once", switch.file);
    }
    fs::write(&file, whole.replacen(&switch.find, &switch.replace, 1))?;
    let noticed = build(place).and_then(|()| first_failure(switch, place));
    fs::write(&file, whole)?;
    noticed
}

fn first_failure(switch: &Switch, place: &Place) -> Result<Option<String>> {
    let python = Venv::for_purpose(Purpose::Test)?.python();
    for name in &switch.tests {
        let mut test = cargo();
        test.args(["test", "--quiet", "--package", "halfwarp-tests", "--test", name])
            .env("HALFWARP_ARTEFACTS", &place.hw)
            .env("HALFWARP_PYTHON", &python)
            .env("RUST_BACKTRACE", "0")
            .env_remove("HALFWARP_SKIPS")
            .stdin(Stdio::null());
        let ended = test.output().context("starting cargo test")?;
        if ended.status.success() {
            continue;
        }
        let said = String::from_utf8_lossy(&ended.stdout);
        let failed = said.lines().find_map(|line| line.strip_prefix("---- "));
        let failed = failed.and_then(|line| line.split(' ').next());
        match failed {
            Some(failed) => return Ok(Some(format!("{name}::{failed}"))),
            None => {
                bail!("{name} failed without a test:\n{}", String::from_utf8_lossy(&ended.stderr))
            }
        }
    }
    Ok(None)
}
