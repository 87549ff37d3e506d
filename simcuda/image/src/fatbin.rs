//! Fat binaries: a header, then entries, each PTX or machine code for one architecture, plain or
//! packed by LZ4 or zstd.

use std::io::Read as _;

use crate::bytes::{number, part, size};
use crate::{Content, ImageError, MOST_BYTES, Target};

/// Of the structure that compilers put around a fat binary; its address is at byte 8.
pub const WRAPPER_MAGIC: u32 = 0x4662_43B1;
pub const FATBIN_MAGIC: u32 = 0xBA55_ED50;
/// Header: magic, version, own length, length of what follows.
pub const ENTRIES_AT: usize = 16;

/// As much of an entry's header as is read here.
const ENTRY_HEADER_BYTES: usize = 64;
const KIND_PTX: u64 = 1;
const KIND_ELF: u64 = 2;
const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
/// Entries in one fat binary; compilers write one or two for each architecture.
const MOST_ENTRIES: usize = 1024;

/// Length of the whole, from its first `ENTRIES_AT` bytes.
pub fn fatbin_bytes(header: &[u8]) -> Result<usize, ImageError> {
    let own = size(header, 6, 2)?;
    let whole = size(header, 8, 8)?.checked_add(own.max(ENTRIES_AT));
    whole.filter(|bytes| *bytes <= MOST_BYTES).ok_or(ImageError::Broken("it is too long"))
}

struct Entry<'a> {
    kind: u64,
    architecture: u32,
    header: &'a [u8],
    body: &'a [u8],
}

fn entries(image: &[u8]) -> Result<Vec<Entry<'_>>, ImageError> {
    let start = size(image, 6, 2)?.max(ENTRIES_AT);
    let length = size(image, 8, 8)?;
    let mut rest = part(image, start, length)?;
    let mut found = Vec::new();
    while rest.len() >= ENTRY_HEADER_BYTES {
        if found.len() == MOST_ENTRIES {
            return Err(ImageError::Broken("a fat binary has too many entries"));
        }
        let (header, payload) = (size(rest, 4, 4)?, size(rest, 8, 4)?);
        if header < ENTRY_HEADER_BYTES {
            return Err(ImageError::Broken("an entry's header is too short"));
        }
        found.push(Entry {
            kind: number(rest, 0, 2)?,
            architecture: number(rest, 28, 4)? as u32,
            header: part(rest, 0, header)?,
            body: part(rest, header, payload)?,
        });
        rest = &rest[header + payload..];
    }
    Ok(found)
}

/// PTX for the newest architecture that is not newer than the device; else machine code, if that is
/// taken: for the device's own generation before any other.
pub(crate) fn choose(image: &[u8], target: Target) -> Result<Content, ImageError> {
    let entries = entries(image)?;
    let usable =
        |entry: &&Entry<'_>| entry.kind == KIND_PTX && entry.architecture <= target.capability;
    if let Some(ptx) = entries.iter().filter(usable).max_by_key(|entry| entry.architecture) {
        return crate::text(&unpacked(ptx)?);
    }
    let near = |entry: &&Entry<'_>| {
        let same = entry.architecture / 10 == target.capability / 10;
        (same && entry.architecture <= target.capability, entry.architecture)
    };
    let machine = entries.iter().filter(|entry| entry.kind == KIND_ELF).max_by_key(near);
    match machine.filter(|_| target.machine_code) {
        Some(elf) => Ok(Content::Machine(unpacked(elf)?)),
        None => Err(ImageError::NotForThisDevice),
    }
}

fn unpacked(entry: &Entry<'_>) -> Result<Vec<u8>, ImageError> {
    let flags = number(entry.header, 40, 8)?;
    if flags & (FLAG_LZ4 | FLAG_ZSTD) == 0 {
        return Ok(entry.body.to_vec());
    }
    let packed = part(entry.body, 0, size(entry.header, 16, 4)?)?;
    let length = size(entry.header, 56, 8)?;
    if length > MOST_BYTES {
        return Err(ImageError::Broken("an entry unpacks to too much"));
    }
    let unpacked =
        if flags & FLAG_ZSTD != 0 { from_zstd(packed, length) } else { from_lz4(packed, length) };
    unpacked.ok_or(ImageError::Broken("an entry cannot be unpacked"))
}

fn from_lz4(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    // No block expands more than 255 times: what claims to is not worth the memory.
    if length / 256 > packed.len() {
        return None;
    }
    let unpacked = lz4_flex::block::decompress(packed, length).ok()?;
    (unpacked.len() == length).then_some(unpacked)
}

fn from_zstd(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
    let mut unpacked = Vec::new();
    decoder.take(length as u64 + 1).read_to_end(&mut unpacked).ok()?;
    (unpacked.len() == length).then_some(unpacked)
}
