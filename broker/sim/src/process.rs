//! A process with the library in it: what it does at a gate, under a bound, when asked to drain, and
//! when it has nothing to do.

use std::collections::BTreeMap;

use halfwarp_api::wire::ToBroker;
use halfwarp_broker_core::{Gate, GateWords};

use crate::{
    Nanos,
    load::{Load, Op},
};

/// Nothing launched for this long and nothing running is idle.
pub(crate) const IDLE_NS: Nanos = 5_000_000;
/// With a full queue in which nothing has moved for this long, a launch passes all the same.
pub(crate) const STUCK_NS: Nanos = 8_000_000;
/// What a kernel counts as that was never seen to end.
pub(crate) const UNKNOWN_NS: Nanos = 4_000_000;
/// What a launch costs its thread.
pub(crate) const LAUNCH_NS: Nanos = 3_000;
/// Launches that the driver takes before it blocks.
pub(crate) const QUEUE_MAX: usize = 1024;

/// A kernel on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub left_ns: Nanos,
    pub whole_ns: Nanos,
    /// What it counts as while in flight.
    pub guess_ns: Nanos,
    pub stream: u32,
    pub needs: Option<u64>,
    pub sets: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) load: Box<dyn Load>,
    /// Not done yet.
    pub(crate) op: Option<Op>,
    pub(crate) asleep_until: Nanos,
}

/// A process's view of one card.
#[derive(Debug, Default)]
pub(crate) struct Door {
    pub(crate) words: GateWords,
    pub(crate) said_want: Option<u32>,
    pub(crate) said_idle: Option<u32>,
    pub(crate) in_flight: usize,
    pub(crate) in_flight_ns: Nanos,
    pub(crate) in_flight_by_stream: BTreeMap<u32, usize>,
    /// Last launch, completion or opening.
    pub(crate) stirred: Nanos,
    /// `seq` and deadline of drains that have no answer yet.
    pub(crate) drains: BTreeMap<u32, Nanos>,
    pub(crate) launched: u64,
}

#[derive(Debug)]
pub(crate) struct Process {
    /// By slot, the card.
    pub(crate) cards: Vec<usize>,
    pub(crate) doors: Vec<Door>,
    pub(crate) threads: Vec<Thread>,
    /// Durations seen, by order of magnitude: what is unknown runs alone.
    pub(crate) learnt: BTreeMap<u32, Nanos>,
    pub(crate) stopped: bool,
    pub(crate) requests_ns: Vec<Nanos>,
}

/// What a thread that wants to launch does.
pub(crate) enum Pass {
    Launch {
        guess_ns: Nanos,
    },
    WaitsAtGate(Option<ToBroker>),
    /// Until a kernel ends, or until then.
    WaitsForRoom {
        until: Option<Nanos>,
    },
}

impl Process {
    /// The library's check before a launch.
    pub(crate) fn pass(&mut self, now: Nanos, stream: u32, slot: u8, ns: Nanos) -> Pass {
        let known = self.learnt.get(&key(ns)).copied();
        let door = &mut self.doors[usize::from(slot)];
        let GateWords { gate, lease, bound_ns } = door.words;
        if gate != Gate::Open {
            let first = door.said_want.replace(lease) != Some(lease);
            return Pass::WaitsAtGate(first.then_some(ToBroker::Want { gpu: slot, lease }));
        }
        let guess_ns = known.unwrap_or(UNKNOWN_NS);
        if door.in_flight >= QUEUE_MAX {
            return Pass::WaitsForRoom { until: None };
        }
        let full = door.in_flight > 0 && door.in_flight_ns + guess_ns > Nanos::from(bound_ns);
        if bound_ns > 0 && full {
            // What runs may wait for this launch, unless that stands behind it in its own stream: the
            // bound gives way when nothing moves.
            let behind = door.in_flight_by_stream.get(&stream).is_some_and(|count| *count > 0);
            let until = (!behind).then_some(door.stirred + STUCK_NS);
            if until.is_none_or(|until| now < until) {
                return Pass::WaitsForRoom { until };
            }
        }
        Pass::Launch { guess_ns }
    }

    pub(crate) fn finished(&mut self, now: Nanos, slot: usize, kernel: Kernel) {
        let door = &mut self.doors[slot];
        door.in_flight -= 1;
        door.in_flight_ns -= kernel.guess_ns;
        *door.in_flight_by_stream.entry(kernel.stream).or_default() -= 1;
        door.stirred = now;
        let seen = self.learnt.entry(key(kernel.whole_ns)).or_default();
        *seen = (*seen).max(kernel.whole_ns);
    }

    /// Answers to drains that can be given now.
    pub(crate) fn drained(&mut self, now: Nanos, slot: usize) -> Vec<ToBroker> {
        let waiting = self.threads.iter().filter(|thread| {
            let here =
                matches!(thread.op, Some(Op::Launch { slot: s, .. }) if usize::from(s) == slot);
            here && now >= thread.asleep_until
        });
        let waiting = waiting.count() as u32;
        let door = &mut self.doors[slot];
        let done = door.in_flight == 0;
        let due = door.drains.iter().filter(|(_, deadline)| done || now >= **deadline);
        let due: Vec<u32> = due.map(|(seq, _)| *seq).collect();
        door.drains.retain(|seq, _| !due.contains(seq));
        let gpu = slot as u8;
        due.into_iter().map(|seq| ToBroker::Drained { seq, gpu, done, waiting }).collect()
    }

    pub(crate) fn is_idle(&mut self, now: Nanos, slot: usize) -> Option<ToBroker> {
        let door = &mut self.doors[slot];
        let GateWords { gate, lease, bound_ns } = door.words;
        let quiet = door.in_flight == 0 && now >= door.stirred + IDLE_NS;
        if gate != Gate::Open || bound_ns == 0 || !quiet || door.said_idle == Some(lease) {
            return None;
        }
        door.said_idle = Some(lease);
        Some(ToBroker::Idle { gpu: slot as u8, lease })
    }
}

fn key(ns: Nanos) -> u32 {
    ns.checked_ilog2().unwrap_or_default()
}
