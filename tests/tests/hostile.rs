//! Clients of `join.sock` that mean no good: each is refused or closed, and nobody else notices.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use halfwarp_api::version::{self, Version};
use halfwarp_api::wire::{FRAME_BYTES, Refusal, ToBroker, ToClient};
use halfwarp_tests::{Machine, Running, guest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType};

const LINE: Duration = Duration::from_secs(60);
/// The longest that the broker keeps somebody who says nothing, with room for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Calls of others stay below this while the broker is pestered.
const UNDISTURBED: Duration = Duration::from_millis(1_000);

/// A tenant that runs while the others misbehave.
fn neighbour(machine: &Machine) -> (Running, String) {
    let hold = guest("hold").to_string_lossy().into_owned();
    let options = ["--memory", "2GiB", "--name", "neighbour"];
    let mut tenant = machine.tenant(&options).program([hold.as_str(), "64"]).start();
    let figures = tenant.line("HELD ", LINE).trim_start_matches("HELD ").to_owned();
    (tenant, figures)
}

/// Nothing has moved for the neighbour.
fn is_undisturbed(machine: &Machine, mut tenant: Running, figures: &str) {
    let began = Instant::now();
    assert_eq!(machine.tenants().len(), 1);
    assert!(began.elapsed() < UNDISTURBED, "a listing took {:?}", began.elapsed());
    tenant.say("look");
    let after = tenant.line("AFTER ", LINE);
    assert_eq!(after.trim_start_matches("AFTER "), figures);
    assert!(tenant.end(LINE).status.success());
}

fn join_socket(machine: &Machine) -> PathBuf {
    machine.broker_dir().join("join/join.sock")
}

fn connect(machine: &Machine) -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None);
    let socket = socket.expect("a socket");
    let address = SocketAddrUnix::new(join_socket(machine)).expect("an address");
    rustix::net::connect(&socket, &address).expect("the broker listens");
    socket
}

fn send(socket: &OwnedFd, packet: &[u8]) {
    // The broker may already have closed: that is an answer too.
    let _ = rustix::net::send(socket, packet, SendFlags::NOSIGNAL);
}

/// The next packet within the broker's patience: its bytes, or none when the broker has closed.
fn answer(socket: &OwnedFd) -> Option<Vec<u8>> {
    let mut wanted = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    let patience =
        Timespec { tv_sec: i64::try_from(PATIENCE.as_secs()).expect("short"), tv_nsec: 0 };
    let ready = poll(&mut wanted, Some(&patience)).expect("a socket can be polled");
    assert!(ready > 0, "the broker neither answers nor closes");
    let mut packet = vec![0; 2 * FRAME_BYTES];
    match rustix::net::recv(socket, packet.as_mut_slice(), RecvFlags::empty()) {
        Ok((0, _)) | Err(_) => None,
        Ok((bytes, _)) => {
            packet.truncate(bytes);
            Some(packet)
        }
    }
}

/// What the broker says to a first frame: why it refuses, or none if it just closes.
fn refusal(machine: &Machine, first: &[u8]) -> Option<Refusal> {
    let socket = connect(machine);
    send(&socket, first);
    let packet = answer(&socket)?;
    match ToClient::decode(&packet) {
        Ok(ToClient::Refused { why, .. }) => Some(why),
        other => panic!("the broker answered {other:?}"),
    }
}

#[test]
fn sec_04_a_token_of_nobody_is_refused() {
    let machine = Machine::new();
    let (tenant, figures) = neighbour(&machine);
    for token in [[0; 16], [0xff; 16], *b"../../etc/passwd"] {
        let hello = ToBroker::Hello { version: version::CURRENT, token, build: 0 }.encode();
        assert_eq!(refusal(&machine, &hello), Some(Refusal::UnknownTenant));
    }
    is_undisturbed(&machine, tenant, &figures);
}

#[test]
fn sec_04_another_release_is_refused_by_its_version() {
    let machine = Machine::new();
    let (tenant, figures) = neighbour(&machine);
    let version = Version { major: version::CURRENT.major + 1, minor: 0 };
    let hello = ToBroker::Hello { version, token: [7; 16], build: 0 }.encode();
    assert_eq!(refusal(&machine, &hello), Some(Refusal::Version));
    is_undisturbed(&machine, tenant, &figures);
}

#[test]
fn sec_05_packets_that_are_no_frames_are_refused_or_closed() {
    let machine = Machine::new();
    let (tenant, figures) = neighbour(&machine);
    let grow = ToBroker::Grow { seq: u32::MAX, gpu: 0, wanted: u32::MAX }.encode();
    let packets: [&[u8]; 6] =
        [&[], &[1], &[0xff; FRAME_BYTES], &[0; FRAME_BYTES], &[0x41; 4096], &grow];
    for packet in packets {
        let why = refusal(&machine, packet);
        assert!(
            matches!(why, None | Some(Refusal::Malformed | Refusal::Version)),
            "{} bytes were answered with {why:?}",
            packet.len()
        );
    }
    is_undisturbed(&machine, tenant, &figures);
}

#[test]
fn sec_05_many_silent_connections_hold_nobody_up_and_are_closed() {
    let machine = Machine::new();
    let (tenant, figures) = neighbour(&machine);
    let silent: Vec<OwnedFd> = (0..400).map(|_| connect(&machine)).collect();
    is_undisturbed(&machine, tenant, &figures);
    for socket in &silent {
        assert!(answer(socket).is_none_or(|packet| {
            matches!(ToClient::decode(&packet), Ok(ToClient::Refused { .. }))
        }));
    }
}
