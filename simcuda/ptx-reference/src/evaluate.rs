//! What a program leaves behind, by the ISA: every step for the lanes that reach it, one lane after
//! the other.

use std::collections::BTreeMap;

use crate::calls::Call;
use crate::exact::{F32, F64, Mode, added};
use crate::form::{Form, Kind};
use crate::ints::number;
use crate::memory::{Access, SCRATCH_BYTES, Space, bits_of, is_signed};
use crate::program::{Guard, KINDS, Program, Register, Source, Step, registers};
use crate::render::{GLOBAL_AT, LOCAL_AT, REGISTER_BYTES, SHARED_AT, name};
use crate::warp::{Exchange, What, source_lane};
use crate::{THREAD_BYTES, THREADS};

#[derive(Clone)]
struct Thread {
    registers: [Vec<u64>; 4],
    /// Global, local, shared.
    scratch: [[u8; SCRATCH_BYTES]; 3],
}

fn row(kind: Kind) -> usize {
    KINDS.iter().position(|&k| k == kind).unwrap_or(0)
}

impl Thread {
    fn new() -> Self {
        Self { registers: KINDS.map(|k| vec![0; registers(k)]), scratch: [[0; SCRATCH_BYTES]; 3] }
    }

    fn get(&self, register: Register) -> u64 {
        self.registers[row(register.kind)][register.index]
    }

    fn set(&mut self, register: Register, value: u64) {
        self.registers[row(register.kind)][register.index] = value & register.kind.mask();
    }

    fn source(&self, source: Source) -> u64 {
        match source {
            Source::Register(register) => self.get(register),
            Source::Constant(value) => value,
        }
    }

    fn guard(&self, guard: Guard) -> bool {
        (self.registers[row(Kind::Predicate)][guard.predicate] == 1) != guard.negated
    }

    fn load(&self, space: Space, offset: usize, bits: u32) -> u64 {
        let bytes = &self.scratch[space.place()][offset..offset + bits as usize / 8];
        bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    fn store(&mut self, space: Space, offset: usize, bits: u32, value: u64) {
        let bytes = &value.to_le_bytes()[..bits as usize / 8];
        self.scratch[space.place()][offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

/// The output for an input of `THREADS * THREAD_BYTES` bytes. Counts in `reached` what some lane got
/// to, by name.
pub fn evaluate(
    program: &Program,
    forms: &[Form],
    input: &[u8],
    reached: &mut BTreeMap<String, u64>,
) -> Vec<u8> {
    let threads = input.chunks(THREAD_BYTES).map(started).collect();
    let mut block = Block { program, forms, threads, reached };
    let everybody: Vec<usize> = (0..block.threads.len()).collect();
    block.run(&program.steps, &everybody);
    block.threads.iter().flat_map(finished).collect()
}

fn started(input: &[u8]) -> Thread {
    let mut thread = Thread::new();
    let mut words = input.chunks(REGISTER_BYTES);
    for kind in KINDS {
        for index in 0..registers(kind) {
            let word = words.next().and_then(|word| word.try_into().ok()).unwrap_or([0; 8]);
            thread.set(Register { kind, index }, u64::from_le_bytes(word));
        }
    }
    thread
}

fn finished(thread: &Thread) -> Vec<u8> {
    let mut out = vec![0; THREAD_BYTES];
    for (i, value) in thread.registers.iter().flatten().enumerate() {
        out[i * REGISTER_BYTES..][..8].copy_from_slice(&value.to_le_bytes());
    }
    for (place, at) in [(0, GLOBAL_AT), (1, LOCAL_AT), (2, SHARED_AT)] {
        out[at..at + SCRATCH_BYTES].copy_from_slice(&thread.scratch[place]);
    }
    out
}

struct Block<'p> {
    program: &'p Program,
    forms: &'p [Form],
    threads: Vec<Thread>,
    reached: &'p mut BTreeMap<String, u64>,
}

impl Block<'_> {
    fn run(&mut self, steps: &[Step], active: &[usize]) {
        for step in steps {
            if active.is_empty() {
                return;
            }
            if let Some(name) = name(step) {
                *self.reached.entry(name).or_default() += 1;
            }
            self.step(step, active);
        }
    }

    fn with(&self, active: &[usize], guard: Guard) -> (Vec<usize>, Vec<usize>) {
        active.iter().partition(|&&lane| self.threads[lane].guard(guard))
    }

    fn step(&mut self, step: &Step, active: &[usize]) {
        match step {
            Step::Compute { form, guard, d, sources } => {
                let active = match guard {
                    Some(guard) => self.with(active, *guard).0,
                    None => active.to_vec(),
                };
                let form = &self.forms[*form];
                if !active.is_empty() {
                    *self.reached.entry(form.name.clone()).or_default() += 1;
                }
                for lane in active {
                    let thread = &mut self.threads[lane];
                    let values: Vec<u64> = sources.iter().map(|&s| thread.source(s)).collect();
                    thread.set(*d, (form.compute)(&values));
                }
            }
            Step::If { guard, then, other } => {
                let (yes, no) = self.with(active, *guard);
                self.run(then, &yes);
                self.run(other, &no);
            }
            Step::Repeat { times, body } => self.repeat(*times, body, active),
            Step::LeaveWhen { rounds, guard, body } => {
                let mut inside = active.to_vec();
                for _ in 0..*rounds {
                    self.run(body, &inside);
                    inside = self.with(&inside, *guard).1;
                }
            }
            Step::Switch { by, cases } => self.switch(*by, cases, active),
            Step::Memory(access) => active.iter().for_each(|&lane| self.access(access, lane)),
            Step::Warp(exchange) => self.exchange(exchange),
            Step::Pass { value, stride } => {
                let before: Vec<u64> = self.threads.iter().map(|t| t.get(*value)).collect();
                for (lane, thread) in self.threads.iter_mut().enumerate() {
                    thread.set(*value, before[(lane * stride + 1) % THREADS]);
                }
            }
            Step::Call(call) => self.call(call, active),
        }
    }

    fn repeat(&mut self, times: usize, body: &[Step], active: &[usize]) {
        let register = Register { kind: Kind::B32, index: times };
        let counts: Vec<(usize, u64)> =
            active.iter().map(|&lane| (lane, self.threads[lane].get(register) & 3)).collect();
        for round in 0..3 {
            let inside: Vec<usize> =
                counts.iter().filter(|(_, count)| *count > round).map(|(lane, _)| *lane).collect();
            self.run(body, &inside);
        }
    }

    fn switch(&mut self, by: usize, cases: &[Vec<Step>], active: &[usize]) {
        let register = Register { kind: Kind::B32, index: by };
        let chosen: Vec<(usize, usize)> = active
            .iter()
            .map(|&lane| (lane, self.threads[lane].get(register) as usize % cases.len()))
            .collect();
        for (index, steps) in cases.iter().enumerate() {
            let here: Vec<usize> =
                chosen.iter().filter(|(_, case)| *case == index).map(|(lane, _)| *lane).collect();
            self.run(steps, &here);
        }
    }

    fn call(&mut self, call: &Call, active: &[usize]) {
        let program = self.program;
        for &lane in active {
            let arguments = call.arguments.map(|source| self.threads[lane].source(source));
            let mut inside = Thread::new();
            for (index, value) in arguments.into_iter().enumerate() {
                inside.set(Register { kind: Kind::B32, index }, value);
            }
            let outside = std::mem::replace(&mut self.threads[lane], inside);
            self.run(&program.functions[call.function], &[lane]);
            let result = self.threads[lane].get(Register { kind: Kind::B32, index: 0 });
            self.threads[lane] = outside;
            self.threads[lane].set(call.d, result);
        }
    }

    fn access(&mut self, access: &Access, lane: usize) {
        let thread = &mut self.threads[lane];
        match access {
            Access::Load { space, ty, offset, to } => {
                let bits = bits_of(ty);
                for (i, &register) in to.iter().enumerate() {
                    let value = thread.load(*space, offset + i * bits as usize / 8, bits);
                    thread.set(register, number(value, bits, is_signed(ty)) as u64);
                }
            }
            Access::Store { space, ty, offset, from } => {
                let bits = bits_of(ty);
                for (i, &register) in from.iter().enumerate() {
                    let value = thread.get(register);
                    thread.store(*space, offset + i * bits as usize / 8, bits, value);
                }
            }
            Access::Atomic { space, op, ty, offset, d, value, swap } => {
                let bits = bits_of(ty);
                let old = thread.load(*space, *offset, bits);
                let (value, swap) = (thread.get(*value), thread.get(*swap));
                let flushes = space.place() == 0;
                thread.store(*space, *offset, bits, updated(op, ty, old, value, swap, flushes));
                if let Some(d) = d {
                    thread.set(*d, old);
                }
            }
        }
    }

    /// All threads take part: exchanges stand at the top level only.
    fn exchange(&mut self, exchange: &Exchange) {
        let before = self.threads.clone();
        let predicate = Register { kind: Kind::Predicate, index: exchange.p };
        for (index, thread) in self.threads.iter_mut().enumerate() {
            let lane = index % 32;
            let warp = &before[index - lane..index - lane + 32];
            let values: Vec<u64> = warp.iter().map(|t| t.get(exchange.a)).collect();
            let all: Vec<u64> = before.iter().map(|t| t.get(exchange.a)).collect();
            let (value, second) = exchanged(exchange, &before[index], lane, &values, &all);
            thread.set(exchange.d, value);
            if let Some(second) = second {
                thread.set(predicate, second.into());
            }
        }
    }
}

fn exchanged(
    exchange: &Exchange,
    thread: &Thread,
    lane: usize,
    warp: &[u64],
    block: &[u64],
) -> (u64, Option<bool>) {
    let bits = |f: &dyn Fn(u64) -> bool| {
        warp.iter().enumerate().filter(|(_, v)| f(**v)).fold(0, |set, (i, _)| set | 1 << i)
    };
    let signed = |v: &u64| *v as u32 as i32;
    let truths = |values: &[u64]| values.iter().filter(|&&v| v == 1).count();
    match exchange.what {
        what @ (What::Up | What::Down | What::Bfly | What::Idx) => {
            let (from, inside) =
                source_lane(what, lane as i32, thread.source(exchange.b), exchange.c);
            (warp[from], Some(inside))
        }
        What::All => ((truths(warp) == 32).into(), None),
        What::Any => ((truths(warp) != 0).into(), None),
        What::Uni => (matches!(truths(warp), 0 | 32).into(), None),
        What::Ballot => (bits(&|v| v == 1), None),
        What::MatchAny32 | What::MatchAny64 => (bits(&|v| v == warp[lane]), None),
        What::MatchAll => {
            let same = warp.iter().all(|&v| v == warp[0]);
            (if same { 0xffff_ffff } else { 0 }, Some(same))
        }
        What::Add => (warp.iter().sum::<u64>(), None),
        What::Min => (warp.iter().map(signed).min().unwrap_or(0) as u64, None),
        What::Max => (warp.iter().copied().max().unwrap_or(0), None),
        What::And => (warp.iter().fold(u64::MAX, |x, y| x & y), None),
        What::ActiveMask => (0xffff_ffff, None),
        What::BarrierPopc => (truths(block) as u64, None),
        What::BarrierAnd => ((truths(block) == block.len()).into(), None),
        What::BarrierOr => ((truths(block) != 0).into(), None),
    }
}

/// What an atomic leaves in memory. Sums of singles in global memory flush subnormals.
fn updated(op: &str, ty: &str, old: u64, value: u64, swap: u64, flushes: bool) -> u64 {
    let bits = bits_of(ty);
    let n = |v: u64| number(v, bits, is_signed(ty));
    match (op, ty) {
        ("add", "f32") if flushes => {
            let f = |bits| F32.flushed(bits);
            f(added(F32, f(old), f(value), Mode::Nearest))
        }
        ("add", "f32") => added(F32, old, value, Mode::Nearest),
        ("add", "f64") => added(F64, old, value, Mode::Nearest),
        ("add", _) => old.wrapping_add(value),
        ("and", _) => old & value,
        ("or", _) => old | value,
        ("xor", _) => old ^ value,
        ("exch", _) => value,
        ("cas", _) => {
            if old == value {
                swap
            } else {
                old
            }
        }
        ("inc", _) => {
            if old >= value {
                0
            } else {
                old + 1
            }
        }
        ("dec", _) => {
            if old == 0 || old > value {
                value
            } else {
                old - 1
            }
        }
        ("min", _) => {
            if n(value) < n(old) {
                value
            } else {
                old
            }
        }
        _ => {
            if n(value) > n(old) {
                value
            } else {
                old
            }
        }
    }
}
