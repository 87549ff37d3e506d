//! A process killed at every step of a move: whatever it was doing, nothing of it is left on the card.

use std::{sync::Arc, time::Duration};

use halfwarp_api::shm::GATE_CLOSED;
use halfwarp_tests::{
    MIB,
    movable::Stage,
    trace::{Reached, Traced, binary},
    until,
};

const DEADLINE: Duration = Duration::from_secs(60);
/// Far more than what is in flight takes.
const DRAIN: Duration = Duration::from_secs(10);

/// What brings a process to each label, in this order.
const LABELS: &[&str] = &[
    "chunk_mapped",
    "piece_pinned",
    "swap_out_asked",
    "copy_out_begun",
    "copy_staged",
    "copied_out",
    "piece_unmapped",
    "handle_released",
    "units_left",
    "swap_done",
    "swap_ended_sent",
    "want_memory_sent",
    "swap_in_asked",
    "handle_created",
    "piece_mapped",
    "copy_in_begun",
    "copied_in",
    "chunk_unmapped",
];

#[test]
fn a_process_killed_at_any_step_of_a_move_leaves_nothing_behind() {
    let library = binary("libhalfwarp-core.so");
    let mut hits = 0;
    for label in LABELS {
        let mut stage = Stage::new(0);
        let faults = stage.machine.faults();
        for _ in 0..4 {
            stage.tell("alloc 4194304");
        }
        stage.tell("alloc 200000000");
        let after = LABELS.iter().position(|known| known == label).expect("it is there");
        let (guest, mut chunk, mut swapped) = (Arc::clone(&stage.guest), 0, 0);
        if after >= 11 {
            chunk = guest.give_chunk(0, 512 * MIB).expect("a chunk");
            swapped = stage.swapped();
        }
        if *label == "chunk_unmapped" {
            stage.returned(swapped);
        }
        let mut traced = Traced::seize(stage.program.pid()).expect("it can be traced");
        traced.stop_at(&library, label).expect("the label is in the library");
        match after {
            17 => guest.drop_chunk(chunk).expect("it lives"),
            12.. => {
                guest.swap_in(0, swapped).expect("it lives");
            }
            11 => stage.program.say("launch"),
            _ => {
                guest.give_chunk(0, 512 * MIB).expect("a chunk");
                guest.set_residency_gate(0, GATE_CLOSED);
                guest.swap_out(0, DRAIN).expect("it lives");
            }
        }
        let reached = traced.run(DEADLINE).expect("the process goes on");
        assert_eq!(reached, Reached::Label((*label).to_owned()));
        hits += 1;
        traced.kill();
        until(Duration::from_secs(1), &format!("bytes are free after {label}"), || {
            (faults.usage(0).processes.is_empty() && guest.has_ended()).then_some(())
        });
    }
    println!("{hits} of {} labels were reached", LABELS.len());
    assert_eq!(hits, LABELS.len());
}
