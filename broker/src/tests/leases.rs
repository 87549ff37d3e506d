//! Turns through the real sockets and pages: gates, drains, ends, changes while it runs.

use halfwarp_api::wire::{ToBroker, ToClient, Token};
use halfwarp_broker_core::{BOUND_NS, Change, Event};
use halfwarp_rest::{GpuChange, Mode, NewTenant};

use super::{Broker, Guest, until, uuid};
use crate::{clock, desk::Answer, serve, shm::Pages};

const OPEN: u32 = 0;

/// A tenant with a share, by its token.
fn tenant(broker: &Broker, compute: &str) -> Token {
    let ask = NewTenant { compute: compute.parse().ok(), ..NewTenant::default() };
    let token = serve::random().expect("random");
    let uid = rustix::process::getuid().as_raw();
    match broker.desk.step(Event::Admit { ask, token, uid, runner: None, at_s: 0 }) {
        Some(Answer::Admitted(admitted)) => admitted.token,
        other => panic!("{other:?}"),
    }
}

fn gate(guest: &Guest) -> u32 {
    Pages::read_lease(&guest.descriptors[0], 0)[0]
}

fn lease(guest: &Guest) -> u32 {
    Pages::read_lease(&guest.descriptors[0], 0)[1]
}

async fn opens(guest: &Guest) {
    until("the gate opens", || gate(guest) == OPEN).await;
}

fn want(guest: &Guest) {
    guest.say(ToBroker::Want { gpu: 0, lease: lease(guest) });
}

/// Answers the next `Drain`.
async fn drains(guest: &mut Guest, waiting: u32) {
    let Some(ToClient::Drain { seq, gpu: 0, .. }) = guest.hear().await else { panic!("no drain") };
    guest.say(ToBroker::Drained { seq, gpu: 0, done: true, waiting });
}

#[tokio::test]
async fn alone_the_gate_is_open_and_with_a_second_process_one_holds_the_lease() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let (a, b) = (tenant(&broker, "25%"), tenant(&broker, "75%"));
    let mut one = broker.joined(a).await;
    assert_eq!(Pages::read_lease(&one.descriptors[0], 0)[0], OPEN);
    assert_eq!(Pages::read_lease(&one.descriptors[0], 0)[2], 0, "alone is free");
    let mut two = broker.joined(b).await;
    assert_ne!(gate(&two), OPEN, "armed from its welcome on");
    assert_eq!(Pages::read_lease(&one.descriptors[0], 0)[2], BOUND_NS);
    assert_eq!(gate(&one), OPEN, "whoever ran goes on");

    want(&two);
    drains(&mut one, 1).await;
    opens(&two).await;
    assert_ne!(gate(&one), OPEN);
    // Their turns go on by time alone: three of four are the second's.
    drains(&mut two, 1).await;
    opens(&one).await;
    let shown = broker.desk.show(|state| state.tenants());
    assert_eq!(shown[0].gpus[0].compute.lease, "holds");
    assert_eq!(shown[1].gpus[0].compute.lease, "waits");
    assert!(shown[1].gpus[0].compute.granted_seconds > 0.0);
}

#[tokio::test]
async fn an_idle_holder_s_gate_is_armed_and_its_next_want_opens_it_again() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let (a, b) = (tenant(&broker, "50%"), tenant(&broker, "50%"));
    let one = broker.joined(a).await;
    let _two = broker.joined(b).await;
    one.say(ToBroker::Idle { gpu: 0, lease: lease(&one) });
    until("the gate is armed", || gate(&one) != OPEN).await;
    want(&one);
    opens(&one).await;
}

#[tokio::test]
async fn a_holder_that_is_killed_or_silent_loses_its_turn() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let (a, b) = (tenant(&broker, "50%"), tenant(&broker, "50%"));
    let silent = broker.joined(a).await;
    let two = broker.joined(b).await;
    let before = clock::now();
    want(&two);
    opens(&two).await;
    let waited_ms = (clock::now() - before) / 1_000_000;
    assert!((50..=600).contains(&waited_ms), "{waited_ms} ms");
    assert_ne!(gate(&silent), OPEN);
    assert!(broker.kinds().contains(&"stalled".to_owned()));
    let shown = broker.desk.show(|state| state.tenants());
    assert!(shown[0].stalled && !shown[1].stalled);
}

#[tokio::test]
async fn a_mode_is_changed_while_programs_run() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let (a, b) = (tenant(&broker, "50%"), tenant(&broker, "50%"));
    let one = broker.joined(a).await;
    let two = broker.joined(b).await;
    assert_ne!(gate(&two), OPEN);
    let mode = |mode| {
        let to = GpuChange { mode: Some(mode), lease_ms: None };
        let answer = broker.desk.step(Event::Change(Change::Gpu { uuid: uuid(), to }));
        assert!(matches!(answer, Some(Answer::Changed)), "{answer:?}");
    };
    mode(Mode::Timesharing);
    assert_eq!((gate(&one), gate(&two)), (OPEN, OPEN));
    assert_eq!(Pages::read_lease(&two.descriptors[0], 0)[2], 0, "nothing is bounded");
    mode(Mode::Fair);
    until("one of two is closed", || (gate(&one) == OPEN) != (gate(&two) == OPEN)).await;
}

/// From the end of one process's work to the opening of the other's gate.
#[tokio::test]
async fn a_turn_is_handed_over_in_less_than_a_millisecond() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let to = GpuChange { mode: Some(Mode::Fair), lease_ms: Some(20) };
    let (a, b) = (tenant(&broker, "50%"), tenant(&broker, "50%"));
    broker.desk.step(Event::Change(Change::Gpu { uuid: uuid(), to }));
    let mut one = broker.joined(a).await;
    let mut two = broker.joined(b).await;
    want(&two);
    let mut took_ns = Vec::new();
    for _ in 0..25 {
        let Some(ToClient::Drain { seq, .. }) = one.hear().await else { panic!("no drain") };
        let before = clock::now();
        one.say(ToBroker::Drained { seq, gpu: 0, done: true, waiting: 1 });
        while gate(&two) != OPEN {
            assert!(clock::now() - before < 5_000_000_000, "never opened");
            tokio::task::yield_now().await;
        }
        took_ns.push(clock::now() - before);
        std::mem::swap(&mut one, &mut two);
    }
    took_ns.sort_unstable();
    let median_us = took_ns[took_ns.len() / 2] / 1000;
    assert!(median_us < 1000, "median {median_us} µs");
}
