//! `tests/cases.toml` against the ids of all cases and against the tests that exist.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use halfwarp_tests::known_failing;
use serde::Deserialize;

/// How many cases each group has, numbered from 1.
const GROUPS: &[(&str, u32)] = &[
    ("HOOK", 12),
    ("INST", 5),
    ("K8S", 19),
    ("LIFE", 9),
    ("MEM", 19),
    ("SEC", 5),
    ("SHARE", 10),
    ("SWAP", 15),
    ("VIEW", 5),
];
const AREAS: &[&str] = &[
    "road",
    "guest",
    "machine",
    "programs",
    "memory",
    "compute",
    "swap",
    "operators",
    "kubernetes",
    "fire",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    area: String,
    /// `file::test`, the file being one of `tests/tests`.
    #[serde(default)]
    tests: Vec<String>,
    /// Why there is no test yet.
    reason: Option<String>,
    /// What the tests leave out.
    rest: Option<String>,
}

fn cases() -> BTreeMap<String, Case> {
    toml::from_str(include_str!("../cases.toml")).expect("tests/cases.toml")
}

/// Whether the source of that test file names the test.
fn exists(test: &str) -> bool {
    let Some((file, name)) = test.split_once("::") else { return false };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file).with_extension("rs");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.contains(&format!("fn {name}(")) || text.contains(&format!("    {name} \""))
}

#[test]
fn every_case_stands_in_the_list_and_nothing_else_does() {
    let all = GROUPS
        .iter()
        .flat_map(|(group, count)| (1..=*count).map(move |n| format!("{group}-{n:02}")));
    let mut all: Vec<String> = all.collect();
    all.sort();
    let listed: Vec<String> = cases().into_keys().collect();
    assert_eq!(listed, all);
}

#[test]
fn every_case_has_a_test_that_exists_or_a_reason() {
    for (id, case) in cases() {
        assert!(AREAS.contains(&case.area.as_str()), "{id}: {:?} is no area", case.area);
        let prefix = id.to_lowercase().replace('-', "_");
        for test in &case.tests {
            assert!(exists(test), "{id}: no test is called {test}");
            assert!(test.contains(&format!("::{prefix}_")), "{id}: {test} does not carry the id");
        }
        assert!(
            case.tests.is_empty() == case.reason.is_some(),
            "{id} has either tests or a reason"
        );
        for text in case.reason.iter().chain(&case.rest) {
            assert!(text.len() > 10 && text.ends_with('.'), "{id}: {text:?} is no reason");
        }
        assert!(case.rest.is_none() || !case.tests.is_empty(), "{id}: the rest of nothing");
    }
}

#[test]
fn every_test_that_carries_an_id_stands_in_the_list() {
    let listed: Vec<String> = cases().into_values().flat_map(|case| case.tests).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for file in fs::read_dir(folder).expect("tests/tests").flatten() {
        let path = file.path();
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        for line in fs::read_to_string(&path).expect("a test file").lines() {
            let Some(rest) = line.strip_prefix("fn ") else { continue };
            let name = rest.split('(').next().unwrap_or_default();
            let group = name.split('_').next().unwrap_or_default().to_uppercase();
            let number = name.split('_').nth(1).unwrap_or_default();
            let carries = GROUPS.iter().any(|(known, _)| *known == group)
                && number.len() == 2
                && number.bytes().all(|b| b.is_ascii_digit());
            let test = format!("{stem}::{name}");
            assert!(!carries || listed.contains(&test), "{test} is not in tests/cases.toml");
        }
    }
}

#[test]
fn every_test_known_to_fail_exists_and_has_a_reason() {
    let (cases, kept) = (include_str!("cases.rs"), include_str!("kept.rs"));
    let kept = kept.to_owned() + include_str!("cards.rs");
    for (test, reason) in known_failing() {
        let name = test.trim_start_matches("natively::");
        let exists =
            cases.contains(&format!("    {name} \"")) || kept.contains(&format!("\nfn {name}()"));
        assert!(exists, "no test of cases.rs, kept.rs or cards.rs is called {test}");
        assert!(reason.len() > 10, "{test}: {reason:?} is no reason");
    }
}
