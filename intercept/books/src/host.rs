//! Room for host copies: which parts of which chunks are in use. A chunk is host memory that the
//! broker made for this tenant; a copy may lie in several parts, because what is free need not be in
//! one piece.

use std::collections::BTreeMap;

/// A chunk, by a number of this process's own.
pub type Chunk = u32;

/// A part of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    pub chunk: Chunk,
    pub offset: u64,
    pub bytes: u64,
}

/// The chunks of one card.
#[derive(Debug, Default)]
pub struct Room {
    chunks: BTreeMap<Chunk, Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    bytes: u64,
    used: u64,
    /// Offset to length; neighbours are joined.
    free: BTreeMap<u64, u64>,
    /// Nothing more is put here.
    leaves: bool,
}

impl Room {
    /// A chunk has come.
    pub fn enter(&mut self, chunk: Chunk, bytes: u64) {
        let free = BTreeMap::from([(0, bytes)]);
        self.chunks.insert(chunk, Parts { bytes, used: 0, free, leaves: false });
    }

    /// Nothing more is to be put into a chunk.
    pub fn begin_leave(&mut self, chunk: Chunk) {
        if let Some(parts) = self.chunks.get_mut(&chunk) {
            parts.leaves = true;
        }
    }

    /// Takes a chunk out if nothing lies in it, or it is not known.
    pub fn leave(&mut self, chunk: Chunk) -> bool {
        if self.chunks.get(&chunk).is_some_and(|parts| parts.used > 0) {
            return false;
        }
        self.chunks.remove(&chunk);
        true
    }

    /// Room for `bytes`, in as few parts as come first; `None`, with nothing taken, if there is not so
    /// much.
    pub fn take(&mut self, bytes: u64) -> Option<Vec<Extent>> {
        if self.free_bytes() < bytes {
            return None;
        }
        let (mut left, mut taken) = (bytes, Vec::new());
        for (chunk, parts) in self.chunks.iter_mut().filter(|(_, parts)| !parts.leaves) {
            while left > 0
                && let Some((offset, length)) = parts.free.pop_first()
            {
                let part = length.min(left);
                if part < length {
                    parts.free.insert(offset + part, length - part);
                }
                parts.used += part;
                left -= part;
                taken.push(Extent { chunk: *chunk, offset, bytes: part });
            }
        }
        Some(taken)
    }

    /// What lay there is not needed any more.
    pub fn give(&mut self, extents: &[Extent]) {
        for extent in extents {
            let Some(parts) = self.chunks.get_mut(&extent.chunk) else { continue };
            let (mut offset, mut bytes) = (extent.offset, extent.bytes);
            parts.used = parts.used.saturating_sub(bytes);
            if let Some((before, length)) = parts.free.range(..offset).next_back()
                && before + length == offset
            {
                (offset, bytes) = (*before, length + bytes);
            }
            if let Some(length) = parts.free.remove(&(offset + bytes)) {
                bytes += length;
            }
            parts.free.insert(offset, bytes);
        }
    }

    /// Bytes that can be taken.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let open = self.chunks.values().filter(|parts| !parts.leaves);
        open.map(|parts| parts.bytes - parts.used).sum()
    }

    /// Bytes in use.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.chunks.values().map(|parts| parts.used).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again_as_a_whole() {
        let mut room = Room::default();
        room.enter(1, 100);
        room.enter(2, 50);
        let (a, b) = (room.take(60).expect("room"), room.take(60).expect("room"));
        assert_eq!(b.len(), 2, "forty of the first chunk and twenty of the second");
        assert_eq!(room.take(31), None);
        assert_eq!(room.free_bytes(), 30, "a refusal takes nothing");
        room.give(&a);
        room.give(&b);
        assert_eq!(room.take(100).expect("room").len(), 1, "neighbours are joined");
    }

    #[test]
    fn a_chunk_leaves_once_nothing_lies_in_it() {
        let mut room = Room::default();
        room.enter(1, 100);
        let taken = room.take(10).expect("room");
        room.begin_leave(1);
        assert!(!room.leave(1));
        assert_eq!(room.take(1), None, "nothing more is put there");
        room.give(&taken);
        assert!(room.leave(1) && room.used_bytes() == 0);
    }
}
