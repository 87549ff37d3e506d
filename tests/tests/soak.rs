//! Processes that are killed at random, on the simulated machine alone and under Halfwarp: what they
//! held is free at once, and nothing of them is left.
//!
//! The full form is `cargo xtask long soak --minutes N`.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use halfwarp_tests::{Faults, Machine, Running, guest, start, until};
use rustix::fs::{FlockOperation, Mode, OFlags};

const LINE: Duration = Duration::from_secs(60);
const PROCESSES: u32 = 16;
const KILL_EVERY: Duration = Duration::from_millis(50);
/// The simulated machine's promise: a killed process holds nothing any more. Here sixteen processes
/// spin on all cores and the server must wait for its turn like everybody: half of the kills keep to
/// it. On a quiet machine every one does: see `simcuda/server/tests`.
const FREED_WITHIN: Duration = Duration::from_millis(100);
/// No kill leaves anything for longer, however busy the machine is.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
const SHORT_SECONDS: u64 = 4;

/// The short form, or what `cargo xtask long` asks for.
fn seconds() -> u64 {
    std::env::var("HALFWARP_ROUNDS").map_or(SHORT_SECONDS, |text| text.parse().expect("seconds"))
}

fn seed() -> u32 {
    std::env::var("HALFWARP_SEED").map_or(0, |text| text.parse().expect("a number"))
}

/// Numbers at random, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(most)).expect("below a u32")
    }
}

/// A process that allocates and frees until it is killed.
fn churn(machine: &Machine, number: u32) -> Running {
    let mut command = machine.natively(guest("churn"));
    let mut running = start(command.args([&number.to_string(), "256", "60"]));
    running.line("CHURN", LINE);
    running
}

fn kill(running: Running) -> u32 {
    let pid = running.pid();
    // Killed, and waited for: what is left of it then is somebody's fault.
    drop(running);
    pid
}

fn holds(faults: &Faults, pid: u32) -> bool {
    faults.usage(0).processes.iter().any(|process| process.pid == pid)
}

/// Threads of the machine's server, and its descriptors of clients and of what they exported. Memory
/// that it keeps warm is its own.
fn server_has(pid: u32) -> (usize, usize) {
    let entries = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).into_iter().flatten();
    let of_clients = |entry: &fs::DirEntry| {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let target = target.to_string_lossy();
        ["socket:", "pipe:", "anon_inode:[pidfd]"].iter().any(|kind| target.starts_with(kind))
    };
    (entries("task").count(), entries("fd").flatten().filter(of_clients).count())
}

/// Whether somebody holds the lock.
fn is_free(machine: &Machine, name: &str) -> bool {
    let path = machine.runtime_dir().join("simcuda").join(name);
    let file = rustix::fs::open(path, OFlags::RDWR, Mode::empty()).expect("the lock's file");
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[test]
fn sixteen_processes_killed_at_random_leave_nothing_on_the_simulated_machine() {
    let machine = Machine::new();
    let faults = machine.faults();
    let before = faults.usage(0).used_bytes;
    let server = faults.description().pid;
    // Itself and us: starting it made connections that it may not have let go yet.
    let server_before = until(SETTLED_WITHIN, "the server has one client", || {
        Some(server_has(server)).filter(|(threads, _)| *threads == 2)
    });
    let mut random = Random(u64::from(seed()));
    let mut running: Vec<Running> =
        (0..PROCESSES).map(|n| churn(&machine, seed().wrapping_mul(31).wrapping_add(n))).collect();
    let until_then = Instant::now() + Duration::from_secs(seconds());
    let mut killed = 0;
    let mut waits = Vec::new();
    while Instant::now() < until_then {
        let victim = running.swap_remove(random.below(PROCESSES) as usize);
        let pid = kill(victim);
        let since = Instant::now();
        until(SETTLED_WITHIN, "a killed process holds nothing", || {
            (!holds(&faults, pid)).then_some(())
        });
        waits.push(since.elapsed());
        killed += 1;
        running.push(churn(&machine, seed().wrapping_add(PROCESSES + killed)));
        std::thread::sleep(KILL_EVERY);
    }
    let pids: BTreeSet<u32> = running.into_iter().map(kill).collect();
    until(SETTLED_WITHIN, "the machine's bytes are as before", || {
        (faults.usage(0).used_bytes == before).then_some(())
    });
    until(SETTLED_WITHIN, "the server has no thread or descriptor of theirs", || {
        (server_has(server) == server_before).then_some(())
    });
    assert!(faults.description().clients.is_empty(), "{:?}", faults.description());
    assert!(pids.iter().all(|pid| !fs::exists(format!("/proc/{pid}")).unwrap_or(true)), "a zombie");
    assert!(is_free(&machine, "t4.start"), "the lock for starting is held");
    waits.sort_unstable();
    let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    println!("{killed} were killed, free after {median:?}, at most {longest:?}, seed {}", seed());
    assert!(median < FREED_WITHIN, "half of the killed held something for {median:?}");
}

#[test]
fn clients_of_a_killed_server_get_999_and_the_next_machine_is_clean() {
    let machine = Machine::new();
    let faults = machine.faults();
    let mut command = machine.natively(guest("churn"));
    let mut running = start(command.args(["1", "256", "60"]));
    running.line("CHURN", LINE);
    faults.set("hide:cuMemCreate");
    let server = faults.description().pid;
    let pid = rustix::process::Pid::from_raw(server.cast_signed()).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it can be killed");
    let ended = running.end(LINE);
    let said = ended.stdout.contains("gave 999") || ended.stdout.contains("refused with 999");
    assert!(said && ended.status.code() == Some(1), "{}", ended.all());
    let again = machine.faults();
    assert_ne!(again.description().pid, server);
    let usage = again.usage(0);
    assert_eq!((usage.used_bytes, usage.processes.len()), (0, 0));
    assert_eq!(again.description().faults, 0);
    // What the dead server said of faults to those who load the driver is no longer so.
    churn(&machine, 2).say("end");
}
