//! Swap through the real sockets, pages and host memory.

use std::os::fd::OwnedFd;

use halfwarp_api::wire::{Outcome, ToBroker, ToClient, Token};
use halfwarp_broker_core::Event;
use halfwarp_rest::{NewTenant, Problem, Tenant};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};

use super::{
    Broker, Guest, MIB,
    http::{call, read},
    until,
};
use crate::{desk::Answer, serve, shm::Pages};

fn tenant(broker: &Broker, memory: &str) -> Token {
    let memory = vec![memory.parse().expect("memory")];
    let ask = NewTenant { memory, swap: true, ..NewTenant::default() };
    let token = serve::random().expect("random");
    let uid = rustix::process::getuid().as_raw();
    match broker.desk.step(Event::Admit { ask, token, uid, runner: None, at_s: 0 }) {
        Some(Answer::Admitted(admitted)) => admitted.token,
        other => panic!("{other:?}"),
    }
}

fn closed(guest: &Guest) -> bool {
    Pages::read_residency(&guest.descriptors[0], 0)[0] != 0
}

/// Holds `units`, and has the chunks for them.
async fn holds(guest: &mut Guest, units: u32) {
    guest.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: units });
    let Some(ToClient::Grant { units: given, .. }) = guest.hear().await else { panic!("denied") };
    Pages::write_word(&guest.descriptors[1], 0, units, given);
    let mut bytes = 0;
    while bytes < u64::from(given) * 512 {
        match guest.hear().await {
            Some(ToClient::Chunk { gpu: 0, bytes: more, .. }) => bytes += more,
            other => panic!("{other:?} instead of a chunk"),
        }
    }
}

/// Answers the next `SwapOut`: all `units` leave.
async fn leaves(guest: &mut Guest, units: u32) {
    let (seq, within_ns) = loop {
        match guest.hear().await {
            Some(ToClient::SwapOut { seq, gpu: 0, within_ns }) => break (seq, within_ns),
            Some(ToClient::Recall { seq, gpu }) => {
                guest.say(ToBroker::Return { seq, gpu, units: 0 });
            }
            other => panic!("{other:?} instead of a move"),
        }
    };
    assert_eq!(within_ns, 5_000_000_000);
    assert!(closed(guest), "before anything is asked");
    Pages::write_word(&guest.descriptors[1], 0, 0, 0);
    guest.say(ToBroker::Left { seq, gpu: 0, units });
    let outcome = Outcome::Done;
    guest.say(ToBroker::SwapEnded { seq, gpu: 0, outcome, swapped: units, taken: 0 });
}

/// Answers the next `SwapIn`.
async fn comes(guest: &mut Guest, outcome: Outcome) {
    let (seq, units) = loop {
        match guest.hear().await {
            Some(ToClient::SwapIn { seq, gpu: 0, units }) => break (seq, units),
            Some(ToClient::Recall { .. } | ToClient::Chunk { .. }) => {}
            other => panic!("{other:?} instead of a move"),
        }
    };
    assert!(closed(guest), "until all of it is there");
    let (swapped, taken) = if outcome == Outcome::Done { (0, units) } else { (units, 0) };
    guest.say(ToBroker::SwapEnded { seq, gpu: 0, outcome, swapped, taken });
}

fn chunks(guest: &Guest) -> &[OwnedFd] {
    &guest.descriptors[2..]
}

async fn suspend(broker: &Broker) -> (u16, String) {
    call(broker, "POST", "/api/v1/tenants/1/suspend", "").await
}

async fn resume(broker: &Broker) -> (u16, String) {
    call(broker, "POST", "/api/v1/tenants/1/resume", "").await
}

#[tokio::test]
async fn a_tenant_is_suspended_with_all_it_has_and_resumed() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = tenant(&broker, "1GiB");
    let mut guest = broker.joined(token).await;
    holds(&mut guest, 64 * MIB).await;
    assert_eq!(chunks(&guest).len(), 1);
    for chunk in chunks(&guest) {
        let seals = fcntl_get_seals(chunk).expect("seals");
        assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
        let stat = fstat(chunk).expect("stat");
        assert_eq!((stat.st_size, stat.st_blocks * 512), (64 << 20, 64 << 20), "populated");
    }
    let ((status, body), ()) = tokio::join!(suspend(&broker), leaves(&mut guest, 64 * MIB));
    assert_eq!((status, read::<Tenant>(&body).state.as_str()), (200, "suspended"), "{body}");
    let shown = &broker.desk.show(|state| state.tenants())[0].gpus[0];
    assert_eq!((shown.held_bytes.0, shown.swap.swapped_bytes.0), (64 << 20, 64 << 20));
    assert_eq!(shown.swap.host_bytes.0, 64 << 20);
    guest.say(ToBroker::WantMemory { gpu: 0, residency: 1 });
    let ((status, body), ()) = tokio::join!(resume(&broker), comes(&mut guest, Outcome::Done));
    assert_eq!((status, read::<Tenant>(&body).state.as_str()), (200, "running"), "{body}");
    assert!(!closed(&guest));
    let kinds = broker.kinds();
    for kind in ["swapped-out", "suspended", "swapped-in", "resumed"] {
        assert!(kinds.contains(&kind.to_owned()), "{kind}: {kinds:?}");
    }
    let (_, metrics) = call(&broker, "GET", "/metrics", "").await;
    for line in ["halfwarp_swap_bytes_total{", "direction=\"out\"} 67108864", "host_pool_bytes"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_resume_that_fails_says_so_and_the_next_works() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let mut guest = broker.joined(tenant(&broker, "1GiB")).await;
    holds(&mut guest, 64 * MIB).await;
    let ((status, _), ()) = tokio::join!(suspend(&broker), leaves(&mut guest, 64 * MIB));
    assert_eq!(status, 200);
    let ((status, body), ()) = tokio::join!(resume(&broker), comes(&mut guest, Outcome::Driver));
    assert_eq!((status, read::<Problem>(&body).reason.as_str()), (409, "cannot-move"), "{body}");
    leaves(&mut guest, 0).await;
    let shown = broker.desk.show(|state| state.tenants()).remove(0);
    assert_eq!(shown.state, "suspended");
}

#[tokio::test]
async fn what_cannot_be_moved_is_refused_with_its_reason_and_nothing_changes() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let plain = broker.tenant("1GiB");
    let _guest = broker.joined(plain).await;
    let (status, body) = suspend(&broker).await;
    assert_eq!((status, read::<Problem>(&body).reason.as_str()), (409, "no-swap"));
    let mut guest = broker.joined(tenant(&broker, "1GiB")).await;
    holds(&mut guest, 64 * MIB).await;
    guest.say(ToBroker::Reasons { gpu: 0, reasons: 0b1001 });
    let shown = || broker.desk.show(|state| state.tenants()).remove(1).gpus.remove(0).swap.reasons;
    until("the reasons are known", || shown() == ["ipc", "multicast"]).await;
    let (status, body) = call(&broker, "POST", "/api/v1/tenants/2/suspend", "").await;
    let problem: Problem = read(&body);
    assert_eq!((status, problem.reason.as_str()), (409, "cannot-move"));
    assert!(problem.message.contains("ipc, multicast"), "{}", problem.message);
    assert!(!closed(&guest));
    assert_eq!(call(&broker, "POST", "/api/v1/tenants/9/resume", "").await.0, 404);
    assert_eq!(call(&broker, "GET", "/api/v1/tenants/2/resume", "").await.0, 405);
}

#[tokio::test]
async fn a_chunk_that_is_given_up_is_empty_for_whoever_kept_it() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let mut guest = broker.joined(tenant(&broker, "1GiB")).await;
    holds(&mut guest, 64 * MIB).await;
    let kept = chunks(&guest)[0].try_clone().expect("a copy that somebody keeps");
    rustix::io::pwrite(&kept, b"secret", 0).expect("written");
    // It needs it no more: after a while the broker asks for it.
    Pages::write_word(&guest.descriptors[1], 0, 0, 64 * MIB);
    guest.say(ToBroker::GiveBack { seq: 7, gpu: 0, units: 64 * MIB });
    let chunk = loop {
        match guest.hear().await {
            Some(ToClient::DropChunk { chunk }) => break chunk,
            Some(ToClient::Taken { .. }) => {}
            other => panic!("{other:?}"),
        }
    };
    guest.say(ToBroker::ChunkGone { chunk });
    until("its memory is free", || fstat(&kept).expect("stat").st_blocks == 0).await;
    let mut bytes = [1; 6];
    rustix::io::pread(&kept, &mut bytes, 0).expect("read");
    assert_eq!(bytes, [0; 6]);
    assert_eq!(broker.desk.look(|state| state.host_pool().used_bytes), 0);
}

#[tokio::test]
async fn an_idle_process_leaves_for_a_grow_that_waits() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let mut idle = broker.joined(tenant(&broker, "0B..16GiB")).await;
    // Chunks for so much are not made in a test: it is all but a little of the card by its context.
    idle.say(ToBroker::ContextMade { seq: 5, gpu: 0, charged: 15 * 1024 * MIB });
    idle.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: 15 * 1024 * MIB + 512 * MIB });
    let mut bytes = 0;
    while bytes < 512 << 20 {
        match idle.hear().await {
            Some(ToClient::Chunk { bytes: more, .. }) => bytes += more,
            Some(ToClient::Overhead { .. } | ToClient::Grant { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    let held = 15 * 1024 * MIB + 512 * MIB;
    Pages::write_word(&idle.descriptors[1], 0, held, held);
    let mut wants = broker.joined(tenant(&broker, "0B..16GiB")).await;
    wants.say(ToBroker::Grow { seq: 9, gpu: 0, wanted: 768 * MIB });
    let (frame, ()) = tokio::join!(wants.hear(), leaves(&mut idle, 512 * MIB));
    assert!(matches!(frame, Some(ToClient::Grant { seq: 9, .. })), "{frame:?}");
    assert!(closed(&idle) && !closed(&wants));
}
