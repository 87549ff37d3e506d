//! Small allocations share chunks. Arithmetic only: an arena knows addresses, not memory.

use std::collections::BTreeMap;

/// Sizes are rounded up to this, as the driver rounds.
pub(crate) const GRAIN_BYTES: u64 = 512;

#[derive(Debug)]
struct Chunk {
    bytes: u64,
    used_bytes: u64,
    /// Free stretches: offset and length, never touching each other.
    free: BTreeMap<u64, u64>,
}

/// Chunks by their base.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    chunks: BTreeMap<u64, Chunk>,
}

impl Arena {
    pub(crate) const fn new() -> Self {
        Self { chunks: BTreeMap::new() }
    }

    pub(crate) fn add_chunk(&mut self, base: u64, bytes: u64) {
        let chunk = Chunk { bytes, used_bytes: 0, free: BTreeMap::from([(0, bytes)]) };
        self.chunks.insert(base, chunk);
    }

    /// A free stretch of `bytes` (a multiple of the grain), the tightest that fits.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let fitting = self.chunks.iter().flat_map(|(base, chunk)| {
            chunk
                .free
                .iter()
                .filter(|(_, length)| **length >= bytes)
                .map(move |(o, l)| (*l, *base, *o))
        });
        let (length, base, offset) = fitting.min()?;
        let chunk = self.chunks.get_mut(&base)?;
        chunk.free.remove(&offset);
        if length > bytes {
            chunk.free.insert(offset + bytes, length - bytes);
        }
        chunk.used_bytes += bytes;
        Some(base + offset)
    }

    /// Gives a stretch back. Says the chunk, if nothing of it is used any more.
    pub(crate) fn give(&mut self, address: u64, bytes: u64) -> Option<(u64, u64)> {
        let (base, chunk) = self.chunks.range_mut(..=address).next_back()?;
        let mut offset = address - base;
        let mut length = bytes;
        if let Some((before, reach)) = chunk.free.range(..offset).next_back().map(|(o, l)| (*o, *l))
            && before + reach == offset
        {
            chunk.free.remove(&before);
            (offset, length) = (before, length + reach);
        }
        if let Some(reach) = chunk.free.remove(&(offset + length)) {
            length += reach;
        }
        chunk.free.insert(offset, length);
        chunk.used_bytes -= bytes;
        (chunk.used_bytes == 0).then_some((*base, chunk.bytes))
    }

    /// The chunk that the address lies in.
    pub(crate) fn chunk_at(&self, address: u64) -> Option<(u64, u64)> {
        let (base, chunk) = self.chunks.range(..=address).next_back()?;
        (address < base + chunk.bytes).then_some((*base, chunk.bytes))
    }

    pub(crate) fn remove_chunk(&mut self, base: u64) {
        self.chunks.remove(&base);
    }

    /// Chunks that nothing is taken of.
    pub(crate) fn unused(&self) -> Vec<(u64, u64)> {
        let unused = self.chunks.iter().filter(|(_, chunk)| chunk.used_bytes == 0);
        unused.map(|(base, chunk)| (*base, chunk.bytes)).collect()
    }

    /// Forgets all chunks and says what they were.
    pub(crate) fn drain(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.chunks)
            .into_iter()
            .map(|(base, chunk)| (base, chunk.bytes))
            .collect()
    }

    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.chunks.values().map(|chunk| chunk.bytes).sum()
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.chunks.values().map(|chunk| chunk.used_bytes).sum()
    }
}
