//! Images of device code as programs hand them over: PTX text, or a fat binary with PTX in it,
//! bare or in the wrapper that compilers put around it.
//!
//! Machine code of a real card cannot be run here: `machine_code` says what becomes of an image that
//! has nothing else.

use crate::{machine_code, raw};
use shim_cuda_headers::CUresult;
use std::ffi::c_void;
use std::io::Read;

const WRAPPER_MAGIC: u32 = 0x4662_43B1;
const FATBIN_MAGIC: u32 = 0xBA55_ED50;
const ELF_MAGIC: u32 = u32::from_le_bytes(*b"\x7fELF");

/// Header of a fat binary: magic, version, own length, length of what follows.
const FATBIN_HEADER_BYTES: usize = 16;
/// As much of an entry's header as is read here.
const ENTRY_HEADER_BYTES: usize = 64;
const KIND_PTX: u16 = 1;
const KIND_ELF: u16 = 2;
const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
/// More than any program's PTX: an image that claims it is broken.
const UNPACKED_MAX: usize = 1 << 30;

/// The PTX of the image at this address.
pub(crate) fn ptx(image: *const c_void) -> Result<String, CUresult> {
    match raw::get(image.cast::<u32>())? {
        WRAPPER_MAGIC => {
            let fatbin = raw::get(image.wrapping_byte_add(8).cast::<*const c_void>())?;
            ptx(fatbin)
        }
        FATBIN_MAGIC => {
            let length = raw::get(image.wrapping_byte_add(8).cast::<u64>())?;
            let entries = image.wrapping_byte_add(FATBIN_HEADER_BYTES);
            let length = usize::try_from(length).map_err(|_| CUresult::INVALID_IMAGE)?;
            from_entries(&raw::bytes_at(entries, length)?)
        }
        ELF_MAGIC => machine_code::at(image),
        _ => raw::text(image.cast()).map_err(|_| CUresult::INVALID_IMAGE),
    }
}

/// The PTX of bytes of a known length: text, terminated or not, or a fat binary.
pub(crate) fn ptx_in(bytes: &[u8]) -> Result<String, CUresult> {
    match bytes.first_chunk().map(|magic| u32::from_le_bytes(*magic)) {
        Some(FATBIN_MAGIC) => from_entries(&bytes[FATBIN_HEADER_BYTES..]),
        Some(ELF_MAGIC) => machine_code::stand_in(bytes),
        _ => {
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or(bytes);
            String::from_utf8(text.to_vec()).map_err(|_| CUresult::INVALID_IMAGE)
        }
    }
}

/// Looks through the entries of a fat binary for PTX, the one for the newest architecture, and for
/// machine code if there is none.
fn from_entries(mut entries: &[u8]) -> Result<String, CUresult> {
    let mut best: Option<(u32, Result<String, CUresult>)> = None;
    let mut machine_code = None;
    while entries.len() >= ENTRY_HEADER_BYTES {
        let kind = u16::from_le_bytes([entries[0], entries[1]]);
        let header = number(entries, 4, 4)? as usize;
        let payload = number(entries, 8, 4)? as usize;
        let whole = header.checked_add(payload).ok_or(CUresult::INVALID_IMAGE)?;
        let body = entries.get(header..whole).ok_or(CUresult::INVALID_IMAGE)?;
        let architecture = number(entries, 28, 4)? as u32;
        if kind == KIND_PTX && best.as_ref().is_none_or(|(newest, _)| architecture > *newest) {
            best = Some((architecture, text_of(entries, body)));
        } else if kind == KIND_ELF {
            machine_code = Some((entries, body));
        }
        entries = &entries[whole..];
    }
    match (best, machine_code) {
        (Some((_, text)), _) => text,
        (None, Some((header, body))) => text_of(header, body),
        (None, None) => Err(CUresult::NO_BINARY_FOR_GPU),
    }
}

fn text_of(header: &[u8], body: &[u8]) -> Result<String, CUresult> {
    let flags = number(header, 40, 8)?;
    if flags & (FLAG_LZ4 | FLAG_ZSTD) == 0 {
        return ptx_in(body);
    }
    let compressed = number(header, 16, 4)? as usize;
    let length = number(header, 56, 8)? as usize;
    if length > UNPACKED_MAX {
        return Err(CUresult::INVALID_IMAGE);
    }
    let packed = body.get(..compressed).ok_or(CUresult::INVALID_IMAGE)?;
    let unpack = if flags & FLAG_ZSTD == 0 { unpack_lz4 } else { unpack_zstd };
    ptx_in(&unpack(packed, length).ok_or(CUresult::INVALID_IMAGE)?)
}

/// A zstd frame of exactly `length` bytes.
fn unpack_zstd(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
    let mut out = Vec::new();
    // One more than it may have, so that a longer one is seen.
    decoder.by_ref().take(length as u64 + 1).read_to_end(&mut out).ok()?;
    (out.len() == length).then_some(out)
}

fn number(bytes: &[u8], at: usize, length: usize) -> Result<u64, CUresult> {
    let mut word = [0; 8];
    word[..length].copy_from_slice(bytes.get(at..at + length).ok_or(CUresult::INVALID_IMAGE)?);
    Ok(u64::from_le_bytes(word))
}

/// An LZ4 block: stretches of bytes as they are, each followed by a copy of earlier ones.
fn unpack_lz4(mut packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while out.len() < length {
        let token = take(&mut packed, 1)?[0];
        let literals = lz4_length(&mut packed, token >> 4)?;
        out.extend_from_slice(take(&mut packed, literals)?);
        if packed.is_empty() {
            break;
        }
        let distance = take(&mut packed, 2)?;
        let distance = usize::from(u16::from_le_bytes([distance[0], distance[1]]));
        let repeated = lz4_length(&mut packed, token & 15)? + 4;
        let start = out.len().checked_sub(distance).filter(|_| distance > 0)?;
        if out.len() + repeated > length {
            return None;
        }
        for index in start..start + repeated {
            out.push(out[index]);
        }
    }
    (out.len() == length).then_some(out)
}

fn take<'a>(from: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(count)?;
    *from = rest;
    Some(taken)
}

/// Fifteen means that more bytes follow, each added, until one is not 255.
fn lz4_length(packed: &mut &[u8], nibble: u8) -> Option<usize> {
    let mut length = usize::from(nibble);
    if nibble == 15 {
        loop {
            let more = take(packed, 1)?[0];
            length += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    Some(length)
}
