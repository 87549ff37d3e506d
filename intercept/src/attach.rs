//! Joining the broker: connect, say who we are, receive the pages and the list of cards. And staying
//! joined: the loop of our one thread, and the re-join after a broker has gone.
//!
//! A first join waits for at most [`JOIN_TIMEOUT`]; a re-join tries for as long as the process lives.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    thread,
    time::{Duration, Instant},
};

use halfwarp_api::{
    version::CURRENT,
    wire::{FRAME_BYTES, Refusal, ToBroker, ToClient, Token},
};

use halfwarp_label as label;

use crate::{attendant::Attendant, line, pages::Pages, process::Process, say, sys};

/// How long `cuInit` waits for a broker.
pub(crate) const JOIN_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(100);
/// Driver calls of later versions run on our thread; they need this much.
const STACK_BYTES: usize = 1 << 20;

/// Who this process says it is: read once from the environment.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) token: Token,
    pub(crate) socket: Vec<u8>,
}

/// A card of the tenant, as the broker names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Card {
    pub(crate) slot: u8,
    pub(crate) uuid: [u8; 16],
    /// Estimate of a context's cost, in units.
    pub(crate) context_units: u32,
    /// Memory on it is made so that it can be moved.
    pub(crate) swap: bool,
}

/// What a successful join gives.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) socket: OwnedFd,
    pub(crate) pages: Pages,
    pub(crate) cards: Vec<Card>,
}

/// A join that did not come about, with what was found.
pub(crate) type Refused = (Refusal, String);

/// Joins within `limit`, trying again while nobody listens yet.
pub(crate) fn join(identity: &Identity, limit: Duration) -> Result<Joined, Refused> {
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let socket = match sys::connect(&identity.socket, left.max(RETRY)) {
            Ok(socket) => socket,
            Err(_) if left > RETRY => {
                thread::sleep(RETRY);
                continue;
            }
            Err(error) => return Err((Refusal::NoBroker, found(identity, &error.to_string()))),
        };
        return greet(identity, socket, left);
    }
}

fn found(identity: &Identity, what: &str) -> String {
    format!("{}: {what}", String::from_utf8_lossy(&identity.socket))
}

/// Says hello on a fresh connection and reads the answer.
fn greet(identity: &Identity, socket: OwnedFd, limit: Duration) -> Result<Joined, Refused> {
    let no_answer = |e: io::Error| {
        let text = match e.kind() {
            io::ErrorKind::WouldBlock => "connected, but no answer in time".to_owned(),
            _ => e.to_string(),
        };
        (Refusal::NoBroker, found(identity, &text))
    };
    label::join_connected();
    sys::receive_within(&socket, limit.max(RETRY)).map_err(no_answer)?;
    let hello = ToBroker::Hello {
        version: CURRENT,
        token: identity.token,
        build: halfwarp_gate::stage::build(),
    };
    sys::send(socket.as_raw_fd(), &hello.encode()).map_err(no_answer)?;
    label::join_hello_sent();
    let mut descriptors = Vec::new();
    let welcome = next(&socket, &mut descriptors).map_err(no_answer)?;
    let gpus = match welcome {
        ToClient::Welcome { version, .. } if !CURRENT.accepts(version) => {
            return Err((Refusal::Version, say::versions(version)));
        }
        ToClient::Welcome { gpus, .. } => gpus,
        ToClient::Refused { why: Refusal::Version, version } => {
            return Err((Refusal::Version, say::versions(version)));
        }
        ToClient::Refused { why, .. } => return Err((why, String::new())),
        other => return Err((Refusal::Malformed, format!("the broker answered {other:?}"))),
    };
    let [broker, client] = descriptors.as_slice() else {
        return Err((Refusal::Malformed, format!("{} descriptors came", descriptors.len())));
    };
    let pages = Pages::map(broker, client).map_err(no_answer)?;
    let mut cards = Vec::new();
    for _ in 0..gpus {
        match next(&socket, &mut Vec::new()).map_err(no_answer)? {
            ToClient::Gpu { gpu, uuid, context, swap, .. } => {
                cards.push(Card { slot: gpu, uuid, context_units: context, swap });
            }
            other => return Err((Refusal::Malformed, format!("the broker sent {other:?}"))),
        }
    }
    sys::receive_within(&socket, line::LOOK).map_err(no_answer)?;
    label::join_welcomed();
    Ok(Joined { socket, pages, cards })
}

/// The next frame of a connection.
fn next(socket: &OwnedFd, descriptors: &mut Vec<OwnedFd>) -> io::Result<ToClient> {
    let mut packet = [0; FRAME_BYTES];
    let got = sys::receive(socket.as_raw_fd(), &mut packet, descriptors)?;
    if got == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    ToClient::decode(packet.get(..got).unwrap_or_default())
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))
}

/// Starts our one thread.
pub(crate) fn listen(process: &'static Process) -> io::Result<()> {
    sys::spawn_without_signals(c"halfwarp", STACK_BYTES, move || {
        let mut attendant = Attendant::default();
        loop {
            let (mut packet, mut files) = ([0; FRAME_BYTES], Vec::new());
            process.gates.set_attending(true);
            let nap = attendant.step(process).unwrap_or(line::LOOK);
            process.gates.set_attending(false);
            match process.line.receive(&mut packet, &mut files, &process.gates.bell, nap) {
                Ok(0) => {}
                Ok(got) => {
                    let frame = ToClient::decode(packet.get(..got).unwrap_or_default());
                    if let Ok(frame) = frame
                        && !attendant.hear(process, frame, &files)
                    {
                        process.hear(frame);
                    }
                }
                Err(_) => {
                    rejoin(process, &mut attendant);
                    attendant.forget(process);
                }
            }
        }
    })
}

/// The broker is gone, or our connection to it: caps hold by the ledger alone until one is back.
fn rejoin(process: &'static Process, attendant: &mut Attendant) {
    label::broker_lost();
    process.mail.lose_all();
    attendant.broker_lost();
    loop {
        process.gates.set_attending(true);
        let nap = attendant.step(process).unwrap_or(RETRY).min(RETRY);
        process.gates.set_attending(false);
        // Nothing can be heard; frees ring.
        process.gates.bell.wait(-1, nap);
        // What is under way on the card is brought to its end first: what is held is counted then.
        if !attendant.is_settled() {
            continue;
        }
        let Ok(socket) = sys::connect(&process.identity.socket, RETRY) else { continue };
        process.swap.set_busy(true);
        let joined = greet(&process.identity, socket, JOIN_TIMEOUT);
        process.swap.set_busy(false);
        if let Ok(joined) = joined {
            process.adopt(joined);
            return;
        }
    }
}
