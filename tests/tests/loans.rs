//! Request and limit that move while programs run.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use halfwarp_tests::{GIB, MIB, Machine, Running, SkipKind, finish, guest, python, skip, until};

const LINE: Duration = Duration::from_secs(60);
/// What is promised: a change, and a guaranteed amount.
const CHANGED_WITHIN: Duration = Duration::from_secs(1);
const GUARANTEED_WITHIN: Duration = Duration::from_secs(5);

fn orders(machine: &Machine, options: &[&str]) -> Running {
    let mut orders = machine.tenant(options).program([guest("orders")]).start();
    orders.line("READY", LINE);
    orders
}

fn answer(program: &mut Running, order: &str, beginning: &str) -> Vec<u64> {
    program.say(order);
    let line = program.line(beginning, LINE);
    line.split_whitespace().skip(1).map(|word| word.parse().expect("a number")).collect()
}

fn set(machine: &Machine, name: &str, change: &str) {
    let id = machine.tenant_named(name).id.to_string();
    let mut command = machine.halfwarp(["set", &id, change]);
    let began = Instant::now();
    let ended = finish(command.args(machine.broker_arguments()), LINE);
    assert!(ended.status.success(), "halfwarp set {change}: {}", ended.all());
    assert!(began.elapsed() < CHANGED_WITHIN, "{change} took {:?}", began.elapsed());
}

#[test]
fn mem_18_a_limit_moves_while_a_program_runs() {
    let machine = Machine::new();
    let mut program = orders(&machine, &["--memory", "2GiB", "--name", "moved"]);
    assert_eq!(answer(&mut program, "take 3072", "TOOK"), [2]);
    set(&machine, "moved", "memory=4GiB");
    assert_eq!(answer(&mut program, "take 512", "TOOK"), [0]);
    assert_eq!(answer(&mut program, "take 2560", "TOOK"), [0], "3 GiB in all");
    set(&machine, "moved", "memory=1GiB");
    assert_eq!(answer(&mut program, "look", "SEES"), [GIB, 0]);
    let shown = machine.tenant_named("moved").gpus.remove(0);
    assert_eq!(shown.limit_bytes.0, GIB);
    assert!(shown.held_bytes.0 >= 3 * GIB, "{} are held", shown.held_bytes);
    assert_eq!(answer(&mut program, "take 1", "TOOK"), [2]);
    assert_eq!(answer(&mut program, "give", "GAVE"), [0]);
    let seen = answer(&mut program, "look", "SEES");
    assert!(
        seen[1] >= 256 * MIB && seen[1] < 512 * MIB,
        "1 GiB less 512 MiB and a context: {seen:?}"
    );
    assert_eq!(answer(&mut program, "take 256", "TOOK"), [0], "new memory again once below");
    assert_eq!(answer(&mut program, "take 256", "TOOK"), [2]);
}

#[test]
fn a_tinygrad_program_is_right_while_its_limit_is_raised_and_lowered_twenty_times() {
    let test = "a_tinygrad_program_is_right_while_its_limit_is_raised_and_lowered_twenty_times";
    let Some(python) = python() else {
        skip(test, SkipKind::Registry, "tinygrad is not there; `cargo xtask test` fetches it");
        return;
    };
    let machine = Machine::new();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("programs/moving.py");
    let tenancy = machine.tenant(&["--memory", "1GiB", "--name", "tinygrad"]);
    let tenancy = tenancy.program([python, script]).env("DEV", "CUDA:PTX");
    let tenancy = tenancy.env("XDG_CACHE_HOME", machine.runtime_dir().join("cache"));
    let mut program = tenancy.env("CACHELEVEL", "0").start();
    program.line("ROUND", LINE);
    for _ in 0..20 {
        for (change, total) in [("memory=8GiB", 8 * GIB), ("memory=256MiB", 256 * MIB)] {
            set(&machine, "tinygrad", change);
            program.line(&format!("ROUND {total}"), LINE);
        }
    }
    program.say("stop");
    program.line("RIGHT", LINE);
    let ended = program.end(LINE);
    assert!(ended.status.success(), "{}", ended.all());
}

#[test]
fn a_borrower_that_may_be_ended_is_and_the_owner_has_its_guarantee_in_time() {
    let machine = Machine::new();
    let borrower = ["--memory", "4GiB..15GiB", "--on-reclaim", "end", "--name", "borrower"];
    let mut borrower = orders(&machine, &borrower);
    assert_eq!(answer(&mut borrower, "fill 256", "FILLED"), [59, 2], "15 GiB less a context");
    let began = Instant::now();
    let mut owner = orders(&machine, &["--memory", "11GiB", "--name", "owner"]);
    assert_eq!(answer(&mut owner, "fill 256", "FILLED"), [43, 2], "11 GiB less a context");
    assert!(began.elapsed() < GUARANTEED_WITHIN, "it took {:?}", began.elapsed());
    let ended = borrower.end(LINE);
    assert_eq!(ended.status.code(), Some(128 + 15), "{}", ended.all());
    let told = machine.events().into_iter().find(|event| event.kind == "reclaimed");
    let told = told.expect("the reclaim is told");
    assert!(told.text.contains("borrower") && told.text.contains("owner"), "{}", told.text);
    assert!(!machine.events().iter().any(|event| event.kind == "guarantee-broken"));
}

#[test]
fn a_borrower_that_keeps_its_loans_gets_only_what_no_request_covers() {
    let machine = Machine::new();
    let mut owner = orders(&machine, &["--memory", "11GiB", "--name", "owner"]);
    let mut borrower = orders(&machine, &["--memory", "4GiB..15GiB", "--name", "borrower"]);
    assert_eq!(answer(&mut borrower, "fill 256", "FILLED"), [19, 2], "5 GiB less a context");
    assert_eq!(answer(&mut borrower, "look", "SEES")[0], 15 * GIB);
    assert_eq!(answer(&mut owner, "fill 256", "FILLED"), [43, 2], "11 GiB less a context");
    assert_eq!(answer(&mut borrower, "give", "GAVE"), [0]);
    assert_eq!(answer(&mut borrower, "take 256", "TOOK"), [0], "nobody is harmed");
    let events = machine.events();
    let why =
        |text: &str| events.iter().any(|e| e.kind == "out-of-memory" && e.text.contains(text));
    assert!(why("promised to others") && why("limit is reached"), "{events:?}");
    assert!(!events.iter().any(|event| event.kind == "reclaimed"));
}

#[test]
fn a_request_that_comes_later_gets_what_loans_leave() {
    let machine = Machine::new();
    let mut first = orders(&machine, &["--name", "first"]);
    assert_eq!(answer(&mut first, "take 6144", "TOOK"), [0]);
    let refused = machine.tenant(&["--memory", "11GiB"]).program([guest("orders")]).finish(LINE);
    assert_eq!(refused.status.code(), Some(125), "{}", refused.all());
    assert!(refused.stderr.contains("cannot be made to give them back"), "{}", refused.all());
    assert_eq!(answer(&mut first, "give", "GAVE"), [0]);
    // Its unused allowance comes back for the asking.
    let mut second = orders(&machine, &["--memory", "11GiB", "--name", "second"]);
    assert_eq!(answer(&mut second, "fill 256", "FILLED"), [43, 2]);
    until(LINE, "both are told apart", || (machine.tenants().len() == 2).then_some(()));
}
