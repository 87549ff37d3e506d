//! Memory that a program has given back and the card still holds counts towards its limit.

use std::time::Duration;

use halfwarp_tests::{Machine, guest, until};

const DEADLINE: Duration = Duration::from_secs(60);

fn is_refused(limit: &str, way: &str) {
    let machine = Machine::new();
    let program = [guest("kept").into_os_string(), way.into()];
    let ended = machine.tenant(&["--memory", limit]).program(program).finish(DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
}

#[test]
fn what_a_pool_keeps_counts() {
    // A context of 128 MiB, and room for one block but not for two.
    is_refused("448MiB", "pool");
}

#[test]
fn an_exported_handle_counts_while_its_descriptor_lives() {
    is_refused("640MiB", "export");
}

/// Runs a guest that shows what it holds after each part: the card has to show the same.
fn follow(limit: &str, name: &str, parts: &[&str]) {
    let machine = Machine::new();
    let tenancy = machine.tenant(&["--memory", limit, "--name", name]);
    let mut program = tenancy.program([guest(name)]).start();
    for part in parts {
        let beginning = format!("PART {part} ");
        let held = program.line(&beginning, DEADLINE);
        let held: u64 = held.trim_start_matches(&beginning).parse().expect("a number of bytes");
        until(DEADLINE, "the card shows what the program was told", || {
            let gpu = machine.gpus().remove(0);
            let used = gpu.memory_used_bytes.map(|bytes| bytes.0);
            (used == Some(held) && gpu.memory_held_bytes.0 == held).then_some(())
        });
        program.say("on");
    }
    let ended = program.end(DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
}

#[test]
fn a_pool_counts_with_what_it_has_from_the_card() {
    follow("1GiB", "pools", &["chunk", "empty", "kept", "pieces", "destroyed"]);
}

#[test]
fn mem_05_memory_nodes_of_graphs_count_while_they_are_backed() {
    follow("4GiB", "graphs", &["backed", "trimmed", "both", "one"]);
}
