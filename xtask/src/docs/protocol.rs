//! `docs/protocol.md` and `docs/failure.md` from the types of `broker/api`: offsets, sizes, reasons.

use std::fmt::Write as _;
use std::mem::offset_of;

use halfwarp_api::shm::{AnnounceSlot, BrokerGpu, BrokerPage, ClientPage, LedgerLine, RingEvent};
use halfwarp_api::wire::{Denial, NoteKind, Outcome, Refusal, ToBroker, ToClient};
use halfwarp_api::{GPUS, UNIT_BYTES, version};

macro_rules! layout {
    ($text:ident, $name:ident: $($field:ident),*) => {
        let _ = writeln!($text, "| `{}` | | {} |", stringify!($name), size_of::<$name>());
        $(let _ = writeln!(
            $text,
            "| `{}.{}` | {} | |",
            stringify!($name), stringify!($field), offset_of!($name, $field)
        );)*
    };
}

/// Offsets of every field that either side reads.
pub(super) fn pages() -> String {
    let mut text = format!(
        "Version {}.{}; {GPUS} cards at most; a unit is {UNIT_BYTES} bytes.\n\n\
         | field | offset | bytes of the whole |\n|---|---|---|\n",
        version::CURRENT.major,
        version::CURRENT.minor
    );
    layout!(text, BrokerPage: magic, generation, alive_until_ns, processes, gpus);
    layout!(text, BrokerGpu: residency_gate, lease_gate, limit_units, exhausted, lease, bound_ns, residency);
    layout!(text, ClientPage: magic, ledger, slots, counters, ring_head, ring);
    layout!(text, LedgerLine: word);
    layout!(text, AnnounceSlot: announced, tid);
    layout!(text, RingEvent: at_ns, tid, function, result, gpu, bytes);
    text
}

/// The tag of each frame, read off an encoded one.
pub(super) fn tags() -> String {
    let version = version::CURRENT;
    let to_broker = [
        ToBroker::Hello { version, token: [0; 16], build: 0 },
        ToBroker::Grow { seq: 0, gpu: 0, wanted: 0 },
        ToBroker::Return { seq: 0, gpu: 0, units: 0 },
        ToBroker::Ask { seq: 0, gpu: 0 },
        ToBroker::ContextMade { seq: 0, gpu: 0, charged: 0 },
        ToBroker::Note { kind: NoteKind::ALL[0], gpu: 0, a: 0, b: 0 },
        ToBroker::Want { gpu: 0, lease: 0 },
        ToBroker::Drained { seq: 0, gpu: 0, done: true, waiting: 0 },
        ToBroker::Idle { gpu: 0, lease: 0 },
        ToBroker::Reasons { gpu: 0, reasons: 0 },
        ToBroker::ChunkGone { chunk: 0 },
        ToBroker::Left { seq: 0, gpu: 0, units: 0 },
        ToBroker::SwapEnded { seq: 0, gpu: 0, outcome: Outcome::ALL[0], swapped: 0, taken: 0 },
        ToBroker::SwappedFreed { gpu: 0, units: 0 },
        ToBroker::WantMemory { gpu: 0, residency: 0 },
    ];
    let to_client = [
        ToClient::Welcome { version, gpus: 0, tenant: 0, generation: 0 },
        ToClient::Gpu { gpu: 0, uuid: [0; 16], limit: 0, context: 0, swap: false },
        ToClient::Refused { why: Refusal::ALL[0], version },
        ToClient::Grant { seq: 0, gpu: 0, units: 0 },
        ToClient::Deny { seq: 0, gpu: 0, why: Denial::ALL[0] },
        ToClient::Recall { seq: 0, gpu: 0 },
        ToClient::Figures { seq: 0, gpu: 0, limit: 0, held: 0 },
        ToClient::Overhead { seq: 0, gpu: 0, units: 0 },
        ToClient::Drain { seq: 0, gpu: 0, within_ns: 0 },
        ToClient::Chunk { gpu: 0, chunk: 0, bytes: 0 },
        ToClient::DropChunk { chunk: 0 },
        ToClient::SwapOut { seq: 0, gpu: 0, within_ns: 0 },
        ToClient::SwapIn { seq: 0, gpu: 0, units: 0 },
    ];
    let mut text = String::from("| frame | to | tag |\n|---|---|---|\n");
    for frame in to_broker {
        let _ = writeln!(text, "| `{}` | broker | {} |", name(frame), frame.encode()[0]);
    }
    for frame in to_client {
        let _ = writeln!(text, "| `{}` | client | {} |", name(frame), frame.encode()[0]);
    }
    text
}

fn name(frame: impl std::fmt::Debug) -> String {
    let shown = format!("{frame:?}");
    shown.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
}

pub(super) fn refusals() -> String {
    let mut text = String::from("| reason | number | what the user reads |\n|---|---|---|\n");
    for why in Refusal::ALL {
        let _ = writeln!(text, "| `{why:?}` | {} | {} |", *why as u16, why.text());
    }
    text
}

pub(super) fn denials() -> String {
    let mut text = String::from("| reason | number | what it means |\n|---|---|---|\n");
    for why in Denial::ALL {
        let _ = writeln!(text, "| `{why:?}` | {} | {} |", *why as u16, why.text());
    }
    text
}
