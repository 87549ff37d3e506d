//! `cargo xtask`: developer commands. Run `cargo xtask` alone for the list.
//!
//! Nothing here is shipped; the library, the broker and the command line never depend on it.

mod artefacts;
mod command;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Build => artefacts::build().map(|_| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}
