//! Numbers out of bytes that may end anywhere.

use crate::ImageError;

const CUT: ImageError = ImageError::Broken("it ends too early");

/// A little-endian number of up to eight bytes.
pub(crate) fn number(bytes: &[u8], at: usize, length: usize) -> Result<u64, ImageError> {
    let mut word = [0; 8];
    word[..length].copy_from_slice(part(bytes, at, length)?);
    Ok(u64::from_le_bytes(word))
}

/// A number that says where something is or how long.
pub(crate) fn size(bytes: &[u8], at: usize, length: usize) -> Result<usize, ImageError> {
    usize::try_from(number(bytes, at, length)?).map_err(|_| CUT)
}

pub(crate) fn part(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], ImageError> {
    let end = at.checked_add(length).ok_or(CUT)?;
    bytes.get(at..end).ok_or(CUT)
}
