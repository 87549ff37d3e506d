//! The library as a guest: programs that leave their parents, change their skin, lose threads or load
//! the library's callers several times over find their tenant, their limit and themselves unchanged.

use std::fs;
use std::path::Path;
use std::time::Duration;

use halfwarp_tests::roads::limited;
use halfwarp_tests::{Machine, guest, until};

const DEADLINE: Duration = Duration::from_secs(60);

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The daemon's words, once it has worked.
fn said(out: &Path) -> Vec<i64> {
    until(DEADLINE, "the daemon has worked", || fs::read_to_string(out).ok())
        .split(' ')
        .map(|word| word.parse().expect("a number"))
        .collect()
}

#[test]
fn a_daemon_keeps_its_tenant_though_its_parents_end_before_its_first_cuda_call() {
    let machine = Machine::new();
    let (go, out) = (machine.runtime_dir().join("go"), machine.runtime_dir().join("out"));
    let options = ["--memory", "1GiB", "--name", "daemon"];
    let words = [text(&guest("daemon")), text(&go), text(&out), "512".to_owned()];
    let ended = machine.tenant(&options).program(words).finish(DEADLINE);
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""), "{}", ended.all());
    assert!(ended.took < Duration::from_secs(10), "nobody waits for the daemon");
    assert!(machine.tenant_named("daemon").processes.is_empty(), "it has not joined yet");

    fs::write(&go, "").expect("a file");
    let words = said(&out);
    assert_eq!(words[1..], [0, 0], "cuInit, and 512 MiB");
    let held = machine.tenant_named("daemon");
    assert_eq!(held.processes.len(), 1, "{held:?}");
    assert_eq!(i64::from(held.processes[0].pid), words[0]);

    fs::remove_file(&go).expect("removed");
    until(DEADLINE, "the tenant ends with the daemon", || {
        machine.tenants().is_empty().then_some(())
    });
}

#[test]
fn a_daemon_is_refused_beyond_the_limit_like_the_program_that_started_it() {
    let machine = Machine::new();
    let (go, out) = (machine.runtime_dir().join("go"), machine.runtime_dir().join("out"));
    fs::write(&go, "").expect("a file");
    let words = [text(&guest("daemon")), text(&go), text(&out), "1088".to_owned()];
    let ended = machine.tenant(&["--memory", "1GiB"]).program(words).finish(DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
    let words = said(&out);
    assert_eq!(words[1..], [0, 2], "cuInit, and more than the limit");
    let logged = machine.events().into_iter().find(|event| event.kind == "out-of-memory");
    assert_eq!(logged.and_then(|event| event.pid).map(i64::from), Some(words[0]));
    fs::remove_file(&go).expect("removed");
}

#[test]
fn a_tenant_ends_with_its_program_when_that_left_nobody_behind() {
    let machine = Machine::new();
    let options = ["--memory", "1GiB", "--name", "short"];
    let ended = machine.tenant(&options).program(["true"]).finish(DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
    assert!(machine.tenants().is_empty(), "it is gone when `halfwarp run` is");
}

/// Runs to its end as a tenant of 1 GiB; what it printed.
fn finish(words: &[&str]) -> String {
    finish_in(&Machine::new(), words)
}

fn finish_in(machine: &Machine, words: &[&str]) -> String {
    let program = std::iter::once(text(&guest(words[0])));
    let words = program.chain(words[1..].iter().map(ToString::to_string));
    let ended = machine.tenant(&["--memory", "1GiB"]).program(words).finish(DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
    assert_eq!(ended.stderr, "", "{}", ended.all());
    ended.stdout
}

#[test]
fn a_program_that_clears_its_environment_keeps_its_limit() {
    for what in ["some", "all"] {
        let machine = Machine::new();
        let words = [text(&guest("scrubbed")), what.to_owned()];
        let ended = machine.tenant(&["--memory", "1GiB"]).program(words).finish(DEADLINE);
        limited(&machine, &ended).unwrap_or_else(|why| panic!("{what}: {why}"));
    }
}

#[test]
fn each_link_of_a_chain_of_programs_finds_what_the_one_before_it_left() {
    let said = finish(&["chain", "10"]);
    let links: Vec<&str> = said.lines().collect();
    assert_eq!(links.len(), 11, "{said}");
    assert!(links.iter().all(|link| link.ends_with(" 0")), "{said}");
}

#[test]
fn several_runtimes_in_one_process_share_a_context_and_a_limit() {
    let driver = text(&halfwarp_tests::artefact("sim/libcuda.so.1"));
    assert_eq!(finish(&["runtimes", &driver]), "PASS runtimes\n");
}

#[test]
fn errno_after_each_call_is_what_the_driver_alone_makes_of_it() {
    let machine = Machine::new();
    let native = halfwarp_tests::finish(&mut machine.natively(guest("errnos")), DEADLINE);
    let ours = finish_in(&machine, &["errnos"]);
    assert!(native.stdout.lines().count() > 15, "{}", native.all());
    assert_eq!(ours, native.stdout, "as a tenant on the left");
}

#[test]
fn threads_that_leave_in_odd_ways_leave_nothing_behind() {
    assert_eq!(finish(&["leavers", "60"]), "PASS leavers\n");
}

#[test]
fn a_library_that_exports_the_drivers_names_for_its_own_ends_is_answered_with_its_own() {
    let library = text(&guest("third.so"));
    let native =
        halfwarp_tests::finish(Machine::new().natively(guest("third")).arg(&library), DEADLINE);
    assert_eq!(native.stdout, "CODES 4001 4002 4004\n");
    assert_eq!(finish(&["third", &library]), "CODES 4001 4002 4004\n");
}

#[test]
fn a_forked_child_has_none_of_the_pages_that_we_share_with_the_broker() {
    // The simulated driver's own memory is no page of ours, so natively's count is taken off.
    let native = halfwarp_tests::finish(&mut Machine::new().natively(guest("inherits")), DEADLINE);
    let count = |said: &str| -> Vec<i32> {
        let words = said.trim_start_matches("PAGES ").split_whitespace();
        words.map(|word| word.parse().expect("a count")).collect()
    };
    let (native, ours) = (count(&native.stdout), count(&finish(&["inherits"])));
    assert_eq!(ours[0] - native[0], 2, "as a tenant {ours:?}, natively {native:?}");
    assert_eq!(ours[1] - native[1], 0, "as a tenant {ours:?}, natively {native:?}");
}
