//! Are the parts of one release here, and all of the same build?

use std::{
    path::Path,
    process::{Command, Stdio},
};

use halfwarp_gate::stage;

use super::Finding;
use crate::{
    artefacts::{Artefacts, contains},
    run::preloadable as can_be_preloaded,
};

const INSTALL: &str = "install the parts of one release in one directory";

/// Both stages, and whether they are of our own build: the number by which they know each other
/// stands in both.
pub(super) fn library(artefacts: &Artefacts) -> Finding {
    const NAME: &str = "library";
    let build = stage::build().to_le_bytes();
    let mut strangers = Vec::new();
    for path in [artefacts.library(), artefacts.core_library()] {
        match std::fs::read(&path) {
            Ok(file) if contains(&file, &build) => {}
            Ok(_) => strangers.push(path.display().to_string()),
            Err(error) => {
                return Finding::fail(NAME, format!("{}: {error}", path.display()), INSTALL);
            }
        }
    }
    if strangers.is_empty() {
        let found = format!("both stages in {} are of this build", artefacts.dir.display());
        return Finding::ok(NAME, found);
    }
    let found = format!("of another build than halfwarp: {}", strangers.join(", "));
    Finding::fail(NAME, found, INSTALL)
}

pub(super) fn broker(artefacts: &Artefacts) -> Finding {
    const NAME: &str = "broker file";
    let path = artefacts.broker();
    let ours = env!("CARGO_PKG_VERSION");
    match version_of(&path) {
        Ok(version) if version.split_whitespace().any(|word| word == ours) => {
            Finding::ok(NAME, format!("{} is {ours}, as halfwarp is", path.display()))
        }
        Ok(version) => {
            let found = format!("{} says {version:?}, halfwarp is {ours}", path.display());
            Finding::fail(NAME, found, INSTALL)
        }
        Err(error) => Finding::fail(NAME, format!("{}: {error}", path.display()), INSTALL),
    }
}

fn version_of(program: &Path) -> std::io::Result<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub(super) fn preloadable(artefacts: &Artefacts) -> Finding {
    const NAME: &str = "preloading";
    match can_be_preloaded(artefacts.library()) {
        Ok(path) => Finding::ok(NAME, format!("LD_PRELOAD can name {}", path.display())),
        Err(_) => Finding::fail(
            NAME,
            format!("the loader would split {} at a blank or colon", artefacts.library().display()),
            "install halfwarp in a directory without them",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Outcome;

    #[test]
    fn a_stage_of_another_build_or_a_missing_one_fails() {
        let dir = tempfile::tempdir().expect("a directory");
        let artefacts = Artefacts { dir: dir.path().to_owned() };
        let ours = [b"\x7fELF".as_slice(), &stage::build().to_le_bytes()].concat();
        assert_eq!(library(&artefacts).outcome, Outcome::Fail);
        std::fs::write(artefacts.library(), &ours).expect("a file");
        assert_eq!(library(&artefacts).outcome, Outcome::Fail);
        std::fs::write(artefacts.core_library(), "another").expect("a file");
        let finding = library(&artefacts);
        assert!(finding.found.contains("libhalfwarp-core.so"), "{finding:?}");
        assert!(!finding.found.contains("libhalfwarp.so"), "{finding:?}");
        std::fs::write(artefacts.core_library(), &ours).expect("a file");
        assert_eq!(library(&artefacts).outcome, Outcome::Ok);
    }
}
