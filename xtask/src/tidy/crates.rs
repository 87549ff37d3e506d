//! Which crate may depend on which: the drawing in `ARCHITECTURE.md`, as a list that is compared with
//! `cargo metadata`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command::{cargo, output};

/// Crates whose dependencies are an invariant: name, everything that may stand under
/// `[dependencies]`. What is not listed here is free, within the rules below.
const ONLY: &[(&str, &[&str])] = &[
    ("shim-cuda-headers", &[]),
    ("halfwarp-gate", &["halfwarp-api", "loom"]),
    ("halfwarp-books", &["shim-cuda-headers"]),
    ("halfwarp-api", &[]),
    ("halfwarp-broker-core", &["halfwarp-api", "halfwarp-rest"]),
    ("halfwarp-turns", &["halfwarp-api", "halfwarp-broker-core", "halfwarp-rest"]),
    ("halfwarp-label", &[]),
    ("halfwarp-stage1", &["shim-cuda-headers", "halfwarp-gate", "libc"]),
    (
        "halfwarp-core",
        &[
            "shim-cuda-headers",
            "halfwarp-api",
            "halfwarp-books",
            "halfwarp-gate",
            "halfwarp-label",
            "libc",
        ],
    ),
    ("halfwarp-rest", &["serde", "thiserror"]),
    ("simcuda-ptx", &["thiserror"]),
    // A second opinion shares nothing with the first.
    ("simcuda-ptx-reference", &[]),
    ("simcuda-image", &["lz4_flex", "ruzstd", "simcuda-ptx"]),
];
/// Who may know CUDA's table: the library, the simulated driver, and what checks them.
const KNOW_CUDA: &[&str] = &[
    "shim-cuda-headers",
    "halfwarp-stage1",
    "halfwarp-core",
    "halfwarp-books",
    "simcuda-driver",
    "simcuda-nvml",
    "simcudad",
    "halfwarpd",
    "halfwarp-benches",
    "halfwarp-tests",
    "xtask",
];
/// Nobody depends on these.
const ENDS: &[&str] = &["simcuda-ptx-reference", "halfwarp-tests", "halfwarp-benches", "xtask"];
/// Only developers' commands and tests may.
const FOR_DEVELOPERS: &[&str] = &["halfwarp-turns"];
/// What lives in strangers' processes is the same in tests as in production.
const WITHOUT_FEATURES: &[&str] =
    &["halfwarp-stage1", "halfwarp-core", "halfwarp-books", "halfwarp-gate"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
    features: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `null` is a normal dependency.
    kind: Option<String>,
}

pub(super) fn depend_as_drawn() -> Result<Vec<String>> {
    let json =
        output(cargo().args(["metadata", "--no-deps", "--format-version", "1", "--locked"]))?;
    let metadata: Metadata = serde_json::from_str(&json).context("cargo metadata")?;
    Ok(metadata.packages.iter().flat_map(complaints).collect())
}

fn complaints(package: &Package) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut complain = |why: String| complaints.push(format!("crate {}: {why}", package.name));
    let normal = package.dependencies.iter().filter(|dependency| dependency.kind.is_none());
    for Dependency { name, .. } in normal {
        if let Some((_, allowed)) = ONLY.iter().find(|(only, _)| *only == package.name)
            && !allowed.contains(&name.as_str())
        {
            complain(format!("must not depend on {name}; see \"Who may depend on whom\""));
        }
        if name == "shim-cuda-headers" && !KNOW_CUDA.contains(&package.name.as_str()) {
            complain("must know nothing of CUDA's table".to_owned());
        }
        if FOR_DEVELOPERS.contains(&name.as_str()) && package.name != "xtask" {
            complain(format!("must not depend on {name}, which is for developers"));
        }
        if ENDS.contains(&name.as_str()) {
            complain(format!("must not depend on {name}, on which nothing depends"));
        }
    }
    if WITHOUT_FEATURES.contains(&package.name.as_str()) && !package.features.is_empty() {
        complain("has cargo features; what tenants load has one form".to_owned());
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependency: &str) -> Package {
        Package {
            name: name.to_owned(),
            dependencies: vec![Dependency { name: dependency.to_owned(), kind: None }],
            features: BTreeMap::new(),
        }
    }

    #[test]
    fn a_pure_crate_that_gains_a_dependency_is_a_complaint() {
        assert_eq!(complaints(&package("halfwarp-broker-core", "tokio")).len(), 1);
        assert!(complaints(&package("halfwarp-broker-core", "halfwarp-api")).is_empty());
    }

    #[test]
    fn the_command_line_knows_nothing_of_cuda() {
        assert_eq!(complaints(&package("halfwarp", "shim-cuda-headers")).len(), 1);
    }
}
