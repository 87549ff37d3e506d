//! `join.sock`: accepts processes, identifies them by the kernel's word, and reads their frames.
//! Every byte is hostile: a packet that is no frame ends its connection, a connection that says
//! nothing ends after a while, and of too many silent ones of a user the oldest ends first.
//!
//! A connection's end is not its process's end; that is what the pidfd says.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use halfwarp_api::{
    version::{CURRENT, Version},
    wire::{FRAME_BYTES, Refusal, ToBroker, ToClient, Token},
};
use halfwarp_broker_core::{ClientId, Event, Peer, Slice};
use rustix::{
    io::Errno,
    net::{RecvFlags, SocketFlags, accept_with, recv},
};
use tokio::{
    io::unix::AsyncFd,
    time::{sleep, timeout},
};

use crate::{clock, desk::Desk, outbox, peer};

/// Pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Packets still read from a process that has ended.
const LAST_WORDS: usize = 1024;
/// Milliseconds for which an answer waits for room in its socket.
const TELL_ATTEMPTS: usize = 1000;

/// What the operator allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) silent_max: usize,
    pub(crate) hello_timeout: Duration,
}

/// Connections that have not said hello, by user, oldest first.
type Silent = Arc<Mutex<BTreeMap<u32, VecDeque<ClientId>>>>;

/// A packet, or what it was too long for.
enum Packet {
    Frame([u8; FRAME_BYTES]),
    OfLength(usize),
    End,
}

pub(crate) async fn serve(desk: Arc<Desk>, listener: OwnedFd, limits: Limits) -> io::Result<()> {
    let listener = peer::watched(Arc::new(listener))?;
    let silent = Silent::default();
    loop {
        let mut ready = listener.readable().await?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match ready.try_io(|l| accept_with(l.get_ref(), flags).map_err(Into::into)) {
            Ok(Ok(socket)) => accepted(&desk, &silent, socket, limits),
            Ok(Err(error)) => {
                tracing::debug!(%error, "accepting a process");
                drop_oldest(&desk, &silent);
                sleep(ACCEPT_PAUSE).await;
            }
            Err(_would_block) => {}
        }
    }
}

fn accepted(desk: &Arc<Desk>, silent: &Silent, socket: OwnedFd, limits: Limits) {
    halfwarp_label::peer_accepted();
    let identified = match peer::identify(&socket) {
        Ok(identified) => identified,
        Err(error) => {
            tracing::debug!(%error, "a peer that the kernel does not name");
            return outbox::refused(&socket, Refusal::NoIdentity);
        }
    };
    let socket = Arc::new(socket);
    let client = desk.connected(Arc::clone(&socket));
    let oldest = {
        let mut silent = silent.lock().unwrap_or_else(PoisonError::into_inner);
        let of_user = silent.entry(identified.peer.uid).or_default();
        of_user.push_back(client);
        if of_user.len() > limits.silent_max { of_user.pop_front() } else { None }
    };
    if let Some(oldest) = oldest {
        desk.dropped(oldest);
    }
    let talk = Talk { desk: Arc::clone(desk), client, peer: identified.peer };
    let silent = Arc::clone(silent);
    let task = tokio::spawn(async move {
        if let Err(error) = talk.run(socket, identified.pidfd, &silent, limits).await {
            tracing::debug!(client = talk.client.0, %error, "a connection failed");
        }
        talk.spoke(&silent);
        talk.desk.dropped(talk.client);
    });
    desk.set_task(client, task.abort_handle());
}

fn drop_oldest(desk: &Desk, silent: &Silent) {
    let mut silent = silent.lock().unwrap_or_else(PoisonError::into_inner);
    let of_user = silent.values_mut().max_by_key(|of_user| of_user.len());
    if let Some(oldest) = of_user.and_then(VecDeque::pop_front) {
        desk.dropped(oldest);
    }
}

/// One connection.
struct Talk {
    desk: Arc<Desk>,
    client: ClientId,
    peer: Peer,
}

impl Talk {
    async fn run(
        &self,
        socket: Arc<OwnedFd>,
        pidfd: OwnedFd,
        silent: &Silent,
        limits: Limits,
    ) -> io::Result<()> {
        let socket = peer::watched(socket)?;
        let pidfd = Arc::new(pidfd);
        self.desk.set_process(self.client, Arc::clone(&pidfd));
        let pidfd = peer::watched(pidfd)?;
        let Ok(first) = timeout(limits.hello_timeout, receive(&socket)).await else {
            return Ok(());
        };
        self.spoke(silent);
        let Some(frame) = self.decode(first?) else { return Ok(()) };
        halfwarp_label::hello_read();
        if let ToBroker::Look { version, token } = frame {
            return self.look(&socket, version, token).await;
        }
        let ToBroker::Hello { version, token, .. } = frame else {
            self.hostile("the first frame was no hello".to_owned());
            outbox::refused(socket.get_ref(), Refusal::Malformed);
            return Ok(());
        };
        let (client, peer) = (self.client, self.peer.clone());
        let at_s = clock::wall_s() as u64;
        self.desk.step(Event::Hello { client, peer, version, token, at_s });
        if !self.desk.has_joined(client) {
            return Ok(());
        }
        tokio::select! {
            biased;
            ended = pidfd.readable() => { drop(ended?); }
            read = self.read(&socket) => {
                if let Err(error) = read {
                    tracing::debug!(client = client.0, %error, "reading a process");
                }
                self.desk.hang_up(client);
                drop(socket);
                if !peer::has_ended(pidfd.get_ref()) {
                    self.desk.step(Event::Closed { client });
                    drop(pidfd.readable().await?);
                }
                self.desk.died(client);
                return Ok(());
            }
        }
        self.last_words(socket.get_ref());
        self.desk.died(client);
        Ok(())
    }

    /// Answers what the tenant has.
    async fn look(
        &self,
        socket: &AsyncFd<Arc<OwnedFd>>,
        version: Version,
        token: Token,
    ) -> io::Result<()> {
        let slices = if CURRENT.accepts(version) {
            self.desk.show(|state| state.slices(token, self.peer.uid))
        } else {
            Err(Refusal::Version)
        };
        let slices = match slices {
            Ok(slices) => slices,
            Err(why) => {
                outbox::refused(socket.get_ref(), why);
                return Ok(());
            }
        };
        for (gpu, slice) in (0..).zip(slices) {
            let Slice { uuid, limit_units: limit, held_units: held, members } = slice;
            self.tell(socket, ToClient::Slice { gpu, uuid: uuid.0, limit, held }).await?;
            for (pid, held) in members {
                // One that the asker has no number for it can't see anyway.
                if let Some(pid) = peer::pid_as_seen_by(self.peer.pid, pid) {
                    self.tell(socket, ToClient::Member { gpu, pid, held }).await?;
                }
            }
        }
        self.tell(socket, ToClient::Seen).await
    }

    /// Sends a frame to somebody who reads at once, or not for long.
    async fn tell(&self, socket: &AsyncFd<Arc<OwnedFd>>, frame: ToClient) -> io::Result<()> {
        for _ in 0..TELL_ATTEMPTS {
            match outbox::frame(socket.get_ref(), frame) {
                Err(Errno::AGAIN) => sleep(Duration::from_millis(1)).await,
                told => return told.map_err(Into::into),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Reads frames until the connection ends or lies.
    async fn read(&self, socket: &AsyncFd<Arc<OwnedFd>>) -> io::Result<()> {
        loop {
            let packet = receive(socket).await?;
            let Some(frame) = self.decode(packet) else { return Ok(()) };
            halfwarp_label::frame_read();
            self.desk.step(Event::Frame { client: self.client, frame });
        }
    }

    /// What a process that has ended had still said: why it ended may be among it.
    fn last_words(&self, socket: &OwnedFd) {
        for _ in 0..LAST_WORDS {
            let Ok(packet) = packet(socket) else { return };
            let Some(frame) = self.decode(packet) else { return };
            if matches!(frame, ToBroker::Note { .. }) {
                self.desk.step(Event::Frame { client: self.client, frame });
            }
        }
    }

    fn decode(&self, packet: Packet) -> Option<ToBroker> {
        let decoded = match &packet {
            Packet::End => return None,
            Packet::Frame(frame) => ToBroker::decode(frame),
            Packet::OfLength(length) => Err(halfwarp_api::wire::Malformed::Length(*length)),
        };
        decoded.map_err(|malformed| self.hostile(malformed.to_string())).ok()
    }

    fn hostile(&self, text: String) {
        let (client, pid) = (self.client, self.peer.pid);
        self.desk.step(Event::Hostile { client, pid, text });
    }

    fn spoke(&self, silent: &Silent) {
        let mut silent = silent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_user) = silent.get_mut(&self.peer.uid) {
            of_user.retain(|client| *client != self.client);
            if of_user.is_empty() {
                silent.remove(&self.peer.uid);
            }
        }
    }
}

async fn receive(socket: &AsyncFd<Arc<OwnedFd>>) -> io::Result<Packet> {
    loop {
        let mut ready = socket.readable().await?;
        if let Ok(got) = ready.try_io(|socket| packet(socket.get_ref()).map_err(Into::into)) {
            return got;
        }
    }
}

/// One packet. Descriptors that travel with it have no room here, so the kernel closes them.
fn packet(socket: &OwnedFd) -> Result<Packet, Errno> {
    let mut frame = [0; FRAME_BYTES];
    let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    let (_, length) = recv(socket, &mut frame, flags)?;
    Ok(match length {
        FRAME_BYTES => Packet::Frame(frame),
        0 => Packet::End,
        _ => Packet::OfLength(length),
    })
}
