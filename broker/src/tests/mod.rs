//! Tests of the daemon without NVML: real sockets and pages, a made-up source of facts.

use std::{
    collections::BTreeMap,
    io::IoSliceMut,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use halfwarp_api::wire::{FRAME_BYTES, ToBroker, ToClient, Token};
use halfwarp_broker_core::{CardFacts, CardSample, Config, Event, State, SwapConfig, Uuid};
use halfwarp_rest::{NewTenant, Node};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};
use tokio::{io::unix::AsyncFd, task::JoinHandle, time::timeout};

use crate::{
    api::{self, About},
    clock,
    desk::{Answer, Desk},
    door, join, nvml, peer,
    run_dir::RunDir,
    serve,
    store::Store,
};

mod hostile;
mod http;
mod leases;
mod road;
mod swap;

pub(super) const MIB: u32 = (1 << 20) / 512;
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What the made-up NVML shows of the one card.
type Shown = Arc<Mutex<Option<CardSample>>>;

struct MadeUp(Shown);

impl nvml::Source for MadeUp {
    async fn sample(&mut self) -> Option<BTreeMap<Uuid, CardSample>> {
        let shown = self.0.lock().expect("shown").clone()?;
        Some([(uuid(), shown)].into())
    }
}

pub(super) fn uuid() -> Uuid {
    Uuid([9; 16])
}

/// A broker that serves in a directory of its own.
pub(super) struct Broker {
    pub(super) desk: Arc<Desk>,
    pub(super) shown: Shown,
    pub(super) dir: RunDir,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Broker {
    pub(super) fn start(root: &Path) -> Self {
        let limits = join::Limits { silent_max: 64, hello_timeout: Duration::from_millis(300) };
        Self::with(root, limits)
    }

    pub(super) fn with(root: &Path, limits: join::Limits) -> Self {
        let mut dir = RunDir::take(&root.join("run"), true).expect("a run directory");
        let card = CardFacts {
            uuid: uuid(),
            index: 0,
            name: "made up".to_owned(),
            total_bytes: 16 << 30,
            multiprocessors: Some(10),
        };
        let now = clock::now();
        // The tests' guests are all of this one process.
        let swap =
            SwapConfig { pool_bytes: 2 << 30, idle_after_ns: 50_000_000, ..SwapConfig::default() };
        let config = Config { joins_of_a_pid_max: 64, swap, ..Config::default() };
        let store = Store::at(dir.path());
        let mut state = State::new(now, config, vec![card]);
        assert!(state.restore(now, store.load().expect("a state")).is_empty());
        let desk = Desk::new(state, store, now);
        let shown = Shown::new(Mutex::new(Some(CardSample::default())));
        let node = Node {
            version: "0".to_owned(),
            protocol: "1.0".to_owned(),
            pid: 1,
            join_socket: dir.join_socket().display().to_string(),
            driver: None,
            kind: "node".to_owned(),
        };
        let about = Arc::new(About { desk: Arc::clone(&desk), node, data_at: now.into() });
        let (joins, commands): (OwnedFd, UnixListener) =
            (dir.listen_join().expect("listens"), dir.listen_api().expect("listens"));
        let visits = door::Limits { connections_max: 16, silent_max: Duration::from_millis(300) };
        let served = Arc::clone(&desk);
        let tasks = vec![
            tokio::spawn(async move { join::serve(served, joins, limits).await.expect("joins") }),
            tokio::spawn({
                let desk = Arc::clone(&desk);
                async move { drop(serve::keep_time(desk).await) }
            }),
            tokio::spawn(serve::keep_saving(Arc::clone(&desk))),
            tokio::spawn(crate::chunks::serve(Arc::clone(&desk))),
            tokio::spawn(serve::look_at_cards(Arc::clone(&about), MadeUp(Arc::clone(&shown)))),
            tokio::spawn(async move { api::serve(about, commands, visits).await.expect("serves") }),
        ];
        Self { desk, shown, dir, tasks }
    }

    pub(super) fn tenant(&self, memory: &str) -> Token {
        let memory = vec![memory.parse().expect("memory")];
        let ask = NewTenant { memory, ..NewTenant::default() };
        let token = serve::random().expect("random");
        let uid = rustix::process::getuid().as_raw();
        match self.desk.step(Event::Admit { ask, token, uid, runner: None, at_s: 0 }) {
            Some(Answer::Admitted(admitted)) => admitted.token,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn guest(&self) -> Guest {
        Guest::at(&self.dir.join_socket())
    }

    pub(super) async fn joined(&self, token: Token) -> Guest {
        let mut guest = self.guest();
        guest.say(hello(token));
        guest.welcome().await;
        guest
    }

    pub(super) fn kinds(&self) -> Vec<String> {
        self.desk.events_after(0).into_iter().map(|event| event.kind).collect()
    }
}

pub(super) fn hello(token: Token) -> ToBroker {
    ToBroker::Hello { version: halfwarp_api::version::CURRENT, token, build: 0 }
}

/// Waits until it is so.
pub(super) async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The other end of `join.sock`.
pub(super) struct Guest {
    socket: AsyncFd<Arc<OwnedFd>>,
    pub(super) descriptors: Vec<OwnedFd>,
}

impl Guest {
    pub(super) fn at(path: &PathBuf) -> Self {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let socket = socket.expect("a socket");
        connect(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("connected");
        let socket = peer::watched(Arc::new(socket)).expect("watched");
        Self { socket, descriptors: Vec::new() }
    }

    pub(super) fn raw(&self, packet: &[u8]) -> rustix::io::Result<usize> {
        send(self.socket.get_ref(), packet, SendFlags::NOSIGNAL)
    }

    pub(super) fn say(&self, frame: ToBroker) {
        self.raw(&frame.encode()).expect("sent");
    }

    /// The next frame; none at the connection's end.
    pub(super) async fn hear(&mut self) -> Option<ToClient> {
        timeout(PATIENCE, self.receive()).await.expect("an answer in time")
    }

    async fn receive(&mut self) -> Option<ToClient> {
        loop {
            let mut ready = self.socket.readable().await.expect("readable");
            let mut packet = [0; FRAME_BYTES];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let got = ready.try_io(|socket| {
                let mut into = [IoSliceMut::new(&mut packet)];
                let flags = RecvFlags::CMSG_CLOEXEC;
                recvmsg(socket.get_ref(), &mut into, &mut control, flags).map_err(Into::into)
            });
            let Ok(got) = got else { continue };
            // Whoever is cut off with its questions unread sees a reset.
            let bytes = got.map_or(0, |got| got.bytes);
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = message {
                    self.descriptors.extend(fds);
                }
            }
            return (bytes > 0).then(|| ToClient::decode(&packet[..bytes]).expect("a frame"));
        }
    }

    pub(super) async fn welcome(&mut self) {
        let gpus = match self.hear().await {
            Some(ToClient::Welcome { gpus, .. }) => gpus,
            other => panic!("{other:?} instead of a welcome"),
        };
        for _ in 0..gpus {
            let frame = self.hear().await;
            assert!(matches!(frame, Some(ToClient::Gpu { .. })), "{frame:?}");
        }
    }
}
