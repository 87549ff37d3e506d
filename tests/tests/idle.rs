//! LIFE-08: programs that never touch CUDA, and programs whose broker is gone, under the preload.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use halfwarp_tests::{Machine, artefact, finish, guest};

const DEADLINE: Duration = Duration::from_secs(30);
/// The longest that `cuInit` may wait for a broker that is not there.
const JOIN_DEADLINE: Duration = Duration::from_secs(10);

/// An environment as `halfwarp run` makes it, except that nobody listens on the socket.
fn deserted(command: &mut Command) -> &mut Command {
    command
        .env("LD_PRELOAD", artefact("libhalfwarp.so"))
        .env("LD_LIBRARY_PATH", artefact("sim"))
        .env("HALFWARP_TENANT", "00000000000000000000000000000001")
        .env("HALFWARP_JOIN", "/nonexistent/join.sock")
}

#[test]
fn life_08_a_process_that_never_touches_cuda_is_left_alone() {
    for program in [["true", ""], ["sh", "-c"]] {
        let mut command = Command::new(program[0]);
        if program[1] == "-c" {
            command.args(["-c", "echo one; ls / >/dev/null; echo two"]);
        }
        let ended = finish(deserted(&mut command), DEADLINE);
        assert!(ended.status.success(), "{}", ended.all());
        assert_eq!(ended.stderr, "");
        assert_eq!(ended.stdout, if program[1] == "-c" { "one\ntwo\n" } else { "" });
    }
}

#[test]
fn life_08_a_process_that_never_touches_cuda_has_no_thread_socket_or_libcuda() {
    let script = "cat /proc/self/maps; ls -l /proc/self/fd; ls /proc/self/task";
    let ended = finish(deserted(Command::new("sh").args(["-c", script])), DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
    let said = &ended.stdout;
    assert!(said.contains("libhalfwarp.so"), "the library was not even loaded: {said}");
    for absent in ["libhalfwarp-core.so", "libcuda", "socket:"] {
        assert!(!said.contains(absent), "{absent} is there: {said}");
    }
    let tasks = said.lines().filter(|line| line.trim().parse::<u32>().is_ok()).count();
    assert_eq!(tasks, 1, "{said}");
}

#[test]
fn life_08_a_program_without_a_broker_is_told_so_once_and_lives_on() {
    let machine = Machine::new();
    let mut command = machine.natively(guest("no_broker"));
    let ended = finish(deserted(&mut command), 4 * JOIN_DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
    let times: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("802 ")).collect();
    assert_eq!(times.len(), 2, "{}", ended.all());
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "one line says why: {:?}", ended.stderr);
    assert!(lines[0].contains("broker"), "{:?}", lines[0]);
    for time in times {
        let seconds: f64 = time.split(' ').nth(1).expect("a time").parse().expect("seconds");
        assert!(seconds <= JOIN_DEADLINE.as_secs_f64(), "cuInit took {seconds} s");
    }
}

#[test]
fn a_process_without_an_entitlement_runs_natively_and_silently() {
    let machine = Machine::new();
    let mut command = machine.natively(guest("mem_07"));
    command.env("LD_PRELOAD", artefact("libhalfwarp.so"));
    let ended = finish(&mut command, DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("PASS MEM-07\n", ""));
}

#[test]
fn the_exit_code_is_the_programs_own() {
    let machine = Machine::new();
    let script = machine.runtime_dir().join("not-executable");
    std::fs::write(&script, "#!/bin/sh\n").expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o644)).expect("a mode");
    let script = script.to_string_lossy().into_owned();
    for (program, wanted) in [
        (vec!["sh", "-c", "exit 7"], 7),
        (vec!["sh", "-c", "kill -TERM $$"], 128 + 15),
        (vec!["/nonexistent/program"], 127),
        (vec![script.as_str()], 126),
    ] {
        let ended = machine.tenant(&["--memory", "1GiB"]).program(&program).finish(DEADLINE);
        assert_eq!(ended.status.code(), Some(wanted), "{program:?}: {}", ended.all());
    }
}
