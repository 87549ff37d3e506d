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

/// What a client says to the broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToBroker {
    /// First frame of a connection. `build` is the first half of the library's build id.
    Hello { version: Version, token: Token, build: u64 },
    /// In place of a `Hello`: what does this tenant have? Answer: a `Slice` for each of its cards, a
    /// `Member` for each process that holds any of it, `Seen`; then the connection ends.
    Look { version: Version, token: Token },
    /// `wanted` more units are needed than the ledger word allows. Answer: `Grant` or `Deny`.
    Grow { seq: u32, gpu: u8, wanted: u32 },
    /// `units` of the allowance are given back; answers the `Recall` with this `seq`.
    Return { seq: u32, gpu: u8, units: u32 },
    /// `units` of the allowance are given back unasked, because the page says that nothing is left for
    /// others. Answer: `Taken`.
    GiveBack { seq: u32, gpu: u8, units: u32 },
    /// Asks for the tenant's figures on a card. Answer: `Figures`.
    Ask { seq: u32, gpu: u8 },
    /// The process has made its first context on this card and charged `charged` units for it.
    /// Answer: `Overhead`.
    ContextMade { seq: u32, gpu: u8, charged: u32 },
    /// Something worth an event; nothing is answered.
    Note { kind: NoteKind, gpu: u8, a: u64, b: u64 },
    /// A thread waits at the closed lease gate of this card. `lease` is the page's lease number when
    /// it found the gate closed: sent once for each.
    Want { gpu: u8, lease: u32 },
    /// Answers the `Drain` with this `seq`: no work of this process is left on the card (`done`), or
    /// there still is at its deadline. `waiting`: threads that wait at the gate.
    Drained { seq: u32, gpu: u8, done: bool, waiting: u32 },
    /// The lease gate is open, and the process has launched nothing for a while and sees its work on
    /// the card finished: what the turn is not needed for. `lease` as in `Want`.
    Idle { gpu: u8, lease: u32 },
    /// Why this process's memory on the card can't be moved now: bits by [`Reason`], 0 if it can.
    /// Sent when it changes, in a tenant with swap.
    Reasons { gpu: u8, reasons: u32 },
    /// The chunk of this number is unmapped and its descriptor closed; answers `DropChunk`.
    ChunkGone { chunk: u32 },
    /// `units` more have left the card for their host copies, and the allowance fell by as many.
    Left { seq: u32, gpu: u8, units: u32 },
    /// Ends the `SwapOut` or `SwapIn` with this `seq`. `swapped`: units whose bytes are host copies
    /// now. `taken`: of the units that the `SwapIn` brought, those in use again; the rest is the
    /// broker's.
    SwapEnded { seq: u32, gpu: u8, outcome: Outcome, swapped: u32, taken: u32 },
    /// The program freed `units` that were swapped.
    SwappedFreed { gpu: u8, units: u32 },
    /// A thread waits at the closed residency gate of this card; `residency` is the page's number
    /// when it found the gate closed: sent once for each.
    WantMemory { gpu: u8, residency: u32 },
}

/// What the broker says to a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToClient {
    /// The join is accepted; `gpus` frames of kind `Gpu` follow. Two descriptors travel with it.
    Welcome { version: Version, gpus: u8, tenant: u64, generation: u64 },
    /// A card of the tenant: its slot, UUID, limit and the estimate for a context, in units.
    /// With `swap`, memory on it is to be allocated so that it can be moved.
    Gpu { gpu: u8, uuid: [u8; 16], limit: u32, context: u32, swap: bool },
    /// The join is refused; the connection ends.
    Refused { why: Refusal, version: Version },
    /// The allowance rises by `units` (at least what was wanted).
    Grant { seq: u32, gpu: u8, units: u32 },
    /// No: the tenant's limit, or the card, has no such room.
    Deny { seq: u32, gpu: u8, why: Denial },
    /// Give back what is allowed but not held. Answer: `Return`.
    Recall { seq: u32, gpu: u8 },
    /// The tenant's limit and the sum that its processes hold on the card, in units.
    Figures { seq: u32, gpu: u8, limit: u32, held: u32 },
    /// What was given back has been counted, and the page says what follows from it.
    Taken { seq: u32, gpu: u8 },
    /// A card of the tenant: its limit and what all its processes hold, in units.
    Slice { gpu: u8, uuid: [u8; 16], limit: u32, held: u32 },
    /// A process of the tenant, by its pid as the asker knows it, and what it holds.
    Member { gpu: u8, pid: u32, held: u32 },
    /// That was all.
    Seen,
    /// The context's measured cost in units; the client corrects its charge to it.
    Overhead { seq: u32, gpu: u8, units: u32 },
    /// The lease gate of this card was closed: say when the work that passed it has ended, at the
    /// latest after `within_ns`. Answer: `Drained`.
    Drain { seq: u32, gpu: u8, within_ns: u64 },
    /// A piece of host memory for this process's copies, of `bytes` bytes. One descriptor travels
    /// with it. It belongs to this tenant alone.
    Chunk { gpu: u8, chunk: u32, bytes: u64 },
    /// Unmap the chunk and close its descriptor; nothing of the process's lies in it. Answer:
    /// `ChunkGone`.
    DropChunk { chunk: u32 },
    /// The residency gate was closed: drain, at the latest within `within_ns`, then move what lies on
    /// the card into the chunks. Answers: `Left` as it goes, then `SwapEnded`.
    SwapOut { seq: u32, gpu: u8, within_ns: u64 },
    /// `units` more are allowed: bring back what was moved. Answer: `SwapEnded`; the gate opens then.
    SwapIn { seq: u32, gpu: u8, units: u32 },
}

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

impl ToBroker {
    /// The frame that says this.
    #[must_use]
    pub fn encode(self) -> Frame {
        let blank = Fields::default();
        match self {
            Self::Hello { version, token, build } => {
                Fields { tag: 1, a: Fields::versions(version), b: build, id: token, ..blank }
            }
            Self::Grow { seq, gpu, wanted } => {
                Fields { tag: 2, seq, gpu, a: wanted.into(), ..blank }
            }
            Self::Return { seq, gpu, units } => {
                Fields { tag: 3, seq, gpu, a: units.into(), ..blank }
            }
            Self::Ask { seq, gpu } => Fields { tag: 4, seq, gpu, ..blank },
            Self::ContextMade { seq, gpu, charged } => {
                Fields { tag: 5, seq, gpu, a: charged.into(), ..blank }
            }
            Self::Note { kind, gpu, a, b } => {
                Fields { tag: 6, code: kind as u16, gpu, a, b, ..blank }
            }
            Self::Look { version, token } => {
                Fields { tag: 17, a: Fields::versions(version), id: token, ..blank }
            }
            Self::GiveBack { seq, gpu, units } => {
                Fields { tag: 16, seq, gpu, a: units.into(), ..blank }
            }
            Self::Want { gpu, lease } => Fields { tag: 7, gpu, a: lease.into(), ..blank },
            Self::Drained { seq, gpu, done, waiting } => {
                Fields { tag: 8, code: done.into(), seq, gpu, a: waiting.into(), ..blank }
            }
            Self::Idle { gpu, lease } => Fields { tag: 9, gpu, a: lease.into(), ..blank },
            Self::Reasons { gpu, reasons } => Fields { tag: 32, gpu, a: reasons.into(), ..blank },
            Self::ChunkGone { chunk } => Fields { tag: 33, a: chunk.into(), ..blank },
            Self::Left { seq, gpu, units } => {
                Fields { tag: 34, seq, gpu, a: units.into(), ..blank }
            }
            Self::SwapEnded { seq, gpu, outcome, swapped, taken } => Fields {
                tag: 35,
                code: outcome as u16,
                seq,
                gpu,
                a: swapped.into(),
                b: taken.into(),
                ..blank
            },
            Self::SwappedFreed { gpu, units } => Fields { tag: 36, gpu, a: units.into(), ..blank },
            Self::WantMemory { gpu, residency } => {
                Fields { tag: 37, gpu, a: residency.into(), ..blank }
            }
        }
        .write()
    }

    /// Reads a packet. Every byte is hostile: what is returned has been checked whole.
    ///
    /// # Errors
    /// [`Malformed`] with what was wrong; the connection should end.
    pub fn decode(packet: &[u8]) -> Result<Self, Malformed> {
        let f = Fields::read(packet)?;
        Ok(match f.tag {
            1 => {
                let magic = f.a as u32;
                if magic != MAGIC {
                    return Err(Malformed::Magic(magic));
                }
                Self::Hello { version: f.version(), token: f.id, build: f.b }
            }
            2 => Self::Grow { seq: f.seq, gpu: f.gpu, wanted: Fields::units(f.a)? },
            3 => Self::Return { seq: f.seq, gpu: f.gpu, units: Fields::units(f.a)? },
            4 => Self::Ask { seq: f.seq, gpu: f.gpu },
            5 => Self::ContextMade { seq: f.seq, gpu: f.gpu, charged: Fields::units(f.a)? },
            6 => {
                let kind = NoteKind::from_code(f.code).ok_or(Malformed::Code(f.code))?;
                Self::Note { kind, gpu: f.gpu, a: f.a, b: f.b }
            }
            7 => Self::Want { gpu: f.gpu, lease: Fields::units(f.a)? },
            8 => {
                let (done, waiting) = (f.flag()?, Fields::units(f.a)?);
                Self::Drained { seq: f.seq, gpu: f.gpu, done, waiting }
            }
            16 => Self::GiveBack { seq: f.seq, gpu: f.gpu, units: Fields::units(f.a)? },
            17 => {
                let magic = f.a as u32;
                if magic != MAGIC {
                    return Err(Malformed::Magic(magic));
                }
                Self::Look { version: f.version(), token: f.id }
            }
            9 => Self::Idle { gpu: f.gpu, lease: Fields::units(f.a)? },
            32 => Self::Reasons { gpu: f.gpu, reasons: Fields::units(f.a)? },
            33 => Self::ChunkGone { chunk: Fields::units(f.a)? },
            34 => Self::Left { seq: f.seq, gpu: f.gpu, units: Fields::units(f.a)? },
            35 => Self::SwapEnded {
                seq: f.seq,
                gpu: f.gpu,
                outcome: Outcome::from_code(f.code).ok_or(Malformed::Code(f.code))?,
                swapped: Fields::units(f.a)?,
                taken: Fields::units(f.b)?,
            },
            36 => Self::SwappedFreed { gpu: f.gpu, units: Fields::units(f.a)? },
            37 => Self::WantMemory { gpu: f.gpu, residency: Fields::units(f.a)? },
            tag => return Err(Malformed::Tag(tag)),
        })
    }
}

impl ToClient {
    /// The frame that says this.
    #[must_use]
    pub fn encode(self) -> Frame {
        let blank = Fields::default();
        match self {
            Self::Welcome { version, gpus, tenant, generation } => {
                let mut id = [0; 16];
                id[..8].copy_from_slice(&tenant.to_le_bytes());
                let a = Fields::versions(version);
                Fields { tag: 65, code: gpus.into(), a, b: generation, id, ..blank }
            }
            Self::Gpu { gpu, uuid, limit, context, swap } => Fields {
                tag: 66,
                code: swap.into(),
                gpu,
                a: limit.into(),
                b: context.into(),
                id: uuid,
                ..blank
            },
            Self::Refused { why, version } => {
                Fields { tag: 67, code: why as u16, a: Fields::versions(version), ..blank }
            }
            Self::Grant { seq, gpu, units } => {
                Fields { tag: 68, seq, gpu, a: units.into(), ..blank }
            }
            Self::Deny { seq, gpu, why } => Fields { tag: 69, seq, gpu, code: why as u16, ..blank },
            Self::Recall { seq, gpu } => Fields { tag: 70, seq, gpu, ..blank },
            Self::Figures { seq, gpu, limit, held } => {
                Fields { tag: 71, seq, gpu, a: limit.into(), b: held.into(), ..blank }
            }
            Self::Overhead { seq, gpu, units } => {
                Fields { tag: 72, seq, gpu, a: units.into(), ..blank }
            }
            Self::Slice { gpu, uuid, limit, held } => {
                Fields { tag: 81, gpu, a: limit.into(), b: held.into(), id: uuid, ..blank }
            }
            Self::Member { gpu, pid, held } => {
                Fields { tag: 82, gpu, a: pid.into(), b: held.into(), ..blank }
            }
            Self::Seen => Fields { tag: 83, ..blank },
            Self::Taken { seq, gpu } => Fields { tag: 80, seq, gpu, ..blank },
            Self::Drain { seq, gpu, within_ns } => {
                Fields { tag: 73, seq, gpu, a: within_ns, ..blank }
            }
            Self::Chunk { gpu, chunk, bytes } => {
                Fields { tag: 96, gpu, a: chunk.into(), b: bytes, ..blank }
            }
            Self::DropChunk { chunk } => Fields { tag: 97, a: chunk.into(), ..blank },
            Self::SwapOut { seq, gpu, within_ns } => {
                Fields { tag: 98, seq, gpu, a: within_ns, ..blank }
            }
            Self::SwapIn { seq, gpu, units } => {
                Fields { tag: 99, seq, gpu, a: units.into(), ..blank }
            }
        }
        .write()
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// [`Malformed`] with what was wrong; the connection should end.
    pub fn decode(packet: &[u8]) -> Result<Self, Malformed> {
        let f = Fields::read(packet)?;
        let (seq, gpu) = (f.seq, f.gpu);
        Ok(match f.tag {
            65 => {
                let gpus = u8::try_from(f.code).map_err(|_| Malformed::Code(f.code))?;
                if usize::from(gpus) > GPUS {
                    return Err(Malformed::Gpu(gpus));
                }
                let mut tenant = [0; 8];
                tenant.copy_from_slice(&f.id[..8]);
                Self::Welcome {
                    version: f.version(),
                    gpus,
                    tenant: u64::from_le_bytes(tenant),
                    generation: f.b,
                }
            }
            66 => Self::Gpu {
                gpu,
                uuid: f.id,
                limit: Fields::units(f.a)?,
                context: Fields::units(f.b)?,
                swap: f.flag()?,
            },
            67 => Self::Refused {
                why: Refusal::from_code(f.code).ok_or(Malformed::Code(f.code))?,
                version: f.version(),
            },
            68 => Self::Grant { seq, gpu, units: Fields::units(f.a)? },
            69 => Self::Deny {
                seq,
                gpu,
                why: Denial::from_code(f.code).ok_or(Malformed::Code(f.code))?,
            },
            70 => Self::Recall { seq, gpu },
            71 => {
                let (limit, held) = (Fields::units(f.a)?, Fields::units(f.b)?);
                Self::Figures { seq, gpu, limit, held }
            }
            72 => Self::Overhead { seq, gpu, units: Fields::units(f.a)? },
            80 => Self::Taken { seq, gpu },
            81 => Self::Slice {
                gpu,
                uuid: f.id,
                limit: Fields::units(f.a)?,
                held: Fields::units(f.b)?,
            },
            82 => Self::Member { gpu, pid: Fields::units(f.a)?, held: Fields::units(f.b)? },
            83 => Self::Seen,
            73 => Self::Drain { seq, gpu, within_ns: f.a },
            96 => Self::Chunk { gpu, chunk: Fields::units(f.a)?, bytes: f.b },
            97 => Self::DropChunk { chunk: Fields::units(f.a)? },
            98 => Self::SwapOut { seq, gpu, within_ns: f.a },
            99 => Self::SwapIn { seq, gpu, units: Fields::units(f.a)? },
            tag => return Err(Malformed::Tag(tag)),
        })
    }
}

#[cfg(test)]
mod tests;
