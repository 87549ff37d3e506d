//! What can be written on the command line: names, forms and help texts. No behaviour.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use halfwarp_rest::{MemoryWish, Mode, OnReclaim, ShareWish};

#[derive(Parser, Debug)]
#[command(name = "halfwarp", version, about = "Share NVIDIA GPUs between programs", long_about = None)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a program as a tenant with its part of a GPU
    #[command(override_usage = "halfwarp run [OPTIONS] [--] PROGRAM [ARGS]...", after_help = RUN_HELP)]
    Run(RunArgs),
    /// Show tenants, their memory and their processes
    Ps(ViewArgs),
    /// Show GPUs and what is promised and held on them
    Gpus(ViewArgs),
    /// Change a tenant (compute, priority, memory) or a GPU (mode, lease) while programs run
    #[command(after_help = SET_HELP)]
    Set(SetArgs),
    /// Move all of a tenant's GPU memory to host RAM, and hold it until `resume`
    Suspend(SuspendArgs),
    /// Bring a suspended tenant back
    Resume(SuspendArgs),
    /// Show what has happened
    Events(EventsArgs),
    /// Watch two tenants share a GPU, a simulated one where there is none
    Demo(DemoArgs),
    /// Start, look at and break simulated machines
    Sim(crate::sim::SimArgs),
    /// Check what this host has and lacks, with the line that helps
    Doctor(ViewArgs),
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// Print the manual page of halfwarp or of one of its commands (`halfwarp man run | man -l -`)
    Man { command: Option<String> },
    /// Outlive `halfwarp run` for as long as a process carries the token read from stdin
    #[command(hide = true)]
    Keep,
    /// Become a session of one's own, then PROGRAM: how a private broker is started
    #[command(hide = true)]
    Detached {
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

const SET_HELP: &str = "\
Examples:
  halfwarp set 3 compute=25%..60% priority=high
  halfwarp set 0 mode=fair lease=50
  halfwarp set GPU-1f2e mode=strict

A number is a tenant's ID where a tenant's key stands behind it, and a GPU's index where a GPU's
does. A lease is 20 to 1000 ms.";

const RUN_HELP: &str = "\
Examples:
  halfwarp run --memory 8GiB -- python3 train.py
  halfwarp run --memory 4GiB..16GiB --gpu 0 -- ./infer
  halfwarp run --sim --memory 25% -- ./vectorAdd

Memory is written 8GiB, 8G, 8192MiB, 0.5 or 50%.

Exit code: the program's, or 128 and the signal that ended it; 127 if it was not found, 126 if it
cannot be executed, 125 if Halfwarp could not do its part.";

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Memory: M, M..M (guaranteed..most) or P% of the card; one for all cards or one for each
    #[arg(long, value_name = "M|M..M|P%", value_delimiter = ',')]
    pub(crate) memory: Vec<MemoryWish>,

    /// Compute time: P% guaranteed, or P%..P% (guaranteed..most)
    #[arg(long, value_name = "P%|P%..P%")]
    pub(crate) compute: Option<ShareWish>,

    /// How compute time is shared on the card: timesharing, fair or strict
    #[arg(long, value_parser = mode)]
    pub(crate) mode: Option<Mode>,

    /// Who goes first: high, normal, low, or a number from 1 to 1000
    #[arg(long, value_name = "CLASS", value_parser = priority)]
    pub(crate) priority: Option<u16>,

    /// Take turns together with your other tenants of this group, for programs that wait for each other
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,

    /// Cards: INDEX, UUID (or a unique beginning of one), any, or any:N
    #[arg(long = "gpu", value_name = "GPU", value_delimiter = ',')]
    pub(crate) gpus: Vec<String>,

    /// Let memory move to host RAM while the program is idle and others need it
    #[arg(long)]
    pub(crate) swap: bool,

    /// When memory above what is guaranteed is another's by guarantee: keep (so it is not lent), or
    /// end the program [default: the broker's]
    #[arg(long, value_name = "keep|end", value_parser = on_reclaim)]
    pub(crate) on_reclaim: Option<OnReclaim>,

    /// Name of the tenant [default: the program's name]
    #[arg(long)]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) which: BrokerArgs,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

/// Which broker is meant.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct BrokerArgs {
    /// Use simulated GPUs: of a shipped profile, or of a profile in a file [default: t4]
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    pub(crate) sim: Option<OsString>,

    /// Run directory of the broker [default: the node's, else one for this user]
    #[arg(long, value_name = "DIR")]
    pub(crate) broker: Option<PathBuf>,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct ViewArgs {
    /// Form of the listing
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub(crate) output: Form,

    #[command(flatten)]
    pub(crate) which: BrokerArgs,
}

#[derive(Args, Debug)]
pub(crate) struct SetArgs {
    /// ID of a tenant (`halfwarp ps`), or INDEX, UUID or a unique beginning of one of a GPU
    #[arg(value_name = "ID|GPU")]
    pub(crate) target: String,

    /// compute=P%|P%..P%, priority=CLASS, memory=M|M..M for a tenant; mode=MODE, lease=MS for a GPU
    #[arg(required = true, value_name = "KEY=VALUE")]
    pub(crate) changes: Vec<String>,

    #[command(flatten)]
    pub(crate) view: ViewArgs,
}

#[derive(Args, Debug)]
pub(crate) struct SuspendArgs {
    /// ID of a tenant of yours that was started with --swap (`halfwarp ps`)
    pub(crate) id: u64,

    #[command(flatten)]
    pub(crate) view: ViewArgs,
}

#[derive(Args, Debug)]
pub(crate) struct EventsArgs {
    /// Go on showing events as they happen
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Only events with a number above N
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) after: u64,

    #[command(flatten)]
    pub(crate) view: ViewArgs,
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// How long the tenants work
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(4..=20))]
    pub(crate) seconds: u64,

    #[command(flatten)]
    pub(crate) which: BrokerArgs,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// What is most wanted, in 100 columns
    Table,
    /// All there is, nothing shortened
    Wide,
    /// As the HTTP API says it: memory in bytes
    Json,
}

fn on_reclaim(text: &str) -> Result<OnReclaim, String> {
    match text {
        "keep" => Ok(OnReclaim::Keep),
        "end" => Ok(OnReclaim::End),
        _ => Err("write keep or end".to_owned()),
    }
}

pub(crate) fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "timesharing" => Ok(Mode::Timesharing),
        "fair" => Ok(Mode::Fair),
        "strict" => Ok(Mode::Strict),
        _ => Err("write timesharing, fair or strict".to_owned()),
    }
}

pub(crate) fn priority(text: &str) -> Result<u16, String> {
    match text {
        "high" => Ok(1000),
        "normal" => Ok(500),
        "low" => Ok(100),
        number => match number.parse() {
            Ok(class) if (1..=1000).contains(&class) && !number.starts_with('+') => Ok(class),
            _ => Err("write high, normal, low, or a number from 1 to 1000".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use halfwarp_rest::{Amount, Bytes, Percent};

    fn run(words: &[&str]) -> Result<RunArgs, clap::Error> {
        let words = ["halfwarp", "run"].iter().chain(words);
        match Cli::try_parse_from(words)?.command {
            Command::Run(asked) => Ok(asked),
            other => panic!("read as {other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_entitlement_is_read_as_people_write_it() {
        let asked = run(&[
            "--memory=4GiB..16GiB,25%",
            "--compute",
            "25%..60%",
            "--mode=fair",
            "--priority",
            "high",
            "--gpu",
            "0,1",
            "--swap",
            "--",
            "prog",
            "--memory",
        ])
        .expect("a valid command line");
        assert_eq!(asked.memory[0].request, Amount::Bytes(Bytes(4 << 30)));
        assert_eq!(asked.memory[0].limit, Amount::Bytes(Bytes(16 << 30)));
        assert_eq!(asked.memory[1].limit, Amount::Percent(Percent(25)));
        assert_eq!(asked.compute.expect("a share").limit, Percent(60));
        assert_eq!((asked.mode, asked.priority), (Some(Mode::Fair), Some(1000)));
        assert_eq!(asked.gpus, ["0", "1"]);
        assert!(asked.swap);
        assert_eq!(asked.command, ["prog", "--memory"]);
    }

    #[test]
    fn options_end_at_the_program_also_without_dashes() {
        let asked = run(&["--name", "a", "prog", "--sim", "-x"]).expect("a valid command line");
        assert_eq!(asked.command, ["prog", "--sim", "-x"]);
        assert_eq!(asked.which.sim, None);
    }

    #[test]
    fn sim_takes_its_file_only_after_an_equals_sign() {
        let asked = run(&["--sim", "--", "prog"]).expect("a valid command line");
        assert_eq!(asked.which.sim, Some(OsString::new()));
        let asked = run(&["--sim=h200", "prog"]).expect("a valid command line");
        assert_eq!(asked.which.sim, Some("h200".into()));
        assert_eq!(asked.command, ["prog"]);
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_says_what_would_be() {
        for (words, said) in [
            (vec!["--memory=16GiB..4GiB", "p"], "4GiB..16GiB"),
            (vec!["--memory=8GIB", "p"], "8GiB"),
            (vec!["--compute=25", "p"], "25%"),
            (vec!["--mode=nice", "p"], "timesharing"),
            (vec!["--priority=0", "p"], "1 to 1000"),
            (vec!["--priority=1001", "p"], "1 to 1000"),
            (vec!["--priority=+5", "p"], "1 to 1000"),
            (vec!["--memory=4GiB"], "PROGRAM"),
        ] {
            let refusal = run(&words).expect_err("refused").to_string();
            assert!(refusal.contains(said), "{words:?}: {refusal}");
        }
    }
}
