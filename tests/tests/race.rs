//! Many processes of one tenant race for its last bytes: exactly as many blocks as fit are granted,
//! and when the processes are killed nothing of theirs stays. Beside them a neighbour's figures do not
//! move and another's results stay right.

use std::time::Duration;

use halfwarp_tests::{GIB, MIB, Machine, artefact, guest, until};

const WORKERS: u64 = 32;
/// Blocks of 2 MiB that are left: fewer than workers, so that most rounds end in a crowd.
const ROOM: u64 = 24;
const BLOCK_BYTES: u64 = 2 * MIB;
const SHORT_ROUNDS: u64 = 50;
const ROUND_DEADLINE: Duration = Duration::from_secs(2);
const START_DEADLINE: Duration = Duration::from_secs(120);
/// What is promised after the end of a process.
const FREED_WITHIN: Duration = Duration::from_secs(1);

/// How many rounds: the short form, or what `cargo xtask long race` asks for.
fn rounds() -> u64 {
    let asked = std::env::var("HALFWARP_ROUNDS").ok();
    asked.map_or(SHORT_ROUNDS, |rounds| rounds.parse().expect("HALFWARP_ROUNDS is a number"))
}

#[test]
fn mem_13_as_many_as_fit_are_granted_and_never_one_more() {
    let machine = Machine::with_profile("h200");
    let rounds = rounds();
    let neighbour = ["--memory", "4GiB", "--name", "neighbour"];
    let hold = [guest("hold").into_os_string(), "1024".into()];
    let mut neighbour = machine.tenant(&neighbour).program(hold).start();
    let figures = neighbour.line("HELD ", START_DEADLINE).replace("HELD", "AFTER");
    let adder = ["--memory", "4GiB", "--name", "adder"];
    let adds = [artefact("samples/vectorAdd").into_os_string(), "--seconds".into(), "2".into()];
    let adder = machine.tenant(&adder).program(adds).start();

    let arguments = [WORKERS.to_string(), rounds.to_string(), ROOM.to_string()];
    let tenancy = machine
        .tenant(&["--memory", "48GiB", "--name", "racers"])
        .program([guest("race").into_os_string()].into_iter().chain(arguments.map(Into::into)));
    let mut racers = tenancy.start();

    let patience = START_DEADLINE + ROUND_DEADLINE * u32::try_from(rounds).expect("few rounds");
    let counted = racers.line("ROUNDS ", patience);
    let numbers: Vec<u64> =
        counted.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [run, contested] = numbers[..] else { panic!("{counted:?}") };
    assert_eq!(run, rounds + 1);
    assert!(contested * 2 >= run, "only {contested} of {run} rounds were contested");

    racers.line("HOLDING", ROUND_DEADLINE);
    let held = machine.tenant_named("racers").gpus[0].held_bytes.0;
    assert!(held <= 48 * GIB, "{held} bytes are held under 48 GiB");
    assert!(held > 48 * GIB - BLOCK_BYTES, "{held} bytes are held, less than a block below 48 GiB");

    racers.say("kill");
    racers.line("KILLED", START_DEADLINE);
    until(FREED_WITHIN, "a tenant whose processes were killed holds nothing", || {
        (machine.tenant_named("racers").gpus[0].held_bytes.0 == 0).then_some(())
    });
    racers.say("end");
    let ended = racers.end(START_DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());

    let added = adder.end(START_DEADLINE);
    assert!(added.status.success() && added.stdout.contains("PASSED"), "{}", added.all());
    neighbour.say("look");
    assert_eq!(neighbour.line("AFTER ", START_DEADLINE), figures, "the neighbour's figures moved");
    assert!(neighbour.end(START_DEADLINE).status.success());
}
