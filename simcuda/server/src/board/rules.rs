//! Faults that stay: which calls they hit, and what they make of a card. Numbers and sets only.

use super::words;
use shim_cuda_headers::row::Topic;
use shim_cuda_headers::{DriverFn, NvmlFn};
use simcuda_protocol::control::{Act, Function, Listed};
use simcuda_protocol::fault::{Answer, Calls, Fault, Subject, When};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// Functions of the driver that can be refused half way: they have two halves.
const IN_HALVES: [&str; 5] =
    ["cuMemMap", "cuMemCreate", "cuMemAlloc", "cuMemAllocAsync", "cuMemAllocPitch"];
/// The only one that the driver has a newer form of.
const HAS_NEWER: &str = "cuMemAlloc";
const NVML_NOT_SUPPORTED: u32 = 3;

#[derive(Debug)]
struct Rule {
    number: u64,
    fault: Fault,
    functions: BTreeSet<Function>,
    calls: Calls,
    /// What it does to a call that it hits.
    act: Act,
    /// The card that it concerns.
    device: Option<u32>,
    /// Calls so far, by process or all together (0).
    counts: HashMap<u32, u64>,
    seen: u64,
    hit: u64,
}

#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    last: u64,
}

impl Rules {
    pub(super) fn add(&mut self, fault: &Fault) -> Result<u64, String> {
        let nothing = (BTreeSet::new(), Calls::default(), Act::default());
        let (functions, calls, act) = match fault {
            Fault::Fail { function, code, when, calls } => {
                let functions = words::functions(function)?;
                halves(function, *when, &functions)?;
                let nvml = functions.iter().all(|f| matches!(f, Function::Nvml(_)));
                let code = Some(words::code(code.as_deref(), nvml)?);
                (functions, *calls, Act { code, when: *when, ..Act::default() })
            }
            Fault::Delay { function, before_ns, after_ns, calls } => {
                let (before_ns, after_ns) = (*before_ns, *after_ns);
                (words::functions(function)?, *calls, Act { before_ns, after_ns, ..Act::default() })
            }
            Fault::Hide { function } => {
                words::driver_rows(function)?;
                nothing
            }
            Fault::Newer { function } if function != HAS_NEWER => {
                return Err(format!("{function} has no newer form here; {HAS_NEWER} has"));
            }
            Fault::Nvml { subject, answer } => {
                let act = match answer {
                    Answer::NotSupported => {
                        Act { code: Some(NVML_NOT_SUPPORTED), ..Act::default() }
                    }
                    Answer::AllOnes => Act { all_ones: true, ..Act::default() },
                    Answer::Hang { ns } => Act { before_ns: *ns, ..Act::default() },
                };
                (about(*subject), Calls::default(), act)
            }
            _ => nothing,
        };
        Ok(self.push(fault, functions, calls, act, None))
    }

    /// What concerns one card. Once is enough: the same again changes nothing.
    pub(super) fn add_to_card(&mut self, fault: &Fault, device: u32) -> u64 {
        if let Some(rule) = self.rules.iter().find(|r| r.fault == *fault) {
            return rule.number;
        }
        self.push(fault, BTreeSet::new(), Calls::default(), Act::default(), Some(device))
    }

    fn push(
        &mut self,
        fault: &Fault,
        functions: BTreeSet<Function>,
        calls: Calls,
        act: Act,
        device: Option<u32>,
    ) -> u64 {
        self.last += 1;
        let (number, fault) = (self.last, fault.clone());
        let counts = HashMap::new();
        self.rules.push(Rule {
            number,
            fault,
            functions,
            calls,
            act,
            device,
            counts,
            seen: 0,
            hit: 0,
        });
        number
    }

    /// Takes back one rule, or all.
    pub(super) fn clear(&mut self, number: Option<u64>) -> u64 {
        let before = self.rules.len();
        self.rules.retain(|rule| number.is_some_and(|number| rule.number != number));
        (before - self.rules.len()) as u64
    }

    pub(super) fn recover(&mut self, device: u32) {
        self.rules.retain(|rule| rule.device != Some(device));
    }

    pub(super) fn list(&self) -> Vec<Listed> {
        let listed = |rule: &Rule| Listed {
            number: rule.number,
            fault: rule.fault.clone(),
            seen: rule.seen,
            hit: rule.hit,
        };
        self.rules.iter().map(listed).collect()
    }

    /// Counts a call, and says what is to be done about it: delays add up, the first code counts.
    pub(super) fn called(&mut self, function: Function, pid: u32) -> Act {
        let mut act = Act::default();
        for rule in &mut self.rules {
            let concerned = rule.functions.contains(&function)
                && rule.calls.pid.is_none_or(|wanted| wanted == pid);
            if !concerned || !rule.counts_in(pid) {
                continue;
            }
            act.before_ns += rule.act.before_ns;
            act.after_ns += rule.act.after_ns;
            act.all_ones |= rule.act.all_ones;
            if act.code.is_none() && rule.act.code.is_some() {
                (act.code, act.when) = (rule.act.code, rule.act.when);
            }
        }
        act
    }

    pub(super) fn watched(&self) -> Vec<u16> {
        let all = self.rules.iter().flat_map(|rule| &rule.functions);
        let rows: BTreeSet<u16> = all
            .filter_map(|function| match function {
                Function::Driver(row) => Some(*row),
                Function::Nvml(_) => None,
            })
            .collect();
        rows.into_iter().collect()
    }

    pub(super) fn ask_about_calls(&self) -> bool {
        !self.watched().is_empty()
    }

    pub(super) fn ask_nvml(&self) -> bool {
        self.rules.iter().any(|rule| {
            rule.device.is_some()
                || matches!(rule.fault, Fault::Driver { .. })
                || rule.functions.iter().any(|f| matches!(f, Function::Nvml(_)))
        })
    }

    /// Rows that this driver does not have: those hidden, and those younger than it.
    pub(super) fn hidden(&self) -> Vec<u16> {
        let version = self.driver_version().unwrap_or(u32::MAX);
        let younger = DriverFn::ALL.iter().filter(|row| row.row().version > version);
        let mut rows: BTreeSet<u16> = younger.map(|row| *row as u16).collect();
        for rule in &self.rules {
            if let Fault::Hide { function } = &rule.fault {
                rows.extend(words::driver_rows(function).unwrap_or_default());
            }
        }
        rows.into_iter().collect()
    }

    pub(super) fn newer(&self) -> Vec<u16> {
        let newer = self.rules.iter().filter_map(|rule| match &rule.fault {
            Fault::Newer { function } => Some(words::driver_rows(function).unwrap_or_default()),
            _ => None,
        });
        newer.flatten().collect()
    }

    pub(super) fn driver_version(&self) -> Option<u32> {
        let versions = self.rules.iter().filter_map(|rule| match rule.fault {
            Fault::Driver { version } => Some(version),
            _ => None,
        });
        versions.min()
    }

    /// What a process must know when it loads the driver, before it can ask: faults as text.
    pub(super) fn early_text(&self) -> String {
        let early = self.rules.iter().filter(|rule| {
            let calls = rule.functions.iter().any(|f| matches!(f, Function::Driver(_)));
            calls
                || matches!(
                    rule.fault,
                    Fault::Hide { .. } | Fault::Driver { .. } | Fault::Newer { .. }
                )
        });
        early.fold(String::new(), |mut text, rule| {
            let _ = writeln!(text, "{}", rule.fault);
            text
        })
    }

    fn on_card(&self, device: u32) -> impl Iterator<Item = &Fault> {
        self.rules.iter().filter(move |r| r.device == Some(device)).map(|r| &r.fault)
    }

    pub(super) fn is_lost(&self, device: u32) -> bool {
        self.on_card(device).any(|fault| matches!(fault, Fault::Lose { .. }))
    }

    pub(super) fn is_stuck(&self, device: u32, pid: u32) -> bool {
        self.on_card(device).any(
            |fault| matches!(fault, Fault::Stuck { pid: of, .. } if of.is_none_or(|of| of == pid)),
        )
    }

    pub(super) fn link_percent(&self, device: u32) -> u32 {
        let percents = self.on_card(device).filter_map(|fault| match fault {
            Fault::Link { percent, .. } => Some(*percent),
            _ => None,
        });
        percents.min().unwrap_or(100)
    }
}

impl Rule {
    /// Counts one call of the process; whether it is one of those meant.
    fn counts_in(&mut self, pid: u32) -> bool {
        let whose = if self.calls.each_process { pid } else { 0 };
        let count = self.counts.entry(whose).or_insert(0);
        *count += 1;
        self.seen += 1;
        let hit = self.calls.which.means(*count);
        self.hit += u64::from(hit);
        hit
    }
}

fn halves(name: &str, when: When, functions: &BTreeSet<Function>) -> Result<(), String> {
    let in_halves = |function: &Function| match function {
        Function::Driver(row) => {
            let row = DriverFn::at(usize::from(*row));
            row.is_some_and(|row| IN_HALVES.contains(&row.row().asked))
        }
        Function::Nvml(_) => false,
    };
    if when != When::Half || functions.iter().all(in_halves) {
        return Ok(());
    }
    Err(format!("{name} has no halves; when=half is for {}", IN_HALVES.join(", ")))
}

/// Functions of NVML that answer about the subject.
fn about(subject: Subject) -> BTreeSet<Function> {
    let topic = match subject {
        Subject::Memory => Topic::Memory,
        Subject::Processes => Topic::Processes,
        Subject::Utilisation => Topic::Utilisation,
        Subject::All => return device_functions(|_| true),
    };
    device_functions(|row| row.topic() == topic)
}

fn device_functions(wanted: impl Fn(NvmlFn) -> bool) -> BTreeSet<Function> {
    let of_devices = NvmlFn::ALL.iter().filter(|row| row.symbol().starts_with("nvmlDevice"));
    of_devices.filter(|row| wanted(**row)).map(|row| Function::Nvml(*row as u16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOC: Function = Function::Driver(DriverFn::cuMemAlloc_v2 as u16);

    fn rules(faults: &[&str]) -> Rules {
        let mut rules = Rules::default();
        for fault in faults {
            rules.add(&fault.parse().expect(fault)).expect(fault);
        }
        rules
    }

    fn codes(rules: &mut Rules, calls: &[u32]) -> Vec<Option<u32>> {
        calls.iter().map(|pid| rules.called(ALLOC, *pid).code).collect()
    }

    #[test]
    fn the_nth_call_is_counted_over_all_processes_or_in_each() {
        let mut all = rules(&["fail:cuMemAlloc,nth=2"]);
        assert_eq!(codes(&mut all, &[7, 8, 7, 8]), [None, Some(2), None, None]);
        let mut each = rules(&["fail:cuMemAlloc,nth=2,each=process"]);
        assert_eq!(codes(&mut each, &[7, 8, 7, 8]), [None, None, Some(2), Some(2)]);
        let mut one = rules(&["fail:cuMemAlloc,nth=2,pid=8"]);
        assert_eq!(codes(&mut one, &[7, 8, 7, 8]), [None, None, None, Some(2)]);
        let listed = &one.list()[0];
        assert_eq!((listed.seen, listed.hit), (2, 1));
    }

    #[test]
    fn delays_add_up_and_the_first_code_counts() {
        let mut both = rules(&[
            "delay:cuMemAlloc,before=1ms",
            "delay:cuMem*,before=2ms,after=3ms",
            "fail:cuMemAlloc_v2,code=700,when=after",
            "fail:cuMemAlloc_v2,code=999",
        ]);
        let act = both.called(ALLOC, 1);
        assert_eq!((act.before_ns, act.after_ns), (3_000_000, 3_000_000));
        assert_eq!((act.code, act.when), (Some(700), When::After));
        assert_eq!(both.clear(Some(3)), 1);
        assert_eq!(both.called(ALLOC, 1).code, Some(999));
        assert_eq!(both.clear(None), 3);
        assert!(!both.ask_about_calls());
    }

    #[test]
    fn an_older_driver_lacks_what_came_later() {
        let old = rules(&["driver:11.1", "hide:cuMemAllocPitch"]);
        let hidden = old.hidden();
        let lacks = |row: DriverFn| hidden.contains(&(row as u16));
        assert!(lacks(DriverFn::cuMemAllocAsync) && lacks(DriverFn::cuMemAllocPitch_v2));
        assert!(!lacks(DriverFn::cuMemAlloc_v2) && !lacks(DriverFn::cuMemCreate));
        assert_eq!(old.driver_version(), Some(11_010));
    }

    #[test]
    fn only_what_has_halves_fails_half_way() {
        let mut rules = Rules::default();
        let fault = |text: &str| text.parse::<Fault>().expect(text);
        assert!(rules.add(&fault("fail:cuMemMap,when=half")).is_ok());
        let why = rules.add(&fault("fail:cuInit,when=half")).expect_err("it has no halves");
        assert!(why.contains("cuMemMap"), "{why}");
        assert!(rules.add(&fault("newer:cuInit")).is_err());
    }

    #[test]
    fn a_subject_of_nvml_is_its_group_in_the_table() {
        let mut memory = rules(&["nvml:memory,answer=not-supported"]);
        let info = Function::Nvml(NvmlFn::nvmlDeviceGetMemoryInfo as u16);
        let list = Function::Nvml(NvmlFn::nvmlDeviceGetComputeRunningProcesses_v3 as u16);
        assert_eq!(memory.called(info, 1).code, Some(3));
        assert_eq!(memory.called(list, 1).code, None);
        assert!(memory.ask_nvml() && !memory.ask_about_calls());
    }
}
