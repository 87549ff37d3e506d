//! `cargo xtask`: developer commands. Run `cargo xtask` alone for the list.
//!
//! Nothing here is shipped; the library, the broker and the command line never depend on it.

mod advisories;
mod artefacts;
mod bench;
mod command;
mod debian;
mod device;
mod docs;
mod long;
mod mutate;
mod outcome;
mod roads;
mod sim_report;
mod strangers;
mod suite;
mod supply;
mod symbols;
mod tidy;
mod tools;

use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

use outcome::Count;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Developer commands of Halfwarp",
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build everything that runs into target/hw
    Build,
    /// Build, then show two programs sharing a simulated GPU
    Demo {
        /// Passed on to `halfwarp demo`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build the tests' programs of other languages and C libraries into target/hw
    Strangers,
    /// Everything that a machine without a GPU can check
    Test,
    /// What CI runs: `test`
    Ci,
    /// The rules about the tree that a compiler does not check
    Tidy,
    /// Write the generated parts of the documents
    Docs {
        /// Change nothing; fail if something would change
        #[arg(long)]
        check: bool,
    },
    /// Compare exports with the table, and the table with NVIDIA's headers
    Symbols,
    /// Run the benches against their budgets
    Bench,
    /// Run the full form of a test that takes minutes, and record the result
    Long {
        /// Which one: race, mixed, soak or kills
        name: String,
        /// Begin anew with this seed, instead of going on with a run that was interrupted
        #[arg(long)]
        seed: Option<u32>,
        /// How long, for a test that goes by minutes
        #[arg(long)]
        minutes: Option<u32>,
    },
    /// Break the code on purpose, one switch at a time, and see whether a test notices
    Mutate {
        /// The list of switches in tests/mutations: guest
        name: String,
        /// Only switches whose name contains this
        #[arg(long)]
        only: Option<String>,
    },
    /// Run the model of compute sharing and write its figures to docs/measurements
    SimReport,
    /// Run the cases on an NVIDIA GPU
    Device {
        /// Only gather what a machine with a GPU needs
        #[arg(long)]
        pack: bool,
    },
}

fn main() -> ExitCode {
    perform(Arguments::parse().task).unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}

fn perform(task: Task) -> Result<ExitCode> {
    match task {
        Task::Build => artefacts::build().map(|_| ())?,
        Task::Demo { arguments } => {
            let halfwarp = artefacts::build()?.join("halfwarp");
            command::run(Command::new(halfwarp).arg("demo").args(arguments))?;
        }
        Task::Strangers => strangers::build()?,
        Task::Test | Task::Ci => return counted(suite::test),
        Task::Tidy => tidy::check()?,
        Task::Docs { check: true } => docs::check()?,
        Task::Docs { check: false } => docs::write()?,
        Task::Symbols => return counted(symbols::check),
        Task::Bench => return counted(bench::check),
        Task::Mutate { name, only } => {
            return counted(|count| mutate::check(count, &name, only.as_deref()));
        }
        Task::Long { name, seed, minutes } => long::run_named(&name, seed, minutes)?,
        Task::SimReport => sim_report::write()?,
        Task::Device { pack } => return device::check(pack),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs checks that count, and says the result.
fn counted(checks: impl FnOnce(&mut Count) -> Result<()>) -> Result<ExitCode> {
    let mut count = Count::default();
    checks(&mut count)?;
    Ok(if count.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
