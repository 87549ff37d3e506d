//! Frames of `join.sock`, a `SOCK_SEQPACKET` unix socket: each frame is one packet of exactly
//! [`FRAME_BYTES`] bytes, so there are no lengths to lie about and no halves to wait for.
//!
//! Layout of a frame, little-endian, the same for every kind:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | tag |
//! | 1 | 1 | `gpu`: slot of the card in the tenant's list, below [`GPUS`] |
//! | 2 | 2 | `code`: a [`Refusal`], a [`NoteKind`], a count |
//! | 4 | 4 | `seq`: chosen by the asker, repeated in the answer |
//! | 8 | 8 | `a` |
//! | 16 | 8 | `b` |
//! | 24 | 16 | `id`: token or UUID |
//! | 40 | 24 | zero; ignored by the reader |
//!
//! A `Hello` and a `Refused` keep this layout in every major version, so that two releases that do
//! not understand each other can still say so.
//!
//! An exchange: the client connects and sends `Hello`; the broker answers `Welcome` with two memfds
//! (its own page read-only, then the client's), one `Gpu` for each card, and from then on any number
//! of `Grow` / `Grant` / `Deny`, `Recall` / `Return`, `GiveBack` / `Taken`, `Ask` / `Figures`, `ContextMade` / `Overhead`, and of the
//! lease's `Want`, `Drain` / `Drained`, `Idle`. A gate that opens needs no frame: its waiters sleep
//! on the page's word. In a tenant with swap: `Chunk`, `SwapOut` / `Left` / `SwapEnded`, `SwapIn` /
//! `SwapEnded`, `DropChunk` / `ChunkGone`, `Reasons`, `SwappedFreed`, `WantMemory`.

mod to_broker;
mod to_client;

pub use to_broker::ToBroker;
pub use to_client::ToClient;

use crate::{GPUS, version::Version};

/// Bytes in every frame.
pub const FRAME_BYTES: usize = 64;
/// First word of a `Hello`: `HWRP`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"HWRP");

/// A frame as it travels.
pub type Frame = [u8; FRAME_BYTES];

/// Names a tenant; made by the broker, carried in the tenant's environment. Not a secret by itself:
/// the peer's uid must be the one that started the run.
pub type Token = [u8; 16];

macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])* $variant:ident = $value:literal $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u16)]
        pub enum $name {
            $($(#[doc = $doc])* $variant = $value,)*
        }

        impl $name {
            /// All of them, for documents and tests.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The one with this number.
            #[must_use]
            pub const fn from_code(code: u16) -> Option<Self> {
                match code {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// One line for people: what happened; what to do.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

numbered! {
    /// Why a join is refused. The library turns each into one line and `CUDA_ERROR_SYSTEM_NOT_READY`.
    Refusal {
        Version = 1 "library and broker are of different releases; restart the program after the upgrade",
        UnknownTenant = 2 "the broker knows no tenant by this token; start the program with `halfwarp run`",
        WrongUser = 3 "the tenant belongs to another user",
        Malformed = 4 "the frame could not be read",
        Full = 5 "the broker serves as many processes as it can",
        NoIdentity = 6 "the kernel does not say who the peer is",
        /// Not sent: what the library says when nobody answers.
        NoBroker = 7 "no broker answers on the join socket; start halfwarpd, or the program with `halfwarp run`",
        /// Not sent: the process sees cards that the tenant has no entitlement on.
        Cards = 8 "the process sees cards that its tenant has no entitlement on; leave CUDA_VISIBLE_DEVICES as `halfwarp run` set it",
        /// Not sent: no driver under the library.
        NoDriver = 9 "no CUDA driver was found beneath the library; `halfwarp doctor` shows where it looked",
        /// Not sent: the look-up rule does not hold on this driver.
        Rule = 10 "this driver answers cuGetProcAddress otherwise than the library knows, so no limit could hold; install a release of halfwarp that knows it",
        /// Not sent: the kernel cannot wipe a page on fork.
        Kernel = 11 "the kernel cannot wipe memory on fork; Linux 4.14 or newer is needed",
    }
}

numbered! {
    /// Why a grow is denied. The program sees `CUDA_ERROR_OUT_OF_MEMORY` for each.
    Denial {
        Limit = 1 "the tenant's limit is reached",
        Card = 2 "the card has no room that is not promised to others",
        UnknownCard = 3 "the tenant has no such card",
        /// It is the tenant's by its request; nobody could be made to give it back in time.
        Stuck = 4 "guaranteed memory is stuck in other hands",
    }
}

numbered! {
    /// What a `Note` tells.
    NoteKind {
        /// `a`: bytes asked for, `b`: index of the driver function in the table.
        OutOfMemory = 1 "an allocation was refused",
        /// `a`: CUDA version asked for, `b`: index of the newest row of that name, or all ones.
        UnknownFunction = 2 "a driver function newer than the table was asked for and passed through",
    }
}

numbered! {
    /// How a swap ended.
    Outcome {
        Done = 1 "everything was moved",
        Undrained = 2 "work on the card did not end in time; nothing was moved",
        Capture = 3 "a stream is being captured; nothing was moved",
        Driver = 4 "the driver refused a step; what had been moved is whole",
        Host = 5 "there was no host memory for the copies; what had been moved is whole",
        Unmovable = 6 "something can't be moved; nothing was",
    }
}

numbered! {
    /// Why memory can't be moved; the number is the bit in `Reasons`.
    Reason {
        Ipc = 0 "ipc",
        Rdma = 1 "rdma",
        NcclRegistered = 2 "nccl-registered",
        Multicast = 3 "multicast",
        Array = 4 "array",
        DriverPool = 5 "driver-pool",
        Capture = 6 "capture",
        Interlocked = 7 "interlocked",
        Stopped = 8 "stopped",
        NoPin = 9 "no-pin",
        Mps = 10 "mps",
        /// The program's own handles of virtual memory.
        OwnVmm = 11 "own-vmm",
        /// Managed, imported or otherwise made by the driver as a whole.
        Plain = 12 "plain",
    }
}

/// Why a packet is not a frame of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// Bytes received.
    Length(usize),
    Tag(u8),
    Magic(u32),
    Gpu(u8),
    Code(u16),
    /// A number that is above what its field may say.
    Number(u64),
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Length(n) => write!(f, "a frame is {FRAME_BYTES} bytes, got {n}"),
            Self::Tag(t) => write!(f, "no frame has tag {t}"),
            Self::Magic(m) => write!(f, "a hello begins with {MAGIC:#x}, got {m:#x}"),
            Self::Gpu(g) => write!(f, "card slot {g} is not below {GPUS}"),
            Self::Code(c) => write!(f, "code {c} has no meaning here"),
            Self::Number(n) => write!(f, "number {n} is too large for its field"),
        }
    }
}

/// The fields every frame has, before they mean something.
#[derive(Clone, Copy, Default)]
struct Fields {
    tag: u8,
    gpu: u8,
    code: u16,
    seq: u32,
    a: u64,
    b: u64,
    id: [u8; 16],
}

impl Fields {
    fn write(self) -> Frame {
        let mut frame = [0; FRAME_BYTES];
        frame[0] = self.tag;
        frame[1] = self.gpu;
        frame[2..4].copy_from_slice(&self.code.to_le_bytes());
        frame[4..8].copy_from_slice(&self.seq.to_le_bytes());
        frame[8..16].copy_from_slice(&self.a.to_le_bytes());
        frame[16..24].copy_from_slice(&self.b.to_le_bytes());
        frame[24..40].copy_from_slice(&self.id);
        frame
    }

    fn read(packet: &[u8]) -> Result<Self, Malformed> {
        let frame: &Frame = packet.try_into().map_err(|_| Malformed::Length(packet.len()))?;
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&frame[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let mut id = [0; 16];
        id.copy_from_slice(&frame[24..40]);
        let fields = Self {
            tag: frame[0],
            gpu: frame[1],
            code: u16::from_le_bytes([frame[2], frame[3]]),
            seq: u32::from_le_bytes([frame[4], frame[5], frame[6], frame[7]]),
            a: word(8),
            b: word(16),
            id,
        };
        if usize::from(fields.gpu) >= GPUS {
            return Err(Malformed::Gpu(fields.gpu));
        }
        Ok(fields)
    }

    fn units(value: u64) -> Result<u32, Malformed> {
        u32::try_from(value).map_err(|_| Malformed::Number(value))
    }

    fn flag(&self) -> Result<bool, Malformed> {
        match self.code {
            0 => Ok(false),
            1 => Ok(true),
            code => Err(Malformed::Code(code)),
        }
    }

    fn versions(version: Version) -> u64 {
        u64::from(MAGIC) | u64::from(version.major) << 32 | u64::from(version.minor) << 48
    }

    fn version(self) -> Version {
        Version { major: (self.a >> 32) as u16, minor: (self.a >> 48) as u16 }
    }
}

#[cfg(test)]
mod tests;
