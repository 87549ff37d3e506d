//! `halfwarp doctor`: checks of this host, each with what was found and, where something is wrong,
//! the line that helps. Ends with 1 if a check failed. Changes nothing and starts nothing.

mod driver;
mod files;
mod kernel;
mod service;

use std::process::ExitCode;

use serde::Serialize;

use crate::{
    args::{Form, ViewArgs},
    artefacts::Artefacts,
    broker::Place,
    failure::Failure,
    output,
};

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Ok,
    Warn,
    Fail,
}

/// One check and how it came out.
#[derive(Serialize, Debug)]
struct Finding {
    name: &'static str,
    outcome: Outcome,
    found: String,
    /// What to do about it.
    fix: Option<String>,
}

impl Finding {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, outcome: Outcome::Ok, found: found.into(), fix: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, outcome: Outcome::Warn, found: found.into(), fix: Some(fix.into()) }
    }

    fn fail(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, outcome: Outcome::Fail, found: found.into(), fix: Some(fix.into()) }
    }
}

pub(crate) fn doctor(view: &ViewArgs) -> Result<ExitCode, Failure> {
    let artefacts = Artefacts::beside_self()?;
    let place = Place::choose(&view.which)?;
    let cache = driver::loader_cache();
    let mut findings =
        vec![files::library(&artefacts), files::broker(&artefacts), files::preloadable(&artefacts)];
    findings.push(driver::chosen(&place, cache.as_deref()));
    findings.push(driver::trap(cache.as_deref()));
    findings.extend(kernel::features());
    findings.extend(service::checks(&place));
    match view.output {
        Form::Json => output::print_json(&findings)?,
        Form::Table | Form::Wide => output::print(&text(&findings, output::colours()))?,
    }
    let failed = findings.iter().any(|finding| finding.outcome == Outcome::Fail);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn text(findings: &[Finding], colours: bool) -> String {
    let mut text = String::new();
    for (number, finding) in (1..).zip(findings) {
        let (word, colour) = match finding.outcome {
            Outcome::Ok => ("ok", 32),
            Outcome::Warn => ("warn", 33),
            Outcome::Fail => ("fail", 31),
        };
        let word = format!("{word:<4}");
        let word = if colours { format!("\x1b[{colour}m{word}\x1b[0m") } else { word };
        text.push_str(&format!("{number:>2}  {word}  {:<14}  {}\n", finding.name, finding.found));
        if let Some(fix) = &finding.fix {
            text.push_str(&format!("{:>26}{fix}\n", "do: "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_numbered_and_a_bad_one_has_a_line_that_helps() {
        let findings = [
            Finding::ok("library", "is there"),
            Finding::fail("driver", "is not there", "install it"),
        ];
        let plain = text(&findings, false);
        let lines: Vec<&str> = plain.lines().collect();
        assert_eq!(lines[0], " 1  ok    library         is there");
        assert_eq!(lines[1], " 2  fail  driver          is not there");
        assert_eq!(lines[2].trim(), "do: install it");
        assert!(!plain.contains('\x1b'));
        assert!(text(&findings, true).contains("\x1b[31mfail"));
    }
}
