//! What the library does when a broker moves its memory, told by a broker of the test's own
//! (`pretend`): addresses and bytes are as before, whatever comes in between, and a move that fails
//! leaves every byte on one side.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use halfwarp_api::{
    shm::{GATE_CLOSED, GATE_OPEN},
    wire::{Outcome, Reason, ToBroker},
};
use halfwarp_tests::{MIB, Machine, guest, movable::Stage, start, until};

const DEADLINE: Duration = Duration::from_secs(60);
/// Far more than what is in flight takes.
const DRAIN: Duration = Duration::from_secs(10);
/// Long enough for a call that is not held to show itself.
const STILL: Duration = Duration::from_millis(150);

/// Takes all there is on the card and fills it with its own pattern.
fn fill_the_rest(machine: &Machine) -> u64 {
    let mut other = start(&mut machine.natively(guest("swapped")));
    other.line("READY ", DEADLINE);
    other.say("fill");
    let line = other.line("OK ", DEADLINE);
    other.say("end");
    assert!(other.end(DEADLINE).status.success());
    line.trim_start_matches("OK ").parse().expect("bytes")
}

#[test]
fn what_was_moved_out_comes_back_to_its_addresses_with_its_bytes() {
    let mut stage = Stage::new(256 * MIB);
    let faults = stage.machine.faults();
    for bytes in [1_u64, 700, 5000, 2 * MIB, 3 * MIB + 17, 40 * MIB, 4096, MIB + 1] {
        stage.tell(&format!("alloc {bytes}"));
    }
    stage.tell("launch");
    let (before, word) = (stage.used(&faults), stage.guest.word(0));
    let units = stage.swapped();
    assert!(u64::from(units) * 512 >= 46 * MIB, "{units} units are swapped");
    assert_eq!(before - stage.used(&faults), u64::from(units) * 512, "all of it has left the card");
    let (held, allowed) = stage.guest.word(0);
    assert_eq!((word.0 - held, word.1 - allowed), (units, units));
    let left: u32 = stage
        .guest
        .heard()
        .iter()
        .filter_map(|(_, frame)| match frame {
            ToBroker::Left { units, .. } => Some(*units),
            _ => None,
        })
        .sum();
    assert_eq!(left, units, "said piece by piece");
    assert!(fill_the_rest(&stage.machine) > 1024 * MIB);
    stage.returned(units);
    assert_eq!((stage.used(&faults), stage.guest.word(0)), (before, word));
    stage.check();
    assert_eq!(stage.tell("launch"), [2]);
    stage.end();
}

#[test]
fn a_hundred_cycles_with_frees_and_allocations_in_between_leave_nothing_behind() {
    let mut stage = Stage::new(256 * MIB);
    let faults = stage.machine.faults();
    let pid = stage.program.pid();
    let units = stage.swapped();
    stage.returned(units);
    let before = (descriptors(pid), maps(pid), stage.used(&faults), stage.guest.word(0).0);
    for round in 1..=100_u64 {
        stage.tell(&format!("churn {} 20", round * 77_777));
        let units = stage.swapped();
        stage.returned(units);
        stage.check();
    }
    while stage.check() > 0 {
        stage.tell("free 0");
    }
    let units = stage.swapped();
    assert_eq!(units, 4096, "only the program's own word is left, in one slab");
    stage.returned(units);
    let after = (descriptors(pid), maps(pid), stage.used(&faults), stage.guest.word(0).0);
    assert_eq!((after.0, after.2, after.3), (before.0, before.2, before.3));
    assert!(after.1 <= before.1 + 16, "{} mappings, then {}", before.1, after.1);
    stage.end();
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

fn maps(pid: u32) -> usize {
    fs::read_to_string(format!("/proc/{pid}/maps")).map_or(0, |maps| maps.lines().count())
}

#[test]
fn a_launch_that_comes_while_memory_is_away_waits_and_goes_on() {
    let mut stage = Stage::new(64 * MIB);
    stage.tell("alloc 5000000");
    let units = stage.swapped();
    stage.program.say("launch");
    until(DEADLINE, "a want", || {
        (stage.heard(|f| matches!(f, ToBroker::WantMemory { .. })) > 0).then_some(())
    });
    std::thread::sleep(STILL);
    assert_eq!(stage.heard(|f| matches!(f, ToBroker::WantMemory { .. })), 1, "once a closing");
    stage.returned(units);
    assert_eq!(stage.answer(), [1]);
    stage.check();
    stage.end();
}

#[test]
fn work_that_does_not_end_leaves_everything_where_it_was() {
    let mut stage = Stage::new(64 * MIB);
    stage.tell("alloc 5000000");
    stage.tell("wait");
    let word = stage.guest.word(0);
    let began = Instant::now();
    assert_eq!(stage.out_within(Duration::from_millis(200)), (Outcome::Undrained, 0));
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(3), "{took:?}");
    assert_eq!(stage.guest.word(0), word);
    stage.guest.set_residency_gate(0, GATE_OPEN);
    assert_eq!(stage.tell("launch"), [1]);
    stage.tell("go");
    stage.check();
    let units = stage.swapped();
    stage.returned(units);
    stage.check();
    stage.end();
}

#[test]
fn an_open_capture_is_an_outcome_of_its_own_and_stays_valid() {
    let mut stage = Stage::new(64 * MIB);
    stage.tell("alloc 5000000");
    assert_eq!(stage.tell("capture"), [0]);
    assert_eq!(stage.out_within(Duration::from_millis(100)), (Outcome::Capture, 0));
    stage.guest.set_residency_gate(0, GATE_OPEN);
    assert_eq!(stage.tell("endcapture"), [0]);
    let units = stage.swapped();
    stage.returned(units);
    stage.check();
    stage.end();
}

#[test]
fn without_room_for_the_copies_what_has_not_moved_stays() {
    let mut stage = Stage::new(8 * MIB);
    for _ in 0..4 {
        stage.tell("alloc 4194304");
    }
    let (outcome, swapped) = stage.out();
    assert_eq!(outcome, Outcome::Host);
    assert!(u64::from(swapped) * 512 <= 8 * MIB);
    stage.returned(swapped);
    stage.check();
    stage.end();
}

#[test]
fn what_is_freed_while_it_is_away_is_gone_at_once_with_its_copy() {
    let mut stage = Stage::new(64 * MIB);
    for _ in 0..4 {
        stage.tell("alloc 4194304");
    }
    let units = stage.swapped();
    stage.tell("free 1");
    stage.tell("free 1");
    let freed = |f: &ToBroker| matches!(f, ToBroker::SwappedFreed { units: 8192, .. });
    until(DEADLINE, "both frees are told", || (stage.heard(freed) == 2).then_some(()));
    let info = stage.tell("info");
    assert_eq!(info.len(), 2, "figures are answered at once");
    let seq = stage.guest.swap_in(0, units).expect("it lives");
    let ended = until(DRAIN, "a swap-in", || stage.guest.moved(seq));
    assert_eq!(ended, (Outcome::Done, 0, units - 16384), "the rest is the broker's");
    stage.guest.set_residency_gate(0, GATE_OPEN);
    assert_eq!(stage.check(), 2 * 4_194_304);
    stage.end();
}

#[test]
fn base_and_size_are_those_asked_for_also_in_the_middle_and_while_away() {
    let mut stage = Stage::new(2048 * MIB);
    for bytes in [1_u64, 700, 3 * MIB + 5, 600 * MIB] {
        stage.tell(&format!("alloc {bytes}"));
    }
    let asked = [1_u64, 700, 3 * MIB + 5, 600 * MIB];
    let ask = |stage: &mut Stage| {
        for (index, bytes) in asked.iter().enumerate() {
            for at in [0, bytes / 2, bytes - 1] {
                assert_eq!(stage.tell(&format!("range {index} {at}")), [0, *bytes]);
            }
            stage.tell(&format!("plain {index}"));
        }
    };
    ask(&mut stage);
    let units = stage.swapped();
    ask(&mut stage);
    stage.returned(units);
    ask(&mut stage);
    stage.check();
    stage.end();
}

#[test]
fn a_context_that_ends_takes_its_memory_along_wherever_that_is() {
    let mut stage = Stage::new(64 * MIB);
    let faults = stage.machine.faults();
    let (used, word) = (stage.used(&faults), stage.guest.word(0).0);
    stage.tell("context 9000000");
    stage.tell("destroy");
    assert_eq!((stage.used(&faults), stage.guest.word(0).0), (used, word));
    stage.tell("context 9000000");
    let units = stage.swapped();
    stage.tell("destroy");
    let freed = |f: &ToBroker| matches!(f, ToBroker::SwappedFreed { .. });
    until(DEADLINE, "its copies are gone", || (stage.heard(freed) == 1).then_some(()));
    let seq = stage.guest.swap_in(0, units).expect("it lives");
    until(DRAIN, "a swap-in", || stage.guest.moved(seq));
    stage.guest.set_residency_gate(0, GATE_OPEN);
    stage.check();
    assert_eq!((stage.used(&faults), stage.guest.word(0).0), (used, word));
    stage.end();
}

#[test]
fn a_step_that_the_driver_refuses_leaves_every_byte_on_one_side() {
    let calls = [
        ("cuMemcpyDtoHAsync_v2", false),
        ("cuMemUnmap", false),
        ("cuMemRelease", false),
        ("cuStreamCreate", false),
        ("cuEventRecord", false),
        ("cuMemCreate", true),
        ("cuMemMap", true),
        ("cuMemSetAccess", true),
        ("cuMemcpyHtoDAsync_v2", true),
    ];
    for (call, arriving) in calls {
        for nth in 1..=3 {
            let mut stage = Stage::new(64 * MIB);
            let faults = stage.machine.faults();
            for _ in 0..4 {
                stage.tell("alloc 4194304");
            }
            stage.tell("alloc 100");
            let what = format!("{call}, call {nth}");
            let (before, word) = (stage.used(&faults), stage.guest.word(0));
            let mut swapped = 0;
            if arriving {
                swapped = stage.swapped();
            }
            let number = faults.set(&format!("fail:{call},nth={nth}")).expect("it stays");
            if !arriving {
                let (outcome, some) = stage.out();
                swapped = some;
                if faults.hits(number) > 0 {
                    assert_eq!(outcome, Outcome::Driver, "{what}");
                }
                faults.clear();
                if swapped == 0 {
                    stage.guest.set_residency_gate(0, GATE_OPEN);
                }
            }
            let (outcome, rest, taken) = stage.back(swapped);
            assert_eq!(rest + taken, swapped, "{what}: {outcome:?}");
            if arriving && faults.hits(number) > 0 {
                assert_eq!(outcome, Outcome::Driver, "{what}");
            }
            faults.clear();
            if rest > 0 {
                stage.returned(rest);
            }
            stage.check();
            assert_eq!((stage.used(&faults), stage.guest.word(0)), (before, word), "{what}");
            stage.end();
        }
    }
}

#[test]
fn a_chunk_goes_back_when_nothing_lies_in_it() {
    let mut stage = Stage::new(0);
    let one = stage.guest.give_chunk(0, 16 * MIB).expect("a chunk");
    stage.tell("alloc 4194304");
    let units = stage.swapped();
    stage.guest.drop_chunk(one).expect("it lives");
    std::thread::sleep(STILL);
    let gone = |f: &ToBroker| matches!(f, ToBroker::ChunkGone { .. });
    assert_eq!(stage.heard(gone), 0, "it holds the only copy");
    stage.returned(units);
    until(DEADLINE, "the chunk is gone", || (stage.heard(gone) == 1).then_some(()));
    assert_eq!(stage.out(), (Outcome::Host, 0));
    stage.guest.set_residency_gate(0, GATE_OPEN);
    stage.check();
    stage.end();
}

#[test]
fn what_was_not_touched_is_not_copied_again() {
    let mut stage = Stage::new(64 * MIB);
    stage.tell("alloc 4194304");
    let units = stage.swapped();
    stage.returned(units);
    let faults = stage.machine.faults();
    let number = faults.set("fail:cuMemcpyDtoHAsync_v2").expect("it stays");
    assert_eq!(stage.out(), (Outcome::Done, units), "no copy is needed, so none is refused");
    assert_eq!(faults.hits(number), 0);
    faults.clear();
    stage.returned(units);
    stage.tell("touch 0");
    assert_eq!(stage.swapped(), units);
    stage.returned(units);
    stage.check();
    stage.end();
}

#[test]
fn memory_freed_behind_work_is_there_again_when_that_was_waited_for() {
    let mut stage = Stage::new(0);
    let word = stage.guest.word(0).0;
    stage.tell("alloc 9000000");
    stage.tell("behind 0");
    assert_eq!(stage.guest.word(0).0, word);
    stage.end();
}

#[test]
fn a_broker_that_comes_while_memory_is_away_is_told_and_nobody_passes_before_it_is_back() {
    let mut stage = Stage::new(64 * MIB);
    stage.tell("alloc 9000000");
    let word = stage.guest.word(0);
    let units = stage.swapped();
    let former = Arc::clone(&stage.guest);
    former.hang_up().expect("it lives");
    stage.guest = until(DEADLINE, "a re-join", || {
        stage.broker.guest().filter(|guest| !Arc::ptr_eq(guest, &former))
    });
    until(DEADLINE, "what is away is told", || stage.guest.moved(0))
        .eq(&(Outcome::Done, units, 0))
        .then_some(())
        .expect("all of it");
    stage.program.say("launch");
    let wants = |f: &ToBroker| matches!(f, ToBroker::WantMemory { gpu: 0, .. });
    until(DEADLINE, "a want", || (stage.heard(wants) > 0).then_some(()));
    std::thread::sleep(STILL);
    stage.returned(units);
    assert_eq!(stage.answer(), [1]);
    assert_eq!(stage.guest.word(0).0, word.0);
    stage.check();
    stage.guest.give_chunk(0, 64 * MIB).expect("a chunk");
    let units = stage.swapped();
    stage.returned(units);
    stage.check();
    stage.end();
}

#[test]
fn host_memory_that_the_driver_does_not_know_yet_is_reached_through_buffers() {
    let mut stage = Stage::new(0);
    let faults = stage.machine.faults();
    stage.tell("alloc 200000000");
    let known = faults.set("delay:cuMemHostRegister_v2,before=1us").expect("it stays");
    // While a move is under way nothing is made known to the driver: the buffers alone.
    stage.tell("wait");
    stage.guest.set_residency_gate(0, GATE_CLOSED);
    let seq = stage.guest.swap_out(0, DRAIN).expect("it lives");
    stage.guest.give_chunk(0, 512 * MIB).expect("a chunk");
    std::thread::sleep(STILL);
    assert_eq!(faults.hits(known), 0);
    stage.tell("go");
    let (outcome, units, _) = until(DRAIN, "a swap-out", || stage.guest.moved(seq));
    assert_eq!(outcome, Outcome::Done);
    assert!(faults.hits(known) > 0, "the buffers at least are known now");
    stage.returned(units);
    stage.check();
    until(DEADLINE, "the rest becomes known", || (faults.hits(known) >= 9).then_some(()));
    stage.tell("touch 0");
    let units = stage.swapped();
    stage.returned(units);
    stage.check();
    stage.end();
}

#[test]
fn memory_that_cannot_be_moved_is_named_and_nothing_is_moved() {
    let mut stage = Stage::new(64 * MIB);
    stage.tell("alloc 4194304");
    let kinds = [
        ("array", Reason::Array),
        ("managed", Reason::Plain),
        ("handle", Reason::OwnVmm),
        ("pool", Reason::DriverPool),
    ];
    for (kind, reason) in kinds {
        stage.tell(&format!("make {kind}"));
        let named = |f: &ToBroker| matches!(f, ToBroker::Reasons { gpu: 0, reasons } if *reasons == 1 << reason as u32);
        until(DEADLINE, kind, || (stage.heard(named) > 0).then_some(()));
        let word = stage.guest.word(0);
        assert_eq!(stage.out(), (Outcome::Unmovable, 0), "{kind}");
        assert_eq!(stage.guest.word(0), word);
        stage.guest.set_residency_gate(0, GATE_OPEN);
        stage.tell(&format!("unmake {kind}"));
        until(DEADLINE, "no reason is left", || {
            let heard = stage.guest.heard();
            let last = heard.iter().rev().find_map(|(_, frame)| match frame {
                ToBroker::Reasons { reasons, .. } => Some(*reasons),
                _ => None,
            });
            (last == Some(0)).then_some(())
        });
        let units = stage.swapped();
        stage.returned(units);
        stage.check();
    }
    stage.end();
}
