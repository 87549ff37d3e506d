//! What can be written after `halfwarp sim`.

use clap::{Args, Subcommand};

use crate::args::Form;

#[derive(Args, Debug)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(super) command: SimCommand,
}

#[derive(Subcommand, Debug)]
pub(super) enum SimCommand {
    /// Start a machine, which then stays until it is stopped
    Start(StartArgs),
    /// Stop a machine
    Stop(StopArgs),
    /// Show the machines that run
    Ls(OutputArgs),
    /// Show the cards of a machine and which process holds how much
    Stat(StatArgs),
    /// Make something go wrong, show what is set, or take it back
    #[command(after_help = FAULT_HELP)]
    Fault(FaultArgs),
}

const FAULT_HELP: &str = "\
Faults (several may be named; CALLS is nth=N, next=K or every=N, with each=process or pid=PID):
  fail:FUNCTION[,code=CODE][,when=before|half|after][,CALLS]
  delay:FUNCTION,before=TIME[,after=TIME][,CALLS]
  hide:FUNCTION     newer:cuMemAlloc     driver:12.4
  lose:GPU          ecc:GPU              page-fault:GPU[,pid=PID]     recover:GPU
  link:GPU,to=25%   stuck:GPU[,pid=PID]
  nvml:memory|processes|utilisation|all,answer=not-supported|all-ones
  nvml:memory|processes|utilisation|all,hang=TIME

FUNCTION is a symbol (cuMemAlloc_v2), a name that programs ask for (cuMemAlloc: all its forms) or a
group (cuMem*). GPU is NVML's index or the beginning of a UUID. Functions are hidden from programs
that load the driver afterwards.

Examples:
  halfwarp sim fault fail:cuMemMap,nth=5
  halfwarp sim fault delay:cuMemAlloc,before=100ms,every=20
  halfwarp sim fault --list";

#[derive(Args, Debug)]
pub(super) struct StartArgs {
    /// Cards of a shipped profile, or of a profile in a file
    #[arg(long, value_name = "P", default_value = "t4", env = "SIMCUDA_PROFILE")]
    pub(super) profile: String,

    /// Faults to begin with, as `halfwarp sim fault` takes them
    #[arg(long, value_name = "SPECS", env = "SIMCUDA_FAULTS", default_value = "")]
    pub(super) faults: String,

    /// Name of the machine [default: SIMCUDA_MACHINE, else default]
    pub(super) name: Option<String>,
}

#[derive(Args, Debug)]
pub(super) struct StopArgs {
    /// Also if processes use it; they get error 999 from then on
    #[arg(long)]
    pub(super) force: bool,

    /// Name of the machine [default: SIMCUDA_MACHINE, else default]
    pub(super) name: Option<String>,
}

#[derive(Args, Debug)]
pub(super) struct OutputArgs {
    /// Form of the listing
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub(super) output: Form,
}

#[derive(Args, Debug)]
pub(super) struct StatArgs {
    #[command(flatten)]
    pub(super) form: OutputArgs,

    /// Name of the machine [default: SIMCUDA_MACHINE, else default]
    pub(super) name: Option<String>,
}

#[derive(Args, Debug)]
pub(super) struct FaultArgs {
    /// Name of the machine [default: SIMCUDA_MACHINE, else default]
    #[arg(short, long, value_name = "NAME")]
    pub(super) machine: Option<String>,

    /// Show the faults that are set
    #[arg(long, conflicts_with_all = ["clear", "specs"])]
    pub(super) list: bool,

    /// Take back one fault, or all
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, conflicts_with = "specs")]
    pub(super) clear: Option<Option<u64>>,

    #[command(flatten)]
    pub(super) form: OutputArgs,

    /// What goes wrong
    #[arg(value_name = "SPEC", required_unless_present_any = ["list", "clear"])]
    pub(super) specs: Vec<String>,
}
