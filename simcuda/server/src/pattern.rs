//! Files full of the pattern that never-written device memory reads as.

use rustix::fs::{MemfdFlags, SealFlags};
use simcuda_protocol::{PATTERN, PATTERN_FILE_BYTES};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

/// The one file that all private memory is mapped from; made when first asked for, never changed.
#[derive(Debug, Default)]
pub(crate) struct PatternFile(Mutex<Option<OwnedFd>>);

impl PatternFile {
    pub(crate) fn get(&self) -> io::Result<OwnedFd> {
        let mut file = self.0.lock().map_err(|_| io::Error::other("an earlier attempt failed"))?;
        if file.is_none() {
            let made = memory_file("simcuda-pattern", PATTERN_FILE_BYTES)?;
            fill(made.as_fd(), PATTERN_FILE_BYTES)?;
            let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
            rustix::fs::fcntl_add_seals(&made, seals)?;
            *file = Some(made);
        }
        match &*file {
            Some(made) => made.try_clone(),
            None => Err(io::Error::other("no pattern file")),
        }
    }
}

/// Memory with a descriptor, of one size for good.
pub(crate) fn memory_file(name: &str, bytes: u64) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, bytes)?;
    Ok(file)
}

/// Overwrites all of the file, so that nothing of its last holder is left.
pub(crate) fn fill(file: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    const PIECE: usize = 1 << 20;
    let piece = PATTERN.repeat(PIECE / PATTERN.len());
    let mut at = 0;
    while at < bytes {
        let left = usize::try_from(bytes - at).unwrap_or(PIECE).min(PIECE);
        let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(file, &piece[..left], at))?;
        at += written as u64;
    }
    Ok(())
}
