//! What the broker says to a client, and how it is written and read.

use super::{Denial, Fields, Frame, Malformed, Refusal};
use crate::{GPUS, version::Version};

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
