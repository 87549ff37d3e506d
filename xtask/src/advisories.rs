//! The crates in `Cargo.lock` against the security advisories written down in `advisories.toml`.
//!
//! It fetches nothing: an advisory that is younger than that file is not seen. A crate that nobody
//! has looked up fails, so that a new dependency makes somebody look.

use std::fs;

use anyhow::{Context, Result, bail};
use semver::{Version, VersionReq};
use serde::Deserialize;

use crate::command::root;

const SNAPSHOT: &str = include_str!("../advisories.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Snapshot {
    looked_up: Vec<String>,
    advisory: Vec<Advisory>,
    #[serde(default)]
    accepted: Vec<Accepted>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advisory {
    id: String,
    package: String,
    kind: Kind,
    patched: Vec<VersionReq>,
    unaffected: Vec<VersionReq>,
    #[serde(default)]
    withdrawn: bool,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Vulnerability,
    Unmaintained,
    Unsound,
    Notice,
}

/// An advisory that applies to us and that we live with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accepted {
    id: String,
    reason: String,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: Version,
    /// Our own crates have none.
    source: Option<String>,
}

pub(crate) fn check() -> Result<()> {
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("reading Cargo.lock")?;
    let complaints = complaints(&lock, SNAPSHOT)?;
    if complaints.is_empty() {
        return Ok(());
    }
    bail!("{} complaints\n{}", complaints.len(), complaints.join("\n"))
}

fn complaints(lock: &str, snapshot: &str) -> Result<Vec<String>> {
    let lock: Lock = toml::from_str(lock).context("Cargo.lock")?;
    let snapshot: Snapshot = toml::from_str(snapshot).context("xtask/advisories.toml")?;
    let foreign: Vec<_> = lock.package.iter().filter(|locked| locked.source.is_some()).collect();

    let mut complaints = Vec::new();
    for Locked { name, .. } in &foreign {
        if !snapshot.looked_up.contains(name) {
            complaints.push(format!(
                "{name}: nobody has looked up its advisories; the head of xtask/advisories.toml says how"
            ));
        }
    }
    let mut applying = Vec::new();
    for advisory in &snapshot.advisory {
        for locked in foreign.iter().filter(|locked| advisory.applies_to(locked)) {
            applying.push(advisory.id.as_str());
            if !snapshot.accepted.iter().any(|accepted| accepted.id == advisory.id) {
                complaints.push(advisory.complaint(locked));
            }
        }
    }
    for Accepted { id, reason } in &snapshot.accepted {
        if !applying.contains(&id.as_str()) {
            complaints.push(format!("{id}: accepted, but it no longer applies; take it out"));
        }
        if reason.trim().is_empty() {
            complaints.push(format!("{id}: accepted without a reason; give one"));
        }
    }
    Ok(complaints)
}

impl Advisory {
    /// A pre-release matches only a requirement that names one of its own version, as cargo has it:
    /// in doubt the advisory applies.
    fn applies_to(&self, locked: &Locked) -> bool {
        let mut safe = self.patched.iter().chain(&self.unaffected);
        !self.withdrawn
            && self.package == locked.name
            && !safe.any(|requirement| requirement.matches(&locked.version))
    }

    fn complaint(&self, locked: &Locked) -> String {
        let Locked { name, version, .. } = locked;
        let what = match self.kind {
            Kind::Vulnerability => "has a vulnerability",
            Kind::Unmaintained => "is unmaintained",
            Kind::Unsound => "is unsound",
            Kind::Notice => "has a notice",
        };
        let patched: Vec<_> = self.patched.iter().map(ToString::to_string).collect();
        let remedy = if patched.is_empty() {
            "no version is patched: replace it".to_owned()
        } else {
            format!("update it to {}", patched.join(" or "))
        };
        format!(
            "{name} {version} {what} ({}); {remedy}, or accept it with a reason in \
             xtask/advisories.toml",
            self.id
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVISORY: &str = r#"
        looked_up = ["slab"]
        [[advisory]]
        id = "RUSTSEC-2025-0047"
        package = "slab"
        kind = "vulnerability"
        patched = [">= 0.4.11"]
        unaffected = ["< 0.4.10"]
    "#;

    fn complaints_about(name: &str, version: &str, snapshot: &str) -> Vec<String> {
        let lock = format!(
            "[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n\
             [[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"registry\"\n"
        );
        complaints(&lock, snapshot).expect("both are read")
    }

    fn with(more: &str) -> String {
        format!("{ADVISORY}\n{more}")
    }

    #[test]
    fn a_patched_version_and_one_before_the_mistake_pass() {
        for version in ["0.4.11", "0.4.12+build", "0.4.9"] {
            assert!(complaints_about("slab", version, ADVISORY).is_empty(), "{version}");
        }
    }

    #[test]
    fn a_version_that_is_neither_patched_nor_unaffected_fails() {
        let complaints = complaints_about("slab", "0.4.10", ADVISORY);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].contains("slab 0.4.10 has a vulnerability (RUSTSEC-2025-0047)"));
        assert!(complaints[0].contains(">=0.4.11"), "{}", complaints[0]);
    }

    #[test]
    fn a_pre_release_of_the_patched_version_fails() {
        assert_eq!(complaints_about("slab", "0.4.11-rc.1", ADVISORY).len(), 1);
    }

    #[test]
    fn a_withdrawn_advisory_is_ignored() {
        assert!(complaints_about("slab", "0.4.10", &with("withdrawn = true")).is_empty());
    }

    #[test]
    fn a_crate_nobody_looked_up_fails_and_says_where_it_is_told_how() {
        let complaints = complaints_about("newcomer", "1.0.0", ADVISORY);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].starts_with("newcomer: "));
        assert!(complaints[0].contains("the head of xtask/advisories.toml says how"));
    }

    #[test]
    fn an_accepted_advisory_passes_while_it_applies_and_has_a_reason() {
        let accept = |reason: &str| {
            with(&format!("[[accepted]]\nid = \"RUSTSEC-2025-0047\"\nreason = \"{reason}\"\n"))
        };
        let called = accept("the function is not called");
        assert!(complaints_about("slab", "0.4.10", &called).is_empty());
        assert_eq!(complaints_about("slab", "0.4.12", &called).len(), 1, "it no longer applies");
        assert_eq!(complaints_about("slab", "0.4.10", &accept(" ")).len(), 1, "no reason");
    }

    #[test]
    fn a_word_that_the_snapshot_does_not_know_is_an_error() {
        assert!(complaints("package = []", &with("unafected = []")).is_err());
    }
}
