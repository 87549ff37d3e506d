//! In a process without an entitlement the library is not there: thousands of random calls of every
//! row, legal and illegal, answer the same codes and write the same with it and without it.

use std::collections::BTreeSet;
use std::time::Duration;

use halfwarp_tests::{Machine, artefact, finish, guest};

const DEADLINE: Duration = Duration::from_secs(300);
const BLOCKS: u64 = 40;
const CALLS: u64 = 250;

/// Another seed each day would find more, and this one finds the same for everybody.
fn seed() -> u64 {
    std::env::var("HALFWARP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_130)
}

/// What the calls answered on a machine of their own.
fn answers(how: &str, preload: bool) -> Vec<String> {
    let machine = Machine::new();
    let mut command = machine.natively(guest("roads").join("differ"));
    command.args([seed(), BLOCKS, CALLS].map(|number| number.to_string())).arg(how);
    if preload {
        command.env("LD_PRELOAD", artefact("libhalfwarp.so"));
    }
    let ended = finish(&mut command, DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
    assert_eq!(ended.stderr, "", "seed {}", seed());
    ended.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn without_an_entitlement_random_calls_answer_the_same_with_the_library_and_without() {
    println!("seed {}, {BLOCKS} blocks of {CALLS} calls", seed());
    // Linked symbols pass through our exports, symbols looked up are the driver's own.
    for how in ["linked", "found"] {
        compare(how);
    }
}

fn compare(how: &str) {
    let (without, with) = (answers(how, false), answers(how, true));
    let calls = without.iter().filter(|line| line.starts_with("cu")).count();
    assert!(calls > 5000, "only {calls} calls were made");
    let column = |at: usize| -> BTreeSet<&str> {
        without.iter().filter_map(|line| line.split(' ').nth(at)).collect()
    };
    assert!(column(2).len() > 8, "codes were {:?}", column(2));
    for class in ["Linear", "Pool", "Vmm", "Array", "Context", "Host", "Nothing", "GraphMemory"] {
        assert!(column(1).contains(class), "no call of {class}");
    }
    for (at, (a, b)) in without.iter().zip(&with).enumerate() {
        assert_eq!(a, b, "line {at} of seed {}: without the library on the left", seed());
    }
    assert_eq!(without.len(), with.len());
}
