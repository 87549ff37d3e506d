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
    start, until,
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

    /// Tells the program to end; it checks its own counts.
    fn end(self) {
        self.counts.write_all_at(&1u32.to_le_bytes(), Word::Stop as u64).expect("a word");
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
