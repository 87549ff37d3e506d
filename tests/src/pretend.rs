//! A broker of a test's own, for what the library does at its gates: it welcomes one process after
//! another, grants what they ask for, opens and closes gates as the test says, and keeps what it was
//! told about leases. It decides nothing.

use std::{
    fs, io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    ptr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use halfwarp_api::{
    shm::{
        BROKER_PAGE_BYTES, BrokerGpu, BrokerPage, CLIENT_PAGE_BYTES, ClientPage, GATE_OPEN,
        PAGE_MAGIC,
    },
    version::CURRENT,
    wire::{FRAME_BYTES, Outcome, ToBroker, ToClient},
};
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap},
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, recv, send, sendmsg,
        socket_with,
    },
};

const ALIVE_EVERY: Duration = Duration::from_millis(100);
/// 4 GiB.
const LIMIT_UNITS: u32 = 8 << 20;
const CONTEXT_UNITS: u32 = 128 << 11;

/// The broker.
#[derive(Debug)]
pub struct Pretended {
    socket: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    uuids: Vec<[u8; 16]>,
    /// Whether its tenants' memory is to be made so that it can be moved.
    swap: bool,
    guests: Mutex<Vec<Arc<Guest>>>,
    /// Whether it says that it is alive.
    alive: AtomicBool,
    over: AtomicBool,
}

/// A process that has joined.
#[derive(Debug)]
pub struct Guest {
    socket: OwnedFd,
    broker: &'static BrokerPage,
    client: &'static ClientPage,
    said: Mutex<Vec<(Instant, ToBroker)>>,
    next_seq: AtomicU32,
    next_chunk: AtomicU32,
    ended: AtomicBool,
}

impl Pretended {
    /// Begins to listen in a folder, for processes that see these cards in this order.
    ///
    /// # Panics
    ///
    /// If it can't.
    #[must_use]
    pub fn new(folder: &Path, uuids: Vec<[u8; 16]>) -> Self {
        Self::with_swap(folder, uuids, false)
    }

    /// As [`Self::new`], for tenants with or without swap.
    ///
    /// # Panics
    ///
    /// If it can't.
    #[must_use]
    pub fn with_swap(folder: &Path, uuids: Vec<[u8; 16]>, swap: bool) -> Self {
        let path = folder.join("join.sock");
        let shared = Arc::new(Shared {
            uuids,
            swap,
            guests: Mutex::default(),
            alive: AtomicBool::new(true),
            over: AtomicBool::new(false),
        });
        let listener = listener(&path).expect("a socket");
        let welcoming = Arc::clone(&shared);
        thread::spawn(move || welcome_all(&listener, &welcoming));
        let living = Arc::clone(&shared);
        thread::spawn(move || {
            while !living.over.load(Ordering::Relaxed) {
                if living.alive.load(Ordering::Relaxed) {
                    living.guests().iter().for_each(|guest| guest.say_alive());
                }
                thread::sleep(ALIVE_EVERY);
            }
        });
        Self { socket: path, shared }
    }

    /// Where a process joins.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The latest process that has joined, once there is one.
    #[must_use]
    pub fn guest(&self) -> Option<Arc<Guest>> {
        self.shared.guests().last().cloned()
    }

    /// Every process that has joined, in their order.
    #[must_use]
    pub fn guests(&self) -> Vec<Arc<Guest>> {
        self.shared.guests().clone()
    }

    /// From now on it does not say that it is alive.
    pub fn stop_living(&self) {
        self.shared.alive.store(false, Ordering::Relaxed);
    }
}

impl Drop for Pretended {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn guests(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Guest>>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listener(path: &Path) -> io::Result<OwnedFd> {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let _ = fs::remove_file(path);
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, 16)?;
    Ok(socket)
}

fn welcome_all(listener: &OwnedFd, shared: &Arc<Shared>) {
    while let Ok(socket) = accept(listener) {
        if shared.over.load(Ordering::Relaxed) {
            return;
        }
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // A process that ends in the middle of this is nothing special.
            let _ = serve(socket, &shared);
        });
    }
}

fn next(socket: &OwnedFd) -> io::Result<Option<ToBroker>> {
    let mut packet = [0; FRAME_BYTES];
    let (got, _) = recv(socket, &mut packet, RecvFlags::empty())?;
    Ok(ToBroker::decode(packet.get(..got).unwrap_or_default()).ok())
}

fn serve(socket: OwnedFd, shared: &Shared) -> io::Result<()> {
    let Some(ToBroker::Hello { .. }) = next(&socket)? else { return Ok(()) };
    let (broker, broker_memory) = page::<BrokerPage>(BROKER_PAGE_BYTES)?;
    let (client, client_memory) = page::<ClientPage>(CLIENT_PAGE_BYTES)?;
    fcntl_add_seals(&broker_memory, SealFlags::FUTURE_WRITE)?;
    for gpu in &broker.gpus {
        gpu.limit_units.store(LIMIT_UNITS, Ordering::Relaxed);
    }
    broker.magic.store(PAGE_MAGIC, Ordering::Release);
    client.magic.store(PAGE_MAGIC, Ordering::Release);
    let count = u8::try_from(shared.uuids.len()).unwrap_or(u8::MAX);
    let welcome = ToClient::Welcome { version: CURRENT, gpus: count, tenant: 1, generation: 1 };
    send_with(&socket, &welcome, &[broker_memory, client_memory])?;
    for (slot, uuid) in shared.uuids.iter().enumerate() {
        let gpu = u8::try_from(slot).unwrap_or(u8::MAX);
        let card = ToClient::Gpu {
            gpu,
            uuid: *uuid,
            limit: LIMIT_UNITS,
            context: CONTEXT_UNITS,
            swap: shared.swap,
        };
        send(&socket, &card.encode(), SendFlags::NOSIGNAL)?;
    }
    let said = Mutex::default();
    let guest = Arc::new(Guest {
        socket,
        broker,
        client,
        said,
        next_seq: AtomicU32::new(1 << 20),
        next_chunk: AtomicU32::new(1),
        ended: AtomicBool::new(false),
    });
    guest.say_alive();
    shared.guests().push(Arc::clone(&guest));
    let heard = (|| {
        while let Some(frame) = next(&guest.socket)? {
            guest.hear(frame)?;
        }
        Ok(())
    })();
    guest.ended.store(true, Ordering::Relaxed);
    heard
}

fn send_with(socket: &OwnedFd, frame: &ToClient, files: &[OwnedFd]) -> io::Result<()> {
    let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&borrowed));
    let packet = frame.encode();
    sendmsg(socket, &[io::IoSlice::new(&packet)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A page of memory that a process is given; it stays mapped until the test ends.
fn page<T>(bytes: usize) -> io::Result<(&'static T, OwnedFd)> {
    assert!(size_of::<T>() <= bytes, "the layout fits its page");
    let memory = memfd_create(c"page", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&memory, bytes as u64)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: no address is asked for, so no existing mapping is replaced.
    let at =
        unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, memory.as_fd(), 0) }?;
    // SAFETY: mapped just now, never unmapped, at least that large, page-aligned; both layouts are
    // atomics throughout, for which every bit pattern is valid.
    Ok((unsafe { &*at.cast::<T>() }, memory))
}

impl Guest {
    fn say_alive(&self) {
        self.broker.alive_until_ns.store(now_ns(), Ordering::Relaxed);
    }

    fn say(&self, frame: ToClient) -> io::Result<()> {
        send(&self.socket, &frame.encode(), SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn hear(&self, frame: ToBroker) -> io::Result<()> {
        let answer = match frame {
            ToBroker::Grow { seq, gpu, wanted } => ToClient::Grant { seq, gpu, units: wanted },
            ToBroker::Ask { seq, gpu } => {
                ToClient::Figures { seq, gpu, limit: LIMIT_UNITS, held: 0 }
            }
            ToBroker::ContextMade { seq, gpu, charged } => {
                ToClient::Overhead { seq, gpu, units: charged }
            }
            ToBroker::Want { .. }
            | ToBroker::Drained { .. }
            | ToBroker::Idle { .. }
            | ToBroker::Reasons { .. }
            | ToBroker::ChunkGone { .. }
            | ToBroker::Left { .. }
            | ToBroker::SwapEnded { .. }
            | ToBroker::SwappedFreed { .. }
            | ToBroker::WantMemory { .. } => {
                self.said().push((Instant::now(), frame));
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.say(answer)
    }

    fn said(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, ToBroker)>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that it has said about leases and swaps, with the time.
    #[must_use]
    pub fn heard(&self) -> Vec<(Instant, ToBroker)> {
        self.said().clone()
    }

    /// Whether its connection has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// The broker's words about a card.
    #[must_use]
    pub fn gpu(&self, slot: u8) -> &BrokerGpu {
        &self.broker.gpus[usize::from(slot)]
    }

    /// The page that the process writes.
    #[must_use]
    pub fn page(&self) -> &ClientPage {
        self.client
    }

    /// Puts a card's lease gate to this value and wakes whoever waits there. The lease number it has
    /// from now on.
    pub fn set_lease_gate(&self, slot: u8, value: u32) -> u32 {
        let gpu = self.gpu(slot);
        let lease = gpu.lease.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        set(&gpu.lease_gate, value);
        lease
    }

    /// Puts a card's residency gate to this value and wakes whoever waits there.
    pub fn set_residency_gate(&self, slot: u8, value: u32) {
        self.gpu(slot).residency.fetch_add(1, Ordering::SeqCst);
        set(&self.gpu(slot).residency_gate, value);
    }

    /// Makes a chunk of host memory for it; its number.
    ///
    /// # Errors
    ///
    /// If there is no such memory, or the process has ended.
    pub fn give_chunk(&self, slot: u8, bytes: u64) -> io::Result<u32> {
        let memory = memfd_create(c"chunk", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&memory, bytes)?;
        let chunk = self.next_chunk.fetch_add(1, Ordering::Relaxed);
        send_with(&self.socket, &ToClient::Chunk { gpu: slot, chunk, bytes }, &[memory])?;
        Ok(chunk)
    }

    /// Ends the connection, as a broker does that dies.
    ///
    /// # Errors
    ///
    /// If it has ended already.
    pub fn hang_up(&self) -> io::Result<()> {
        rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both)?;
        Ok(())
    }

    /// Asks for a chunk back.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub fn drop_chunk(&self, chunk: u32) -> io::Result<()> {
        self.say(ToClient::DropChunk { chunk })
    }

    /// Asks it to move what lies on a card; the number that its answer will have.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub fn swap_out(&self, slot: u8, within: Duration) -> io::Result<u32> {
        let seq = self.next_seq.fetch_add(1, Ordering::Relaxed);
        let within_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        self.say(ToClient::SwapOut { seq, gpu: slot, within_ns })?;
        Ok(seq)
    }

    /// Lets it bring back what it moved; the number that its answer will have.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub fn swap_in(&self, slot: u8, units: u32) -> io::Result<u32> {
        let seq = self.next_seq.fetch_add(1, Ordering::Relaxed);
        self.say(ToClient::SwapIn { seq, gpu: slot, units })?;
        Ok(seq)
    }

    /// The end of a move, once it is there: how, what is swapped, what was taken.
    #[must_use]
    pub fn moved(&self, wanted: u32) -> Option<(Outcome, u32, u32)> {
        self.said().iter().find_map(|(_, frame)| match frame {
            ToBroker::SwapEnded { seq, outcome, swapped, taken, .. } if *seq == wanted => {
                Some((*outcome, *swapped, *taken))
            }
            _ => None,
        })
    }

    /// Both halves of its ledger word: held and allowed.
    #[must_use]
    pub fn word(&self, slot: u8) -> (u32, u32) {
        let word = self.client.ledger[usize::from(slot)].word.load(Ordering::SeqCst);
        (word as u32, (word >> 32) as u32)
    }

    /// Asks for a drain; the number that its answer will have.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub fn drain(&self, slot: u8, within: Duration) -> io::Result<u32> {
        let seq = self.next_seq.fetch_add(1, Ordering::Relaxed);
        let within_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        self.say(ToClient::Drain { seq, gpu: slot, within_ns })?;
        Ok(seq)
    }

    /// The answer to a drain, once it is there: when, whether all was done, and who waits.
    #[must_use]
    pub fn drained(&self, wanted: u32) -> Option<(Instant, bool, u32)> {
        self.said().iter().find_map(|(at, frame)| match frame {
            ToBroker::Drained { seq, done, waiting, .. } if *seq == wanted => {
                Some((*at, *done, *waiting))
            }
            _ => None,
        })
    }
}

fn set(gate: &AtomicU32, value: u32) {
    gate.store(value, Ordering::SeqCst);
    std::sync::atomic::fence(Ordering::SeqCst);
    if value == GATE_OPEN {
        // A wake-up that fails wakes nobody: they look again within 250 ms.
        let _ =
            rustix::thread::futex::wake(gate, rustix::thread::futex::Flags::empty(), u32::MAX >> 1);
    }
}

/// `CLOCK_MONOTONIC`, as the page has it.
#[must_use]
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
