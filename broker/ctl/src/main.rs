//! `halfwarp`, the command line: runs programs as tenants and shows what the broker knows.
//!
//! A client of the broker's HTTP API on `api.sock` and nothing more: it decides no limit and grants
//! nothing. Data goes to stdout, messages to stderr; failures of our own end with 125.
#![forbid(unsafe_code)]

mod args;
mod artefacts;
mod broker;
mod client;
mod demo;
mod doctor;
mod events;
mod failure;
mod listing;
mod output;
mod pages;
mod run;
mod set;
mod sim;
mod suspend;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::Failure;

/// Our own failures, as `env`, `timeout` and `docker run` number them.
pub(crate) const OUR_FAILURE: u8 = 125;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(refusal) => {
            let wrong = refusal.use_stderr();
            // Nothing is left to report to if the terminal is gone.
            let _ = refusal.print();
            return ExitCode::from(if wrong { OUR_FAILURE } else { 0 });
        }
    };
    match obey(cli) {
        Ok(code) => code,
        Err(Failure::ReaderGone) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("halfwarp: {failure}");
            ExitCode::from(OUR_FAILURE)
        }
    }
}

fn obey(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command {
        Command::Run(asked) => run::run(&asked),
        Command::Ps(view) => listing::tenants(&view),
        Command::Gpus(view) => listing::gpus(&view),
        Command::Set(asked) => set::set(&asked),
        Command::Suspend(asked) => suspend::suspend(&asked),
        Command::Resume(asked) => suspend::resume(&asked),
        Command::Events(asked) => events::events(&asked),
        Command::Demo(asked) => demo::demo(&asked),
        Command::Doctor(view) => doctor::doctor(&view),
        Command::Sim(asked) => sim::sim(&asked),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { command } => pages::manual(command.as_deref()),
        Command::Keep => Ok(run::keeper::keep()),
        Command::Detached { program, arguments } => broker::detached(&program, &arguments),
    }
}
