//! Chunks of host memory: made for one process, sealed against any change of size, filled with zeros by
//! the kernel, and freed by the broker alone. Which process gets how much is the core's decision.
//!
//! A chunk that is given up is punched out before its descriptor is closed: whoever kept a descriptor or
//! a mapping of it finds zeros there, and its memory is free.

use std::{collections::VecDeque, io, os::fd::OwnedFd, sync::Arc};

use halfwarp_broker_core::PageRef;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::io::Errno;

use crate::desk::Desk;

/// A chunk that a process has.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) memory: OwnedFd,
    pub(crate) bytes: u64,
}

/// Work that takes its time: the kernel clears every page.
#[derive(Debug)]
pub(crate) enum Work {
    Make { at: PageRef, chunk: u32, bytes: u64 },
    Free(Chunk),
}

/// What waits to be done, in order.
pub(crate) type Queue = VecDeque<Work>;

/// Chunks of one process, by number.
pub(crate) type Chunks = std::collections::BTreeMap<u32, Chunk>;

/// Makes and frees chunks in the background, one at a time.
pub(crate) async fn serve(desk: Arc<Desk>) {
    loop {
        while let Some(work) = desk.next_chunk_work() {
            match work {
                Work::Make { at, chunk, bytes } => {
                    let made = tokio::task::spawn_blocking(move || make(bytes)).await;
                    let made = made.unwrap_or_else(|error| Err(io::Error::other(error)));
                    if let Err(error) = &made {
                        tracing::warn!(bytes, %error, "host memory for copies could not be had");
                    }
                    desk.chunk_made(at, chunk, made.ok());
                }
                Work::Free(chunk) => {
                    // It fails only if the broker is ending.
                    let _ = tokio::task::spawn_blocking(move || free(&chunk)).await;
                }
            }
        }
        desk.chunk_work.notified().await;
    }
}

fn make(bytes: u64) -> io::Result<Chunk> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = match memfd_create(c"halfwarp-chunk", flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3 there is no such flag.
        Err(Errno::INVAL) => memfd_create(c"halfwarp-chunk", flags),
        made => made,
    }?;
    ftruncate(&memory, bytes)?;
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    // Now, so that it is the broker's memory and not missing in the middle of a move.
    fallocate(&memory, FallocateFlags::empty(), 0, bytes)?;
    Ok(Chunk { memory, bytes })
}

fn free(chunk: &Chunk) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    if let Err(error) = fallocate(&chunk.memory, hole, 0, chunk.bytes) {
        tracing::warn!(%error, "host memory of copies could not be freed");
    }
}

/// Chunks that nobody has any more.
pub(crate) fn all_of(chunks: Chunks) -> impl Iterator<Item = Work> {
    chunks.into_values().map(Work::Free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::{fs::fcntl_get_seals, io::pread, io::pwrite};

    #[test]
    fn a_chunk_s_size_is_sealed_and_what_lay_in_a_freed_one_is_gone() {
        let chunk = make(4 << 20).expect("made");
        let seals = fcntl_get_seals(&chunk.memory).expect("seals");
        assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
        assert!(!seals.contains(SealFlags::WRITE));
        assert_eq!(ftruncate(&chunk.memory, 0), Err(Errno::PERM));
        let blocks = |chunk: &Chunk| rustix::fs::fstat(&chunk.memory).expect("stat").st_blocks;
        assert_eq!(blocks(&chunk) * 512, 4 << 20, "populated");
        let kept = chunk.memory.try_clone().expect("a copy that somebody keeps");
        pwrite(&kept, b"secret", 0).expect("written");
        free(&chunk);
        let mut read = [1; 6];
        pread(&kept, &mut read, 0).expect("read");
        assert_eq!((read, blocks(&chunk)), ([0; 6], 0));
    }
}
