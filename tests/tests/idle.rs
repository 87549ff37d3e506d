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

/// Names of the system calls that mapping a file takes.
const MAPPING: &[(libc::c_long, &str)] = &[
    (libc::SYS_openat, "openat"),
    (libc::SYS_read, "read"),
    (libc::SYS_pread64, "pread64"),
    (libc::SYS_newfstatat, "newfstatat"),
    (libc::SYS_fstat, "fstat"),
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_munmap, "munmap"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_close, "close"),
];

/// Number and path of each system call of `/bin/true`.
fn calls(library: &str) -> Vec<(libc::c_long, String)> {
    let mut starts = Command::new(guest("starts"));
    let ended = finish(starts.args(["calls", library, "/bin/true"]), DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
    let call = |line: &str| {
        let (number, path) = line.strip_prefix("CALL ")?.split_once(' ')?;
        Some((number.parse().ok()?, path.to_owned()))
    };
    ended.stdout.lines().filter_map(call).collect()
}

#[test]
fn a_process_that_never_touches_cuda_makes_no_call_but_those_that_map_us_and_libdl() {
    let ours = artefact("libhalfwarp.so").display().to_string();
    let mut without = calls("-");
    assert!(without.len() > 10, "{without:?}");
    let mut added = Vec::new();
    for call in calls(&ours) {
        match without.iter().position(|known| *known == call) {
            Some(known) => _ = without.remove(known),
            None => added.push(call),
        }
    }
    assert!(without.is_empty(), "calls that are no longer made: {without:?}");
    let mut opened = Vec::new();
    for (number, path) in &added {
        let name = MAPPING.iter().find(|(mapping, _)| mapping == number).map(|(_, name)| name);
        let name = name.unwrap_or_else(|| panic!("{number} {path:?} maps nothing"));
        if *name == "openat" {
            opened.push(path.clone());
        }
    }
    assert_eq!(opened[0], ours, "{added:?}");
    assert!(
        opened.len() <= 2 && opened[1..].iter().all(|path| path.ends_with("/libdl.so.2")),
        "{opened:?}"
    );
}

/// Printed, not judged: another job on the machine would fail it. The goal is 300 us.
#[test]
fn what_the_preload_adds_to_the_start_of_a_program_is_told() {
    let ours = artefact("libhalfwarp.so").display().to_string();
    let mut starts = Command::new(guest("starts"));
    let ended = finish(starts.args(["time", "600", &ours, "/bin/true"]), DEADLINE);
    let figures: Vec<u64> =
        ended.stdout.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [without, with] = figures[..] else { panic!("{}", ended.all()) };
    println!("/bin/true: {without} ns without, {with} ns with the preload");
    assert!(with < without + 5_000_000, "a wrong order of magnitude: {}", ended.all());
}
