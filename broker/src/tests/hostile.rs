//! Clients that mean harm or are broken: each is cut off, and nobody else notices.

use std::time::{Duration, Instant};

use halfwarp_api::{
    version::{CURRENT, Version},
    wire::{NoteKind, Refusal, ToBroker, ToClient},
};

use super::{Broker, hello, until};
use crate::join::Limits;

#[tokio::test]
async fn an_unknown_token_is_refused_by_name() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let mut guest = broker.guest();
    guest.say(hello([5; 16]));
    let refused = ToClient::Refused { why: Refusal::UnknownTenant, version: CURRENT };
    assert_eq!(guest.hear().await, Some(refused));
    assert_eq!(guest.hear().await, None);
    assert!(broker.kinds().contains(&"join-refused".to_owned()));
}

#[tokio::test]
async fn another_major_version_is_refused_with_ours() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = broker.tenant("1GiB");
    let version = Version { major: CURRENT.major + 1, minor: 7 };
    let mut guest = broker.guest();
    guest.say(ToBroker::Hello { version, token, build: 0 });
    let refused = ToClient::Refused { why: Refusal::Version, version: CURRENT };
    assert_eq!(guest.hear().await, Some(refused));
    assert_eq!(guest.hear().await, None);
}

#[tokio::test]
async fn packets_that_are_no_frames_end_their_connection_and_are_counted() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = broker.tenant("1GiB");
    let mut good = broker.joined(token).await;
    let mut bad_tag = ToBroker::Ask { seq: 0, gpu: 0 }.encode();
    bad_tag[0] = 200;
    let packets: [&[u8]; 5] = [&[0], &[1; 63], &[1; 65], &[0xff; 4096], &bad_tag];
    for (n, packet) in packets.into_iter().enumerate() {
        let mut first = broker.guest();
        first.raw(packet).expect("sent");
        assert_eq!(first.hear().await, None, "as the first packet: {n}");
        let mut later = broker.joined(token).await;
        later.raw(packet).expect("sent");
        assert_eq!(later.hear().await, None, "as a later packet: {n}");
    }
    let counted = broker.desk.show(|state| state.counters().protocol_errors);
    assert_eq!(counted, 10);
    good.say(ToBroker::Ask { seq: 1, gpu: 0 });
    assert!(matches!(good.hear().await, Some(ToClient::Figures { .. })));
}

#[tokio::test]
async fn frames_out_of_turn_end_their_connection() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = broker.tenant("1GiB");
    let mut early = broker.guest();
    early.say(ToBroker::Grow { seq: 1, gpu: 0, wanted: 1 });
    let refused = ToClient::Refused { why: Refusal::Malformed, version: CURRENT };
    assert_eq!(early.hear().await, Some(refused));
    assert_eq!(early.hear().await, None);
    let mut twice = broker.joined(token).await;
    twice.say(hello(token));
    assert_eq!(twice.hear().await, None);
}

#[tokio::test]
async fn silence_before_the_hello_ends_by_a_deadline() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let mut silent = broker.guest();
    assert_eq!(silent.hear().await, None);
    until("the connection is forgotten", || broker.desk.connections() == 0).await;
}

#[tokio::test]
async fn of_too_many_silent_connections_the_oldest_goes_and_a_good_one_joins() {
    let root = tempfile::tempdir().expect("a directory");
    let limits = Limits { silent_max: 8, hello_timeout: Duration::from_secs(60) };
    let broker = Broker::with(root.path(), limits);
    let token = broker.tenant("1GiB");
    let mut silent: Vec<_> = (0..40).map(|_| broker.guest()).collect();
    let began = Instant::now();
    broker.joined(token).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(silent[0].hear().await, None);
    assert!(broker.desk.connections() <= 9, "{}", broker.desk.connections());
}

#[tokio::test]
async fn a_storm_of_connections_leaves_nothing_behind() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = broker.tenant("1GiB");
    for round in 0..2000 {
        drop(broker.guest());
        if round % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let began = Instant::now();
    let good = broker.joined(token).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    until("the storm is forgotten", || broker.desk.connections() == 1).await;
    drop(good);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped_and_nobody_waits_for_it() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = broker.tenant("1GiB");
    let deaf = broker.joined(token).await;
    let mut good = broker.joined(token).await;
    let ask = ToBroker::Ask { seq: 1, gpu: 0 }.encode();
    let cut = async {
        for asked in 0..100_000 {
            if deaf.raw(&ask).is_err_and(|error| error != rustix::io::Errno::AGAIN) {
                return;
            }
            if asked % 16 == 0 {
                tokio::task::yield_now().await;
            }
        }
        panic!("never dropped");
    };
    cut.await;
    good.say(ToBroker::Ask { seq: 2, gpu: 0 });
    assert!(matches!(good.hear().await, Some(ToClient::Figures { seq: 2, .. })));
}

#[tokio::test]
async fn a_flood_of_notes_does_not_keep_others_waiting() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let token = broker.tenant("1GiB");
    let flood = broker.joined(token).await;
    let mut good = broker.joined(token).await;
    let note = ToBroker::Note { kind: NoteKind::OutOfMemory, gpu: 0, a: 1, b: 2 }.encode();
    for _ in 0..50 {
        while flood.raw(&note).is_ok() {}
        let began = Instant::now();
        good.say(ToBroker::Ask { seq: 1, gpu: 0 });
        assert!(matches!(good.hear().await, Some(ToClient::Figures { .. })));
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    }
    assert!(broker.desk.events_after(0).len() < 1000);
}
