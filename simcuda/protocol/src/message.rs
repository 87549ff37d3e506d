//! The messages: one request, one reply, in turn, on one connection.
//!
//! A reply that carries descriptors says so in its comment; they travel beside the bytes.

use crate::control::{Control, Told};
use crate::engines::{Answer, Ask};
use crate::share::Share;
use serde::{Deserialize, Serialize};

/// Asked of the machine's server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// First of all. Answered by `Welcome`.
    Hello { version: u32 },
    /// The file that private device memory is mapped from. Answered by `Done`, with its descriptor.
    Pattern,
    /// Takes `bytes` of the device, all or none. Answered by `Done`.
    Charge { device: u32, bytes: u64, charge: Charge },
    /// Gives them back. Answered by `Done`.
    Release { device: u32, bytes: u64, charge: Charge },
    /// Answered by `Room`.
    Room { device: u32 },
    /// Memory that other processes may be given. Answered by `Chunk`, with the memory's descriptor.
    MakeChunk { device: u32, bytes: u64 },
    /// This process no longer holds the chunk. Answered by `Done`.
    DropChunk { chunk: u64 },
    /// Answered by `Done`, with a descriptor that stands for the chunk and keeps it alive.
    ExportChunk { chunk: u64 },
    /// Comes with a descriptor got by `ExportChunk`. Answered by `Chunk`, with the memory's.
    ImportChunk,
    /// What processes hand each other.
    Share(Share),
    /// Answered by `Usage`.
    Usage { device: u32 },
    /// About the engines' time; answered as each says.
    Engines(Ask),
    /// Faults, and what else a machine can be told. Answered by `Control`.
    Control(Control),
}

/// What the bytes are for; the server keeps the sums apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Charge {
    /// What a process costs by having a context at all.
    Context,
    /// Everything that a program asked for.
    Memory,
    /// Code and globals of loaded modules.
    Module,
}

/// The server's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    Welcome { machine: String, driver: String, devices: Vec<Device> },
    Done,
    Room { free_bytes: u64, total_bytes: u64 },
    Chunk { chunk: u64, device: u32, bytes: u64 },
    Usage(Usage),
    Engines(Answer),
    Control(Told),
    Token { token: u64 },
    Refused(Refusal),
}

/// Why a request was refused; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    #[error("the device has not that much memory left")]
    OutOfMemory,
    #[error("the machine has no such device")]
    NoSuchDevice,
    #[error("the process does not hold that chunk, or the descriptor stands for none")]
    NoSuchChunk,
    #[error("more was given back than was held")]
    NotHeld,
    #[error("the server speaks version {server}")]
    OtherVersion { server: u32 },
    #[error("the message could not be read, or came out of turn")]
    Malformed,
    #[error("the host could not provide memory or descriptors")]
    Host,
    #[error("the card has fallen off the bus")]
    Lost,
}

/// A simulated card as its machine describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub name: String,
    pub uuid: [u8; 16],
    pub memory_bytes: u64,
    pub multiprocessors: u32,
    pub capability: (u32, u32),
    pub clock_khz: u32,
    pub memory_clock_khz: u32,
    pub memory_bus_bits: u32,
    pub l2_bytes: u64,
    pub copy_engines: u32,
    /// Host link, each way; 0 is without limit.
    pub link_bytes_per_second: u64,
    /// How long a process has the compute engine while others want it.
    pub slice_ns: u64,
    /// What a kernel costs besides its instructions.
    pub launch_ns: u64,
    /// What a kernel takes of which there is only machine code.
    pub opaque_kernel_ns: u64,
    pub context_overhead_bytes: u64,
    pub granularity_bytes: u64,
    pub pci_domain: u32,
    pub pci_bus: u32,
    pub pci_device: u32,
    pub pci_device_id: u32,
    pub power_limit_milliwatts: u32,
    /// Whether its memory finds its own errors.
    pub ecc: bool,
    /// Node of the host that it is nearest to.
    pub numa_node: u32,
    /// For each of its links to another card, which one is at the other end.
    pub nvlinks: Vec<u32>,
}

impl Device {
    /// The bus id in the driver's form.
    #[must_use]
    pub fn pci_bus_id(&self) -> String {
        format!("{:04X}:{:02X}:{:02X}.0", self.pci_domain, self.pci_bus, self.pci_device)
    }

    /// The UUID in the form that people and NVML use.
    #[must_use]
    pub fn uuid_text(&self) -> String {
        let hex: String = self.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
        format!("GPU-{a}-{b}-{c}-{d}-{e}")
    }
}

/// How a device is used, as NVML reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub used_bytes: u64,
    pub total_bytes: u64,
    pub processes: Vec<Process>,
}

/// One process that holds memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// As the server's PID namespace counts.
    pub pid: u32,
    pub used_bytes: u64,
}
