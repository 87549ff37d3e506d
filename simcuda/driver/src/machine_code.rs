//! Images that hold nothing but a card's machine code. It cannot be run here: its kernels are known
//! by their names, take a time that the profile says, and do nothing. What stands for the image is
//! PTX of our own with as many empty kernels. `SIMCUDA_SASS=refuse` refuses such images instead, as
//! made for another GPU.

use shim_cuda_headers::CUresult;
use std::ffi::c_void;

/// First line of the text that stands for machine code.
const STAND_IN: &str = "// simcuda: stands for machine code\n";

const SECTION_HEADER_BYTES: usize = 64;
/// Prefix of the section that holds a kernel's instructions.
const TEXT: &[u8] = b".text.";

pub(crate) fn is_stand_in(ptx: &str) -> bool {
    ptx.starts_with(STAND_IN)
}

/// PTX for the ELF file that begins at `image`, whose length only it knows.
pub(crate) fn at(image: *const c_void) -> Result<String, CUresult> {
    let header = crate::raw::bytes_at(image, 64)?;
    let table = number(&header, 0x28, 8).ok_or(CUresult::INVALID_IMAGE)?;
    let count = number(&header, 0x3C, 2).ok_or(CUresult::INVALID_IMAGE)?;
    let bytes = table.checked_add(count * SECTION_HEADER_BYTES).ok_or(CUresult::INVALID_IMAGE)?;
    // The table of sections is in front of what it names, or behind; both ends must be read.
    let head = crate::raw::bytes_at(image, bytes)?;
    let end = sections(&head)
        .ok_or(CUresult::INVALID_IMAGE)?
        .filter(|section| section.kind != NO_BITS)
        .map(|section| section.offset.saturating_add(section.bytes))
        .max();
    stand_in(&crate::raw::bytes_at(image, end.unwrap_or(0).max(bytes))?)
}

/// PTX for the ELF file in `bytes`.
pub(crate) fn stand_in(bytes: &[u8]) -> Result<String, CUresult> {
    if std::env::var_os("SIMCUDA_SASS").is_some_and(|asked| asked == "refuse") {
        return Err(CUresult::NO_BINARY_FOR_GPU);
    }
    let names = kernels(bytes).ok_or(CUresult::INVALID_IMAGE)?;
    if names.is_empty() {
        return Err(CUresult::NO_BINARY_FOR_GPU);
    }
    let mut ptx = String::from(STAND_IN);
    ptx.push_str(".version 6.3\n.target sm_75\n.address_size 64\n");
    for name in names {
        ptx.push_str(&format!(".visible .entry {name}() {{ ret; }}\n"));
    }
    Ok(ptx)
}

const NO_BITS: usize = 8;

struct Section {
    name: usize,
    kind: usize,
    offset: usize,
    bytes: usize,
}

fn sections(bytes: &[u8]) -> Option<impl Iterator<Item = Section>> {
    let table = number(bytes, 0x28, 8)?;
    let count = number(bytes, 0x3C, 2)?;
    let section = move |index: usize| {
        let at = table.checked_add(index * SECTION_HEADER_BYTES)?;
        Some(Section {
            name: number(bytes, at, 4)?,
            kind: number(bytes, at + 4, 4)?,
            offset: number(bytes, at + 24, 8)?,
            bytes: number(bytes, at + 32, 8)?,
        })
    };
    Some((0..count).filter_map(section))
}

fn kernels(bytes: &[u8]) -> Option<Vec<String>> {
    let names = sections(bytes)?.nth(number(bytes, 0x3E, 2)?)?;
    let names = bytes.get(names.offset..names.offset.checked_add(names.bytes)?)?;
    let kernel = |section: Section| {
        let text = names.get(section.name..)?.split(|byte| *byte == 0).next()?;
        let name = std::str::from_utf8(text.strip_prefix(TEXT)?).ok()?;
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
        (plain && !name.is_empty()).then(|| name.to_owned())
    };
    Some(sections(bytes)?.filter_map(kernel).collect())
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let mut word = [0; 8];
    word[..length].copy_from_slice(bytes.get(at..at.checked_add(length)?)?);
    usize::try_from(u64::from_le_bytes(word)).ok()
}
