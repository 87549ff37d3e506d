//! A program whose memory can be moved (`tests/guests/swapped.c`) under a broker of the test's own: its
//! commands, and the moves that the broker asks for. It judges nothing but that each answers.
#![allow(clippy::must_use_candidate, reason = "most answers are also the wait for them")]

use std::{process::Command, sync::Arc, time::Duration};

use halfwarp_api::{
    shm::{GATE_CLOSED, GATE_OPEN},
    wire::{Outcome, ToBroker},
};

use crate::{
    Faults, Machine, Running, artefact, finish, guest,
    pretend::{Guest, Pretended},
    start, until,
};

const DEADLINE: Duration = Duration::from_secs(60);
/// Far more than what is in flight takes.
const DRAIN: Duration = Duration::from_secs(10);

/// A program whose memory can be moved, and the broker that it has joined.
#[derive(Debug)]
pub struct Stage {
    pub guest: Arc<Guest>,
    pub program: Running,
    pub broker: Pretended,
    pub machine: Machine,
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

fn join(broker: &Pretended, command: &mut Command) {
    command
        .env("LD_PRELOAD", artefact("libhalfwarp.so"))
        .env("HALFWARP_TENANT", "00000000000000000000000000000001")
        .env("HALFWARP_JOIN", broker.socket());
}

impl Stage {
    /// With so much host memory for copies.
    ///
    /// # Panics
    ///
    /// If the program or its memory is not as it should be.
    pub fn new(host_bytes: u64) -> Self {
        let machine = Machine::new();
        let broker = Pretended::with_swap(machine.runtime_dir(), uuids(&machine), true);
        let mut command = machine.natively(guest("swapped"));
        join(&broker, &mut command);
        let mut program = start(&mut command);
        program.line("READY ", DEADLINE);
        let guest = broker.guest().expect("the program has joined");
        if host_bytes > 0 {
            guest.give_chunk(0, host_bytes).expect("a chunk");
        }
        Self { guest, program, broker, machine }
    }

    /// Gives a command and returns the answer's words.
    ///
    /// # Panics
    ///
    /// If the program or its memory is not as it should be.
    pub fn tell(&mut self, command: &str) -> Vec<u64> {
        self.program.say(command);
        self.answer()
    }

    /// Waits for the answer to a command; its words.
    ///
    /// # Panics
    ///
    /// If the program or its memory is not as it should be.
    pub fn answer(&mut self) -> Vec<u64> {
        let line = self.program.line("OK", DEADLINE);
        let words = line.split_whitespace().skip(1);
        words.map(|word| word.parse().unwrap_or(u64::MAX)).collect()
    }

    /// Every byte of every allocation is right; how many bytes.
    ///
    /// # Panics
    ///
    /// If the program or its memory is not as it should be.
    pub fn check(&mut self) -> u64 {
        self.program.say("check");
        let line = self.program.line("RIGHT ", DEADLINE);
        line.split_whitespace().nth(2).and_then(|word| word.parse().ok()).expect("bytes")
    }

    /// Closes the gate and moves everything out; how it ended, and what is swapped.
    ///
    /// # Panics
    ///
    /// If the program or its memory is not as it should be.
    pub fn out(&self) -> (Outcome, u32) {
        self.out_within(DRAIN)
    }

    /// As [`Self::out`], with a deadline of its own.
    ///
    /// # Panics
    ///
    /// If the program or its memory is not as it should be.
    pub fn out_within(&self, within: Duration) -> (Outcome, u32) {
        self.guest.set_residency_gate(0, GATE_CLOSED);
        let seq = self.guest.swap_out(0, within).expect("the program lives");
        let ended = until(DRAIN * 2, "the end of a swap-out", || self.guest.moved(seq));
        (ended.0, ended.1)
    }

    /// Moves everything back, and opens the gate if nothing is left.
    ///
    /// # Panics
    ///
    /// If the program or its memory is not as it should be.
    pub fn back(&self, units: u32) -> (Outcome, u32, u32) {
        let seq = self.guest.swap_in(0, units).expect("the program lives");
        let ended = until(DRAIN * 2, "the end of a swap-in", || self.guest.moved(seq));
        if ended.1 == 0 {
            self.guest.set_residency_gate(0, GATE_OPEN);
        }
        ended
    }

    /// Moves everything out, as it must; the units that are swapped.
    ///
    /// # Panics
    ///
    /// If the program or its memory is not as it should be.
    pub fn swapped(&self) -> u32 {
        let (outcome, swapped) = self.out();
        assert_eq!(outcome, Outcome::Done);
        swapped
    }

    /// Moves so many units back, as it must.
    ///
    /// # Panics
    ///
    /// If the program or its memory is not as it should be.
    pub fn returned(&self, units: u32) {
        assert_eq!(self.back(units), (Outcome::Done, 0, units));
    }

    /// How many frames of a kind the process has sent.
    ///
    /// # Panics
    ///
    /// If the program or its memory is not as it should be.
    pub fn heard(&self, wanted: impl Fn(&ToBroker) -> bool) -> usize {
        self.guest.heard().iter().filter(|(_, frame)| wanted(frame)).count()
    }

    /// Bytes in use on the card, as the simulated machine has them.
    ///
    /// # Panics
    ///
    /// If the program or its memory is not as it should be.
    pub fn used(&self, faults: &Faults) -> u64 {
        let _ = &self.machine;
        faults.usage(0).used_bytes
    }

    /// Ends the program, which must have nothing to complain of.
    ///
    /// # Panics
    ///
    /// If the program or its memory is not as it should be.
    pub fn end(mut self) {
        self.program.say("end");
        let ended = self.program.end(DEADLINE);
        assert!(ended.status.success() && ended.stdout.ends_with("DONE\n"), "{}", ended.all());
        assert_eq!(ended.stderr, "");
    }
}
