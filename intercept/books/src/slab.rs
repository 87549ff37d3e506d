//! A slab: one piece of memory that many small allocations share. First fit, in steps of 512 bytes.

use std::collections::BTreeMap;

/// Every allocation begins at a multiple of this, as plain memory does.
const STEP_BYTES: u64 = 512;

/// What is free of one slab.
#[derive(Clone, Debug)]
pub(crate) struct Slab {
    /// Offset to length; neighbours are joined.
    free: BTreeMap<u64, u64>,
}

impl Slab {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { free: BTreeMap::from([(0, bytes)]) }
    }

    /// Takes `bytes` of it.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let wanted = whole(bytes);
        let (offset, length) = self.free.iter().find(|(_, length)| **length >= wanted)?;
        let (offset, length) = (*offset, *length);
        self.free.remove(&offset);
        if length > wanted {
            self.free.insert(offset + wanted, length - wanted);
        }
        Some(offset)
    }

    /// Gives back what was taken.
    pub(crate) fn give(&mut self, offset: u64, bytes: u64) {
        let (mut offset, mut bytes) = (offset, whole(bytes));
        if let Some((before, length)) = self.free.range(..offset).next_back()
            && before + length == offset
        {
            (offset, bytes) = (*before, length + bytes);
        }
        if let Some(length) = self.free.remove(&(offset + bytes)) {
            bytes += length;
        }
        self.free.insert(offset, bytes);
    }
}

fn whole(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(STEP_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_apart_and_comes_back_whole() {
        let mut slab = Slab::new(4096);
        let taken: Vec<_> = (0..8).map(|_| slab.take(1).expect("room")).collect();
        assert_eq!(taken, (0..8).map(|i| i * 512).collect::<Vec<_>>());
        assert_eq!(slab.take(1), None);
        for offset in [512, 2048, 0, 1024, 3584, 1536, 3072, 2560] {
            slab.give(offset, 100);
        }
        assert_eq!(slab.take(4096), Some(0));
    }
}
