//! Many threads and many processes: every way of getting memory at random, and a crowd that begins
//! all at once.

use std::time::Duration;

use halfwarp_tests::{Machine, guest, until};

const DEADLINE: Duration = Duration::from_secs(300);
const FREED_WITHIN: Duration = Duration::from_secs(1);
const SHORT_OPERATIONS: u64 = 4_000;

/// How many operations a thread does: the short form, or what `cargo xtask long mixed` asks for.
fn operations() -> String {
    std::env::var("HALFWARP_ROUNDS").unwrap_or_else(|_| SHORT_OPERATIONS.to_string())
}

#[test]
fn mem_15_every_way_at_random_leaves_nothing_behind() {
    let machine = Machine::new();
    let program = guest("mixed").to_string_lossy().into_owned();
    let tenancy = machine.tenant(&["--memory", "2GiB"]);
    let seed = std::env::var("HALFWARP_SEED").unwrap_or_else(|_| "0".to_owned());
    let words = [program.as_str(), "8", &operations(), &seed];
    let ended = tenancy.program(words).finish(DEADLINE * 4);
    assert_eq!(ended.stdout, "PASS MEM-15\n", "seed {seed}: {}", ended.all());
}

#[test]
fn life_04_a_crowd_that_begins_at_once_is_served() {
    let machine =
        Machine::with_profile(concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/crowd.toml"));
    let program = guest("crowd").to_string_lossy().into_owned();
    // 256 times what a context is first taken to cost where NVML does not say how many
    // multiprocessors a card has (128 MiB + 80 x 4 MiB), and room to spare.
    let options = ["--memory", "120GiB", "--name", "crowd"];
    // A shell that stays keeps the tenant while its figures are read.
    let script = format!("{program} 256 && read line");
    let mut crowd = machine.tenant(&options).program(["sh", "-c", script.as_str()]).start();
    let done = crowd.line("DONE ", DEADLINE);
    assert_eq!(done, "DONE 256 0", "each of them works, since all fit");
    until(FREED_WITHIN, "a tenant whose processes have ended holds nothing", || {
        (machine.tenant_named("crowd").gpus[0].held_bytes.0 == 0).then_some(())
    });
    crowd.say("end");
    assert!(crowd.end(DEADLINE).status.success());
}
