//! Programs that do what hardly any program does, and that a library in their process must bear:
//! the limit holds to the byte, the figures return, and what is the program's stays the program's.

use std::time::Duration;

use halfwarp_tests::{Machine, Running, guest, until};
use rustix::process::{Pid, Signal, kill_process};

const START: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(120);

fn words(program: &str, arguments: &[&str]) -> Vec<String> {
    let program = guest(program).to_string_lossy().into_owned();
    std::iter::once(program).chain(arguments.iter().map(ToString::to_string)).collect()
}

fn start(machine: &Machine, memory: &str, program: &str, arguments: &[&str]) -> Running {
    let options = ["--memory", memory, "--name", "odd"];
    machine.tenant(&options).program(words(program, arguments)).start()
}

fn kill_broker(machine: &Machine) {
    let pid = machine.broker_pid().expect("a broker runs");
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, Signal::KILL).expect("killed");
}

#[test]
fn what_a_program_puts_in_the_place_of_our_descriptor_is_left_alone() {
    let machine = Machine::new();
    let mut odd = start(&machine, "2GiB", "descriptors", &[]);
    odd.line("CLOSED", START);
    let mut allocate = |code: &str| {
        odd.say("more");
        assert_eq!(odd.line("CODE ", START), format!("CODE {code}"));
    };
    allocate("0");
    kill_broker(&machine);
    // The next `halfwarp run` starts another broker.
    assert!(machine.tenant(&["--memory", "1GiB"]).program(["true"]).finish(START).status.success());
    allocate("0");
    allocate("0");
    allocate("2");
    odd.say("end");
    let ended = odd.end(START);
    assert!(ended.stdout.ends_with("PASS descriptors\n"), "{}", ended.all());
}

/// Runs to the end; what it printed.
fn finish(memory: &str, program: &str, arguments: &[&str]) -> String {
    finish_in(&Machine::new(), memory, program, arguments)
}

fn finish_in(machine: &Machine, memory: &str, program: &str, arguments: &[&str]) -> String {
    let tenancy = machine.tenant(&["--memory", memory]).program(words(program, arguments));
    let ended = tenancy.finish(DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
    ended.stdout
}

#[test]
fn memory_that_only_a_retained_handle_keeps_alive_is_paid_for() {
    // Seven blocks of 256 MiB fit beside a context.
    assert_eq!(finish("2GiB", "handles", &["retain", "20"]), "ALIVE 1792\n");
}

#[test]
fn a_handle_released_while_it_is_being_mapped_is_paid_for_until_it_is_unmapped() {
    finish("2GiB", "handles", &["race", "1000"]);
}

#[test]
fn threads_that_come_for_their_first_context_together_get_none_that_does_not_fit() {
    assert_eq!(finish("64MiB", "contexts", &["first", "16"]), "MADE 0\n");
    assert_eq!(finish("512MiB", "contexts", &["first", "16"]), "MADE 16\n");
}

#[test]
fn a_context_reset_beside_allocations_in_it_leaves_no_figure_behind() {
    finish("2GiB", "contexts", &["reset", "1000"]);
}

#[test]
fn a_context_destroyed_beside_frees_in_it_leaves_no_figure_behind() {
    finish("2GiB", "contexts", &["free", "2000"]);
}

#[test]
fn threads_that_initialise_together_join_once() {
    assert_eq!(finish("1GiB", "joins", &["16"]), "SOCKETS 1\n");
}

#[test]
fn threads_cancelled_while_they_ask_for_memory_leave_the_program_alive() {
    assert_eq!(finish("2GiB", "cancelled", &["100"]), "PASS cancelled\n");
}

#[test]
fn the_limit_holds_while_the_broker_is_killed_again_and_again_under_eight_busy_processes() {
    let machine = Machine::new();
    // So that a context's real cost is known.
    finish_in(&machine, "4GiB", "hold", &["1"]);
    let mut odd = start(&machine, "4GiB", "storm", &["8", "4096", "128"]);
    odd.line("STORM", START);
    for _ in 0..6 {
        until(START, "all eight have joined, again", || {
            (machine.tenant_named("odd").processes.len() == 8).then_some(())
        });
        kill_broker(&machine);
        // The very next moment: it may still be dying.
        let next = machine.tenant(&["--memory", "1GiB"]).program(["true"]).finish(START);
        assert!(next.status.success(), "{}", next.all());
    }
    odd.say("end");
    let ended = odd.end(START);
    assert!(ended.stdout.ends_with("PASS storm\n"), "{}", ended.all());
}
