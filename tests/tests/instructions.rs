//! What the library costs on its hot paths, in instructions of its own, against the budgets in
//! `benches/budgets.toml`. Counted by single steps: the same on a busy machine and on a quiet one.

use std::{collections::BTreeMap, fs, time::Duration};

use halfwarp_tests::{
    Machine, guest,
    trace::{Traced, binary},
};
use serde::Deserialize;

const DEADLINE: Duration = Duration::from_secs(60);

/// The calls of `tests/guests/paths.c`, in its order.
const PATHS: &[&str] = &[
    "forwarded_call",
    "allocation",
    "release",
    "look_up_of_a_foreign_name",
    "look_up_of_a_name_that_begins_like_ours",
    "cuGetProcAddress",
    "launch",
    "fill",
];

#[derive(Deserialize)]
struct Budgets {
    /// Path to the most instructions of ours that it may take.
    budget_instructions: BTreeMap<String, u64>,
}

#[test]
fn each_path_keeps_within_its_budget_of_instructions() {
    let budgets: Budgets = toml::from_str(include_str!("../../benches/budgets.toml"))
        .expect("benches/budgets.toml has budgets of instructions");
    let listed: Vec<_> = budgets.budget_instructions.keys().map(String::as_str).collect();
    let mut walked = PATHS.to_vec();
    walked.sort_unstable();
    assert_eq!(listed, walked, "a budget for each path, and no other");

    let machine = Machine::new();
    let go = machine.runtime_dir().join("go");
    let mut program = machine
        .tenant(&["--memory", "2GiB"])
        .program([guest("paths").into_os_string(), go.clone().into()])
        .start();
    let ready = program.line("READY ", DEADLINE);
    let pid = ready.trim_start_matches("READY ").parse().expect("READY has the pid");
    let mut traced = Traced::seize(pid).expect("the process can be traced");
    let (one, two) = (binary("libhalfwarp.so"), binary("libhalfwarp-core.so"));
    fs::write(&go, "").expect("a file in the machine's folder");
    let mut over = Vec::new();
    for path in PATHS {
        let counted = traced.count_to_next_stop(&[&one, &two], DEADLINE).expect(path);
        let budget = budgets.budget_instructions[*path];
        println!("{path}: {counted} instructions, budget {budget}");
        assert!(counted > 0, "{path} does not pass through the library");
        if counted > budget {
            over.push(format!("{path} takes {counted} instructions, its budget is {budget}"));
        }
    }
    traced.kill();
    assert!(over.is_empty(), "{over:?}");
}
