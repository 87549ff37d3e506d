//! Swap whole: the library in real programs, the broker, the command line, one simulated card.

use std::time::Duration;

use halfwarp_tests::{Ended, GIB, MIB, Machine, Running, finish, guest, until};

const DEADLINE: Duration = Duration::from_secs(60);

/// A program that answers a line for each of its orders (`tests/guests/swapped.c`).
struct Program(Running);

impl Program {
    fn start(machine: &Machine, name: &str, memory: &str) -> Self {
        let options = ["--swap", "--memory", memory, "--name", name];
        let mut program = Self(machine.tenant(&options).program([guest("swapped")]).start());
        program.0.line("READY", DEADLINE);
        program
    }

    fn asks(&mut self, order: &str) -> String {
        self.0.say(order);
        self.0.line("", DEADLINE)
    }

    fn alloc(&mut self, bytes: u64) {
        let said = self.asks(&format!("alloc {bytes}"));
        assert!(said.starts_with("OK"), "alloc {bytes}: {said}");
    }

    fn is_right(&mut self) {
        let said = self.asks("check");
        assert!(said.starts_with("RIGHT"), "{said}");
    }
}

fn command(machine: &Machine, words: &[&str]) -> Ended {
    let mut command = machine.halfwarp(words);
    command.args(machine.broker_arguments());
    finish(&mut command, DEADLINE)
}

fn ordered(machine: &Machine, what: &str, name: &str) {
    let id = machine.tenant_named(name).id.to_string();
    let ended = command(machine, &[what, &id]);
    assert!(ended.status.success(), "{what} {name}: {}", ended.all());
}

fn used(machine: &Machine) -> u64 {
    machine.faults().usage(0).used_bytes
}

#[test]
fn a_suspended_program_leaves_the_card_and_comes_back_with_every_byte() {
    let machine = Machine::with_profile("toy");
    let mut program = Program::start(&machine, "first", "10%..90%");
    for _ in 0..6 {
        program.alloc(64 * MIB + 4096);
    }
    let before = used(&machine);
    assert!(before > 6 * 64 * MIB, "{before}");
    ordered(&machine, "suspend", "first");
    let left = used(&machine);
    assert!(before - left >= 6 * 64 * MIB, "{before} before, {left} while suspended");
    // Another takes all that has become free, and writes its own pattern there.
    let mut other = Program::start(&machine, "second", "10%..60%");
    other.alloc(300 * MIB);
    other.is_right();
    other.0.say("end");
    assert!(other.0.end(DEADLINE).status.success());
    until(DEADLINE, "the other's memory is free", || (used(&machine) <= left).then_some(()));
    ordered(&machine, "resume", "first");
    program.is_right();
    assert!(program.asks("launch").starts_with("OK"));
    assert!(used(&machine) <= before, "something stayed");
}

#[test]
fn what_an_idle_program_holds_goes_to_one_that_needs_it_and_back_when_it_works_again() {
    let machine = Machine::with_profile("toy");
    let total = machine.faults().usage(0).total_bytes;
    assert_eq!(total, GIB);
    let mut first = Program::start(&machine, "first", "10%..100%");
    first.alloc(500 * MIB);
    let mut second = Program::start(&machine, "second", "10%..100%");
    // Does not fit beside it: waits until the idle one has been moved, and is had.
    second.alloc(500 * MIB);
    second.is_right();
    first.is_right();
    assert!(first.asks("launch").starts_with("OK"));
    second.is_right();
}
