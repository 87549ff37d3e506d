//! Processes that are killed inside calls that take long, and processes that believe to be pid 7.

use std::process::Command;
use std::time::{Duration, Instant};

use halfwarp_tests::{MIB, Machine, Running, SkipKind, guest, skip, until};

const LINE: Duration = Duration::from_secs(60);
const FREED_WITHIN: Duration = Duration::from_secs(1);
const PROCESSES: u32 = 16;
const KILL_EVERY: Duration = Duration::from_millis(50);
const SHORT_SECONDS: u64 = 5;

/// The short form, or what `cargo xtask long kills` asks for.
fn seconds() -> u64 {
    std::env::var("HALFWARP_ROUNDS").map_or(SHORT_SECONDS, |text| text.parse().expect("seconds"))
}

fn seed() -> u32 {
    std::env::var("HALFWARP_SEED").map_or(0, |text| text.parse().expect("a number"))
}

/// Numbers at random, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % most
    }
}

/// Waits for lines with commands for new processes and starts them: all are of one tenant.
const STARTER: &str = r#"
while read line; do
    case "$line" in
        end) break;;
        *) $line & echo "PID $!";;
    esac
done
wait
"#;

fn held(machine: &Machine, tenant: &str) -> u64 {
    machine.tenant_named(tenant).gpus[0].held_bytes.0
}

/// What a process of the tenant is told is free.
fn free_in(tenant: &mut Running) -> u64 {
    let hold = guest("hold").to_string_lossy().into_owned();
    // Background programs have an empty stdin: this one ends when it has said its figures.
    tenant.say(&format!("{hold} 2"));
    tenant.line("PID ", LINE);
    let line = tenant.line("HELD ", LINE);
    line.rsplit(' ').next().and_then(|free| free.parse().ok()).expect("HELD total free")
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a pid");
    // One that has ended by itself meanwhile is looked for by its exit.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

#[test]
fn life_03_kills_inside_slow_calls_hold_nobody_up_and_leave_nothing() {
    let machine = Machine::new();
    let faults = machine.faults();
    // What a process waits by itself: the delay, and one more for a call behind it.
    let number = faults.set("delay:cuMem*,before=100ms,every=40").expect("it stays");
    let options = ["--memory", "8GiB", "--name", "killed"];
    let mut tenant: Running = machine.tenant(&options).program(["sh", "-c", STARTER]).start();
    let before = free_in(&mut tenant);
    let guest = guest("churn").to_string_lossy().into_owned();
    let mut random = Random(u64::from(seed()));
    let mut started = 0;
    // A call that takes over a second ends the process, which the last look finds.
    let mut start = |tenant: &mut Running| -> u32 {
        started += 1;
        tenant.say(&format!("{guest} {} 256 1.0 forever", seed().wrapping_add(started)));
        let line = tenant.line("PID ", LINE);
        line.trim_start_matches("PID ").parse().expect("a pid")
    };
    let mut living: Vec<u32> = (0..PROCESSES).map(|_| start(&mut tenant)).collect();
    let end = Instant::now() + Duration::from_secs(seconds());
    while Instant::now() < end {
        kill(living.swap_remove(random.below(PROCESSES as usize)));
        living.push(start(&mut tenant));
        std::thread::sleep(KILL_EVERY);
    }
    assert!(faults.hits(number) > 0, "no call was slow");
    let lives = |pid: &u32| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    let gone: Vec<&u32> = living.iter().filter(|pid| !lives(pid)).collect();
    assert!(gone.is_empty(), "survivors ended by themselves: {gone:?}");
    faults.clear();
    living.into_iter().for_each(kill);
    until(FREED_WITHIN * 2, "a tenant of the dead holds nothing", || {
        (held(&machine, "killed") == 0).then_some(())
    });
    until(FREED_WITHIN, "nor does the card", || (faults.usage(0).used_bytes == 0).then_some(()));
    assert_eq!(free_in(&mut tenant), before, "all is free again");
    tenant.say("end");
    assert!(tenant.end(LINE).status.success());
}

/// Runs the program as pid 7 of a pid namespace of its own, and stays when that has ended.
const AS_PID_7: &str = r#"
exec 3<&0
until sh -c 'test $$ -ge 6'; do :; done
"$0" "$@" <&3 &
echo "INSIDE $!"
wait $!
cat <&3
"#;

fn in_a_namespace(machine: &Machine, name: &str, mib: u64) -> Running {
    let guest = guest("hold").to_string_lossy().into_owned();
    let mib = mib.to_string();
    let words = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", AS_PID_7, &guest, &mib];
    let mut running = machine.tenant(&["--memory", "4GiB", "--name", name]).program(words).start();
    assert_eq!(running.line("INSIDE ", LINE), "INSIDE 7");
    running.line("HELD ", LINE);
    running
}

#[test]
fn life_09_a_pid_of_another_namespace_is_nobody_elses() {
    let test = "life_09_a_pid_of_another_namespace_is_nobody_elses";
    let possible = Command::new("unshare").args(["--pid", "--fork", "true"]).status();
    if !possible.is_ok_and(|status| status.success()) {
        return skip(test, SkipKind::Machine, "no pid namespace can be made here");
    }
    let machine = Machine::new();
    let mut one = in_a_namespace(&machine, "one", 512);
    let two = in_a_namespace(&machine, "two", 768);
    let pids = |name: &str| machine.tenant_named(name).processes;
    let (first, second) = (pids("one"), pids("two"));
    assert_eq!((first.len(), second.len()), (1, 1), "{first:?} {second:?}");
    assert_ne!(first[0].pid, second[0].pid, "the host's numbers differ");
    let (of_one, of_two) = (held(&machine, "one"), held(&machine, "two"));
    assert!(of_one >= 512 * MIB && of_two >= 768 * MIB);
    kill(first[0].pid);
    until(FREED_WITHIN, "the dead one's bytes are free", || {
        (held(&machine, "one") == 0 && pids("one").is_empty()).then_some(())
    });
    assert_eq!(held(&machine, "two"), of_two, "the other's figures do not move");
    one.signal(rustix::process::Signal::TERM);
    one = in_a_namespace(&machine, "third", 64);
    let third = held(&machine, "third");
    assert!(third < 512 * MIB, "it starts at zero and has its own {third} bytes");
    assert_eq!(held(&machine, "two"), of_two);
    drop((one, two));
}
