//! Tests that fail today, listed with the reason in `tests/known-failing.toml`. Such a test still
//! runs; when it passes, the list is wrong and the test says so.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{SkipKind, skip};

#[derive(Deserialize)]
struct Known {
    #[serde(default)]
    failing: BTreeMap<String, String>,
}

/// Name of the test to the reason why it fails.
///
/// # Panics
///
/// If the list cannot be read.
#[must_use]
pub fn known_failing() -> BTreeMap<String, String> {
    let known: Known =
        toml::from_str(include_str!("../known-failing.toml")).expect("tests/known-failing.toml");
    known.failing
}

/// Judges a test's outcome by the list.
///
/// # Panics
///
/// If the test failed and is not listed, or passed and is.
pub fn expect(test: &str, outcome: Result<(), String>) {
    match (known_failing().get(test), outcome) {
        (None, Ok(())) => {}
        (None, Err(why)) => panic!("{test}: {why}"),
        (Some(reason), Err(why)) => {
            skip(test, SkipKind::KnownFailing, &format!("{reason} ({why})"))
        }
        (Some(_), Ok(())) => {
            panic!("{test} passes: take its line out of tests/known-failing.toml")
        }
    }
}
