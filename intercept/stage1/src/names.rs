//! The names of the table as a hash table made by the compiler: offsets into one text, no pointer,
//! so nothing to relocate when the library is loaded.

use halfwarp_gate::stage::fnv;
use shim_cuda_headers::{DriverFn, NvmlFn};

/// A name of ours: its library and its row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Driver(usize),
    Nvml(usize),
}

const ROWS: usize = DriverFn::COUNT + NvmlFn::COUNT;
/// A power of two, more than twice the rows, so that probes are short.
const BUCKETS: usize = 4096;
const SEED: u64 = 0xcbf2_9ce4_8422_2325;

const fn symbol(row: usize) -> &'static str {
    if row < DriverFn::COUNT {
        DriverFn::ALL[row].row().symbol
    } else {
        NvmlFn::ALL[row - DriverFn::COUNT].symbol()
    }
}

const TEXT_BYTES: usize = {
    let mut bytes = 0;
    let mut row = 0;
    while row < ROWS {
        bytes += symbol(row).len();
        row += 1;
    }
    bytes
};

struct Names {
    text: [u8; TEXT_BYTES],
    /// Where row `i` begins in `text`; one more than rows, so that it also says where it ends.
    starts: [u32; ROWS + 1],
    /// Row + 1 by hash, 0 for an empty bucket; collisions take the next bucket.
    buckets: [u16; BUCKETS],
}

static NAMES: Names = {
    let mut names = Names { text: [0; TEXT_BYTES], starts: [0; ROWS + 1], buckets: [0; BUCKETS] };
    let mut at = 0;
    let mut row = 0;
    while row < ROWS {
        let bytes = symbol(row).as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            names.text[at] = bytes[i];
            at += 1;
            i += 1;
        }
        names.starts[row + 1] = at as u32;
        let mut bucket = fnv(SEED, bytes) as usize % BUCKETS;
        while names.buckets[bucket] != 0 {
            bucket = (bucket + 1) % BUCKETS;
        }
        names.buckets[bucket] = row as u16 + 1;
        row += 1;
    }
    names
};

/// The row whose symbol is the NUL-terminated `name`. Reads `name` once, calls nothing.
///
/// # Safety
/// `name` points at a NUL-terminated text.
// Inline: every look-up of a name that begins like ours counts its instructions here.
#[inline(always)]
pub(crate) unsafe fn row_of(name: *const u8) -> Option<Name> {
    let mut hash = SEED;
    let mut length = 0;
    loop {
        // SAFETY: the caller's text is readable up to its NUL, and this byte is not past it.
        let byte = unsafe { *name.add(length) };
        if byte == 0 {
            break;
        }
        hash = fnv(hash, &[byte]);
        length += 1;
        if length > 128 {
            return None; // longer than any name of the table
        }
    }
    let mut bucket = hash as usize % BUCKETS;
    loop {
        let row = usize::from(*NAMES.buckets.get(bucket)?).checked_sub(1)?;
        // SAFETY: `length` bytes of `name` were read above.
        if unsafe { is_symbol(row, name, length) } {
            return Some(match row.checked_sub(DriverFn::COUNT) {
                None => Name::Driver(row),
                Some(nvml) => Name::Nvml(nvml),
            });
        }
        bucket = (bucket + 1) % BUCKETS;
    }
}

/// Whether row `row` is spelled as the `length` bytes at `name`.
///
/// # Safety
/// `length` bytes are readable at `name`.
unsafe fn is_symbol(row: usize, name: *const u8, length: usize) -> bool {
    let (Some(&start), Some(&end)) = (NAMES.starts.get(row), NAMES.starts.get(row + 1)) else {
        return false;
    };
    if (end - start) as usize != length {
        return false;
    }
    let mut i = 0;
    while i < length {
        // SAFETY: `i` is below `length`.
        let byte = unsafe { *name.add(i) };
        if NAMES.text.get(start as usize + i) != Some(&byte) {
            return false;
        }
        i += 1;
    }
    true
}
