//! Drivers that are newer or older than the list of functions, and two cards with a link: the library is
//! in the way of what it knows and of nothing else.

use std::time::Duration;

use halfwarp_tests::{Ended, Machine, finish, guest};

const DEADLINE: Duration = Duration::from_secs(60);

fn words(program: &str, arguments: &[&str]) -> Vec<String> {
    let program = guest(program).to_string_lossy().into_owned();
    std::iter::once(program).chain(arguments.iter().map(ToString::to_string)).collect()
}

fn run(machine: &Machine, program: &str, arguments: &[&str]) -> Ended {
    machine.tenant(&["--memory", "4GiB"]).program(words(program, arguments)).finish(DEADLINE)
}

#[test]
fn hook_07_a_form_that_no_list_has_is_passed_through_and_said() {
    let machine = Machine::new();
    let faults = machine.faults();
    faults.set("newer:cuMemAlloc");
    // The shell keeps the tenant, and its broker, while the broker is asked.
    let program = words("skew", &["newer", "64", "alloc", "5000"]).join(" ");
    let script = format!("{program}; echo DONE; read line");
    let tenancy = machine.tenant(&["--memory", "4GiB"]);
    let mut tenant = tenancy.program(["sh", "-c", script.as_str()]).start();
    assert_eq!(tenant.line("NEWER ", DEADLINE), "NEWER 0 0", "it works, and is not ours");
    assert_eq!(tenant.line("CODE ", DEADLINE), "CODE 2", "the limit holds for what is known");
    tenant.line("DONE", DEADLINE);
    let event = machine.events().into_iter().find(|event| event.kind == "unknown-function");
    let event = event.expect("an event says so");
    assert!(event.text.contains("passed through"), "{event:?}");
    let mut doctor = machine.halfwarp(["doctor", "--sim=t4"]);
    let doctor = finish(&mut doctor, DEADLINE);
    assert!(doctor.stdout.contains("passed through unseen: "), "{}", doctor.all());
    tenant.say("end");
}

#[test]
fn hook_07_an_older_driver_lacks_what_it_lacks_and_the_limit_holds() {
    let machine = Machine::new();
    let faults = machine.faults();
    let hidden = ["cuGetProcAddress_v2", "cuMemAllocAsync", "cuMemCreate"];
    for name in hidden {
        faults.set(&format!("hide:{name}"));
    }
    for name in hidden {
        let ended = run(&machine, "skew", &["has", name]);
        assert_eq!(ended.stdout, format!("HAS {name} 0 0\n"), "{}", ended.all());
    }
    let ended = run(&machine, "skew", &["has", "cuMemAlloc_v2"]);
    assert!(ended.stdout.starts_with("HAS cuMemAlloc_v2 1 "), "{}", ended.all());
    let ended = run(&machine, "skew", &["alloc", "64", "alloc", "4160"]);
    assert_eq!(ended.stdout, "CODE 0\nCODE 2\n", "{}", ended.all());
    let ended = run(&machine, "linked_vmm", &[]);
    assert_eq!(ended.stdout, "CODE 801\n", "no jump to null: {}", ended.all());
}

#[test]
fn hook_12_what_is_said_of_two_cards_and_their_link_is_the_drivers_own() {
    let machine = Machine::with_profile("node-2");
    let natively = finish(&mut machine.natively(guest("peers")), DEADLINE);
    assert!(natively.stdout.contains("p2p 3 of 0 1: 0 1"), "they are linked: {}", natively.all());
    let tenancy = machine.tenant(&["--gpu", "0,1"]).program([guest("peers")]);
    let ended = tenancy.finish(DEADLINE);
    assert_eq!(ended.stdout, natively.stdout);
}
