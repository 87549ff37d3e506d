//! The machine: its cards, its accounts and its shared memory, behind one lock.
//!
//! Each request is one method here. Long work (filling memory) is done without the lock.

use crate::accounts::{Accounts, Session};
use crate::board::Board;
use crate::chunks::Chunks;
use crate::engines::Engines;
use crate::history::History;
use crate::life::Life;
use crate::pattern::{self, PatternFile};
use crate::profile::Profile;
use crate::share::Shelf;
use rustix::pipe::{PipeFlags, pipe_with};
use simcuda_protocol::control::Account;
use simcuda_protocol::{Charge, Device, Refusal, Reply};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// An answer, and the descriptor that goes with it.
pub(crate) type Answer = Result<(Reply, Option<OwnedFd>), Refusal>;

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) devices: Vec<Device>,
    pub(crate) engines: Engines,
    pub(crate) board: Board,
    pub(crate) life: Life,
    pattern: PatternFile,
    books: Mutex<Books>,
    pub(crate) shelf: Shelf,
}

#[derive(Debug)]
struct Books {
    accounts: Accounts,
    chunks: Chunks,
    history: History,
    last_session: Session,
}

impl Machine {
    /// `whole_name` tells the machine from all others; its cards get their UUIDs from it. What must
    /// be known before a process can ask is written to `early`.
    pub(crate) fn new(
        name: &str,
        whole_name: &str,
        profile: &Profile,
        life: Life,
        early: Option<PathBuf>,
    ) -> Self {
        let devices = profile.devices(whole_name);
        let accounts = Accounts::new(devices.iter().map(|device| device.memory_bytes));
        let (chunks, history) = (Chunks::default(), History::default());
        let books = Books { accounts, chunks, history, last_session: 0 };
        let board = Board::new(&devices, early);
        Self {
            name: name.to_owned(),
            driver: profile.driver_version.clone(),
            engines: Engines::new(&devices),
            devices,
            board,
            life,
            pattern: PatternFile::default(),
            books: Mutex::new(books),
            shelf: Shelf::default(),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open(&self, pid: u32) -> Session {
        let mut books = self.books();
        books.last_session += 1;
        let session = books.last_session;
        books.accounts.open(session, pid);
        session
    }

    pub(crate) fn close(&self, session: Session) {
        self.engines.close(session);
        let mut books = self.books();
        if let Some(pid) = books.accounts.close(session) {
            books.history.ended(pid, SystemTime::now());
        }
        let freed = books.chunks.close(session);
        books.put_back(freed);
        drop(books);
        self.shelf.close(session);
    }

    /// Processes that have a connection, without the one that asks.
    pub(crate) fn clients(&self, asking: u32) -> Vec<u32> {
        self.books().accounts.pids().into_iter().filter(|pid| *pid != asking).collect()
    }

    /// What accounting has kept.
    pub(crate) fn past_and_present(&self, device: u32) -> Result<Vec<Account>, Refusal> {
        let mut books = self.books();
        books.note(device)?;
        Ok(books.history.of(device, SystemTime::now()))
    }

    /// Frees chunks whose last exported descriptor was closed somewhere, and ends overdue turns.
    pub(crate) fn sweep(&self) {
        self.engines.overdue();
        self.books().sweep();
    }

    pub(crate) fn pattern(&self) -> Answer {
        let file = self.pattern.get().map_err(|_| Refusal::Host)?;
        Ok((Reply::Done, Some(file)))
    }

    pub(crate) fn charge(
        &self,
        session: Session,
        device: u32,
        charge: Charge,
        bytes: u64,
    ) -> Answer {
        self.board.answers(device)?;
        let mut books = self.books();
        match books.accounts.charge(session, device, charge, bytes) {
            // An exported chunk that nobody has any more may be what is missing.
            Err(Refusal::OutOfMemory) => {
                books.sweep();
                books.accounts.charge(session, device, charge, bytes)?;
            }
            other => other?,
        }
        books.note_one(session, device);
        Ok((Reply::Done, None))
    }

    pub(crate) fn release(
        &self,
        session: Session,
        device: u32,
        charge: Charge,
        bytes: u64,
    ) -> Answer {
        self.books().accounts.release(session, device, charge, bytes)?;
        Ok((Reply::Done, None))
    }

    pub(crate) fn room(&self, device: u32) -> Answer {
        let mut books = self.books();
        books.sweep();
        let (free_bytes, total_bytes) = books.accounts.room(device)?;
        Ok((Reply::Room { free_bytes, total_bytes }, None))
    }

    pub(crate) fn make_chunk(&self, session: Session, device: u32, bytes: u64) -> Answer {
        self.board.answers(device)?;
        let warm = {
            let mut books = self.books();
            books.sweep();
            books.accounts.take(device, bytes)?;
            books.chunks.reuse(bytes)
        };
        self.provide_chunk(session, device, bytes, warm)
    }

    /// The session's plain memory becomes a chunk: at no moment could others take it.
    pub(crate) fn convert(&self, session: Session, device: u32, bytes: u64) -> Answer {
        let warm = {
            let mut books = self.books();
            books.accounts.release(session, device, Charge::Memory, bytes)?;
            books.accounts.take(device, bytes)?;
            books.chunks.reuse(bytes)
        };
        self.provide_chunk(session, device, bytes, warm)
    }

    /// Memory for a chunk that is charged already.
    fn provide_chunk(
        &self,
        session: Session,
        device: u32,
        bytes: u64,
        warm: Option<OwnedFd>,
    ) -> Answer {
        let file = warm.map_or_else(|| pattern::memory_file("simcuda-chunk", bytes), Ok);
        let file = file.and_then(|file| pattern::fill(file.as_fd(), bytes).map(|()| file));
        let copy = file.and_then(|file| file.try_clone().map(|copy| (file, copy)));
        let mut books = self.books();
        let Ok((file, copy)) = copy else {
            books.accounts.put_back(device, bytes);
            return Err(Refusal::Host);
        };
        let chunk = books.chunks.insert(session, device, bytes, file);
        books.note_one(session, device);
        Ok((Reply::Chunk { chunk, device, bytes }, Some(copy)))
    }

    pub(crate) fn drop_chunk(&self, session: Session, chunk: u64) -> Answer {
        let mut books = self.books();
        if !books.chunks.held_by(chunk, session) {
            return Err(Refusal::NoSuchChunk);
        }
        let freed = books.chunks.drop_hold(chunk, session);
        books.put_back(freed);
        Ok((Reply::Done, None))
    }

    pub(crate) fn export_chunk(&self, session: Session, chunk: u64) -> Answer {
        let mut books = self.books();
        if !books.chunks.held_by(chunk, session) {
            return Err(Refusal::NoSuchChunk);
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|_| Refusal::Host)?;
        let inode = rustix::fs::fstat(&read).map_err(|_| Refusal::Host)?.st_ino;
        books.chunks.add_export(chunk, write, inode);
        Ok((Reply::Done, Some(read)))
    }

    pub(crate) fn import_chunk(&self, session: Session, descriptor: BorrowedFd<'_>) -> Answer {
        let inode = rustix::fs::fstat(descriptor).map_err(|_| Refusal::NoSuchChunk)?.st_ino;
        let mut books = self.books();
        let (chunk, found) = books.chunks.import(inode, session).ok_or(Refusal::NoSuchChunk)?;
        let (file, device, bytes) = (Arc::clone(&found.file), found.device, found.bytes);
        drop(books);
        let file = file.try_clone().map_err(|_| Refusal::Host)?;
        Ok((Reply::Chunk { chunk, device, bytes }, Some(file)))
    }

    pub(crate) fn usage(&self, device: u32) -> Answer {
        let mut books = self.books();
        books.sweep();
        let chunks = books.chunks.answering(device);
        Ok((Reply::Usage(books.accounts.usage(device, &chunks)?), None))
    }
}

impl Books {
    fn sweep(&mut self) {
        let freed = self.chunks.sweep();
        self.put_back(freed);
    }

    /// Tells the history what all processes hold of the card.
    fn note(&mut self, device: u32) -> Result<(), Refusal> {
        let chunks = self.chunks.answering(device);
        let now = SystemTime::now();
        for process in self.accounts.usage(device, &chunks)?.processes {
            self.history.holds(device, process.pid, process.used_bytes, now);
        }
        Ok(())
    }

    /// Tells the history what the session's process holds of the card.
    fn note_one(&mut self, session: Session, device: u32) {
        let chunks = self.chunks.answering(device);
        if let Some((pid, bytes)) = self.accounts.held_with(session, device, &chunks) {
            self.history.holds(device, pid, bytes, SystemTime::now());
        }
    }

    fn put_back(&mut self, freed: impl IntoIterator<Item = (u32, u64)>) {
        for (device, bytes) in freed {
            self.accounts.put_back(device, bytes);
        }
    }
}
