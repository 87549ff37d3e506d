//! Random programs and inputs, from a seed. What has been used less is chosen rather.

use std::collections::HashMap;

use crate::calls::Call;
use crate::form::{Constants, Form, Kind};
use crate::memory::{ATOMICS, Access, SCRATCH_BYTES, SPACES, Space, TYPES, bits_of, kinds_for};
use crate::program::{Guard, KINDS, Program, Register, Source, Step, registers};
use crate::render::name;
use crate::warp::{ALL, Exchange, What};
use crate::{THREAD_BYTES, THREADS};

/// Reproducible numbers, and how often each thing was chosen.
#[derive(Debug)]
pub struct Random {
    state: u64,
    used: HashMap<String, u32>,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { state: seed ^ 0x9e37_79b9_7f4a_7c15, used: HashMap::new() }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Of a few candidates the one that was used least.
    fn least_used<T>(
        &mut self,
        name: impl Fn(&T) -> String,
        mut make: impl FnMut(&mut Self) -> T,
    ) -> T {
        let mut best = make(self);
        let count = |random: &Self, name: &str| random.used.get(name).copied().unwrap_or(0);
        for _ in 0..6 {
            let other = make(self);
            if count(self, &name(&other)) < count(self, &name(&best)) {
                best = other;
            }
        }
        *self.used.entry(name(&best)).or_default() += 1;
        best
    }
}

/// Values at the edges of every type, now and then.
const EDGES: [u64; 24] = [
    0,
    1,
    2,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x3c00,
    0x7c00,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x3f80_0000,
    0x7f80_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x3ff0_0000_0000_0000,
];

fn value(random: &mut Random) -> u64 {
    let bits = random.next();
    match random.below(8) {
        0 => random.pick(&EDGES),
        1 => random.pick(&EDGES).wrapping_neg(),
        // Floats of middling size, so that sums cancel and products stay in range.
        2 => u64::from((bits as i32 as f32 / 4096.0).to_bits()) | (bits & 0xffff_ffff) << 32,
        3 => (bits as i32 as f64 / 4096.0).to_bits(),
        4 => bits & 0xff,
        5 => 0x3c00_3c00_3f80_3f80 ^ bits & 0x03ff_03ff_807f_807f,
        6 => bits & 0x807f_ffff_800f_ffff,
        _ => bits,
    }
}

/// Input for one program.
pub fn input(random: &mut Random) -> Vec<u8> {
    (0..THREADS * THREAD_BYTES / 8).flat_map(|_| value(random).to_le_bytes()).collect()
}

pub fn generate(random: &mut Random, forms: &[Form]) -> Program {
    let functions: Vec<Vec<Step>> = (0..2)
        .map(|_| {
            let mut maker = Maker { random: &mut *random, forms, functions: 0, top: false };
            maker.steps(5, 2)
        })
        .collect();
    let mut maker = Maker { random, forms, functions: functions.len(), top: true };
    let steps = maker.steps(35, 0);
    Program { functions, steps }
}

struct Maker<'g> {
    random: &'g mut Random,
    forms: &'g [Form],
    /// How many functions may be called; none inside a function.
    functions: usize,
    /// In the kernel, where there is memory.
    top: bool,
}

impl Maker<'_> {
    fn steps(&mut self, count: usize, depth: usize) -> Vec<Step> {
        (0..count).map(|_| self.step(depth)).collect()
    }

    fn step(&mut self, depth: usize) -> Step {
        match self.random.below(100) {
            0..=9 if depth < 3 => self.nested(depth),
            10..=31 if self.top => self.memory(),
            32..=39 if self.top && depth == 0 => self.exchange(),
            40..=41 if self.top && depth == 0 => {
                let value = self.register(Kind::B64);
                Step::Pass { value, stride: self.random.pick(&[1, 3, 5, 7, 31]) }
            }
            42..=45 if self.functions > 0 => Step::Call(Call {
                function: self.random.below(self.functions),
                indirect: self.random.one_in(2),
                d: self.register(Kind::B32),
                arguments: [self.source(Kind::B32), self.source(Kind::B32)],
            }),
            _ => self.compute(),
        }
    }

    fn nested(&mut self, depth: usize) -> Step {
        let count = 1 + self.random.below(4);
        let guard = self.guard();
        match self.random.below(5) {
            0 => Step::Repeat {
                times: self.random.below(registers(Kind::B32)),
                body: self.steps(count, depth + 1),
            },
            1 => Step::LeaveWhen { rounds: 3, guard, body: self.steps(count, depth + 1) },
            2 => Step::Switch {
                by: self.random.below(registers(Kind::B32)),
                cases: (0..4).map(|_| self.steps(count.min(2), depth + 1)).collect(),
            },
            _ => Step::If {
                guard,
                then: self.steps(count, depth + 1),
                other: if self.random.one_in(3) {
                    Vec::new()
                } else {
                    self.steps(count, depth + 1)
                },
            },
        }
    }

    fn guard(&mut self) -> Guard {
        Guard {
            predicate: self.random.below(registers(Kind::Predicate)),
            negated: self.random.one_in(2),
        }
    }

    fn register(&mut self, kind: Kind) -> Register {
        Register { kind, index: self.random.below(registers(kind)) }
    }

    fn source(&mut self, kind: Kind) -> Source {
        Source::Register(self.register(kind))
    }

    fn compute(&mut self) -> Step {
        let forms = self.forms;
        let form =
            self.random.least_used(|&f: &usize| forms[f].name.clone(), |r| r.below(forms.len()));
        let Form { result, sources, constants, .. } = &forms[form];
        let guard = self.random.one_in(5).then(|| self.guard());
        let d = self.register(*result);
        let mut operands: Vec<Source> = sources.iter().map(|&kind| self.source(kind)).collect();
        if *constants != Constants::None && self.random.one_in(3) {
            let at = self.random.below(operands.len());
            if sources[at] != Kind::Predicate {
                operands[at] = Source::Constant(value(self.random) & sources[at].mask());
            }
        }
        Step::Compute { form, guard, d, sources: operands }
    }

    fn memory(&mut self) -> Step {
        let access = self.random.least_used(crate::memory::name, |random| {
            if random.one_in(4) { atomic(random) } else { plain_access(random) }
        });
        Step::Memory(access)
    }

    fn exchange(&mut self) -> Step {
        let exchange =
            self.random.least_used(|e: &Exchange| e.what.opcode().to_owned(), exchange_of_any_kind);
        let step = Step::Warp(exchange);
        debug_assert!(name(&step).is_some(), "an exchange has a name");
        step
    }
}

fn register(random: &mut Random, kind: Kind) -> Register {
    Register { kind, index: random.below(registers(kind)) }
}

fn plain_access(random: &mut Random) -> Access {
    let space = random.pick(&SPACES);
    let ty = random.pick(&TYPES);
    let bytes = bits_of(ty) as usize / 8;
    let count = if bytes == 8 { random.pick(&[1, 2]) } else { random.pick(&[1, 2, 4]) };
    let size = bytes * count;
    let offset = size * random.below(SCRATCH_BYTES / size);
    let kind = random.pick(kinds_for(ty));
    let store = random.one_in(2) && !ty.starts_with('s');
    let registers = distinct(random, kind, count);
    if store {
        Access::Store { space, ty, offset, from: registers }
    } else {
        Access::Load { space, ty, offset, to: registers }
    }
}

/// Destinations of one load differ from each other.
fn distinct(random: &mut Random, kind: Kind, count: usize) -> Vec<Register> {
    let first = random.below(registers(kind));
    (0..count).map(|i| Register { kind, index: (first + 3 * i) % registers(kind) }).collect()
}

fn atomic(random: &mut Random) -> Access {
    let (op, ty) = random.pick(&ATOMICS);
    let spaces = [Space::Global, Space::Shared, Space::GenericGlobal, Space::GenericShared];
    let space = random.pick(&spaces);
    let bits = bits_of(ty);
    let kind = Kind::of_bits(bits);
    let bytes = bits as usize / 8;
    let offset = bytes * random.below(SCRATCH_BYTES / bytes);
    let has_result = random.one_in(2) || matches!(op, "exch" | "cas");
    let d = has_result.then(|| register(random, kind));
    let (value, swap) = (register(random, kind), register(random, kind));
    Access::Atomic { space, op, ty, offset, d, value, swap }
}

fn exchange_of_any_kind(random: &mut Random) -> Exchange {
    let what = random.pick(&ALL);
    let (d, a) = match what {
        What::All | What::Any | What::Uni | What::BarrierAnd | What::BarrierOr => {
            (Kind::Predicate, Kind::Predicate)
        }
        What::Ballot | What::BarrierPopc => (Kind::B32, Kind::Predicate),
        What::MatchAny64 => (Kind::B32, Kind::B64),
        _ => (Kind::B32, Kind::B32),
    };
    let (d, a) = (register(random, d), register(random, a));
    let p = random.below(registers(Kind::Predicate));
    let b = if random.one_in(2) {
        Source::Constant(random.below(32) as u64)
    } else {
        Source::Register(register(random, Kind::B32))
    };
    let c = random.pick(&[0, 31, 0x1f1f, 0x1c1f, 0x181f, 0x101f, 0x1800, 0x1007]);
    Exchange { what, d, p, a, b, c }
}

/// All names that a program can contain, for the table of what was reached.
pub fn names(forms: &[Form]) -> Vec<String> {
    let mut names: Vec<String> = forms.iter().map(|form| form.name.clone()).collect();
    for space in SPACES {
        for ty in TYPES {
            for count in [1, 2, 4].into_iter().filter(|&n| n * bits_of(ty) <= 128) {
                let registers = vec![Register { kind: KINDS[1], index: 0 }; count as usize];
                let load = Access::Load { space, ty, offset: 0, to: registers.clone() };
                names.push(crate::memory::name(&load));
                if !ty.starts_with('s') {
                    let store = Access::Store { space, ty, offset: 0, from: registers };
                    names.push(crate::memory::name(&store));
                }
            }
        }
    }
    for (op, ty) in ATOMICS {
        names.push(format!("atom.{op}.{ty}"));
        if !matches!(op, "exch" | "cas") {
            names.push(format!("red.{op}.{ty}"));
        }
    }
    names.extend(ALL.iter().map(|what| what.opcode().to_owned()));
    names.extend(["brx.idx", "bar.sync", "call", "call (indirect)", "bra (if)"].map(str::to_owned));
    names.push("bra (loop of a lane's own count)".to_owned());
    names.push("bra (loop that lanes leave)".to_owned());
    names.sort_unstable();
    names.dedup();
    names
}
