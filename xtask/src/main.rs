//! `cargo xtask`: developer commands. Run `cargo xtask` alone for the list.
//!
//! Nothing here is shipped; the library, the broker and the command line never depend on it.

mod artefacts;
mod command;
mod outcome;
mod symbols;
mod tools;

use std::process::ExitCode;

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
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build everything that runs into target/hw
    Build,
    /// Compare exports with the table, and the table with NVIDIA's headers
    Symbols,
}

/// Runs checks that count, and says the result.
fn counted(checks: impl FnOnce(&mut Count) -> Result<()>) -> Result<ExitCode> {
    let mut count = Count::default();
    checks(&mut count)?;
    Ok(if count.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Build => artefacts::build().map(|_| ExitCode::SUCCESS),
        Command::Symbols => counted(symbols::check),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}
