//! Memory that a program has given back and the card still holds counts towards its limit.

use std::time::Duration;

use halfwarp_tests::{Machine, expect, guest};

const DEADLINE: Duration = Duration::from_secs(60);

fn is_refused(test: &str, limit: &str, way: &str) {
    let machine = Machine::new();
    let program = [guest("kept").into_os_string(), way.into()];
    let ended = machine.tenant(&["--memory", limit]).program(program).finish(DEADLINE);
    assert!(ended.stdout.contains(" kept"), "the program came to its end: {}", ended.all());
    expect(test, if ended.status.success() { Ok(()) } else { Err(ended.all()) });
}

#[test]
fn what_a_pool_keeps_counts() {
    // A context of 128 MiB, and room for one block but not for two.
    is_refused("what_a_pool_keeps_counts", "448MiB", "pool");
}

#[test]
fn an_exported_handle_counts_while_its_descriptor_lives() {
    is_refused("an_exported_handle_counts_while_its_descriptor_lives", "640MiB", "export");
}
