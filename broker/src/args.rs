//! The command line and the configuration file.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use halfwarp_rest::{Bytes, OnReclaim, QuantityError};
use serde::Deserialize;

use crate::failure::Failure;

/// The broker of a node, or of one user's runs.
#[derive(Parser, Debug)]
#[command(name = "halfwarpd", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Directory for the sockets and the state
    #[arg(long, value_name = "DIR", default_value = "/run/halfwarp")]
    pub(crate) run_dir: PathBuf,
    /// Serve one user's runs and end 5 s after the last tenant
    #[arg(long)]
    pub(crate) private: bool,
    /// Settings (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Directory of the locks that keep two brokers from one card
    #[arg(long, value_name = "DIR")]
    pub(crate) lock_dir: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Asks NVML on behalf of a broker.
    #[command(hide = true)]
    NvmlChild {
        #[arg(long, default_value = "libnvidia-ml.so.1")]
        library: PathBuf,
    },
}

/// `halfwarpd.toml`; each setting has a default.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Processes that may be joined, of all tenants together.
    pub(crate) processes_max: usize,
    /// Connections of one user that have not said hello yet; the oldest goes first.
    pub(crate) silent_connections_max: usize,
    /// How long a connection may be silent before its hello.
    pub(crate) hello_timeout_ms: u64,
    pub(crate) nvml_library: PathBuf,
    /// A look at the cards that takes longer is no data.
    pub(crate) nvml_timeout_ms: u64,
    /// What may happen to a tenant that holds more than its request when the rest is needed: `keep`, or
    /// `end` to let it have all that is free and end it if it must be.
    pub(crate) on_reclaim: OnReclaim,
    /// End a tenant's processes that use a GPU without the library; they are reported in any case.
    pub(crate) end_strays: bool,
    /// Host memory for copies of idle GPU memory, `32GiB` say; `0` for none. A broker of one user has
    /// half of what is available if this is not set, a node's broker none.
    pub(crate) host_pool: Option<Pool>,
    /// Who has launched nothing for so long is idle.
    pub(crate) idle_after_ms: u64,
    /// How long a move off the card waits for work there to end.
    pub(crate) drain_timeout_ms: u64,
    /// Longest turn of a tenant while another waits that does not fit beside it.
    pub(crate) max_turn_ms: u64,
    /// The same where moving would take too much of the time.
    pub(crate) thrash_period_ms: u64,
}

/// An amount of host memory.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(try_from = "String")]
pub(crate) struct Pool(pub(crate) Bytes);

impl TryFrom<String> for Pool {
    type Error = QuantityError;

    fn try_from(text: String) -> Result<Self, QuantityError> {
        text.parse().map(Self)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            processes_max: 4096,
            silent_connections_max: 256,
            hello_timeout_ms: 5_000,
            nvml_library: "libnvidia-ml.so.1".into(),
            nvml_timeout_ms: 2_000,
            on_reclaim: OnReclaim::Keep,
            end_strays: false,
            host_pool: None,
            idle_after_ms: 10_000,
            drain_timeout_ms: 5_000,
            max_turn_ms: 10_000,
            thrash_period_ms: 60_000,
        }
    }
}

impl Settings {
    pub(crate) fn read(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self::default()) };
        let tried = || format!("reading {}", path.display());
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::new(tried(), e, "name a readable file with --config"))?;
        let settings: Self = toml::from_str(&text)
            .map_err(|e| Failure::new(tried(), e.to_string().trim_end(), "correct that line"))?;
        if settings.processes_max == 0 || settings.silent_connections_max == 0 {
            let help = "give processes_max and silent_connections_max at least 1";
            return Err(Failure::new(tried(), "a maximum of 0 serves nobody", help));
        }
        Ok(settings)
    }
}
