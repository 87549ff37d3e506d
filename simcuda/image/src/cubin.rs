//! Machine code in an ELF file: which kernels there are, what they take, which variables. The code
//! itself stays unread.

use std::collections::BTreeMap;

use crate::bytes::{number, part, size};
use crate::{ImageError, MOST_BYTES};
use simcuda_ptx::{Global, MachineKernel, Module, Param};

pub const ELF_MAGIC: u32 = u32::from_le_bytes(*b"\x7fELF");

const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const SYMBOL_TABLE: u64 = 2;
const NO_BITS: u64 = 8;
const OBJECT: u64 = 1;
const FUNCTION: u64 = 2;
/// In a symbol's `other`: a kernel.
const ENTRY: u64 = 0x10;
/// Records of a kernel's information section.
const PARAM: u64 = 0x17;
const MOST_THREADS: u64 = 0x05;
/// What one record's value is: two bytes in place, or a length and as many bytes.
const SIZED: u64 = 4;
const MOST_SECTIONS: usize = 1 << 16;
const MOST_SYMBOLS: usize = 1 << 20;
/// The bound of CUDA on the parameters of a kernel.
const MOST_PARAM_BYTES: usize = 32_764;
const MOST_GLOBAL_BYTES: usize = 1 << 40;

const BROKEN: ImageError = ImageError::Broken("the ELF file contradicts itself");

/// Length of an ELF file that begins with `header`, if its section table is its end; `section` reads
/// one entry of the table.
pub fn elf_bytes(
    header: &[u8],
    section: impl Fn(usize) -> Result<Vec<u8>, ImageError>,
) -> Result<usize, ImageError> {
    let (table, count) = (size(header, 40, 8)?, size(header, 60, 2)?);
    let mut end = end_of(table, count.checked_mul(SECTION_BYTES).ok_or(BROKEN)?)?;
    for index in 0..count {
        let section = section(table.checked_add(index * SECTION_BYTES).ok_or(BROKEN)?)?;
        if number(&section, 4, 4)? != NO_BITS {
            end = end.max(end_of(size(&section, 24, 8)?, size(&section, 32, 8)?)?);
        }
    }
    let (table, count) = (size(header, 32, 8)?, size(header, 56, 2)?);
    Ok(end.max(end_of(table, count * 56)?))
}

fn end_of(at: usize, length: usize) -> Result<usize, ImageError> {
    at.checked_add(length).filter(|end| *end <= MOST_BYTES).ok_or(BROKEN)
}

struct Section<'a> {
    name: &'a str,
    kind: u64,
    bytes: &'a [u8],
    size: usize,
    link: usize,
}

fn sections(elf: &[u8]) -> Result<Vec<Section<'_>>, ImageError> {
    if part(elf, 4, 2)? != [2, 1] {
        return Err(ImageError::Broken("the ELF file is not of 64 bits"));
    }
    let (table, entry) = (size(elf, 40, 8)?, size(elf, 58, 2)?);
    let (count, names) = (size(elf, 60, 2)?, size(elf, 62, 2)?);
    if entry != SECTION_BYTES || count > MOST_SECTIONS || elf.len() < HEADER_BYTES {
        return Err(BROKEN);
    }
    let at = |index: usize| {
        part(elf, table.checked_add(index * SECTION_BYTES).ok_or(BROKEN)?, SECTION_BYTES)
    };
    let names = at(names)?;
    let names = part(elf, size(names, 24, 8)?, size(names, 32, 8)?)?;
    (0..count)
        .map(|index| {
            let header = at(index)?;
            let (kind, length) = (number(header, 4, 4)?, size(header, 32, 8)?);
            let bytes = match kind {
                0 | NO_BITS => &[],
                _ => part(elf, size(header, 24, 8)?, length)?,
            };
            let name = text(names, size(header, 0, 4)?)?;
            Ok(Section { name, kind, bytes, size: length, link: size(header, 40, 4)? })
        })
        .collect()
}

/// The string at an offset of a string table.
fn text(table: &[u8], at: usize) -> Result<&str, ImageError> {
    let bytes = table.get(at..).ok_or(BROKEN)?;
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(BROKEN)?;
    std::str::from_utf8(&bytes[..end]).map_err(|_| BROKEN)
}

pub(crate) fn module(elf: &[u8]) -> Result<Module, ImageError> {
    let sections = sections(elf)?;
    let mut by_name = BTreeMap::new();
    for section in &sections {
        by_name.insert(section.name, section);
    }
    let (mut kernels, mut globals) = (Vec::new(), Vec::new());
    for table in sections.iter().filter(|section| section.kind == SYMBOL_TABLE) {
        let names = sections.get(table.link).ok_or(BROKEN)?.bytes;
        if table.bytes.len() / SYMBOL_BYTES > MOST_SYMBOLS {
            return Err(BROKEN);
        }
        for symbol in table.bytes.chunks_exact(SYMBOL_BYTES) {
            let name = text(names, size(symbol, 0, 4)?)?;
            let (kind, other) = (number(symbol, 4, 1)? & 15, number(symbol, 5, 1)?);
            let home = sections.get(size(symbol, 6, 2)?);
            match (kind, home) {
                (FUNCTION, Some(_)) if other & ENTRY != 0 => kernels.push(kernel(name, &by_name)?),
                (OBJECT, Some(home)) => globals.extend(global(name, symbol, home)?),
                _ => {}
            }
        }
    }
    Ok(Module::of_machine_code(kernels, globals))
}

fn kernel(
    name: &str,
    sections: &BTreeMap<&str, &Section<'_>>,
) -> Result<MachineKernel, ImageError> {
    let of = |prefix: &str| sections.get(format!("{prefix}.{name}").as_str());
    let mut params = BTreeMap::new();
    let mut max_threads = None;
    if let Some(info) = of(".nv.info") {
        for record in records(info.bytes) {
            let (kind, value) = record?;
            match kind {
                PARAM => {
                    let (index, offset) = (size(value, 4, 2)?, size(value, 6, 2)?);
                    let bytes = size(value, 8, 4)? >> 18;
                    if offset + bytes > MOST_PARAM_BYTES {
                        return Err(BROKEN);
                    }
                    params.insert(index, Param { offset, size: bytes, align: 1 });
                }
                MOST_THREADS => {
                    let [x, y, z] = [0, 4, 8].map(|at| number(value, at, 4));
                    let product = x?.saturating_mul(y?).saturating_mul(z?);
                    max_threads = u32::try_from(product).ok();
                }
                _ => {}
            }
        }
    }
    let shared_bytes = of(".nv.shared").map_or(0, |section| section.size.min(1 << 20));
    let params = params.into_values().collect();
    Ok(MachineKernel { name: name.to_owned(), params, shared_bytes, max_threads })
}

/// Kind and value of each record that has a value of its own length.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u64, &[u8]), ImageError>> {
    std::iter::from_fn(move || {
        if bytes.len() < 4 {
            return None;
        }
        let record = (|| {
            let (format, kind) = (number(bytes, 0, 1)?, number(bytes, 1, 1)?);
            let length = if format == SIZED { size(bytes, 2, 2)? } else { 0 };
            Ok((kind, part(bytes, 4, length)?))
        })();
        bytes = match &record {
            Ok((_, value)) => &bytes[4 + value.len()..],
            Err(_) => &[],
        };
        Some(record)
    })
}

/// A variable of the sections that hold those.
fn global(name: &str, symbol: &[u8], home: &Section<'_>) -> Result<Option<Global>, ImageError> {
    let constant = home.name.starts_with(".nv.constant3");
    if !constant && !home.name.starts_with(".nv.global") {
        return Ok(None);
    }
    let (at, length) = (size(symbol, 8, 8)?, size(symbol, 16, 8)?);
    if length > MOST_GLOBAL_BYTES {
        return Err(BROKEN);
    }
    let init =
        if home.kind == NO_BITS { Vec::new() } else { part(home.bytes, at, length)?.to_vec() };
    let (name, pointers) = (name.to_owned(), Vec::new());
    Ok(Some(Global { name, size: length, align: 256, init, pointers, constant }))
}
