//! A process of a tenant, killed at every crash label that the library has: whatever it was doing,
//! its bytes are free within a second and its neighbour notices nothing.

use std::{fs, thread, time::Duration};

use halfwarp_label::LABELS;
use halfwarp_tests::{
    MIB, Machine, guest,
    trace::{Reached, Traced, binary, labels_of},
    until,
};

const START: Duration = Duration::from_secs(30);
/// What is promised after the end of a process, and a look's own time.
const FREED_WITHIN: Duration = Duration::from_secs(1);
/// Reached only when a broker goes: the second test here has these.
const WITHOUT_BROKER: &[&str] = &["broker_lost", "rejoin_adopted", "rejoin_counted"];
/// Reached only where leases are given and taken: `gates.rs` has these.
const AT_A_GATE: &[&str] =
    &["want_sent", "gate_waiting", "drain_asked", "drain_marked", "drained_sent", "idle_sent"];
/// Reached only where memory is moved: `swap_killed.rs` has these.
const AT_A_SWAP: &[&str] = &[
    "want_memory_sent",
    "chunk_mapped",
    "chunk_unmapped",
    "piece_pinned",
    "swap_out_asked",
    "copy_out_begun",
    "copy_staged",
    "copied_out",
    "piece_unmapped",
    "handle_released",
    "units_left",
    "swap_in_asked",
    "handle_created",
    "piece_mapped",
    "copy_in_begun",
    "copied_in",
    "swap_done",
    "swap_ended_sent",
];

#[test]
fn a_process_killed_at_any_label_leaves_nothing_behind() {
    let library = binary("libhalfwarp-core.so");
    let built = labels_of(&library).expect("the library has labels");
    let listed = || LABELS.iter().filter(|label| label.place == "library");
    let missing: Vec<_> = listed().filter(|l| !built.contains_key(l.name)).collect();
    assert!(missing.is_empty(), "labels that nothing in the library calls: {missing:?}");

    let machine = Machine::new();
    let mut neighbour = machine
        .tenant(&["--memory", "4GiB", "--name", "neighbour"])
        .program([guest("hold").into_os_string(), "512".into()])
        .start();
    neighbour.line("HELD", START);
    let held = || machine.gpus()[0].memory_held_bytes.0;
    let alone = held();
    assert!(alone >= 512 * MIB, "the neighbour holds {alone} bytes");

    let elsewhere =
        |name: &str| [WITHOUT_BROKER, AT_A_GATE, AT_A_SWAP].iter().any(|l| l.contains(&name));
    for label in listed().filter(|label| !elsewhere(label.name)) {
        let go = machine.runtime_dir().join(format!("go-{}", label.name));
        let mut victim = machine
            .tenant(&["--memory", "2GiB", "--name", "victim"])
            .program([guest("steps").into_os_string(), go.clone().into()])
            .start();
        let ready = victim.line("READY ", START);
        let pid = ready.trim_start_matches("READY ").parse().expect("READY has the pid");
        let mut traced = Traced::seize(pid).expect("the process can be traced");
        traced.stop_at(&library, label.name).expect("the label is in the library");
        fs::write(&go, "").expect("a file in the machine's folder");
        let reached = traced.run(START).expect("the process goes on");
        assert_eq!(reached, Reached::Label(label.name.to_owned()), "{}", label.after);
        traced.kill();
        until(FREED_WITHIN, &format!("bytes are free after {}", label.name), || {
            (held() == alone).then_some(())
        });
        drop(victim);
    }
    assert_eq!(held(), alone, "the neighbour's figure has moved");
    neighbour.say("end");
    let ended = neighbour.end(START);
    assert!(ended.status.success(), "{}", ended.all());
}

#[test]
fn a_process_killed_while_it_joins_a_new_broker_leaves_nothing_behind() {
    let library = binary("libhalfwarp-core.so");
    let machine = Machine::new();
    for label in WITHOUT_BROKER {
        let mut victim = machine
            .tenant(&["--memory", "2GiB", "--name", label])
            .program([guest("hold").into_os_string(), "512".into()])
            .start();
        victim.line("HELD", START);
        let pid = machine.tenant_named(label).processes[0].pid;
        let mut traced = Traced::seize(pid).expect("the process can be traced");
        traced.stop_at(&library, label).expect("the label is in the library");
        kill(machine.broker_pid().expect("a broker runs"));
        let reached = thread::scope(|scope| {
            // Brings the next broker, and ends by itself.
            scope.spawn(|| {
                let newcomer = machine.tenant(&["--memory", "1GiB", "--name", "newcomer"]);
                newcomer.program([guest("hold").into_os_string(), "64".into()]).finish(START)
            });
            traced.run(START)
        });
        assert_eq!(reached.expect("the label is reached"), Reached::Label((*label).to_owned()));
        traced.kill();
        until(FREED_WITHIN * 3, &format!("bytes are free after {label}"), || {
            (machine.gpus()[0].memory_held_bytes.0 == 0).then_some(())
        });
    }
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it can be killed");
}
