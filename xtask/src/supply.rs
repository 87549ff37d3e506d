//! The crates we depend on, by cargo-deny and `deny.toml`: licences, sources, duplicate versions.
//!
//! Advisories are not asked for here: their database is not in any registry.

use std::process::Command;

use crate::command::{root, run};
use crate::outcome::{Count, SkipKind};
use crate::tools::{Purpose, Venv};

const NAME: &str = "supply: licences, sources and versions of crates";

pub(crate) fn check(count: &mut Count) {
    let venv = match Venv::for_purpose(Purpose::Test) {
        Ok(venv) => venv,
        Err(error) => return count.skip(NAME, SkipKind::Registry, &format!("{error:#}")),
    };
    count.check(NAME, || {
        run(Command::new(venv.bin().join("cargo-deny"))
            .args(["--log-level", "error", "--locked", "check", "--hide-inclusion-graph"])
            .args(["bans", "licenses", "sources"])
            .current_dir(root()))
    });
}
