//! `malloc` and `free` of device code, in a module variable: blocks one after the other, each with its
//! size before it, and a list of those that were given back. What a kernel writes over them can make
//! it lose blocks; it cannot make this file go astray.

use crate::decode::HEAP_BYTES;
use crate::{Fault, Memory};

/// Before each block: its size, and the next free block while it is free.
const HEADER_BYTES: u64 = 16;
/// At the beginning: the end of what was ever given out, and the first free block.
const END_AT: u64 = 0;
const FREE_AT: u64 = 8;
const FIRST: u64 = 16;
/// Free blocks looked at before the heap grows.
const MOST_LOOKS: usize = 256;

pub(super) struct Heap<'a> {
    pub(super) memory: &'a dyn Memory,
    pub(super) base: u64,
}

impl Heap<'_> {
    fn get(&self, at: u64) -> Result<u64, Fault> {
        let mut word = [0; 8];
        self.memory.read(self.base.wrapping_add(at), &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    fn put(&self, at: u64, value: u64) -> Result<(), Fault> {
        self.memory.write(self.base.wrapping_add(at), &value.to_le_bytes())
    }

    /// Whether a block may begin here.
    fn is_block(at: u64) -> bool {
        at >= FIRST && at.is_multiple_of(16) && at < HEAP_BYTES as u64 - HEADER_BYTES
    }

    /// The address of a new block, or 0.
    pub(super) fn allocate(&self, bytes: u64) -> Result<u64, Fault> {
        let Some(bytes) = bytes.max(1).checked_next_multiple_of(16) else { return Ok(0) };
        let mut link = FREE_AT;
        for _ in 0..MOST_LOOKS {
            let block = self.get(link)?;
            if !Self::is_block(block) {
                break;
            }
            if self.get(block)? >= bytes && self.get(block)? < HEAP_BYTES as u64 {
                self.put(link, self.get(block + 8)?)?;
                return Ok(self.base + block + HEADER_BYTES);
            }
            link = block + 8;
        }
        let block = self.get(END_AT)?.max(FIRST) & !15;
        let end = block.saturating_add(HEADER_BYTES).saturating_add(bytes);
        if end > HEAP_BYTES as u64 {
            return Ok(0);
        }
        self.put(END_AT, end)?;
        self.put(block, bytes)?;
        Ok(self.base + block + HEADER_BYTES)
    }

    pub(super) fn free(&self, address: u64) -> Result<(), Fault> {
        let block = address.wrapping_sub(self.base).wrapping_sub(HEADER_BYTES);
        if address == 0 || !Self::is_block(block) {
            return Ok(());
        }
        self.put(block + 8, self.get(FREE_AT)?)?;
        self.put(FREE_AT, block)
    }
}
