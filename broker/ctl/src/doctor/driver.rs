//! Which `libcuda.so.1` a tenant would run on, and why that one: the library's own order, followed
//! here without loading anything.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::Finding;
use crate::{artefacts::is_stage_one, broker::Place};

const SONAME: &str = "libcuda.so.1";

/// Directories that the loader searches last.
const DEFAULT_DIRECTORIES: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// What `ldconfig -p` prints, which is `/etc/ld.so.cache` in words.
pub(super) fn loader_cache() -> Option<String> {
    ["ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"].iter().find_map(|program| {
        let output = Command::new(program).arg("-p").stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    })
}

/// A place where the driver may be, and the reason to look there.
type Candidate = (PathBuf, &'static str);

pub(super) fn chosen(place: &Place, cache: Option<&str>) -> Finding {
    let path = std::env::var_os("LD_LIBRARY_PATH");
    let path = match &place.sim {
        Some(sim) => sim.environment(path).into_iter().next().map(|(_, value)| value),
        None => path,
    };
    let by = if place.sim.is_some() { "--sim" } else { "LD_LIBRARY_PATH" };
    choose(candidates((path.as_ref(), by), cache, &DEFAULT_DIRECTORIES))
}

/// `path` is a list of directories and the reason to look there.
fn candidates(
    (path, by): (Option<&OsString>, &'static str),
    cache: Option<&str>,
    defaults: &[&str],
) -> Vec<Candidate> {
    let by_path = path.map(|path| path.as_bytes()).unwrap_or_default();
    let by_path = by_path
        .split(|byte| *byte == b':' || *byte == b';')
        .filter(|dir| !dir.is_empty())
        .map(|dir| (Path::new(std::ffi::OsStr::from_bytes(dir)).join(SONAME), by));
    let cached = cached(cache.unwrap_or_default(), SONAME)
        .into_iter()
        .map(|path| (path, "/etc/ld.so.cache"));
    let defaults = defaults.iter().map(|dir| (Path::new(dir).join(SONAME), "a default directory"));
    by_path.chain(cached).chain(defaults).collect()
}

/// Paths that the loader's cache has for `soname` on x86-64.
fn cached(cache: &str, soname: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let (name, path) = line.trim().split_once(" => ")?;
        let (name, kind) = name.split_once(' ')?;
        (name == soname && kind.contains("x86-64")).then(|| PathBuf::from(path))
    };
    cache.lines().filter_map(path).collect()
}

fn choose(candidates: Vec<Candidate>) -> Finding {
    const NAME: &str = "driver";
    let mut ours = Vec::new();
    for (path, why) in &candidates {
        match std::fs::read(path) {
            Ok(file) if is_stage_one(&file) => ours.push(path.display().to_string()),
            Ok(_) => {
                let path = path.display();
                let skipped = if ours.is_empty() { "" } else { ", past our own library" };
                return Finding::ok(NAME, format!("{path}, found by {why}{skipped}"));
            }
            Err(_) => {}
        }
    }
    let only_ours = if ours.is_empty() { "" } else { " but our own library" };
    Finding::fail(
        NAME,
        format!(
            "no {SONAME}{only_ours} on LD_LIBRARY_PATH, in /etc/ld.so.cache or in {}",
            DEFAULT_DIRECTORIES.join(", ")
        ),
        "install NVIDIA's driver; without a GPU, use --sim",
    )
}

/// Our library has the driver's SONAME: in a directory that `ldconfig` scans it would become the
/// system's driver.
pub(super) fn trap(cache: Option<&str>) -> Finding {
    const NAME: &str = "ldconfig";
    let Some(cache) = cache else {
        return Finding::warn(
            NAME,
            "there is no ldconfig to ask for the loader's cache",
            "on a host without /etc/ld.so.cache there is nothing to do",
        );
    };
    let trapped = cached(cache, SONAME)
        .into_iter()
        .chain(cached(cache, "libhalfwarp.so"))
        .find(|path| std::fs::read(path).is_ok_and(|file| is_stage_one(&file)));
    match trapped {
        None => Finding::ok(NAME, "our library is not in the loader's cache"),
        Some(path) => Finding::fail(
            NAME,
            format!("the loader's cache takes {} for the driver", path.display()),
            "take its directory out of /etc/ld.so.conf.d and run ldconfig",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Outcome;

    fn file(dir: &Path, below: &str, text: &str) -> String {
        let dir = dir.join(below);
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join(SONAME), text).expect("a file");
        dir.to_string_lossy().into_owned()
    }

    #[test]
    fn the_first_driver_that_is_not_ours_is_chosen_and_the_reason_given() {
        let root = tempfile::tempdir().expect("a directory");
        let ours = file(root.path(), "ours", "halfwarp_stage_one\0");
        let cached = file(root.path(), "cached", "a driver");
        let default = file(root.path(), "default", "a driver");
        let cache = format!("1 libs found\n\t{SONAME} (libc6,x86-64) => {cached}/{SONAME}\n");
        let path = OsString::from(format!("/nonexistent:{ours}"));
        let found = |path: Option<&OsString>, cache: Option<&str>| {
            choose(candidates((path, "LD_LIBRARY_PATH"), cache, &[&default])).found
        };
        let said = found(Some(&path), Some(&cache));
        assert!(said.contains(&cached) && said.contains("ld.so.cache, past our own"), "{said}");
        assert!(found(None, None).contains(&default));
        let path = OsString::from(&cached);
        assert!(found(Some(&path), None).contains("LD_LIBRARY_PATH"));
    }

    #[test]
    fn a_driver_of_another_architecture_is_not_meant() {
        let cache = format!("\t{SONAME} (libc6) => /lib32/{SONAME}\n");
        assert!(cached(&cache, SONAME).is_empty());
    }

    #[test]
    fn no_driver_but_our_own_library_fails() {
        let root = tempfile::tempdir().expect("a directory");
        let ours = file(root.path(), "ours", "halfwarp_stage_one\0");
        let finding = choose(candidates((Some(&OsString::from(&ours)), "--sim"), None, &[]));
        assert_eq!(finding.outcome, Outcome::Fail);
        assert!(finding.found.contains("but our own library"), "{finding:?}");
    }

    #[test]
    fn our_library_in_the_loaders_cache_is_a_trap() {
        let root = tempfile::tempdir().expect("a directory");
        let ours = file(root.path(), "ours", "halfwarp_stage_one\0");
        let cache = format!("\t{SONAME} (libc6,x86-64) => {ours}/{SONAME}\n");
        assert_eq!(trap(Some(&cache)).outcome, Outcome::Fail);
        assert_eq!(trap(Some("0 libs found")).outcome, Outcome::Ok);
        assert_eq!(trap(None).outcome, Outcome::Warn);
    }
}
