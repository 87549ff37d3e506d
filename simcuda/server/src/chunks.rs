//! Memory that can be shared between processes, and who keeps it alive.
//!
//! A chunk is a memory file. It lives while a session holds it, or while anybody anywhere has a
//! descriptor that was exported for it: such a descriptor is the read end of a pipe whose write
//! end is kept here, so the kernel tells when the last copy is closed, in whatever process.

use crate::accounts::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Freed memory is kept warm for the next chunk of its size, up to this much.
const KEPT_BYTES: u64 = 1 << 30;

#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) device: u32,
    pub(crate) bytes: u64,
    /// In the order in which they came; the first one answers for the bytes in reports.
    holders: Vec<Session>,
    exports: Vec<Export>,
}

/// The write end of an export's pipe, and the pipe's number on this host.
#[derive(Debug)]
struct Export {
    pipe: OwnedFd,
    inode: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Chunks {
    live: HashMap<u64, Chunk>,
    kept: Vec<(u64, OwnedFd)>,
    last: u64,
}

impl Chunks {
    /// A warm file of this size, if one is kept.
    pub(crate) fn reuse(&mut self, bytes: u64) -> Option<OwnedFd> {
        let at = self.kept.iter().position(|(kept, _)| *kept == bytes)?;
        Some(self.kept.swap_remove(at).1)
    }

    pub(crate) fn insert(
        &mut self,
        holder: Session,
        device: u32,
        bytes: u64,
        file: OwnedFd,
    ) -> u64 {
        self.last += 1;
        let chunk = Chunk {
            file: Arc::new(file),
            device,
            bytes,
            holders: vec![holder],
            exports: Vec::new(),
        };
        self.live.insert(self.last, chunk);
        self.last
    }

    pub(crate) fn held_by(&self, number: u64, session: Session) -> bool {
        self.live.get(&number).is_some_and(|chunk| chunk.holders.contains(&session))
    }

    pub(crate) fn add_export(&mut self, number: u64, pipe: OwnedFd, inode: u64) {
        if let Some(chunk) = self.live.get_mut(&number) {
            chunk.exports.push(Export { pipe, inode });
        }
    }

    /// The chunk that an exported descriptor stands for; the session now holds it too.
    pub(crate) fn import(&mut self, inode: u64, session: Session) -> Option<(u64, &Chunk)> {
        let stands_for = |chunk: &Chunk| chunk.exports.iter().any(|export| export.inode == inode);
        let number = self.live.iter().find(|(_, chunk)| stands_for(chunk)).map(|(n, _)| *n)?;
        let chunk = self.live.get_mut(&number)?;
        chunk.holders.push(session);
        Some((number, chunk))
    }

    /// The session drops the chunk once. Says what came free, if anything.
    pub(crate) fn drop_hold(&mut self, number: u64, session: Session) -> Option<(u32, u64)> {
        let chunk = self.live.get_mut(&number)?;
        let at = chunk.holders.iter().position(|holder| *holder == session)?;
        chunk.holders.remove(at);
        self.free_if_alone(number)
    }

    /// The session is gone, with all that it held.
    pub(crate) fn close(&mut self, session: Session) -> Vec<(u32, u64)> {
        for chunk in self.live.values_mut() {
            chunk.holders.retain(|holder| *holder != session);
        }
        self.sweep()
    }

    /// Forgets exports that nobody has any more, and frees what nothing keeps alive.
    pub(crate) fn sweep(&mut self) -> Vec<(u32, u64)> {
        let numbers: Vec<u64> = self.live.keys().copied().collect();
        for chunk in self.live.values_mut() {
            chunk.exports.retain(|export| has_reader(&export.pipe));
        }
        numbers.into_iter().filter_map(|number| self.free_if_alone(number)).collect()
    }

    fn free_if_alone(&mut self, number: u64) -> Option<(u32, u64)> {
        let chunk = self.live.get(&number)?;
        if !chunk.holders.is_empty() || !chunk.exports.is_empty() {
            return None;
        }
        let chunk = self.live.remove(&number)?;
        let kept: u64 = self.kept.iter().map(|(bytes, _)| bytes).sum();
        if kept + chunk.bytes <= KEPT_BYTES
            && let Some(file) = Arc::into_inner(chunk.file)
        {
            self.kept.push((chunk.bytes, file));
        }
        Some((chunk.device, chunk.bytes))
    }

    /// Which session answers for how much on the device.
    pub(crate) fn answering(&self, device: u32) -> Vec<(Session, u64)> {
        let here = self.live.values().filter(|chunk| chunk.device == device);
        here.filter_map(|chunk| Some((*chunk.holders.first()?, chunk.bytes))).collect()
    }
}

/// A pipe without a reader says so at its write end.
fn has_reader(pipe: &OwnedFd) -> bool {
    let mut ends = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut ends, Some(&now)) {
        Ok(_) => !ends[0].revents().contains(PollFlags::ERR),
        Err(_) => true,
    }
}
