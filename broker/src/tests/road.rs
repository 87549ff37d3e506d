//! The main road: a process joins, grows, asks, and ends; a broker is killed and comes back.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use halfwarp_api::{
    UNIT_BYTES,
    version::CURRENT,
    wire::{Denial, ToBroker, ToClient},
};
use halfwarp_broker_core::CardSample;
use rustix::fs::{SealFlags, fcntl_get_seals};

use super::{Broker, Guest, MIB, hello, until, uuid};
use crate::{
    shm::Pages,
    store::{Store, hex},
};

#[tokio::test]
async fn a_process_joins_with_two_sealed_pages_and_its_card() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let mut guest = broker.guest();
    guest.say(hello(broker.tenant("1GiB")));
    let welcome = guest.hear().await.expect("a welcome");
    let ToClient::Welcome { version, gpus, tenant, .. } = welcome else { panic!("{welcome:?}") };
    assert_eq!((version, gpus, tenant), (CURRENT, 1, 1));
    let card = guest.hear().await.expect("a card");
    let context = 168 * MIB;
    assert_eq!(
        card,
        ToClient::Gpu { gpu: 0, uuid: uuid().0, limit: 1024 * MIB, context, swap: false }
    );
    let seals: Vec<_> =
        guest.descriptors.iter().map(|fd| fcntl_get_seals(fd).expect("seals")).collect();
    let size = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    assert!(seals[0].contains(size | SealFlags::FUTURE_WRITE), "the broker's page first");
    assert!(seals[1].contains(size) && !seals[1].contains(SealFlags::FUTURE_WRITE));
}

#[tokio::test]
async fn a_process_that_is_welcome_is_known_to_the_next_broker() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let _guest = broker.joined(broker.tenant("1GiB")).await;
    let kept = Store::at(broker.dir.path()).load().expect("a state");
    assert_eq!(kept.tenants[0].pids, [std::process::id()]);
}

#[tokio::test]
async fn grows_are_granted_to_the_limit_and_figures_come_from_the_page() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let mut guest = broker.joined(broker.tenant("1GiB")).await;
    guest.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: 1024 * MIB });
    let grant = ToClient::Grant { seq: 1, gpu: 0, units: 1024 * MIB };
    assert_eq!(guest.hear().await, Some(grant));
    guest.say(ToBroker::Grow { seq: 2, gpu: 0, wanted: 1 });
    let deny = ToClient::Deny { seq: 2, gpu: 0, why: Denial::Limit };
    assert_eq!(guest.hear().await, Some(deny));
    Pages::write_word(&guest.descriptors[1], 0, 300 * MIB, 1024 * MIB);
    guest.say(ToBroker::Ask { seq: 3, gpu: 0 });
    let figures = ToClient::Figures { seq: 3, gpu: 0, limit: 1024 * MIB, held: 300 * MIB };
    assert_eq!(guest.hear().await, Some(figures));
    let shown = broker.desk.show(|state| state.tenants());
    assert_eq!(shown[0].gpus[0].held_bytes.0, 300 << 20);
    assert_eq!(shown[0].processes[0].pid, std::process::id());
}

#[tokio::test]
async fn slack_is_called_back_from_one_process_for_another() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = broker.tenant("256MiB");
    let mut one = broker.joined(token).await;
    let mut two = broker.joined(token).await;
    one.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: 1 });
    let grant = ToClient::Grant { seq: 1, gpu: 0, units: 64 * MIB };
    assert_eq!(one.hear().await, Some(grant));
    Pages::write_word(&one.descriptors[1], 0, 1, 64 * MIB);
    two.say(ToBroker::Grow { seq: 9, gpu: 0, wanted: 256 * MIB - 1 });
    let Some(ToClient::Recall { seq, gpu: 0 }) = one.hear().await else { panic!("no recall") };
    one.say(ToBroker::Return { seq, gpu: 0, units: 64 * MIB - 1 });
    let grant = ToClient::Grant { seq: 9, gpu: 0, units: 256 * MIB - 1 };
    assert_eq!(two.hear().await, Some(grant));
}

#[tokio::test]
async fn a_silent_process_delays_a_refusal_by_a_tenth_of_a_second() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = broker.tenant("256MiB");
    let mut silent = broker.joined(token).await;
    let mut asker = broker.joined(token).await;
    silent.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: 1 });
    silent.hear().await;
    Pages::write_word(&silent.descriptors[1], 0, 1, 64 * MIB);
    let before = std::time::Instant::now();
    asker.say(ToBroker::Grow { seq: 2, gpu: 0, wanted: 256 * MIB - 1 });
    let deny = ToClient::Deny { seq: 2, gpu: 0, why: Denial::Limit };
    assert_eq!(asker.hear().await, Some(deny));
    assert!(before.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn a_context_is_measured_by_what_nvml_shows() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let mut guest = broker.joined(broker.tenant("1GiB")).await;
    guest.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: 168 * MIB });
    guest.hear().await;
    Pages::write_word(&guest.descriptors[1], 0, 168 * MIB, 168 * MIB);
    let used = 222 << 20;
    let processes = Some([(std::process::id(), Some(used))].into());
    *broker.shown.lock().expect("shown") = Some(CardSample { used_bytes: used, processes });
    guest.say(ToBroker::ContextMade { seq: 2, gpu: 0, charged: 168 * MIB });
    let overhead = ToClient::Overhead { seq: 2, gpu: 0, units: 222 * MIB };
    assert_eq!(guest.hear().await, Some(overhead));
    let gpu = &broker.desk.show(|state| state.gpus())[0];
    assert!(gpu.context_measured);
    assert_eq!(gpu.context_bytes.0 / UNIT_BYTES, u64::from(222 * MIB));
}

#[tokio::test]
async fn without_data_from_nvml_a_context_keeps_its_charge() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let mut guest = broker.joined(broker.tenant("1GiB")).await;
    *broker.shown.lock().expect("shown") = None;
    guest.say(ToBroker::ContextMade { seq: 2, gpu: 0, charged: 7 });
    assert_eq!(guest.hear().await, Some(ToClient::Overhead { seq: 2, gpu: 0, units: 7 }));
}

/// Runs this test binary as a guest that joins, grows and then waits to be killed.
fn other_process(broker: &Broker, token: [u8; 16]) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "tests::road::guest_process", "--nocapture"])
        .env("TEST_GUEST_SOCKET", broker.dir.join_socket())
        .env("TEST_GUEST_TOKEN", hex(&token))
        .stdout(Stdio::null())
        .spawn()
        .expect("started")
}

/// Not a test by itself: what [`other_process`] runs.
#[tokio::test]
async fn guest_process() {
    let (Some(socket), Some(token)) =
        (std::env::var_os("TEST_GUEST_SOCKET"), std::env::var("TEST_GUEST_TOKEN").ok())
    else {
        return;
    };
    let token = u128::from_str_radix(&token, 16).expect("a token").to_be_bytes();
    let mut guest = Guest::at(&socket.into());
    guest.say(hello(token));
    guest.welcome().await;
    guest.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: 512 * MIB });
    guest.hear().await;
    Pages::write_word(&guest.descriptors[1], 0, 512 * MIB, 512 * MIB);
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn what_a_killed_process_held_is_its_tenant_s_again() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = broker.tenant("512MiB");
    let mut killed = other_process(&broker, token);
    let held = || broker.desk.show(|s| s.tenants()[0].gpus[0].held_bytes.0);
    until("the process holds 512 MiB", || held() == 512 << 20).await;
    killed.kill().expect("killed");
    until("its end is known", || broker.kinds().contains(&"process-ended".to_owned())).await;
    assert_eq!(held(), 0);
    let mut guest = broker.joined(token).await;
    guest.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: 512 * MIB });
    let grant = ToClient::Grant { seq: 1, gpu: 0, units: 512 * MIB };
    assert_eq!(guest.hear().await, Some(grant));
    killed.wait().expect("waited");
}

#[tokio::test]
async fn a_process_whose_connection_breaks_keeps_its_memory_and_joins_again() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = broker.tenant("512MiB");
    let mut guest = broker.joined(token).await;
    let processes = Some([(std::process::id(), Some(1))].into());
    *broker.shown.lock().expect("shown") = Some(CardSample { used_bytes: 1, processes });
    guest.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: 512 * MIB });
    guest.hear().await;
    drop(guest);
    let mut again = broker.joined(token).await;
    again.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: 512 * MIB });
    let grant = ToClient::Grant { seq: 1, gpu: 0, units: 512 * MIB };
    assert_eq!(again.hear().await, Some(grant));
    let shown = broker.desk.show(|state| state.tenants());
    assert_eq!(shown[0].processes.len(), 1);
}

#[tokio::test]
async fn a_broker_that_was_killed_comes_back_with_its_tenants() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = broker.tenant("1GiB");
    let old = broker.joined(token).await;
    let state = broker.dir.path().join("state.json");
    until("the process is saved", || {
        let pid = std::process::id().to_string();
        std::fs::read_to_string(&state).is_ok_and(|text| text.contains(&pid))
    })
    .await;
    drop(broker);
    drop(old);
    let broker = Broker::start(root.path());
    let mut guest = broker.joined(token).await;
    guest.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: 1024 * MIB });
    let grant = ToClient::Grant { seq: 1, gpu: 0, units: 1024 * MIB };
    assert_eq!(guest.hear().await, Some(grant));
}

/// A guest that wants one piece and answers recalls until it is told to stop.
async fn race(mut guest: Guest, piece: u32, mut stop: tokio::sync::watch::Receiver<bool>) -> bool {
    let (mut held, mut allowed, mut granted) = (0, 0, None);
    guest.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: piece });
    while granted.is_none() || !*stop.borrow() {
        let frame = tokio::select! {
            frame = guest.hear() => frame.expect("a frame"),
            _ = stop.changed(), if granted.is_some() => continue,
        };
        match frame {
            ToClient::Grant { units, .. } => {
                (held, allowed, granted) = (held + piece, allowed + units, Some(true));
            }
            ToClient::Deny { .. } => granted = Some(false),
            ToClient::Recall { seq, gpu } => {
                let units = allowed - held;
                allowed = held;
                Pages::write_word(&guest.descriptors[1], 0, held, allowed);
                guest.say(ToBroker::Return { seq, gpu, units });
            }
            other => panic!("{other:?}"),
        }
        Pages::write_word(&guest.descriptors[1], 0, held, allowed);
        if matches!(frame, ToClient::Grant { .. } | ToClient::Deny { .. }) {
            RACED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    granted == Some(true)
}

static RACED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

#[tokio::test]
async fn of_thirty_two_that_race_exactly_as_many_are_granted_as_fit() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = broker.tenant("4000MiB");
    let (tell, stop) = tokio::sync::watch::channel(false);
    let mut racers = Vec::new();
    for _ in 0..32 {
        let guest = broker.joined(token).await;
        racers.push(tokio::spawn(race(guest, 150 * MIB, stop.clone())));
    }
    until("all are answered", || RACED.load(std::sync::atomic::Ordering::Relaxed) >= 32).await;
    tell.send(true).expect("somebody listens");
    let mut granted = 0;
    for racer in racers {
        granted += u32::from(racer.await.expect("no panic"));
    }
    assert_eq!(granted, 4000 / 150);
}
