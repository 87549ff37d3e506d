//! What the programs that go a road to the driver print, and whether the broker saw what they met.
//!
//! Such a program asks for 64 MiB and for more than its limit of 1 GiB, and prints
//! `ROAD STEP PID FIRST SECOND` with the two result codes.

use crate::{Ended, MIB, Machine};

/// What those programs ask for beyond their limit.
const TOO_MUCH: u64 = 1088 * MIB;
/// Result codes of the driver.
const OUT_OF_MEMORY: u32 = 2;
const NOT_SUPPORTED: u32 = 801;
/// As many refusals of a process does the broker tell in a second; it counts the rest.
const TOLD_IN_A_SECOND: usize = 20;

/// One line that such a program printed.
#[derive(Debug)]
pub struct Step {
    pub pid: u32,
    pub codes: (u32, u32),
}

impl Step {
    /// Both were granted (a driver may lack a form altogether).
    #[must_use]
    pub fn can_be_had(&self) -> bool {
        [self.codes.0, self.codes.1].iter().all(|code| [0, NOT_SUPPORTED].contains(code))
    }

    /// The first was granted, the second refused.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        [0, NOT_SUPPORTED].contains(&self.codes.0) && self.codes.1 == OUT_OF_MEMORY
    }
}

/// The steps that a program printed.
#[must_use]
pub fn steps(ended: &Ended) -> Vec<Step> {
    let step = |line: &str| {
        let mut words = line.strip_prefix("ROAD ")?.split(' ').skip(1);
        let mut number = || words.next()?.parse().ok();
        Some(Step { pid: number()?, codes: (number()?, number()?) })
    };
    ended.stdout.lines().filter_map(step).collect()
}

/// Whether the limit held at every step, and the broker's log has each refusal with the pid.
///
/// # Errors
///
/// What was otherwise.
pub fn limited(machine: &Machine, ended: &Ended) -> Result<(), String> {
    let steps = steps(ended);
    if steps.is_empty() || !ended.status.success() {
        return Err(ended.all());
    }
    if let Some(step) = steps.iter().find(|step| !step.is_limited()) {
        return Err(format!("{:?} instead of (0, 2): {}", step.codes, ended.all()));
    }
    let events = machine.events();
    let logged = events.iter().filter(|event| event.kind == "out-of-memory");
    let logged: Vec<_> = logged.map(|event| (event.pid, event.bytes.map(|b| b.0))).collect();
    let told = |pid: u32| logged.iter().filter(|(of, _)| *of == Some(pid)).count();
    for step in &steps {
        let wanted = steps.iter().filter(|other| other.pid == step.pid).count();
        if told(step.pid) < wanted.min(TOLD_IN_A_SECOND) {
            return Err(format!("{wanted} refusals of {}, the log has {logged:?}", step.pid));
        }
    }
    match logged.iter().find(|(_, bytes)| bytes.is_none_or(|bytes| bytes < TOO_MUCH)) {
        Some(odd) => Err(format!("a refusal that no program asked for: {odd:?}")),
        None => Ok(()),
    }
}
