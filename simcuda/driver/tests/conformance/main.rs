//! Conformance: what the driver's functions do, one rule after another, against the driver's
//! interface alone. The bodies run on the simulated driver here and on NVIDIA's where there is a
//! GPU (`CUDA_DRIVER_UNDER_TEST` names the library).
//!
//! A function of the groups below that the simulated driver has and no rule covers is an error.

#[path = "../api/mod.rs"]
mod api;
mod arrays;
mod call;
mod capture;
mod contexts;
mod copies;
mod events;
mod graph_nodes;
mod graphs;
mod ipc;
mod managed;
mod memory;
mod pools;
mod rule;
mod streams;
mod vmm;
mod words;

use rule::Rule;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const GROUPS: [&str; 10] =
    ["alloc", "submit", "sync", "ctx", "stream", "event", "vmm", "pool", "graph", "ipc"];

fn all_rules() -> impl Iterator<Item = &'static Rule> {
    [
        arrays::RULES,
        capture::RULES,
        contexts::RULES,
        copies::RULES,
        events::RULES,
        graph_nodes::RULES,
        graphs::RULES,
        ipc::RULES,
        managed::RULES,
        memory::RULES,
        pools::RULES,
        streams::RULES,
        vmm::RULES,
        words::RULES,
    ]
    .into_iter()
    .flatten()
}

/// Functions that the simulated driver's source has.
fn implemented() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(source).expect("the driver's source").flatten() {
        let text = fs::read_to_string(entry.path()).expect("a source file");
        for line in text.lines().map(str::trim) {
            let name = match line.strip_prefix("pub(crate) fn cu") {
                Some(rest) => rest.split('(').next(),
                None => line.strip_prefix("cu").and_then(|l| Some(l.split_once(" = cu")?.0)),
            };
            found.extend(name.map(|name| format!("cu{name}")));
        }
    }
    found
}

/// The groups of each function.
fn groups() -> BTreeMap<String, String> {
    let list =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shim-cuda-headers/data/cuda-api.tsv");
    let text = fs::read_to_string(list).expect("the list of functions");
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("cu")) {
        let columns: Vec<&str> = line.split('\t').collect();
        for form in columns[3].split(';').filter_map(|form| form.split('@').next()) {
            found.insert(form.to_owned(), columns[1].to_owned());
        }
    }
    found
}

#[test]
fn every_function_of_the_groups_that_is_there_has_a_rule() {
    let covered: BTreeSet<&str> = all_rules().flat_map(|rule| rule.covers).copied().collect();
    let groups = groups();
    let concerns = |name: &String| {
        groups.get(name).is_some_and(|of| of.split(',').any(|group| GROUPS.contains(&group)))
    };
    let without: Vec<String> = implemented()
        .into_iter()
        .filter(|name| concerns(name) && !covered.contains(name.as_str()))
        .collect();
    assert!(without.is_empty(), "{} without a rule: {}", without.len(), without.join(" "));
}

#[test]
fn every_rule_says_where_it_comes_from() {
    for rule in all_rules() {
        let words = rule.source.concat();
        let known = words.contains("cuda.h") || words.contains("measured");
        assert!(known, "{} names no line of the header and no measured fact", rule.name);
    }
}
