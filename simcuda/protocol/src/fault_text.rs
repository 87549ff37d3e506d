//! Faults as people write them: `VERB:WORD,KEY=VALUE,…`, no blanks, several apart by blanks or `;`.
//!
//! One form for the command line, for `SIMCUDA_FAULTS` and for listings: what is shown can be set.

use crate::fault::{Answer, Calls, Fault, Subject, When, Which};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Every fault in its fullest form, for help texts.
pub const FORMS: &[(&str, &str)] = &[
    ("fail:FUNCTION[,code=CODE][,when=before|half|after][,CALLS]", "calls fail"),
    ("delay:FUNCTION,before=TIME[,after=TIME][,CALLS]", "calls take longer"),
    ("hide:FUNCTION", "the driver has no such function"),
    ("newer:cuMemAlloc", "a look-up gives a form that no list has"),
    ("driver:12.4", "the driver is of that version"),
    ("lose:GPU", "the card falls off the bus (XID 79)"),
    ("ecc:GPU", "double-bit error (XID 48)"),
    ("page-fault:GPU[,pid=PID]", "contexts fail (XID 31)"),
    ("recover:GPU", "the card is as new"),
    ("link:GPU,to=25%", "NVML tells of a narrower link; copies keep their speed so far"),
    ("stuck:GPU[,pid=PID]", "no stream gets on"),
    ("nvml:memory|processes|utilisation|all,answer=not-supported|all-ones", "NVML does not know"),
    ("nvml:memory|processes|utilisation|all,hang=TIME", "NVML answers late"),
];

/// Why a text is no fault: what was read, what is wrong with it, what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading the fault {text:?}: {why}")]
pub struct NoFault {
    text: String,
    why: String,
}

/// All faults of a text, such as `SIMCUDA_FAULTS` has.
pub fn parse_all(text: &str) -> Result<Vec<Fault>, NoFault> {
    let words = text.split(|c: char| c.is_whitespace() || c == ';');
    words.filter(|word| !word.is_empty()).map(str::parse).collect()
}

impl FromStr for Fault {
    type Err = NoFault;

    fn from_str(text: &str) -> Result<Self, NoFault> {
        Words::split(text).and_then(Words::fault).map_err(|why| NoFault { text: text.into(), why })
    }
}

/// A text taken apart; what is taken out has been understood.
struct Words<'a> {
    verb: &'a str,
    subject: &'a str,
    keys: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn split(text: &'a str) -> Result<Self, String> {
        let (verb, rest) = text
            .split_once(':')
            .ok_or_else(|| format!("a fault is written VERB:WHAT, for example {}", FORMS[0].0))?;
        let mut parts = rest.split(',');
        let subject = parts.next().unwrap_or_default();
        if subject.is_empty() || subject.contains('=') {
            return Err(format!("write {}", form(verb).unwrap_or("VERB:WHAT,KEY=VALUE")));
        }
        let mut keys = BTreeMap::new();
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} is not of the form KEY=VALUE"))?;
            if keys.insert(key, value).is_some() {
                return Err(format!("{key} is there twice"));
            }
        }
        Ok(Self { verb, subject, keys })
    }

    fn fault(mut self) -> Result<Fault, String> {
        let subject = self.subject.to_owned();
        let fault = match self.verb {
            "fail" => self.fail()?,
            "delay" => self.delay()?,
            "hide" => Fault::Hide { function: subject },
            "newer" => Fault::Newer { function: subject },
            "driver" => Fault::Driver { version: version(&subject)? },
            "lose" => Fault::Lose { gpu: subject },
            "ecc" => Fault::Ecc { gpu: subject },
            "page-fault" => Fault::PageFault { gpu: subject, pid: self.number("pid")? },
            "recover" => Fault::Recover { gpu: subject },
            "link" => Fault::Link { gpu: subject, percent: self.percent()? },
            "stuck" => Fault::Stuck { gpu: subject, pid: self.number("pid")? },
            "nvml" => self.nvml()?,
            other => return Err(unknown_verb(other)),
        };
        match self.keys.keys().next() {
            None => Ok(fault),
            Some(key) => Err(format!(
                "{} takes no {key}; write {}",
                self.verb,
                form(self.verb).unwrap_or_default()
            )),
        }
    }

    fn fail(&mut self) -> Result<Fault, String> {
        let when = match self.keys.remove("when") {
            None | Some("before") => When::Before,
            Some("half") => When::Half,
            Some("after") => When::After,
            Some(other) => return Err(format!("when={other}: write before, half or after")),
        };
        let code = self.keys.remove("code").map(str::to_owned);
        Ok(Fault::Fail { function: self.subject.to_owned(), code, when, calls: self.calls()? })
    }

    fn delay(&mut self) -> Result<Fault, String> {
        let mut time = |key| self.keys.remove(key).map_or(Ok(0), nanoseconds);
        let (before_ns, after_ns) = (time("before")?, time("after")?);
        if before_ns == 0 && after_ns == 0 {
            return Err("say how long: before=1ms, after=1ms".to_owned());
        }
        let function = self.subject.to_owned();
        Ok(Fault::Delay { function, before_ns, after_ns, calls: self.calls()? })
    }

    fn calls(&mut self) -> Result<Calls, String> {
        let mut which = Which::All;
        for key in ["nth", "next", "every"] {
            let Some(number) = self.number(key)? else { continue };
            if number == 0 {
                return Err(format!("{key}=0: calls are counted from 1"));
            }
            if which != Which::All {
                return Err("nth, next and every exclude one another".to_owned());
            }
            which = match key {
                "nth" => Which::Nth(number),
                "next" => Which::Next(number),
                _ => Which::Every(number),
            };
        }
        let each_process = match self.keys.remove("each") {
            None => false,
            Some("process") => true,
            Some(other) => return Err(format!("each={other}: write each=process")),
        };
        Ok(Calls { which, each_process, pid: self.number("pid")? })
    }

    fn nvml(&mut self) -> Result<Fault, String> {
        let subject = match self.subject {
            "memory" => Subject::Memory,
            "processes" => Subject::Processes,
            "utilisation" => Subject::Utilisation,
            "all" => Subject::All,
            other => {
                return Err(format!("{other:?}: write memory, processes, utilisation or all"));
            }
        };
        let answer = match (self.keys.remove("answer"), self.keys.remove("hang")) {
            (Some("not-supported"), None) => Answer::NotSupported,
            (Some("all-ones"), None) => Answer::AllOnes,
            (None, Some(time)) => Answer::Hang { ns: nanoseconds(time)? },
            _ => return Err("write answer=not-supported, answer=all-ones or hang=2s".to_owned()),
        };
        Ok(Fault::Nvml { subject, answer })
    }

    fn percent(&mut self) -> Result<u32, String> {
        let text = self.keys.remove("to").ok_or("say to what: to=25%")?;
        let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
        percent
            .filter(|percent| (1..=100).contains(percent))
            .ok_or_else(|| format!("to={text}: write 1% to 100%"))
    }

    fn number<T: FromStr>(&mut self, key: &str) -> Result<Option<T>, String> {
        let Some(text) = self.keys.remove(key) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("{key}={text}: write a number"))
    }
}

fn form(verb: &str) -> Option<&'static str> {
    FORMS.iter().map(|(form, _)| *form).find(|form| form.split(':').next() == Some(verb))
}

fn unknown_verb(verb: &str) -> String {
    let mut verbs: Vec<&str> =
        FORMS.iter().filter_map(|(form, _)| form.split(':').next()).collect();
    verbs.dedup();
    format!("there is no fault called {verb:?}; there are {}", verbs.join(", "))
}

/// `12.4` as the driver writes it: 12040.
fn version(text: &str) -> Result<u32, String> {
    let parts = text
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    match parts {
        Some((major @ 1..=99, minor @ 0..=99)) => Ok(major * 1000 + minor * 10),
        _ => Err(format!("{text:?} is no version; write it as 12.4")),
    }
}

const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)];

fn nanoseconds(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ns)| *ns);
    let ns = unit.and_then(|unit| number.parse::<u64>().ok()?.checked_mul(unit));
    ns.ok_or_else(|| format!("{text:?} is no time; write 500us, 1ms or 2s"))
}

fn time(ns: u64) -> String {
    let (unit, size) =
        UNITS.iter().rev().find(|(_, size)| ns.is_multiple_of(*size)).unwrap_or(&UNITS[0]);
    format!("{}{unit}", ns / size)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = |pid: &Option<u32>| pid.map(|pid| format!(",pid={pid}")).unwrap_or_default();
        match self {
            Self::Fail { function, code, when, calls } => {
                write!(f, "fail:{function}")?;
                if let Some(code) = code {
                    write!(f, ",code={code}")?;
                }
                f.write_str(match when {
                    When::Before => "",
                    When::Half => ",when=half",
                    When::After => ",when=after",
                })?;
                write!(f, "{calls}")
            }
            Self::Delay { function, before_ns, after_ns, calls } => {
                write!(f, "delay:{function}")?;
                for (key, ns) in [("before", before_ns), ("after", after_ns)] {
                    if *ns > 0 {
                        write!(f, ",{key}={}", time(*ns))?;
                    }
                }
                write!(f, "{calls}")
            }
            Self::Hide { function } => write!(f, "hide:{function}"),
            Self::Newer { function } => write!(f, "newer:{function}"),
            Self::Driver { version } => {
                write!(f, "driver:{}.{}", version / 1000, version % 1000 / 10)
            }
            Self::Lose { gpu } => write!(f, "lose:{gpu}"),
            Self::Ecc { gpu } => write!(f, "ecc:{gpu}"),
            Self::PageFault { gpu, pid: of } => write!(f, "page-fault:{gpu}{}", pid(of)),
            Self::Recover { gpu } => write!(f, "recover:{gpu}"),
            Self::Link { gpu, percent } => write!(f, "link:{gpu},to={percent}%"),
            Self::Stuck { gpu, pid: of } => write!(f, "stuck:{gpu}{}", pid(of)),
            Self::Nvml { subject, answer } => {
                let subject = format!("{subject:?}").to_lowercase();
                match answer {
                    Answer::NotSupported => write!(f, "nvml:{subject},answer=not-supported"),
                    Answer::AllOnes => write!(f, "nvml:{subject},answer=all-ones"),
                    Answer::Hang { ns } => write!(f, "nvml:{subject},hang={}", time(*ns)),
                }
            }
        }
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.which {
            Which::All => {}
            Which::Nth(n) => write!(f, ",nth={n}")?,
            Which::Next(k) => write!(f, ",next={k}")?,
            Which::Every(n) => write!(f, ",every={n}")?,
        }
        if self.each_process {
            f.write_str(",each=process")?;
        }
        match self.pid {
            Some(pid) => write!(f, ",pid={pid}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_set_again() {
        for text in [
            "fail:cuMemAlloc_v2",
            "fail:cuMemMap,code=OUT_OF_MEMORY,when=half,nth=5,each=process",
            "fail:cuMem*,code=999,when=after,next=3,pid=17",
            "delay:cuMemAlloc,before=1ms,after=250us,every=7",
            "hide:cuMemCreate",
            "newer:cuMemAlloc",
            "driver:12.4",
            "lose:0",
            "ecc:GPU-1234",
            "page-fault:0,pid=12",
            "recover:1",
            "link:0,to=25%",
            "stuck:0",
            "nvml:memory,answer=not-supported",
            "nvml:processes,answer=all-ones",
            "nvml:all,hang=2s",
        ] {
            let fault: Fault = text.parse().expect(text);
            assert_eq!(fault.to_string(), text);
        }
    }

    #[test]
    fn several_stand_apart_by_blanks_or_semicolons() {
        let all = parse_all(" hide:a;hide:b  lose:0\n").expect("three faults");
        assert_eq!(
            all.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["hide:a", "hide:b", "lose:0"]
        );
        assert_eq!(parse_all("").expect("none"), []);
    }

    #[test]
    fn what_is_no_fault_says_what_would_be_one() {
        for (text, said) in [
            ("fial:cuInit", "fail, delay"),
            ("fail", "VERB:WHAT"),
            ("fail:nth=5", "FUNCTION"),
            ("fail:cuInit,nth=0", "from 1"),
            ("fail:cuInit,nth=1,every=2", "exclude"),
            ("fail:cuInit,mth=1", "takes no mth"),
            ("fail:cuInit,when=later", "before, half or after"),
            ("delay:cuInit", "before=1ms"),
            ("delay:cuInit,before=1", "500us"),
            ("driver:twelve", "12.4"),
            ("link:0,to=0%", "1% to 100%"),
            ("nvml:clocks,answer=not-supported", "utilisation"),
            ("nvml:memory", "hang=2s"),
            ("lose:", "lose:GPU"),
        ] {
            let why = text.parse::<Fault>().expect_err(text).to_string();
            assert!(why.contains(said) && why.contains(text), "{text}: {why}");
        }
    }
}
