//! What a client says to the broker, and how it is written and read.

use super::{Fields, Frame, MAGIC, Malformed, NoteKind, Outcome, Token};
use crate::version::Version;

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
