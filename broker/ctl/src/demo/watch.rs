//! Watching the tenants through the broker's API until both have ended: a live table on a terminal,
//! a line each second in a pipe.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use halfwarp_rest::{Bytes, Tenant};
use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};

use super::{Plan, Stage, part::Log, part::Part};
use crate::{
    failure::Failure,
    output::{self, exact, held},
};

/// Time between two questions to the API.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What the tenants may take beyond their work: starting, and being refused.
const GRACE: Duration = Duration::from_secs(8);

/// What was seen of one tenant.
#[derive(Clone, Debug)]
pub(super) struct SeenPart {
    pub(super) name: &'static str,
    pub(super) limit_bytes: Bytes,
    pub(super) held_bytes: Bytes,
    pub(super) most_held_bytes: Bytes,
    pub(super) most_held_when_refused_bytes: Option<Bytes>,
    pub(super) refused: u64,
    pub(super) processes: usize,
    /// Correct results of its work so far when the first refusal of the *other* was seen.
    pub(super) correct_at_others_refusal: Option<u64>,
    pub(super) work: Log,
    pub(super) hog: Option<Log>,
    pub(super) runner: Log,
    /// `None`: it had to be ended.
    pub(super) exit_code: Option<i32>,
}

#[derive(Debug)]
pub(super) struct Seen {
    pub(super) parts: [SeenPart; 2],
    /// Both had processes on the card in one answer of the API.
    pub(super) together: bool,
    pub(super) api_trouble: Option<String>,
    pub(super) interrupted: Option<u8>,
}

impl SeenPart {
    fn of(part: &Part) -> Self {
        Self {
            name: part.name,
            limit_bytes: part.limit_bytes,
            held_bytes: Bytes(0),
            most_held_bytes: Bytes(0),
            most_held_when_refused_bytes: None,
            refused: 0,
            processes: 0,
            correct_at_others_refusal: None,
            work: part.work.clone(),
            hog: part.hog.clone(),
            runner: part.runner.clone(),
            exit_code: None,
        }
    }

    /// Takes in one answer of the API.
    fn note(&mut self, tenant: Option<&Tenant>) {
        let Some((tenant, gpu)) = tenant.and_then(|t| Some((t, t.gpus.first()?))) else {
            (self.held_bytes, self.processes) = (Bytes(0), 0);
            return;
        };
        self.processes = tenant.processes.len();
        self.limit_bytes = gpu.limit_bytes;
        self.held_bytes = gpu.held_bytes;
        self.most_held_bytes = self.most_held_bytes.max(gpu.held_bytes);
        self.refused = self.refused.max(gpu.refused);
        if gpu.refused > 0 {
            self.most_held_when_refused_bytes =
                self.most_held_when_refused_bytes.max(Some(gpu.held_bytes));
        }
    }
}

pub(super) fn watch(
    stage: &Stage,
    mut parts: [Part; 2],
    plan: &Plan,
    signals: &SignalFd,
) -> Result<Seen, Failure> {
    let begun = Instant::now();
    let until = begun + Duration::from_secs(plan.seconds) + GRACE;
    let mut display = Display::new();
    let mut seen = Seen {
        parts: [SeenPart::of(&parts[0]), SeenPart::of(&parts[1])],
        together: false,
        api_trouble: None,
        interrupted: None,
    };
    loop {
        look(stage, &parts, &mut seen);
        for (part, seen) in parts.iter_mut().zip(&mut seen.parts) {
            seen.exit_code = part.ended();
        }
        display.show(&seen, begun.elapsed())?;
        if let Ok(Some(signal)) = signals.read_signal() {
            seen.interrupted = Some(signal.ssi_signo as u8);
            return Ok(seen);
        }
        if seen.parts.iter().all(|part| part.exit_code.is_some()) || Instant::now() > until {
            break;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    // What was written just before the end.
    seen.parts.iter_mut().for_each(read_logs);
    Ok(seen)
}

fn look(stage: &Stage, parts: &[Part; 2], seen: &mut Seen) {
    match stage.client.tenants() {
        Ok(tenants) => {
            for (part, seen) in parts.iter().zip(&mut seen.parts) {
                seen.note(tenants.iter().find(|tenant| tenant.name == part.tenant_name));
            }
        }
        Err(error) => seen.api_trouble = Some(error.to_string()),
    }
    seen.parts.iter_mut().for_each(read_logs);
    seen.together |= seen.parts.iter().all(|part| part.processes > 0);
    let [small, large] = &mut seen.parts;
    if small.refused > 0 && large.correct_at_others_refusal.is_none() {
        large.correct_at_others_refusal = Some(large.work.correct);
    }
}

fn read_logs(part: &mut SeenPart) {
    part.work.read_on();
    part.runner.read_on();
    if let Some(hog) = &mut part.hog {
        hog.read_on();
    }
}

/// Signals that end a demo, read here instead of ending us, so that nothing is left behind.
pub(super) fn ending_signals() -> Result<SignalFd, Failure> {
    let ending: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    ending
        .thread_block()
        .and_then(|()| {
            SignalFd::with_flags(&ending, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        })
        .map_err(|error| Failure::io("preparing to be interrupted", &error.into(), ""))
}

struct Display {
    on_terminal: bool,
    drawn_lines: usize,
    last: Option<u64>,
}

impl Display {
    fn new() -> Self {
        // Redrawing needs a terminal that moves its cursor.
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let on_terminal = std::io::stdout().is_terminal() && !dumb;
        Self { on_terminal, drawn_lines: 0, last: None }
    }

    fn show(&mut self, seen: &Seen, elapsed: Duration) -> Result<(), Failure> {
        if self.on_terminal {
            let table = table(seen);
            let back = match self.drawn_lines {
                0 => String::new(),
                lines => format!("\x1b[{lines}A\x1b[J"),
            };
            self.drawn_lines = table.lines().count();
            return output::print(&(back + &table));
        }
        if self.last == Some(elapsed.as_secs()) {
            return Ok(());
        }
        self.last = Some(elapsed.as_secs());
        seen.parts.iter().try_for_each(|part| {
            output::print(&format!(
                "{:>2}s {} holds {} of {}, refused {}, processes {}, correct results {}\n",
                elapsed.as_secs(),
                part.name,
                held(part.held_bytes),
                exact(part.limit_bytes),
                part.refused,
                part.processes,
                part.work.correct
            ))
        })
    }
}

fn table(seen: &Seen) -> String {
    let header = ["TENANT", "HELD", "", "LIMIT", "REFUSED", "PROCESSES", "CORRECT"];
    let mut table = output::table(&header, &["TENANT", ""]);
    for part in &seen.parts {
        table.add_row([
            part.name.to_owned(),
            // Columns stay where they are while numbers change.
            format!("{:>9}", held(part.held_bytes)),
            bar(part.held_bytes, part.limit_bytes),
            exact(part.limit_bytes),
            part.refused.to_string(),
            part.processes.to_string(),
            part.work.correct.to_string(),
        ]);
    }
    output::lines(&table)
}

/// How much of the limit is held, in 20 cells.
fn bar(held: Bytes, limit: Bytes) -> String {
    let cells = u128::from(held.0) * 20 / u128::from(limit.0.max(1));
    let full = (cells as usize).min(20);
    format!("[{}{}]", "#".repeat(full), ".".repeat(20 - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_only_at_the_limit_and_never_longer() {
        let full = |held, limit| bar(Bytes(held), Bytes(limit)).matches('#').count();
        assert_eq!(full(0, 100), 0);
        assert_eq!(full(99, 100), 19);
        assert_eq!(full(100, 100), 20);
        assert_eq!(full(u64::MAX, 1), 20);
        assert_eq!(full(1, 0), 20);
    }
}
