//! Where the built things lie.

use std::path::PathBuf;

/// A file below `HALFWARP_ARTEFACTS`, else below `target/hw` of this checkout.
///
/// # Panics
///
/// If it is not there; the message has the command that builds it.
#[must_use]
pub fn artefact(name: &str) -> PathBuf {
    let folder = std::env::var_os("HALFWARP_ARTEFACTS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/hw"),
        PathBuf::from,
    );
    let file = folder.join(name);
    match file.canonicalize() {
        Ok(path) => path,
        Err(error) => panic!(
            "{}: {error}; run `cargo xtask build` and, if it lies elsewhere, set HALFWARP_ARTEFACTS",
            file.display()
        ),
    }
}

/// A program of `tests/cases/c` or `tests/guests`, compiled by `cargo xtask build`.
#[must_use]
pub fn guest(name: &str) -> PathBuf {
    artefact("tests").join(name)
}

/// Whether the tests run against NVIDIA's driver on a card, without the simulated one.
#[must_use]
pub fn on_a_device() -> bool {
    std::env::var_os("HALFWARP_DEVICE").is_some_and(|value| value == "1")
}

/// A Python with the pinned packages, made by `cargo xtask test`.
#[must_use]
pub fn python() -> Option<PathBuf> {
    std::env::var_os("HALFWARP_PYTHON").map(PathBuf::from).filter(|python| python.exists())
}
