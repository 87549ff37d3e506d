//! `halfwarpd`, the broker: one per node, or one for a user's own runs. It owns the limits of every
//! tenant; all decisions are in `halfwarp-broker-core`, and this program is the loop around them.
//!
//! Read on in [`serve`], which is the recipe.
use std::{io::IsTerminal, process::ExitCode};

use clap::Parser;
use tracing_subscriber::EnvFilter;

mod api;
mod args;
mod chunks;
mod clock;
mod desk;
mod door;
mod failure;
mod host_memory;
mod join;
mod lease_metrics;
mod locks;
mod metrics;
mod nvml;
mod outbox;
mod peer;
mod run_dir;
mod serve;
mod shm;
mod store;
mod strays;
mod suspension;
mod swap_metrics;
#[cfg(test)]
mod tests;

/// Our own failures, so that they can be told from a program's.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(refusal) => {
            let wrong = refusal.use_stderr();
            // Nothing is left to report to if the terminal is gone.
            let _ = refusal.print();
            return ExitCode::from(if wrong { FAILED } else { 0 });
        }
    };
    let filter = EnvFilter::try_from_env("HALFWARP_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    let ended = match &args.command {
        Some(args::Command::NvmlChild { library }) => nvml::child::run(library),
        None => serve::run(&args),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("halfwarpd: {failure}");
            ExitCode::from(FAILED)
        }
    }
}
