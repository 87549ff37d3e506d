//! What the library does at its gates, told by a broker of the test's own (`pretend`): no launch
//! passes a closed gate once its drain is answered, whatever road it takes.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::PathBuf,
    process::Command,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use halfwarp_api::{
    shm::{GATE_CLOSED, GATE_OPEN},
    wire::ToBroker,
};
use halfwarp_tests::{
    Machine, Running, artefact, finish, guest,
    pretend::{Guest, Pretended},
    start,
    trace::{Reached, Traced, binary},
    until,
};

const DEADLINE: Duration = Duration::from_secs(30);
/// Far more than what is in flight takes.
const DRAIN: Duration = Duration::from_secs(10);
/// Long enough for a launch that is not held to show itself.
const STILL: Duration = Duration::from_millis(150);

/// The words of `tests/guests/launches.c`'s file.
#[derive(Clone, Copy, Debug)]
enum Word {
    Stop,
    Begun = 2,
    Ended,
    Launches,
    Pause = 7,
}

/// A program that launches, and the broker that it has joined.
struct Stage {
    guest: Arc<Guest>,
    program: Running,
    counts: fs::File,
    broker: Pretended,
    machine: Machine,
}

/// The cards' UUIDs, as the driver gives them.
fn uuids(machine: &Machine) -> Vec<[u8; 16]> {
    let mut command = machine.natively(guest("launches"));
    let ended = finish(command.arg("uuid"), DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
    let cards = ended.stdout.lines().map(|line| {
        let digits = |at: usize| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).expect("hex");
        std::array::from_fn(digits)
    });
    cards.collect()
}

impl Stage {
    fn new(threads: u32, road: &str, burn: u32) -> Self {
        let machine = Machine::new();
        let broker = Pretended::new(machine.runtime_dir(), uuids(&machine));
        let path: PathBuf = machine.runtime_dir().join("counts");
        fs::write(&path, [0; 4096]).expect("a file");
        let counts = fs::File::options().read(true).write(true).open(&path).expect("the file");
        let mut command = machine.natively(guest("launches"));
        join(&broker, &mut command);
        command.arg(&path).args([&threads.to_string(), road, &burn.to_string()]);
        let mut program = start(&mut command);
        program.line("READY ", DEADLINE);
        let guest = broker.guest().expect("the program has joined");
        Self { guest, program, counts, broker, machine }
    }

    fn word(&self, word: Word) -> u32 {
        let mut bytes = [0; 4];
        self.counts.read_exact_at(&mut bytes, word as u64 * 4).expect("a word");
        u32::from_le_bytes(bytes)
    }

    /// Closes the lease gate and waits for its drain.
    fn close(&self) -> (bool, u32) {
        self.guest.set_lease_gate(0, GATE_CLOSED);
        let seq = self.guest.drain(0, DRAIN).expect("the program lives");
        let (_, done, waiting) = until(DRAIN * 2, "an answer", || self.guest.drained(seq));
        (done, waiting)
    }

    /// Waits until kernels run again.
    fn runs(&self, within: Duration) {
        let before = self.word(Word::Begun);
        until(within, "kernels run", || (self.word(Word::Begun) > before + 8).then_some(()));
    }

    /// Nothing is launched and nothing runs for a while.
    fn is_still(&self, what: &str) {
        let before = (self.word(Word::Begun), self.word(Word::Ended), self.word(Word::Launches));
        assert_eq!(before.0, before.1, "{what}: a kernel runs");
        thread::sleep(STILL);
        let after = (self.word(Word::Begun), self.word(Word::Ended), self.word(Word::Launches));
        assert_eq!(before, after, "{what}: a launch has passed");
    }

    fn tell(&self, word: Word, value: u32) {
        self.counts.write_all_at(&value.to_le_bytes(), word as u64 * 4).expect("a word");
    }

    /// Tells the program to end; it checks its own counts.
    fn end(self) {
        self.tell(Word::Stop, 1);
        let ended = self.program.end(DEADLINE);
        assert!(ended.status.success() && ended.stdout.contains("DONE"), "{}", ended.all());
        assert_eq!(ended.stderr, "");
        drop((self.broker, self.machine));
    }

    fn wants(&self) -> Vec<(Instant, u32)> {
        let heard = self.guest.heard().into_iter();
        heard
            .filter_map(|(at, frame)| match frame {
                ToBroker::Want { lease, .. } => Some((at, lease)),
                _ => None,
            })
            .collect()
    }
}

/// Puts a program under the library and this broker.
fn join(broker: &Pretended, command: &mut Command) {
    command
        .env("LD_PRELOAD", artefact("libhalfwarp.so"))
        .env("HALFWARP_TENANT", "00000000000000000000000000000001")
        .env("HALFWARP_JOIN", broker.socket());
}

#[test]
fn after_a_drain_no_launch_runs_and_none_passes_until_the_gate_opens() {
    for road in ["stream", "legacy", "per-thread", "ex", "cooperative", "graph"] {
        let stage = Stage::new(8, road, 2000);
        for round in 0..5 {
            stage.runs(DEADLINE);
            let (done, _) = stage.close();
            assert!(done, "{road}: not drained in {DRAIN:?}");
            stage.is_still(&format!("{road}, round {round}"));
            stage.guest.set_lease_gate(0, GATE_OPEN);
        }
        stage.end();
    }
}

#[test]
fn the_broker_is_told_once_a_closing_that_threads_wait() {
    let stage = Stage::new(8, "stream", 200);
    let mut told = Vec::new();
    for _ in 0..5 {
        stage.runs(DEADLINE);
        stage.close();
        told.push(stage.guest.gpu(0).lease.load(Ordering::SeqCst));
        until(DEADLINE, "a want", || (stage.wants().len() >= told.len()).then_some(()));
        thread::sleep(STILL);
        stage.guest.set_lease_gate(0, GATE_OPEN);
    }
    let leases: Vec<u32> = stage.wants().into_iter().map(|(_, lease)| lease).collect();
    assert_eq!(leases, told, "one want for each closing");
    stage.end();
}

#[test]
fn a_lease_gate_opens_by_itself_when_the_broker_is_gone_and_a_residency_gate_does_not() {
    let stage = Stage::new(4, "stream", 200);
    stage.runs(DEADLINE);
    stage.close();
    stage.is_still("while the broker lives");
    thread::sleep(Duration::from_millis(1200));
    stage.is_still("while the broker goes on saying that it lives");
    stage.broker.stop_living();
    let gone = Instant::now();
    stage.runs(Duration::from_secs(5));
    let took = gone.elapsed();
    assert!(took < Duration::from_millis(1600), "it took {took:?}");
    assert!(took > Duration::from_millis(800), "it did not wait for the broker: {took:?}");
    stage.guest.set_residency_gate(0, GATE_CLOSED);
    let seq = stage.guest.drain(0, DRAIN).expect("the program lives");
    until(DRAIN * 2, "an answer", || stage.guest.drained(seq));
    thread::sleep(Duration::from_millis(1500));
    stage.is_still("at a residency gate");
    stage.guest.set_residency_gate(0, GATE_OPEN);
    stage.runs(DEADLINE);
    stage.end();
}

/// A program of `tests/guests/at_a_gate.c` that has printed READY.
fn odd(what: &str) -> (Machine, Pretended, Running, Arc<Guest>) {
    let machine = Machine::new();
    let broker = Pretended::new(machine.runtime_dir(), uuids(&machine));
    let mut command = machine.natively(guest("at_a_gate"));
    join(&broker, &mut command);
    let mut program = start(command.arg(what));
    program.line("READY ", DEADLINE);
    let guest = broker.guest().expect("the program has joined");
    (machine, broker, program, guest)
}

/// Closes the gate and waits for what comes of its drain.
fn drain(guest: &Guest, within: Duration) -> (bool, u32) {
    guest.set_lease_gate(0, GATE_CLOSED);
    let seq = guest.drain(0, within).expect("the program lives");
    let (_, done, waiting) = until(within + DEADLINE, "an answer", || guest.drained(seq));
    (done, waiting)
}

/// Waits until a thread says that it waits at the gate.
fn someone_wants(guest: &Guest, before: usize) {
    until(DEADLINE, "a want", || (wants_of(guest) > before).then_some(()));
}

fn wants_of(guest: &Guest) -> usize {
    guest.heard().iter().filter(|(_, f)| matches!(f, ToBroker::Want { .. })).count()
}

fn ends_well(program: Running) {
    let ended = program.end(DEADLINE);
    assert!(ended.status.success() && ended.stdout.ends_with("DONE\n"), "{}", ended.all());
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_capture_held_open_while_the_gate_is_closed_and_drained_ends_valid() {
    for bound_ns in [0, 4_000_000] {
        let (_machine, _broker, mut program, guest) = odd("capture");
        guest.gpu(0).bound_ns.store(bound_ns, Ordering::SeqCst);
        program.say("begin");
        program.line("OPEN", DEADLINE);
        for _ in 0..20 {
            let (done, _) = drain(&guest, DRAIN);
            assert!(done, "a closed gate is all that a capture needs");
            guest.set_lease_gate(0, GATE_OPEN);
            thread::sleep(Duration::from_millis(10));
        }
        drain(&guest, DRAIN);
        program.say("launch into the capture");
        program.line("CAPTURED", DEADLINE);
        program.say("end it");
        program.line("ENDED", DEADLINE);
        guest.set_lease_gate(0, GATE_OPEN);
        ends_well(program);
    }
}

#[test]
fn work_that_waits_for_a_launch_behind_the_gate_makes_the_drain_fail_in_time() {
    let (_machine, _broker, mut program, guest) = odd("flags");
    program.say("begin");
    program.line("WAITS", DEADLINE);
    guest.set_lease_gate(0, GATE_CLOSED);
    program.say("launch");
    someone_wants(&guest, 0);
    let began = Instant::now();
    let within = Duration::from_millis(50);
    let seq = guest.drain(0, within).expect("the program lives");
    let (at, done, waiting) = until(DEADLINE, "an answer", || guest.drained(seq));
    assert_eq!((done, waiting), (false, 1));
    let took = at - began;
    assert!(took >= within && took < within * 6, "it took {took:?}");
    guest.set_lease_gate(0, GATE_OPEN);
    program.line("SET", DEADLINE);
    ends_well(program);
}

#[test]
fn work_that_waits_for_a_launch_above_the_bound_is_not_waited_for() {
    let (_machine, _broker, mut program, guest) = odd("flags");
    guest.gpu(0).bound_ns.store(4_000_000, Ordering::SeqCst);
    program.say("begin");
    program.line("WAITS", DEADLINE);
    let began = Instant::now();
    program.say("launch");
    program.line("SET", DEADLINE);
    assert!(began.elapsed() < Duration::from_secs(1), "it took {:?}", began.elapsed());
    ends_well(program);
}

#[test]
fn a_program_ends_while_one_of_its_threads_waits_at_a_gate() {
    let (_machine, _broker, mut program, guest) = odd("ends");
    drain(&guest, DRAIN);
    someone_wants(&guest, 0);
    let began = Instant::now();
    program.say("end");
    // The simulated driver complains of a call that late; what counts is that it is made.
    let ended = program.end(DEADLINE);
    assert!(ended.status.success() && ended.stdout.ends_with("DONE\n"), "{}", ended.all());
    assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
}

#[test]
fn a_forked_child_finds_no_gate_of_its_parents() {
    let (_machine, _broker, mut program, guest) = odd("forks");
    drain(&guest, DRAIN);
    program.say("fork");
    ends_well(program);
}

#[test]
fn of_two_processes_each_has_a_gate_of_its_own() {
    let (_machine, broker, mut program, _) = odd("twins");
    program.line("READY ", DEADLINE);
    let guests = until(DEADLINE, "both", || Some(broker.guests()).filter(|all| all.len() == 2));
    // Which of them is the parent, the broker does not know: both gates are tried.
    for guest in &guests {
        drain(guest, DRAIN);
    }
    program.say("let the child launch");
    let child = until(DEADLINE, "the child's want", || {
        guests
            .iter()
            .position(|g| g.heard().iter().any(|(_, f)| matches!(f, ToBroker::Want { .. })))
    });
    guests[child].set_lease_gate(0, GATE_OPEN);
    program.line("CHILD", DEADLINE);
    program.say("let the parent launch");
    someone_wants(&guests[1 - child], 0);
    guests[1 - child].set_lease_gate(0, GATE_OPEN);
    program.line("PARENT", DEADLINE);
    ends_well(program);
}

#[test]
fn a_thread_that_is_cancelled_at_a_gate_ends_behind_it_and_holds_nothing_up() {
    let (_machine, _broker, mut program, guest) = odd("dies");
    drain(&guest, DRAIN);
    program.say("start the thread");
    program.line("STARTED", DEADLINE);
    someone_wants(&guest, 0);
    program.say("cancel it");
    program.line("CANCELLED", DEADLINE);
    guest.set_lease_gate(0, GATE_OPEN);
    program.say("go on");
    program.line("LAUNCHED", DEADLINE);
    let (done, _) = drain(&guest, DRAIN);
    assert!(done, "what the thread left behind holds a drain up");
    program.say("end");
    ends_well(program);
}

#[test]
fn contexts_end_while_they_are_drained() {
    let (_machine, _broker, program, guest) = odd("contexts");
    for bound_ns in [0, 4_000_000].into_iter().cycle().take(40) {
        guest.gpu(0).bound_ns.store(bound_ns, Ordering::SeqCst);
        guest.set_lease_gate(0, GATE_CLOSED);
        let Ok(seq) = guest.drain(0, DRAIN) else { break };
        let ended = || guest.has_ended().then_some(true);
        let done = until(DRAIN * 2, "an answer", || guest.drained(seq).map(|d| d.1).or_else(ended));
        assert!(done);
        guest.set_lease_gate(0, GATE_OPEN);
    }
    ends_well(program);
}

#[test]
fn a_stream_of_another_context_is_metered_where_it_lies() {
    let (_machine, _broker, program, guest) = odd("crosses");
    guest.gpu(0).bound_ns.store(4_000_000, Ordering::SeqCst);
    ends_well(program);
}

#[test]
fn a_stopped_process_launches_nothing_when_it_wakes_behind_a_closed_gate() {
    let stage = Stage::new(8, "stream", 500);
    for _ in 0..5 {
        stage.runs(DEADLINE);
        let pid =
            rustix::process::Pid::from_raw(i32::try_from(stage.program.pid()).expect("a pid"));
        let signal = |signal| {
            rustix::process::kill_process(pid.expect("a pid"), signal).expect("it lives");
        };
        signal(rustix::process::Signal::STOP);
        stage.guest.set_lease_gate(0, GATE_CLOSED);
        thread::sleep(Duration::from_millis(20));
        let before = stage.word(Word::Launches);
        signal(rustix::process::Signal::CONT);
        let (done, _) = stage.close();
        assert!(done);
        stage.is_still("after it was stopped");
        let after = stage.word(Word::Launches);
        assert!(after - before <= 8, "{} launches: more than one a thread", after - before);
        stage.guest.set_lease_gate(0, GATE_OPEN);
    }
    stage.end();
}

#[test]
fn under_a_bound_no_more_is_in_flight_than_it_allows_or_one_launch() {
    // A kernel of this length takes a millisecond or more.
    const BURN: u32 = 20_000;
    let stage = Stage::new(8, "stream", BURN);
    // In nine looks of ten: a thread that wakes late says late that its launch has ended.
    let most_in_flight = |looks: usize| {
        let look = |_| {
            // In this order the difference is never too large.
            let launches = stage.word(Word::Launches);
            let seen = launches.saturating_sub(stage.word(Word::Ended));
            thread::sleep(Duration::from_micros(500));
            seen
        };
        let mut seen: Vec<u32> = (0..looks).map(look).collect();
        seen.sort_unstable();
        seen[looks * 9 / 10]
    };
    let free = most_in_flight(400);
    stage.guest.gpu(0).bound_ns.store(1, Ordering::SeqCst);
    // What was in flight before has ended.
    (0..8).for_each(|_| stage.runs(DEADLINE));
    let bounded = most_in_flight(400);
    assert!(free >= 12, "without a bound only {free} are in flight: nothing is shown");
    assert!(bounded <= 2, "{bounded} are in flight under a bound of nothing");
    stage.guest.gpu(0).bound_ns.store(0, Ordering::SeqCst);
    stage.runs(DEADLINE);
    stage.end();
}

#[test]
fn an_idle_process_says_so_once_a_lease_and_a_busy_one_does_not() {
    let idle = |guest: &Guest| {
        let heard = guest.heard();
        heard.iter().filter(|(_, frame)| matches!(frame, ToBroker::Idle { .. })).count()
    };
    let stage = Stage::new(4, "stream", 2000);
    stage.guest.gpu(0).bound_ns.store(4_000_000, Ordering::SeqCst);
    stage.runs(DEADLINE);
    thread::sleep(Duration::from_millis(500));
    // A machine under load may keep every thread of a program from launching for a moment.
    let before = idle(&stage.guest);
    assert!(before <= 1, "a busy process says that it is idle {before} times");
    for round in 1..=3 {
        stage.tell(Word::Pause, 1);
        let lease = stage.guest.set_lease_gate(0, GATE_OPEN);
        stage.tell(Word::Pause, 0);
        stage.runs(DEADLINE);
        stage.tell(Word::Pause, 1);
        let said = || {
            let heard = stage.guest.heard();
            heard.iter().any(|(_, f)| *f == ToBroker::Idle { gpu: 0, lease }).then_some(())
        };
        until(DEADLINE, "idle", said);
        assert_eq!(stage.word(Word::Begun), stage.word(Word::Ended), "a kernel runs");
        stage.tell(Word::Pause, 0);
        stage.runs(DEADLINE);
        stage.tell(Word::Pause, 1);
        thread::sleep(STILL);
        assert!(idle(&stage.guest) <= before + round, "more than once for a lease");
    }
    stage.end();
}

#[test]
fn a_process_that_is_killed_at_any_step_of_a_lease_is_gone() {
    let library = binary("libhalfwarp-core.so");
    for label in
        ["want_sent", "gate_waiting", "drain_asked", "drain_marked", "drained_sent", "idle_sent"]
    {
        let stage = Stage::new(2, "stream", 200);
        let mut traced = Traced::seize(stage.program.pid()).expect("the process can be traced");
        traced.stop_at(&library, label).expect("the label is in the library");
        stage.guest.gpu(0).bound_ns.store(4_000_000, Ordering::SeqCst);
        if label == "idle_sent" {
            stage.tell(Word::Pause, 1);
        } else {
            stage.guest.set_lease_gate(0, GATE_CLOSED);
            stage.guest.drain(0, DRAIN).expect("the program lives");
        }
        let reached = traced.run(DEADLINE).expect("the process goes on");
        assert_eq!(reached, Reached::Label(label.to_owned()));
        traced.kill();
        until(DEADLINE, "its end", || stage.guest.has_ended().then_some(()));
    }
}
