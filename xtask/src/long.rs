//! `cargo xtask long NAME`: tests whose full form takes minutes, and a record of how they came out.
//!
//! Their short form is part of `cargo xtask test`; the full form reads its size and its seed from the
//! environment. It goes in slices, each with a seed of its own, and what is done is kept: a run that
//! was interrupted goes on where it was, as long as the commit is the same.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::artefacts;
use crate::command::{cargo, output, root, run, target};

/// A long test: its name here, the test file and test, its size.
#[derive(Clone, Copy)]
struct Long {
    name: &'static str,
    /// Those of `halfwarp-tests` need what `cargo xtask build` makes; the others only themselves.
    package: &'static str,
    file: &'static str,
    test: &'static str,
    rounds: u32,
    slices: u32,
}

const TESTS: &str = "halfwarp-tests";

const LONG: &[Long] = &[
    Long {
        name: "race",
        package: TESTS,
        file: "race",
        test: "mem_13_as_many_as_fit_are_granted_and_never_one_more",
        rounds: 1000,
        slices: 10,
    },
    Long {
        name: "mixed",
        package: TESTS,
        file: "many",
        test: "mem_15_every_way_at_random_leaves_nothing_behind",
        rounds: 125_000,
        slices: 10,
    },
    // 200 orders in a round: a million.
    Long {
        name: "mixture",
        package: TESTS,
        file: "mixture",
        test: "mem_15_what_any_order_leads_to_is_what_the_model_says",
        rounds: 5_000,
        slices: 20,
    },
    Long {
        name: "soak",
        package: TESTS,
        file: "soak",
        test: "sixteen_processes_killed_at_random_leave_nothing_on_the_simulated_machine",
        // Seconds, a slice a minute.
        rounds: 20 * MINUTE,
        slices: 20,
    },
    Long {
        name: "kills",
        package: TESTS,
        file: "life",
        test: "life_03_kills_inside_slow_calls_hold_nobody_up_and_leave_nothing",
        rounds: MINUTE,
        slices: 1,
    },
    Long {
        name: "ptx",
        package: "simcuda-ptx",
        file: "reference",
        test: "random_programs_compute_what_the_reference_says",
        rounds: 10_000,
        slices: 10,
    },
    Long {
        name: "ptx-damage",
        package: "simcuda-ptx",
        file: "hostile",
        test: "thousands_of_cuts_and_flips_are_refused_or_run_and_never_panic",
        rounds: 1_000_000,
        slices: 100,
    },
];

/// Rounds of a test that counts in seconds.
const MINUTE: u32 = 60;

/// How far a run has come.
#[derive(Serialize, Deserialize, Debug)]
struct Progress {
    commit: String,
    /// Of the first slice; each later one has the next number.
    seed: u32,
    slices: u32,
    millis: u64,
}

/// `seed`: begin anew with this one. `minutes`: how long, for a test that counts in seconds.
pub(crate) fn run_named(name: &str, seed: Option<u32>, minutes: Option<u32>) -> Result<()> {
    let Some(long) = LONG.iter().find(|long| long.name == name) else {
        let names: Vec<&str> = LONG.iter().map(|long| long.name).collect();
        bail!("no long test is called {name:?}; there are: {}", names.join(", "));
    };
    let long = &of_length(*long, minutes)?;
    if long.package == TESTS {
        artefacts::build()?;
    }
    run(cargo().args(["test", "--quiet", "--package", long.package, "--no-run"]))?;
    let mut progress = begun(long, seed)?;
    while progress.slices < long.slices {
        let seed = progress.seed.wrapping_add(progress.slices);
        println!("{name}: slice {} of {}, seed {seed}", progress.slices + 1, long.slices);
        let began = Instant::now();
        let outcome = run(&mut slice(long, seed));
        progress.millis += u64::try_from(began.elapsed().as_millis())?;
        if outcome.is_err() {
            record(long, &progress, &format!("failed with seed {seed}"))?;
            fs::remove_file(kept(long)).ok();
            return outcome;
        }
        progress.slices += 1;
        fs::write(kept(long), toml::to_string(&progress)?)?;
    }
    record(long, &progress, "passed")?;
    fs::remove_file(kept(long)).context("the run is over")
}

fn of_length(long: Long, minutes: Option<u32>) -> Result<Long> {
    match minutes {
        None => Ok(long),
        Some(_) if long.rounds != long.slices * MINUTE => {
            bail!("{} does not go by minutes", long.name)
        }
        Some(0) => bail!("--minutes is at least 1"),
        Some(minutes) => Ok(Long { rounds: minutes * MINUTE, slices: minutes, ..long }),
    }
}

fn slice(long: &Long, seed: u32) -> Command {
    let mut test = cargo();
    test.args(["test", "--quiet", "--package", long.package, "--test", long.file, "--"])
        .args(["--exact", long.test])
        .env("HALFWARP_ARTEFACTS", artefacts::folder())
        .env("HALFWARP_ROUNDS", (long.rounds / long.slices).to_string())
        .env("HALFWARP_SEED", seed.to_string());
    test
}

/// Where an unfinished run is kept.
fn kept(long: &Long) -> PathBuf {
    target().join(format!("long-{}.toml", long.name))
}

/// The run that was interrupted, if it was one of this commit; else a new one.
fn begun(long: &Long, seed: Option<u32>) -> Result<Progress> {
    let commit = commit()?;
    let earlier = fs::read_to_string(kept(long)).ok();
    let earlier = earlier.and_then(|text| toml::from_str::<Progress>(&text).ok());
    if let Some(earlier) = earlier.filter(|e| seed.is_none() && e.commit == commit) {
        println!("{}: going on after slice {}", long.name, earlier.slices);
        return Ok(earlier);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(Progress { commit, seed: seed.unwrap_or_else(|| now.subsec_nanos()), slices: 0, millis: 0 })
}

/// What was run: the commit, and whether there was more than that. The record of earlier runs is no
/// part of it.
fn commit() -> Result<String> {
    let git = |words: &[&str]| output(Command::new("git").args(words).current_dir(root()));
    let head = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--", ".", ":(exclude)docs/measurements"])?;
    let dirty = if changed.trim().is_empty() { "" } else { "-dirty" };
    Ok(format!("{}{dirty}", head.trim()))
}

/// One line a run, passed or not.
fn record(long: &Long, progress: &Progress, outcome: &str) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let cores = std::thread::available_parallelism()?;
    let mut file =
        OpenOptions::new().append(true).open(root().join("docs/measurements/long.md"))?;
    let Progress { commit, seed, slices, millis } = progress;
    let seconds = Duration::from_millis(*millis).as_secs_f32();
    writeln!(
        file,
        "| {} | {name} | {} of {} rounds | {outcome} | {seconds:.1} s | {cores} cores, simulated GPU | {seed} | {commit} | `cargo xtask long {name} --seed {seed}` |",
        date(now),
        slices * (long.rounds / long.slices),
        long.rounds,
        name = long.name,
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
