//! Sleeping and waking: futexes on words of the shared pages, our thread's own bell, and which threads
//! still live. Like `sys`, these are libc calls wrapped so that the rest need not say unsafe.

use std::{
    ffi::{c_int, c_void},
    io,
    os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// `CLOCK_MONOTONIC`, as the broker's page has it.
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a writable time; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(time.subsec_nanos().cast_signed()),
    }
}

/// Sleeps while `word` reads `seen`, at most this long. The page may be read-only.
pub(crate) fn while_equal(word: &AtomicU32, seen: u32, at_most: Duration) {
    let time = timespec(at_most);
    // SAFETY: a live word and time; every outcome means that the caller looks again. The futex is a
    // shared one: the broker wakes it.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &raw const time);
    }
}

/// Wakes every thread of this machine that sleeps on `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: a live word, which is not written.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, c_int::MAX) };
}

/// This thread's id.
pub(crate) fn own_tid() -> u32 {
    // SAFETY: no argument.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Whether a thread of this process still lives.
pub(crate) fn is_alive(tid: u32) -> bool {
    // SAFETY: no argument.
    let pid = unsafe { libc::getpid() };
    // SAFETY: signal 0 is none: it only asks.
    let done = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid as libc::pid_t, 0) };
    done == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Runs `at_end` when the process ends by `exit`, before what was registered earlier.
pub(crate) fn at_exit(at_end: extern "C" fn()) {
    // SAFETY: a function of this file's library, which is never unloaded. If there is no room for
    // it, the process ends as it would without us.
    unsafe { libc::atexit(at_end) };
}

/// A pipe by which the program's threads wake ours. The program may close any descriptor, also these:
/// each is used only while what lies there is still the pipe we made.
#[derive(Debug)]
pub(crate) struct Bell {
    read: RawFd,
    write: RawFd,
    inode: u64,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        let [read, write] = ends.map(|raw| {
            // SAFETY: just made, owned by nobody else.
            unsafe { OwnedFd::from_raw_fd(raw) }
        });
        let inode = inode_of_pipe(read.as_raw_fd()).ok_or(io::ErrorKind::NotConnected)?;
        // Kept until the process ends.
        Ok(Self { read: read.into_raw_fd(), write: write.into_raw_fd(), inode })
    }

    /// Wakes our thread; it looks by itself before long where the pipe is gone.
    pub(crate) fn ring(&self) {
        if inode_of_pipe(self.write) == Some(self.inode) {
            // SAFETY: one readable byte; a full pipe has rung already.
            unsafe { libc::write(self.write, [0u8].as_ptr().cast(), 1) };
        }
    }

    /// Waits until the bell rings, `socket` can be read, or the time is up. Whether `socket` can.
    pub(crate) fn wait(&self, socket: RawFd, at_most: Duration) -> bool {
        let ours = inode_of_pipe(self.read) == Some(self.inode);
        let watch = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // A negative number is passed over.
        let mut both = [watch(socket), watch(if ours { self.read } else { -1 })];
        let time = timespec(at_most);
        // SAFETY: two entries and a time; no signal mask.
        unsafe { libc::ppoll(both.as_mut_ptr(), 2, &raw const time, ptr::null()) };
        let [socket, bell] = both;
        if bell.revents != 0 {
            let mut bytes = [0u8; 64];
            // SAFETY: writable for its length; the pipe does not block.
            unsafe { libc::read(self.read, bytes.as_mut_ptr().cast::<c_void>(), bytes.len()) };
        }
        socket.revents != 0
    }
}

/// The inode of the pipe behind a descriptor, if a pipe is what is there.
fn inode_of_pipe(descriptor: RawFd) -> Option<u64> {
    // SAFETY: all-zero is a valid stat buffer.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: any number may be asked about; the buffer is of the right type.
    let done = unsafe { libc::fstat(descriptor, &raw mut stat) };
    (done == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFIFO).then_some(stat.st_ino)
}

/// Set when the program has begun to end: nobody waits at a gate any more.
static ENDING: AtomicU32 = AtomicU32::new(0);

/// Whether the program has begun to end.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed) != 0
}

/// The program begins to end.
pub(crate) fn set_ending() {
    ENDING.store(1, Ordering::Relaxed);
}
