//! The crates we depend on: known advisories by our own list, licences, sources and duplicate
//! versions by cargo-deny and `deny.toml`.
//!
//! cargo-deny is not asked for advisories: their database is not in any registry.

use std::process::Command;

use crate::advisories;
use crate::command::{root, run};
use crate::outcome::{Count, SkipKind};
use crate::tools::{Purpose, Venv};

const NAME: &str = "supply: licences, sources and versions of crates";

pub(crate) fn check(count: &mut Count) {
    count.check("supply: no known advisory", advisories::check);
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
