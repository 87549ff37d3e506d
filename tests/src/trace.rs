//! Stopping or killing a process of ours at a crash label: breakpoints set by ptrace where the ELF
//! notes of the binary say (see the `halfwarp-label` crate). The traced program needs no switch and
//! is the same build that users run.
//!
//! ptrace belongs to a thread: a [`Traced`] stays on the thread that made it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::c_void,
    fs,
    io::{self, Read, Seek, SeekFrom, Write},
    marker::PhantomData,
    path::{Path, PathBuf},
    ptr,
    time::{Duration, Instant},
};

use crate::steps::{registers, stopped_by_instruction};

/// What a traced process did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reached {
    /// A thread stands at this label.
    Label(String),
    /// The process has ended.
    Ended,
}

/// A process that we trace with all its threads, those it starts later too.
#[derive(Debug)]
pub struct Traced {
    pid: i32,
    /// Every thread that is traced. Only these are waited for: the test has children of its own.
    threads: BTreeSet<i32>,
    /// Address of each breakpoint, and its label.
    labels: BTreeMap<u64, String>,
    /// The thread that stands at a label.
    stopped: Option<i32>,
    stays: PhantomData<*const ()>,
}

impl Traced {
    /// Begins to trace a running process.
    ///
    /// # Errors
    /// What the kernel says; a process that is gone, or no right to trace it.
    pub fn seize(pid: u32) -> io::Result<Self> {
        let pid = i32::try_from(pid).map_err(io::Error::other)?;
        let mut threads = BTreeSet::new();
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            let tid = entry?.file_name().to_string_lossy().parse().map_err(io::Error::other)?;
            ptrace(libc::PTRACE_SEIZE, tid, libc::PTRACE_O_TRACECLONE as u64)?;
            threads.insert(tid);
        }
        let labels = BTreeMap::new();
        Ok(Self { pid, threads, labels, stopped: None, stays: PhantomData })
    }

    /// Sets a breakpoint at a label of a file that the process has mapped.
    ///
    /// # Errors
    /// If the file has no such label or is not mapped.
    pub fn stop_at(&mut self, file: &Path, label: &str) -> io::Result<()> {
        let notes = labels_of(file)?;
        let offset = notes
            .get(label)
            .ok_or_else(|| io::Error::other(format!("{} has no label {label}", file.display())))?;
        let address = base_of(self.pid, file)? + offset;
        let mut memory = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{}/mem", self.pid))?;
        memory.seek(SeekFrom::Start(address))?;
        let mut there = [0];
        memory.read_exact(&mut there)?;
        assert_eq!(there, [0x90], "a label begins with a nop");
        memory.seek(SeekFrom::Start(address))?;
        memory.write_all(&[0xcc])?;
        self.labels.insert(address, label.to_owned());
        Ok(())
    }

    /// Lets the process run until a label is reached or it ends. After a stop the thread goes on
    /// behind the label: what the breakpoint replaced did nothing.
    ///
    /// # Errors
    /// If neither happens before the deadline.
    pub fn run(&mut self, deadline: Duration) -> io::Result<Reached> {
        let stop = self.run_until(deadline, |traced, tid, status| traced.label_at(tid, status))?;
        Ok(stop.map_or(Reached::Ended, |(_, label)| Reached::Label(label)))
    }

    /// Lets the process run to a breakpoint of its own; the thread that stands there.
    pub(crate) fn run_to_own_stop(&mut self, deadline: Duration) -> io::Result<i32> {
        let stop = self.run_until(deadline, |_, tid, status| {
            let trapped = libc::WSTOPSIG(status) == libc::SIGTRAP && status >> 16 == 0;
            Ok((trapped && stopped_by_instruction(tid)?).then_some(()))
        })?;
        stop.map(|(tid, ())| tid).ok_or_else(|| io::Error::other("the process has ended"))
    }

    /// Runs until a stop of some thread is one that `wanted` wants; `None` if the process ends.
    fn run_until<T>(
        &mut self,
        deadline: Duration,
        wanted: impl Fn(&Self, i32, i32) -> io::Result<Option<T>>,
    ) -> io::Result<Option<(i32, T)>> {
        if let Some(tid) = self.stopped.take() {
            ptrace(libc::PTRACE_CONT, tid, 0)?;
        }
        let until = Instant::now() + deadline;
        loop {
            for tid in self.threads.clone() {
                match wait_now(tid) {
                    Some(status) if libc::WIFSTOPPED(status) => {
                        if let Some(found) = wanted(self, tid, status)? {
                            self.stopped = Some(tid);
                            return Ok(Some((tid, found)));
                        }
                        self.go_on(tid, status);
                    }
                    Some(_) => _ = self.threads.remove(&tid),
                    None => {}
                }
            }
            if self.threads.is_empty() {
                return Ok(None);
            }
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// A thread was brought to a stop by other means than running.
    pub(crate) fn stands(&mut self, tid: i32) {
        self.stopped = Some(tid);
    }

    /// Continues every other thread that has stopped.
    pub(crate) fn let_others_go_on(&mut self, but: i32) {
        for tid in self.threads.clone().into_iter().filter(|tid| *tid != but) {
            match wait_now(tid) {
                Some(status) if libc::WIFSTOPPED(status) => self.go_on(tid, status),
                Some(_) => _ = self.threads.remove(&tid),
                None => {}
            }
        }
    }

    /// Continues a thread that stopped for a reason that is not ours, and takes note of one that it
    /// has just started.
    fn go_on(&mut self, tid: i32, status: i32) {
        if status >> 16 == libc::PTRACE_EVENT_CLONE {
            let mut started: libc::c_ulong = 0;
            // SAFETY: a stopped tracee of this thread, a writable number.
            let done = unsafe {
                libc::ptrace(
                    libc::PTRACE_GETEVENTMSG,
                    tid,
                    ptr::null_mut::<c_void>(),
                    &raw mut started,
                )
            };
            if let (0, Ok(started)) = (done, i32::try_from(started)) {
                self.threads.insert(started);
            }
        }
        // A thread that has died meanwhile needs no telling.
        let _ = ptrace(libc::PTRACE_CONT, tid, passed_on(status));
    }

    /// The label at which a thread has just stopped.
    fn label_at(&self, tid: i32, status: i32) -> io::Result<Option<String>> {
        if libc::WSTOPSIG(status) != libc::SIGTRAP || status >> 16 != 0 {
            return Ok(None);
        }
        let registers = registers(tid)?;
        Ok(self.labels.get(&(registers.rip - 1)).cloned())
    }

    /// Kills the process where it stands.
    pub fn kill(mut self) {
        // SAFETY: no pointer is passed.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        // Its own parent hears of the end only when its tracer has.
        while !self.threads.is_empty() {
            self.threads.retain(|tid| wait_now(*tid).is_none_or(|status| libc::WIFSTOPPED(status)));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The status of a thread that has changed its state, or that of an end for one that is gone.
pub(crate) fn wait_now(tid: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: a writable status.
    match unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) } {
        0 => None,
        done if done == tid => Some(status),
        _ => Some(0),
    }
}

/// The signal that a stopped thread is to be continued with.
fn passed_on(status: i32) -> u64 {
    let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
    if event != 0 || signal == libc::SIGTRAP { 0 } else { u64::from(signal.unsigned_abs()) }
}

pub(crate) fn ptrace(request: u32, tid: i32, data: u64) -> io::Result<()> {
    // SAFETY: requests without pointers; a wrong tid is an error.
    let done = unsafe { libc::ptrace(request, tid, ptr::null_mut::<c_void>(), data) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Where the kernel has mapped the beginning of a file in a process.
fn base_of(pid: i32, file: &Path) -> io::Result<u64> {
    let file = fs::canonicalize(file)?;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let line = maps.lines().find(|line| line.ends_with(&*file.to_string_lossy()));
    let start = line.and_then(|line| line.split('-').next());
    start
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .ok_or_else(|| io::Error::other(format!("{pid} has not mapped {}", file.display())))
}

/// The labels of a binary, by name, with their addresses as linked.
///
/// # Errors
/// If the file is not one of ours.
pub fn labels_of(file: &Path) -> io::Result<BTreeMap<String, u64>> {
    let bytes = fs::read(file)?;
    let section = note_section(&bytes)
        .ok_or_else(|| io::Error::other(format!("{} has no labels", file.display())))?;
    let word = |at: usize| {
        let four = section.get(at..at + 4)?;
        four.try_into().ok().map(|b| u32::from_le_bytes(b) as usize)
    };
    let mut labels = BTreeMap::new();
    let mut at = 0;
    while let (Some(name), Some(text)) = (word(at), word(at + 4)) {
        let start = at + 12 + name.next_multiple_of(4);
        let Some(descriptor) = section.get(start..start + text) else { break };
        let (address, name) = descriptor.split_at(8.min(descriptor.len()));
        let address = address.try_into().map_or(0, u64::from_le_bytes);
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        // Labels of the table that this binary does not call were dropped by the linker.
        if address != 0 {
            labels.insert(name, address);
        }
        at = start + text.next_multiple_of(4);
    }
    Ok(labels)
}

/// The bytes of `.note.halfwarp` in a 64-bit little-endian ELF file.
fn note_section(bytes: &[u8]) -> Option<&[u8]> {
    let half =
        |at: usize| Some(usize::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let word =
        |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    let long = |at: usize| {
        usize::try_from(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?)).ok()
    };
    let (table, entry, count, names) = (long(0x28)?, half(0x3a)?, half(0x3c)?, half(0x3e)?);
    let section = |i: usize| {
        let at = table + i * entry;
        Some((word(at)?, long(at + 0x18)?, long(at + 0x20)?))
    };
    let (_, texts, _) = section(names)?;
    (0..count).find_map(|i| {
        let (name, offset, size) = section(i)?;
        let text = bytes.get(texts + name..)?.split(|b| *b == 0).next()?;
        (text == b".note.halfwarp").then(|| bytes.get(offset..offset + size))?
    })
}

/// A built binary of ours, for [`Traced::stop_at`].
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    crate::artefact(name)
}
