//! A program as PTX text: kernel `k(in, out)`, one block of `THREADS` threads.

use std::fmt::Write as _;

use crate::calls::Call;
use crate::form::{Constants, Form, Kind};
use crate::memory::{self, Access, SCRATCH_BYTES, vector};
use crate::program::{Guard, KINDS, Program, Register, Source, Step, registers};
use crate::warp::{Exchange, What};
use crate::{THREAD_BYTES, THREADS};

/// Where in a thread's output each register and scratch goes.
pub(crate) const REGISTER_BYTES: usize = 8;
pub(crate) const LOCAL_AT: usize = 256;
pub(crate) const SHARED_AT: usize = 320;
pub(crate) const GLOBAL_AT: usize = THREAD_BYTES - SCRATCH_BYTES;

pub fn render(program: &Program, forms: &[Form]) -> String {
    let mut text = Text { out: String::new(), forms, labels: 0 };
    text.out.push_str(".version 7.0\n.target sm_80\n.address_size 64\n");
    let pass_bytes = 8 * THREADS;
    let shared_bytes = SCRATCH_BYTES * THREADS;
    text.line(&format!(".shared .align 16 .b8 scratches[{shared_bytes}];"));
    text.line(&format!(".shared .align 16 .b8 passed[{pass_bytes}];"));
    for (index, steps) in program.functions.iter().enumerate() {
        text.function(index, steps);
    }
    text.kernel(&program.steps);
    text.out
}

fn letter(kind: Kind) -> char {
    match kind {
        Kind::Predicate => 'p',
        Kind::B16 => 'h',
        Kind::B32 => 'w',
        Kind::B64 => 'd',
    }
}

fn register(register: Register) -> String {
    format!("%{}{}", letter(register.kind), register.index)
}

fn predicate(guard: Guard) -> String {
    format!("@{}%p{}", if guard.negated { "!" } else { "" }, guard.predicate)
}

fn constant(value: u64, constants: Constants) -> String {
    match constants {
        Constants::Singles => format!("0f{value:08X}"),
        Constants::Doubles => format!("0d{value:016X}"),
        _ => format!("{value:#x}"),
    }
}

struct Text<'f> {
    out: String,
    forms: &'f [Form],
    labels: usize,
}

impl Text<'_> {
    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels
    }

    fn declarations(&mut self) {
        for kind in KINDS {
            let ty = match kind {
                Kind::Predicate => "pred",
                Kind::B16 => "b16",
                Kind::B32 => "b32",
                Kind::B64 => "b64",
            };
            let (letter, count) = (letter(kind), registers(kind));
            let _ = writeln!(self.out, ".reg .{ty} %{letter}<{count}>, %t{letter};");
        }
        self.line(".reg .b32 %c<10000>; .reg .b64 %call;");
    }

    fn function(&mut self, index: usize, steps: &[Step]) {
        let _ =
            writeln!(self.out, ".func (.param .b32 r) f{index}(.param .b32 a, .param .b32 b) {{");
        self.declarations();
        for kind in KINDS {
            for i in 0..registers(kind) {
                let name = register(Register { kind, index: i });
                self.line(&match kind {
                    Kind::Predicate => format!("setp.ne.u32 {name}, 0, 0;"),
                    Kind::B16 => format!("mov.u16 {name}, 0;"),
                    Kind::B32 => format!("mov.u32 {name}, 0;"),
                    Kind::B64 => format!("mov.u64 {name}, 0;"),
                });
            }
        }
        self.line("ld.param.b32 %w0, [a]; ld.param.b32 %w1, [b];");
        self.steps(steps);
        self.line("st.param.b32 [r], %w0; ret; }");
    }

    fn kernel(&mut self, steps: &[Step]) {
        self.line(".visible .entry k(.param .u64 in, .param .u64 out) {");
        self.declarations();
        self.line(&format!(".local .align 16 .b8 own[{SCRATCH_BYTES}];"));
        self.line(".reg .b64 %in, %out, %scratch, %local, %shared, %glocal, %gshared, %at;");
        self.line(".reg .b32 %tid, %n;");
        self.line("mov.u32 %tid, %tid.x;");
        self.line("ld.param.u64 %in, [in]; ld.param.u64 %out, [out];");
        self.line(&format!("mad.wide.u32 %in, %tid, {THREAD_BYTES}, %in;"));
        self.line(&format!("mad.wide.u32 %out, %tid, {THREAD_BYTES}, %out;"));
        self.line(&format!("add.u64 %scratch, %out, {GLOBAL_AT};"));
        self.line("mov.u64 %local, own; cvta.local.u64 %glocal, %local;");
        self.line("mov.u64 %shared, scratches;");
        self.line(&format!("mad.wide.u32 %shared, %tid, {SCRATCH_BYTES}, %shared;"));
        self.line("cvta.shared.u64 %gshared, %shared;");
        for at in (0..SCRATCH_BYTES).step_by(8) {
            self.line(&format!("st.local.u64 [%local+{at}], 0; st.shared.u64 [%shared+{at}], 0;"));
        }
        self.load_registers();
        self.steps(steps);
        self.store_registers();
        for at in (0..SCRATCH_BYTES).step_by(8) {
            let (local, shared) = (LOCAL_AT + at, SHARED_AT + at);
            self.line(&format!(
                "ld.local.u64 %td, [%local+{at}]; st.global.u64 [%out+{local}], %td;"
            ));
            self.line(&format!(
                "ld.shared.u64 %td, [%shared+{at}]; st.global.u64 [%out+{shared}], %td;"
            ));
        }
        self.line("ret; }");
    }

    fn load_registers(&mut self) {
        let mut at = 0;
        for kind in KINDS {
            for index in 0..registers(kind) {
                let name = register(Register { kind, index });
                self.line(&match kind {
                    Kind::Predicate => format!(
                        "ld.global.u32 %tw, [%in+{at}]; and.b32 %tw, %tw, 1; setp.ne.u32 {name}, %tw, 0;"
                    ),
                    Kind::B16 => format!("ld.global.u16 {name}, [%in+{at}];"),
                    Kind::B32 => format!("ld.global.u32 {name}, [%in+{at}];"),
                    Kind::B64 => format!("ld.global.u64 {name}, [%in+{at}];"),
                });
                at += REGISTER_BYTES;
            }
        }
    }

    fn store_registers(&mut self) {
        let mut at = 0;
        for kind in KINDS {
            for index in 0..registers(kind) {
                let name = register(Register { kind, index });
                self.line(&match kind {
                    Kind::Predicate => {
                        format!("selp.u32 %tw, 1, 0, {name}; st.global.u32 [%out+{at}], %tw;")
                    }
                    Kind::B16 => format!("st.global.u16 [%out+{at}], {name};"),
                    Kind::B32 => format!("st.global.u32 [%out+{at}], {name};"),
                    Kind::B64 => format!("st.global.u64 [%out+{at}], {name};"),
                });
                at += REGISTER_BYTES;
            }
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        steps.iter().for_each(|step| self.step(step));
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Compute { form, guard, d, sources } => self.compute(*form, *guard, *d, sources),
            Step::If { guard, then, other } => {
                let n = self.label();
                let against = Guard { negated: !guard.negated, ..*guard };
                self.line(&format!("{} bra ELSE{n};", predicate(against)));
                self.steps(then);
                self.line(&format!("bra.uni END{n}; ELSE{n}:"));
                self.steps(other);
                self.line(&format!("END{n}:"));
            }
            Step::Repeat { times, body } => {
                let n = self.label();
                self.line(&format!(
                    "and.b32 %c{n}, %w{times}, 3; AGAIN{n}: setp.eq.u32 %tp, %c{n}, 0;"
                ));
                self.line(&format!("@%tp bra END{n};"));
                self.steps(body);
                self.line(&format!("sub.u32 %c{n}, %c{n}, 1; bra AGAIN{n}; END{n}:"));
            }
            Step::LeaveWhen { rounds, guard, body } => {
                let n = self.label();
                self.line(&format!("mov.u32 %c{n}, {rounds}; AGAIN{n}:"));
                self.steps(body);
                self.line(&format!("{} bra END{n};", predicate(*guard)));
                self.line(&format!("sub.u32 %c{n}, %c{n}, 1; setp.ne.u32 %tp, %c{n}, 0;"));
                self.line(&format!("@%tp bra AGAIN{n}; END{n}:"));
            }
            Step::Switch { by, cases } => self.switch(*by, cases),
            Step::Memory(access) => self.access(access),
            Step::Warp(exchange) => self.exchange(exchange),
            Step::Pass { value, stride } => self.pass(*value, *stride),
            Step::Call(call) => self.call(call),
        }
    }

    fn compute(&mut self, form: usize, guard: Option<Guard>, d: Register, sources: &[Source]) {
        let form = &self.forms[form];
        let mut text = form.text.replace("{d}", &register(d));
        for (i, source) in sources.iter().enumerate() {
            let written = match *source {
                Source::Register(source) => register(source),
                Source::Constant(value) => constant(value, form.constants),
            };
            text = text.replace(&format!("{{{i}}}"), &written);
        }
        match guard {
            None => self.line(&text),
            Some(guard) => {
                for one in text.split_inclusive(';') {
                    self.line(&format!("{} {}", predicate(guard), one.trim()));
                }
            }
        }
    }

    fn switch(&mut self, by: usize, cases: &[Vec<Step>]) {
        let n = self.label();
        let labels: Vec<String> = (0..cases.len()).map(|i| format!("CASE{n}_{i}")).collect();
        self.line(&format!("LIST{n}: .branchtargets {};", labels.join(", ")));
        self.line(&format!("and.b32 %c{n}, %w{by}, {}; brx.idx %c{n}, LIST{n};", cases.len() - 1));
        for (label, steps) in labels.iter().zip(cases) {
            self.line(&format!("{label}:"));
            self.steps(steps);
            self.line(&format!("bra END{n};"));
        }
        self.line(&format!("END{n}:"));
    }

    fn list(registers: &[Register]) -> String {
        let names: Vec<String> = registers.iter().map(|&r| register(r)).collect();
        if names.len() == 1 { names.concat() } else { format!("{{{}}}", names.join(", ")) }
    }

    fn access(&mut self, access: &Access) {
        let line = match access {
            Access::Load { space, ty, offset, to } => {
                let ((modifier, base), vector) = (space.words(), vector(to.len()));
                format!("ld{modifier}{vector}.{ty} {}, [{base}+{offset}];", Self::list(to))
            }
            Access::Store { space, ty, offset, from } => {
                let ((modifier, base), vector) = (space.words(), vector(from.len()));
                format!("st{modifier}{vector}.{ty} [{base}+{offset}], {};", Self::list(from))
            }
            Access::Atomic { space, op, ty, offset, d, value, swap } => {
                let (modifier, base) = space.words();
                let swap =
                    if *op == "cas" { format!(", {}", register(*swap)) } else { String::new() };
                let (opcode, d) = match d {
                    Some(d) => ("atom", format!("{}, ", register(*d))),
                    None => ("red", String::new()),
                };
                let value = register(*value);
                format!("{opcode}{modifier}.{op}.{ty} {d}[{base}+{offset}], {value}{swap};")
            }
        };
        self.line(&line);
    }

    fn exchange(&mut self, exchange: &Exchange) {
        let Exchange { what, d, p, a, b, c } = exchange;
        let (opcode, d, a) = (what.opcode(), register(*d), register(*a));
        let all = "0xffffffff";
        let line = match what {
            What::ActiveMask => format!("{opcode} {d};"),
            What::BarrierPopc | What::BarrierAnd | What::BarrierOr => {
                format!("{opcode} {d}, 0, {a};")
            }
            What::MatchAll => format!("{opcode} {d}|%p{p}, {a}, {all};"),
            what if what.is_shuffle() => {
                let b = match *b {
                    Source::Register(b) => register(b),
                    Source::Constant(b) => b.to_string(),
                };
                format!("{opcode} {d}|%p{p}, {a}, {b}, {c}, {all};")
            }
            _ => format!("{opcode} {d}, {a}, {all};"),
        };
        self.line(&line);
    }

    fn pass(&mut self, value: Register, stride: usize) {
        let name = register(value);
        self.line(&format!(
            "mov.u64 %at, passed; mad.wide.u32 %at, %tid, 8, %at; st.shared.u64 [%at], {name};"
        ));
        self.line(&format!(
            "bar.sync 0; mad.lo.u32 %n, %tid, {stride}, 1; and.b32 %n, %n, {};",
            THREADS - 1
        ));
        self.line("mov.u64 %at, passed; mad.wide.u32 %at, %n, 8, %at;");
        self.line(&format!("ld.shared.u64 {name}, [%at]; bar.sync 0;"));
    }

    fn call(&mut self, call: &Call) {
        let [a, b] = call.arguments.map(|source| match source {
            Source::Register(source) => register(source),
            Source::Constant(value) => value.to_string(),
        });
        let (function, d) = (call.function, register(call.d));
        self.line("{ .param .b32 x; .param .b32 y; .param .b32 z;");
        self.line(&format!("st.param.b32 [x], {a}; st.param.b32 [y], {b};"));
        if call.indirect {
            self.line(&format!("mov.u64 %call, f{function};"));
            self.line("P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);");
            self.line("call (z), %call, (x, y), P;");
        } else {
            self.line(&format!("call.uni (z), f{function}, (x, y);"));
        }
        self.line(&format!("ld.param.b32 {d}, [z]; }}"));
    }
}

/// What a step is called in the table of what was reached.
pub(crate) fn name(step: &Step) -> Option<String> {
    Some(match step {
        Step::Compute { .. } => return None,
        Step::If { .. } => "bra (if)".to_owned(),
        Step::Repeat { .. } => "bra (loop of a lane's own count)".to_owned(),
        Step::LeaveWhen { .. } => "bra (loop that lanes leave)".to_owned(),
        Step::Switch { .. } => "brx.idx".to_owned(),
        Step::Memory(access) => memory::name(access),
        Step::Warp(exchange) => exchange.what.opcode().to_owned(),
        Step::Pass { .. } => "bar.sync".to_owned(),
        Step::Call(call) if call.indirect => "call (indirect)".to_owned(),
        Step::Call(_) => "call".to_owned(),
    })
}
