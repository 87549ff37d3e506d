//! What is said is what is heard, by each side and no other.

use super::*;
use crate::version::CURRENT;

#[test]
fn what_is_said_to_the_broker_is_what_it_hears() {
    let said = [
        ToBroker::Hello { version: CURRENT, token: [7; 16], build: u64::MAX },
        ToBroker::Grow { seq: 1, gpu: 15, wanted: u32::MAX },
        ToBroker::Return { seq: u32::MAX, gpu: 0, units: 0 },
        ToBroker::Ask { seq: 3, gpu: 1 },
        ToBroker::ContextMade { seq: 4, gpu: 2, charged: 9 },
        ToBroker::Note { kind: NoteKind::OutOfMemory, gpu: 3, a: u64::MAX, b: 1 },
        ToBroker::Look { version: CURRENT, token: [8; 16] },
        ToBroker::GiveBack { seq: 4, gpu: 2, units: u32::MAX },
        ToBroker::Want { gpu: 4, lease: u32::MAX },
        ToBroker::Drained { seq: 5, gpu: 5, done: true, waiting: 7 },
        ToBroker::Drained { seq: 6, gpu: 5, done: false, waiting: 0 },
        ToBroker::Idle { gpu: 6, lease: 1 },
        ToBroker::Reasons { gpu: 7, reasons: 1 << Reason::Mps as u32 },
        ToBroker::ChunkGone { chunk: 8 },
        ToBroker::Left { seq: 9, gpu: 8, units: 10 },
        ToBroker::SwapEnded {
            seq: 10,
            gpu: 9,
            outcome: Outcome::Host,
            swapped: u32::MAX,
            taken: 0,
        },
        ToBroker::SwappedFreed { gpu: 10, units: 11 },
        ToBroker::WantMemory { gpu: 11, residency: 12 },
    ];
    for frame in said {
        assert_eq!(ToBroker::decode(&frame.encode()), Ok(frame));
        assert!(ToClient::decode(&frame.encode()).is_err(), "{frame:?} heard by a client");
    }
}

#[test]
fn what_is_said_to_the_client_is_what_it_hears() {
    let said = [
        ToClient::Welcome { version: CURRENT, gpus: 16, tenant: u64::MAX, generation: 1 << 63 },
        ToClient::Gpu { gpu: 15, uuid: [9; 16], limit: u32::MAX, context: 1, swap: true },
        ToClient::Refused { why: Refusal::WrongUser, version: CURRENT },
        ToClient::Grant { seq: 5, gpu: 0, units: 1 },
        ToClient::Deny { seq: 6, gpu: 1, why: Denial::Card },
        ToClient::Recall { seq: 7, gpu: 2 },
        ToClient::Figures { seq: 8, gpu: 3, limit: 10, held: 11 },
        ToClient::Overhead { seq: 9, gpu: 4, units: 12 },
        ToClient::Slice { gpu: 1, uuid: [3; 16], limit: u32::MAX, held: 4 },
        ToClient::Member { gpu: 15, pid: u32::MAX, held: 1 },
        ToClient::Seen,
        ToClient::Taken { seq: 9, gpu: 4 },
        ToClient::Drain { seq: 10, gpu: 5, within_ns: u64::MAX },
        ToClient::Chunk { gpu: 6, chunk: 11, bytes: 1 << 30 },
        ToClient::DropChunk { chunk: u32::MAX },
        ToClient::SwapOut { seq: 12, gpu: 7, within_ns: 13 },
        ToClient::SwapIn { seq: 14, gpu: 8, units: 15 },
    ];
    for frame in said {
        assert_eq!(ToClient::decode(&frame.encode()), Ok(frame));
        assert!(ToBroker::decode(&frame.encode()).is_err(), "{frame:?} heard by the broker");
    }
}

#[test]
fn frames_that_lie_are_named() {
    let hello = ToBroker::Hello { version: CURRENT, token: [0; 16], build: 0 }.encode();
    assert_eq!(ToBroker::decode(&hello[..63]), Err(Malformed::Length(63)));
    assert_eq!(ToBroker::decode(&[]), Err(Malformed::Length(0)));
    let mut bad = hello;
    bad[8] ^= 1;
    assert!(matches!(ToBroker::decode(&bad), Err(Malformed::Magic(_))));
    let mut bad = ToBroker::Ask { seq: 0, gpu: 0 }.encode();
    bad[1] = GPUS as u8;
    assert_eq!(ToBroker::decode(&bad), Err(Malformed::Gpu(16)));
    let mut bad = ToBroker::Grow { seq: 0, gpu: 0, wanted: 0 }.encode();
    bad[12] = 1;
    assert_eq!(ToBroker::decode(&bad), Err(Malformed::Number(1 << 32)));
}
