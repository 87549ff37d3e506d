//! `cargo xtask long NAME`: tests whose full form takes minutes, and a record of how they came out.
//!
//! Their short form is part of `cargo xtask test`; the full form reads its size from the environment.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

use crate::artefacts;
use crate::command::{cargo, output, root, run, shown};

/// A long test: its name here, the test file and test, its size.
struct Long {
    name: &'static str,
    file: &'static str,
    test: &'static str,
    rounds: u32,
}

const LONG: &[Long] = &[
    Long {
        name: "race",
        file: "race",
        test: "mem_13_as_many_as_fit_are_granted_and_never_one_more",
        rounds: 1000,
    },
    Long {
        name: "mixed",
        file: "many",
        test: "mem_15_every_way_at_random_leaves_nothing_behind",
        rounds: 125_000,
    },
];

pub(crate) fn run_named(name: &str) -> Result<()> {
    let Some(long) = LONG.iter().find(|long| long.name == name) else {
        let names: Vec<&str> = LONG.iter().map(|long| long.name).collect();
        bail!("no long test is called {name:?}; there are: {}", names.join(", "));
    };
    artefacts::build()?;
    let mut test = cargo();
    test.args(["test", "--package", "halfwarp-tests", "--test", long.file, "--"])
        .args(["--exact", "--nocapture", long.test])
        .env("HALFWARP_ARTEFACTS", artefacts::folder())
        .env("HALFWARP_ROUNDS", long.rounds.to_string());
    let began = Instant::now();
    let outcome = run(&mut test);
    record(long, &shown(&test), began.elapsed().as_secs(), outcome.is_ok())?;
    outcome
}

/// One line a run, passed or not.
fn record(long: &Long, command: &str, seconds: u64, passed: bool) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let commit =
        output(Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root()))?;
    let cores = std::thread::available_parallelism()?;
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(root().join("docs/measurements/long.md"))?;
    let outcome = if passed { "passed" } else { "failed" };
    writeln!(
        file,
        "| {} | {} | {} rounds | {outcome} | {seconds} s | {cores} cores, simulated GPU | {} | `{command}` |",
        date(now),
        long.name,
        long.rounds,
        commit.trim()
    )?;
    println!("recorded in docs/measurements/long.md");
    Ok(())
}

/// Seconds since the epoch as a calendar date, UTC.
fn date(epoch_seconds: u64) -> String {
    // Days are counted from 1 March 0000, so that a leap day ends its year.
    let days = epoch_seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_796_083_200), "2026-12-01");
    }
}
