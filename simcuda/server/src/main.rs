//! `simcudad`: one simulated machine with its GPUs.
//!
//! What it is: the owner of the device list, of every byte of device memory that any process
//! holds, and of memory that processes share. Simulated driver and NVML ask it.
//! What it is not: the place where kernels run or private memory lies; that is each process.
//!
//! It is started on demand by the first process that needs it and ends by itself when the last
//! is gone for a while. Nothing is kept: the next start is an empty machine.
#![deny(unsafe_code)]

mod accounts;
mod board;
mod chunks;
mod control;
mod descriptors;
mod engine_log;
mod engines;
mod history;
mod life;
mod machine;
mod pattern;
mod profile;
mod serve;
mod session;
mod share;
mod start;
mod topology;
mod turns;

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, Parser)]
#[command(name = "simcudad", version, about = "The server of one simulated machine with GPUs")]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Leave a server behind in the background and return when it listens.
    Start(Options),
    /// Be the server, in the foreground.
    Serve(Options),
    /// Print the names of the shipped profiles.
    Profiles,
    /// Read a profile and print its cards.
    Check {
        /// Shipped name, or path of a TOML file.
        profile: String,
    },
}

#[derive(Debug, Args)]
struct Options {
    /// Folder of sockets.
    #[arg(long)]
    folder: PathBuf,
    /// Name of the machine.
    #[arg(long, default_value = "default")]
    machine: String,
    /// Shipped name, or path of a TOML file.
    #[arg(long, default_value = "t4")]
    profile: String,
    /// How long to stay without a client, in milliseconds.
    #[arg(long, default_value_t = 10_000)]
    linger_ms: u64,
    /// Stay without a client until told to end.
    #[arg(long)]
    stay: bool,
    /// Faults to begin with, for example `fail:cuMemAlloc,nth=5`.
    #[arg(long, default_value = "")]
    faults: String,
    /// Leave the caller's session, and end standard error once the socket is there.
    #[arg(long, hide = true)]
    detached: bool,
}

fn main() -> ExitCode {
    match obey(Command::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("simcudad: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn obey(verb: Verb) -> Result<()> {
    match verb {
        Verb::Start(options) => start::start(&options),
        Verb::Serve(options) => serve::serve(&options),
        Verb::Profiles => {
            profile::SHIPPED.iter().for_each(|(name, _)| println!("{name}"));
            Ok(())
        }
        Verb::Check { profile } => {
            let cards = profile::Profile::load(&profile)?.devices("default");
            ensure!(!cards.is_empty(), "profile {profile} has no card");
            cards.iter().for_each(|card| println!("{} {} bytes", card.name, card.memory_bytes));
            Ok(())
        }
    }
}
