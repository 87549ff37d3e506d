//! Tenants that keep a card busy, and what each of them receives of it by the simulated machine's own
//! log of its engines: neither the library nor the broker has a say in these figures.

use std::time::Duration;

use simcuda_protocol::engines::{Engine, Mark};

use crate::{Machine, Running, artefact, until};

const START: Duration = Duration::from_secs(30);

/// A machine on which several are busy.
#[derive(Debug)]
pub struct Busy<'a> {
    machine: &'a Machine,
    running: Vec<Running>,
    /// Names of tenants, or the programs' own pids where there is no Halfwarp.
    names: Vec<Option<String>>,
}

/// What each received over a stretch of the machine's time.
#[derive(Debug)]
pub struct Received {
    /// By the order in which they were started: percent of the card.
    pub percent: Vec<f64>,
    pub stretch_ns: u64,
}

impl<'a> Busy<'a> {
    #[must_use]
    pub fn on(machine: &'a Machine) -> Self {
        Self { machine, running: Vec::new(), names: Vec::new() }
    }

    /// Adds a tenant that runs `spin` with these words (see `spin --help`) until it is dropped.
    #[must_use]
    pub fn tenant(mut self, options: &[&str], spin: &[&str]) -> Self {
        let name = format!("busy-{}", self.names.len());
        let options = [options, &["--memory", "1GiB", "--name", &name]].concat();
        let program = artefact("samples/spin");
        let words = [&[program.to_str().expect("a path that is text")], spin].concat();
        let words = [words.as_slice(), &["--seconds", "3600"]].concat();
        self.running.push(self.machine.tenant(&options).program(words).start());
        self.names.push(Some(name));
        self
    }

    /// Adds the same without Halfwarp.
    #[must_use]
    pub fn native(mut self, spin: &[&str]) -> Self {
        let mut command = self.machine.natively(artefact("samples/spin"));
        command.args(spin).args(["--seconds", "3600"]);
        self.running.push(crate::start(&mut command));
        self.names.push(None);
        self
    }

    /// Adds a tenant of this name that was started elsewhere.
    #[must_use]
    pub fn with(mut self, name: &str, running: Running) -> Self {
        self.running.push(running);
        self.names.push(Some(name.to_owned()));
        self
    }

    /// Waits until so many processes have joined in all.
    ///
    /// # Panics
    ///
    /// If they have not within half a minute.
    pub fn wait_for(&self, processes: usize) {
        until(START, "all processes have joined", || {
            (self.pids().iter().map(Vec::len).sum::<usize>() == processes).then_some(())
        });
    }

    /// What each receives over the next `seconds`, once all have begun.
    ///
    /// # Panics
    ///
    /// If one has not begun within half a minute.
    #[must_use]
    pub fn receive(&self, seconds: u64) -> Received {
        let sim = self.machine.faults();
        let begun =
            |mark: &Mark| self.pids().iter().all(|of| !of.is_empty() && used(mark, None, of) > 0);
        until(START, "everybody has computed something", || begun(&sim.mark()).then_some(()));
        let pids = self.pids();
        let first = sim.mark();
        std::thread::sleep(Duration::from_secs(seconds));
        let last = sim.mark();
        let stretch_ns = last.now_ns - first.now_ns;
        let percent =
            |of: &Vec<u32>| used(&last, Some(&first), of) as f64 * 100.0 / stretch_ns as f64;
        Received { percent: pids.iter().map(percent).collect(), stretch_ns }
    }

    fn pids(&self) -> Vec<Vec<u32>> {
        let served = self.machine.broker_dir().join("api.sock").exists();
        let tenants = if served { self.machine.tenants() } else { Vec::new() };
        let of = |(name, running): (&Option<String>, &Running)| match name {
            None => vec![running.pid()],
            Some(name) => {
                let tenant = tenants.iter().find(|tenant| tenant.name == *name);
                tenant.map_or(Vec::new(), |t| t.processes.iter().map(|p| p.pid).collect())
            }
        };
        self.names.iter().zip(&self.running).map(of).collect()
    }
}

fn used(mark: &Mark, since: Option<&Mark>, pids: &[u32]) -> u64 {
    let of = |total: &&simcuda_protocol::engines::Total| {
        total.engine == Engine::Compute && pids.contains(&total.pid)
    };
    match since {
        Some(first) => mark.since(first).iter().filter(of).map(|total| total.used_ns).sum(),
        None => mark.totals().iter().filter(of).map(|total| total.used_ns).sum(),
    }
}

impl Received {
    /// Asserts that each received what is said, in points of the card.
    ///
    /// # Panics
    ///
    /// If one did not.
    pub fn is(&self, percent: &[f64], points: f64) {
        assert_eq!(self.percent.len(), percent.len());
        let off = |(got, owed): (&f64, &f64)| (got - owed).abs() > points;
        let any = self.percent.iter().zip(percent).any(off);
        assert!(!any, "received {:.1?}, owed {percent:?} within {points} points", self.percent);
    }
}
