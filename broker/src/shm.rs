//! The two pages shared with each process. One of the two files with unsafe code: mapping memory.
//!
//! Both memfds are made here and sealed against any change of size, so nothing that the client does
//! can take the memory away under a mapping. The broker's page is also sealed against future writes
//! after its own mapping exists: whoever gets that descriptor can map it to read and no more.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    ptr,
    sync::atomic::{Ordering, fence},
};

use halfwarp_api::shm::{
    BROKER_PAGE_BYTES, BrokerPage, CLIENT_PAGE_BYTES, ClientPage, GATE_CLOSED, GATE_OPEN,
    PAGE_MAGIC,
};
use halfwarp_broker_core::{Gate, GateWords, Nanos, ResidencyWords, WelcomeGpu, Word};
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create},
    io::Errno,
    mm::{MapFlags, ProtFlags, mmap, munmap},
    thread::futex,
};

/// How long the broker calls itself alive at a time, and how often it does.
pub(crate) const ALIVE_NS: Nanos = 1_000_000_000;
pub(crate) const ALIVE_EVERY_MS: u64 = 250;

/// A mapping of `BYTES` bytes that is `T`, shared with another process.
#[derive(Debug)]
struct Mapping<T, const BYTES: usize> {
    at: ptr::NonNull<T>,
}

// SAFETY: a mapping is not tied to a thread, and all that is reached through it is atomics.
unsafe impl<T, const BYTES: usize> Send for Mapping<T, BYTES> {}

impl<T, const BYTES: usize> Mapping<T, BYTES> {
    fn new(memory: &OwnedFd) -> io::Result<Self> {
        const { assert!(size_of::<T>() <= BYTES) };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let at = unsafe {
            mmap(ptr::null_mut(), BYTES, protection, MapFlags::SHARED, memory.as_fd(), 0)
        }?;
        let at = ptr::NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at })
    }

    fn get(&self) -> &T {
        // SAFETY: mapped readable and writable with at least `size_of::<T>()` bytes, page-aligned,
        // until drop; `T` is one of the two page layouts, all atomics, for which every bit pattern
        // is valid and another process's writes are no race. The file cannot shrink (sealed).
        unsafe { self.at.as_ref() }
    }
}

impl<T, const BYTES: usize> Drop for Mapping<T, BYTES> {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped, and no reference outlives `self`.
        // An error would mean that it was not mapped; nothing can be done about that here.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), BYTES) };
    }
}

/// A process's pair of pages, the broker's side of it.
#[derive(Debug)]
pub(crate) struct Pages {
    broker: Mapping<BrokerPage, BROKER_PAGE_BYTES>,
    client: Mapping<ClientPage, CLIENT_PAGE_BYTES>,
}

/// The descriptors for the client, in the order in which they travel.
pub(crate) type Descriptors = [OwnedFd; 2];

impl Pages {
    pub(crate) fn new(
        generation: u64,
        now: Nanos,
        gpus: &[WelcomeGpu],
    ) -> io::Result<(Self, Descriptors)> {
        let size = SealFlags::SHRINK | SealFlags::GROW;
        let broker_memory = memory(c"halfwarp-broker", BROKER_PAGE_BYTES)?;
        let client_memory = memory(c"halfwarp-client", CLIENT_PAGE_BYTES)?;
        let pages =
            Self { broker: Mapping::new(&broker_memory)?, client: Mapping::new(&client_memory)? };
        fcntl_add_seals(&broker_memory, size | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        fcntl_add_seals(&client_memory, size | SealFlags::SEAL)?;
        let page = pages.broker.get();
        page.generation.store(generation, Ordering::Relaxed);
        page.alive_until_ns.store(now + ALIVE_NS, Ordering::Relaxed);
        for (gpu, told) in page.gpus.iter().zip(gpus) {
            gpu.limit_units.store(told.limit_units, Ordering::Relaxed);
            gpu.lease.store(told.lease.lease, Ordering::Relaxed);
            gpu.bound_ns.store(told.lease.bound_ns, Ordering::Relaxed);
            gpu.lease_gate.store(told.lease.gate as u32, Ordering::Relaxed);
            gpu.residency.store(told.residency.number, Ordering::Relaxed);
            gpu.residency_gate.store(word_of(told.residency), Ordering::Relaxed);
        }
        page.magic.store(PAGE_MAGIC, Ordering::Release);
        pages.client.get().magic.store(PAGE_MAGIC, Ordering::Release);
        Ok((pages, [broker_memory, client_memory]))
    }

    pub(crate) fn say_alive(&self, now: Nanos) {
        self.broker.get().alive_until_ns.store(now + ALIVE_NS, Ordering::Relaxed);
    }

    pub(crate) fn set_processes(&self, processes: u32) {
        self.broker.get().processes.store(processes, Ordering::Relaxed);
    }

    /// The lease of one card. Whoever sees the new gate sees the number and the bound that belong to
    /// it; whoever waits at a gate that opens is woken.
    pub(crate) fn set_lease(&self, slot: u8, words: GateWords) {
        let Some(gpu) = self.broker.get().gpus.get(usize::from(slot)) else { return };
        gpu.bound_ns.store(words.bound_ns, Ordering::Relaxed);
        gpu.lease.store(words.lease, Ordering::Release);
        gpu.lease_gate.store(words.gate as u32, Ordering::Release);
        // Against the process's own fence between its announcement and its look at the gate: its
        // frames and its answer to `Drain` come after this.
        fence(Ordering::SeqCst);
        if words.gate == Gate::Open {
            // Only an address that is none could fail.
            let _ = futex::wake(&gpu.lease_gate, futex::Flags::empty(), i32::MAX as u32);
        }
    }

    /// The residency gate of one card, in the same order. It is closed before a move is asked for.
    pub(crate) fn set_residency(&self, slot: u8, words: ResidencyWords) {
        let Some(gpu) = self.broker.get().gpus.get(usize::from(slot)) else { return };
        gpu.residency.store(words.number, Ordering::Release);
        gpu.residency_gate.store(word_of(words), Ordering::Release);
        // As in `set_lease`.
        fence(Ordering::SeqCst);
        if !words.closed {
            // Only an address that is none could fail.
            let _ = futex::wake(&gpu.residency_gate, futex::Flags::empty(), i32::MAX as u32);
        }
    }

    pub(crate) fn set_limit(&self, slot: u8, limit_units: u32) {
        if let Some(gpu) = self.broker.get().gpus.get(usize::from(slot)) {
            gpu.limit_units.store(limit_units, Ordering::Relaxed);
        }
    }

    /// Says what need not be asked for. In order before any word that is read after it: a process that
    /// releases looks here afterwards.
    pub(crate) fn set_exhausted(&self, slot: u8, units: u32) {
        if let Some(gpu) = self.broker.get().gpus.get(usize::from(slot)) {
            gpu.exhausted.store(units, Ordering::Relaxed);
            // PAIRS(exhausted): with the fence between a release and its look at this word.
            fence(Ordering::SeqCst);
        }
    }

    /// A ledger word, read once. The client writes it, so it is a hint.
    pub(crate) fn word(&self, slot: u8) -> Option<Word> {
        let line = self.client.get().ledger.get(usize::from(slot))?;
        let word = line.word.load(Ordering::Relaxed);
        Some(Word { held: word as u32, allowed: (word >> 32) as u32 })
    }
}

const fn word_of(words: ResidencyWords) -> u32 {
    if words.closed { GATE_CLOSED } else { GATE_OPEN }
}

fn memory(name: &std::ffi::CStr, bytes: usize) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3 there is no such flag.
        Err(Errno::INVAL) => memfd_create(name, flags),
        made => made,
    }?;
    ftruncate(&made, bytes as u64)?;
    Ok(made)
}

#[cfg(test)]
impl Pages {
    /// The words of a lease as a client reads them: gate, number, bound.
    pub(crate) fn read_lease(broker: &OwnedFd, slot: usize) -> [u32; 3] {
        use halfwarp_api::shm::BrokerGpu;
        let at = std::mem::offset_of!(BrokerPage, gpus) + size_of::<BrokerGpu>() * slot;
        let word = |offset: usize| {
            let mut bytes = [0; 4];
            let read = rustix::io::pread(broker, &mut bytes, (at + offset) as u64).expect("read");
            assert_eq!(read, 4);
            u32::from_le_bytes(bytes)
        };
        [
            word(std::mem::offset_of!(BrokerGpu, lease_gate)),
            word(std::mem::offset_of!(BrokerGpu, lease)),
            word(std::mem::offset_of!(BrokerGpu, bound_ns)),
        ]
    }

    /// The words of residency as a client reads them: gate, number.
    pub(crate) fn read_residency(broker: &OwnedFd, slot: usize) -> [u32; 2] {
        use halfwarp_api::shm::BrokerGpu;
        let at = std::mem::offset_of!(BrokerPage, gpus) + size_of::<BrokerGpu>() * slot;
        let word = |offset: usize| {
            let mut bytes = [0; 4];
            let read = rustix::io::pread(broker, &mut bytes, (at + offset) as u64).expect("read");
            assert_eq!(read, 4);
            u32::from_le_bytes(bytes)
        };
        let gate = word(std::mem::offset_of!(BrokerGpu, residency_gate));
        [gate, word(std::mem::offset_of!(BrokerGpu, residency))]
    }

    /// Writes a ledger word as a client would.
    pub(crate) fn write_word(client: &OwnedFd, slot: u64, held: u32, allowed: u32) {
        let at = std::mem::offset_of!(ClientPage, ledger) as u64 + 64 * slot;
        let word = u64::from(allowed) << 32 | u64::from(held);
        rustix::io::pwrite(client, &word.to_le_bytes(), at).expect("written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_neither_write_the_broker_s_page_nor_change_a_size() {
        let (pages, [broker, client]) = Pages::new(7, 100, &[]).expect("pages");
        assert_eq!(ftruncate(&broker, 0), Err(Errno::PERM));
        assert_eq!(ftruncate(&client, 1 << 20), Err(Errno::PERM));
        assert_eq!(fcntl_add_seals(&client, SealFlags::WRITE), Err(Errno::PERM));
        assert_eq!(rustix::io::pwrite(&broker, &[1], 0), Err(Errno::PERM));
        assert!(Mapping::<BrokerPage, BROKER_PAGE_BYTES>::new(&broker).is_err(), "writable");
        let theirs = Mapping::<ClientPage, CLIENT_PAGE_BYTES>::new(&client).expect("its own");
        assert_eq!(theirs.get().magic.load(Ordering::Acquire), PAGE_MAGIC);
        theirs.get().ledger[3].word.store((9 << 32) | 4, Ordering::Relaxed);
        assert_eq!(pages.word(3), Some(Word { held: 4, allowed: 9 }));
        assert_eq!(pages.word(16), None);
    }

    #[test]
    fn whoever_sleeps_at_a_gate_wakes_when_it_opens() {
        let closed = GateWords { gate: Gate::Closed, lease: 1, bound_ns: 4 };
        let told = WelcomeGpu {
            swap: false,
            uuid: halfwarp_broker_core::Uuid([1; 16]),
            limit_units: 1,
            context_units: 1,
            lease: closed,
            residency: ResidencyWords { closed: true, number: 3 },
        };
        let (pages, [broker, _]) = Pages::new(7, 100, &[told]).expect("pages");
        assert_eq!(Pages::read_lease(&broker, 0), [1, 1, 4]);
        // Another mapping of the same memory, as another process has it.
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let theirs = unsafe {
            mmap(
                ptr::null_mut(),
                BROKER_PAGE_BYTES,
                ProtFlags::READ,
                MapFlags::SHARED,
                broker.as_fd(),
                0,
            )
        };
        let theirs = theirs.expect("mapped").cast::<BrokerPage>();
        // SAFETY: mapped readable for the rest of the test program, and all atomics.
        let theirs = unsafe { &*theirs };
        let gate = &theirs.gpus[0].lease_gate;
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                while gate.load(Ordering::Acquire) != 0 {
                    let limit = rustix::fs::Timespec { tv_sec: 10, tv_nsec: 0 };
                    match futex::wait(gate, futex::Flags::empty(), 1, Some(&limit)) {
                        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                (theirs.gpus[0].lease.load(Ordering::Relaxed), clock_now())
            });
            let opened = clock_now();
            pages.set_lease(0, GateWords { gate: Gate::Open, lease: 2, bound_ns: 4 });
            let (lease, woken) = waiter.join().expect("woken");
            assert_eq!(lease, 2);
            assert!(woken - opened < 5_000_000_000, "woken, not timed out");
        });
    }

    fn clock_now() -> u64 {
        crate::clock::now()
    }

    #[test]
    fn the_broker_s_page_says_how_long_it_calls_itself_alive() {
        let (pages, _) = Pages::new(7, 100, &[]).expect("pages");
        pages.say_alive(5);
        let page = pages.broker.get();
        assert_eq!(page.alive_until_ns.load(Ordering::Relaxed), 5 + ALIVE_NS);
        assert_eq!(page.generation.load(Ordering::Relaxed), 7);
    }
}
