//! What a module takes on a card, as far as its image tells before it is loaded: code, constants and
//! global variables. PTX says the sizes of its variables, an ELF those of its sections; of a fat
//! binary one image is loaded, and the largest counts. A compressed image tells nothing.
//!
//! Not a parser: what it can't read it counts as nothing, and the card's figure shows the rest.

/// First word of an ELF.
pub const ELF: u32 = u32::from_le_bytes(*b"\x7fELF");
/// First word of a fat binary.
pub const FATBIN: u32 = 0xba55_ed50;
/// First word of what points to a fat binary.
pub const FATBIN_WRAPPER: u32 = 0x4662_43b1;
/// Bytes that [`elf_bytes`] needs.
pub const ELF_HEADER_BYTES: usize = 64;
/// Bytes that [`fatbin_bytes`] needs.
pub const FATBIN_HEADER_BYTES: usize = 16;

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    word(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    word(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    word(bytes, at).map(u64::from_le_bytes)
}

/// How long an ELF is, by its header: to the end of its section headers.
#[must_use]
pub fn elf_bytes(header: &[u8]) -> Option<usize> {
    let (offset, size, count) = elf_sections(header)?;
    offset.checked_add(size.checked_mul(count)?)
}

fn elf_sections(header: &[u8]) -> Option<(usize, usize, usize)> {
    let offset = usize::try_from(u64_at(header, 40)?).ok()?;
    Some((offset, u16_at(header, 58)?.into(), u16_at(header, 60)?.into()))
}

/// How long a fat binary is, by its header.
#[must_use]
pub fn fatbin_bytes(header: &[u8]) -> Option<usize> {
    let payload = usize::try_from(u64_at(header, 8)?).ok()?;
    payload.checked_add(u16_at(header, 6)?.into())
}

/// Bytes of a card's memory that an image will take.
#[must_use]
pub fn device_bytes(image: &[u8]) -> u64 {
    match u32_at(image, 0) {
        Some(ELF) => of_elf(image).unwrap_or(0),
        Some(FATBIN) => of_fatbin(image),
        _ => of_ptx(image),
    }
}

/// Sections that are there at run time.
fn of_elf(image: &[u8]) -> Option<u64> {
    const ALLOC: u64 = 2;
    let (offset, size, count) = elf_sections(image)?;
    let mut sum = 0_u64;
    for at in 0..count {
        let header = offset.checked_add(at.checked_mul(size)?)?;
        if u64_at(image, header.checked_add(8)?)? & ALLOC != 0 {
            sum = sum.saturating_add(u64_at(image, header.checked_add(32)?)?);
        }
    }
    Some(sum)
}

fn of_fatbin(image: &[u8]) -> u64 {
    const COMPRESSED: u64 = 0x2000 | 0x8000;
    let mut at = u16_at(image, 6).map_or(FATBIN_HEADER_BYTES, usize::from);
    let mut most = 0;
    while let (Some(header), Some(payload)) = (u32_at(image, at + 4), u32_at(image, at + 8)) {
        let start = at.saturating_add(header as usize);
        let end = start.saturating_add(payload as usize);
        let compressed = u64_at(image, at + 40).is_some_and(|flags| flags & COMPRESSED != 0);
        if let Some(entry) = image.get(start..end).filter(|_| !compressed) {
            most = most.max(if u32_at(entry, 0) == Some(ELF) {
                of_elf(entry).unwrap_or(0)
            } else {
                of_ptx(entry)
            });
        }
        if end <= at {
            break;
        }
        at = end;
    }
    most
}

/// Variables of the module: declarations outside of all braces and parentheses.
fn of_ptx(text: &[u8]) -> u64 {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let (mut sum, mut depth, mut begin, mut at) = (0_u64, 0_u32, 0, 0);
    while let Some(byte) = text.get(at) {
        match (byte, text.get(at + 1)) {
            (b'/', Some(b'/')) => at += until(text, at, b"\n"),
            (b'/', Some(b'*')) => at += until(text, at + 2, b"*/") + 2,
            (b'"', _) => at += until(text, at + 1, b"\""),
            (b'{' | b'(', _) => depth += 1,
            (b'}' | b')', _) => {
                depth = depth.saturating_sub(1);
                // A body has ended, unless it is a value's.
                if depth == 0 && !text.get(begin..at).is_some_and(|s| s.contains(&b'=')) {
                    begin = at + 1;
                }
            }
            (b';', _) if depth == 0 => {
                sum = sum.saturating_add(variable(text.get(begin..at).unwrap_or_default()));
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    sum
}

/// Bytes from `from` to the first `end`, or to the end of the text.
fn until(text: &[u8], from: usize, end: &[u8]) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.windows(end.len()).position(|window| window == end).unwrap_or(rest.len())
}

/// What ends with its line and not with a semicolon.
const OF_A_LINE: &[&[u8]] = &[b"//", b".version", b".target", b".address_size", b".file", b".loc"];

/// Bytes of one declaration, or 0 for one that is no variable of this module.
fn variable(mut statement: &[u8]) -> u64 {
    loop {
        statement = statement.trim_ascii_start();
        if statement.starts_with(b"/*") {
            statement = statement.get(until(statement, 0, b"*/") + 2..).unwrap_or_default();
            continue;
        }
        if !OF_A_LINE.iter().any(|directive| statement.starts_with(directive)) {
            break;
        }
        statement = statement.get(until(statement, 0, b"\n")..).unwrap_or_default();
    }
    let declared = statement.split(|byte| *byte == b'=').next().unwrap_or_default();
    let mut words = declared.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (mut is_variable, mut width, mut lanes) = (false, 0_u64, 1_u64);
    let mut name: &[u8] = &[];
    let mut skip = false;
    for word in &mut words {
        if core::mem::take(&mut skip) {
            continue;
        }
        match word {
            b".global" | b".const" => is_variable = true,
            b".extern" => return 0,
            b".align" => skip = true,
            b".v2" => lanes = 2,
            b".v4" => lanes = 4,
            b".b8" | b".u8" | b".s8" => width = 1,
            b".b16" | b".u16" | b".s16" | b".f16" | b".bf16" => width = 2,
            b".b32" | b".u32" | b".s32" | b".f32" | b".f16x2" => width = 4,
            b".b64" | b".u64" | b".s64" | b".f64" => width = 8,
            b".b128" => width = 16,
            _ if word.first() != Some(&b'.') => {
                name = word;
                break;
            }
            _ => {}
        }
    }
    if !is_variable || name.is_empty() {
        return 0;
    }
    let start = declared.windows(name.len()).position(|w| w == name).unwrap_or(0);
    let sizes = declared.get(start..).unwrap_or_default().split(|byte| *byte == b'[').skip(1);
    let elements = sizes.fold(1_u64, |product, size| product.saturating_mul(number(size)));
    elements.saturating_mul(width).saturating_mul(lanes)
}

/// The number that a text begins with; 0 for none.
fn number(text: &[u8]) -> u64 {
    let digits = text.iter().skip_while(|byte| byte.is_ascii_whitespace());
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum, d| sum.saturating_mul(10).saturating_add(u64::from(d - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_tells_the_size_of_its_variables() {
        let text = b".version 7.0\n.target sm_75\n.address_size 64\n\
            // .global .b8 no[1000];\n/* .global .b8 nor[1000]; */\n\
            .global .b8 first[32];\n.extern .global .b8 other[4096];\n\
            .visible .global .align 8 .b8 big[268435456];\n\
            .global .align 4 .u32 table[3][5] = {1, 2, {3; 4}};\n\
            .const .f64 pi = 0d400921FB54442D18;\n\
            .global .v4 .f32 colour;\n\
            .visible .entry k(.param .u64 .ptr .global .align 4 p, .param .u32 n)\n\
            { .reg .b32 %r<9>; .shared .b8 s[512]; ld.global.u32 %r1, [p]; ret; }\n\
            .global .u16 last;\n\0.global .b8 behind[7];";
        assert_eq!(device_bytes(text), 32 + 268_435_456 + 60 + 8 + 16 + 2);
    }

    #[test]
    fn an_elf_tells_the_size_of_its_sections() {
        let mut elf = [0_u8; 64 + 3 * 64];
        elf[..4].copy_from_slice(b"\x7fELF");
        elf[40..48].copy_from_slice(&64_u64.to_le_bytes());
        elf[58..60].copy_from_slice(&64_u16.to_le_bytes());
        elf[60..62].copy_from_slice(&3_u16.to_le_bytes());
        for (at, flags, size) in [(0, 0_u64, 7_u64), (1, 2, 1000), (2, 3, 1 << 28)] {
            let header = 64 + 64 * at;
            elf[header + 8..header + 16].copy_from_slice(&flags.to_le_bytes());
            elf[header + 32..header + 40].copy_from_slice(&size.to_le_bytes());
        }
        assert_eq!(elf_bytes(&elf), Some(elf.len()));
        assert_eq!(device_bytes(&elf), 1000 + (1 << 28));
        assert_eq!(device_bytes(&elf[..100]), 0, "cut short");
    }

    #[test]
    fn of_a_fat_binary_the_largest_image_counts() {
        let texts: [&[u8]; 3] =
            [b".global .b8 a[100];\0", b".global .b8 b[300];\0", b".global .b8 c[900];\0"];
        let mut fat = [0_u8; 16 + 3 * (64 + 24)];
        let mut at = 16;
        for (text, flags) in texts.into_iter().zip([0x11_u64, 0x11, 0x8011]) {
            fat[at + 4..at + 8].copy_from_slice(&64_u32.to_le_bytes());
            fat[at + 8..at + 12].copy_from_slice(&24_u32.to_le_bytes());
            fat[at + 40..at + 48].copy_from_slice(&flags.to_le_bytes());
            fat[at + 64..at + 64 + text.len()].copy_from_slice(text);
            at += 64 + 24;
        }
        fat[..4].copy_from_slice(&FATBIN.to_le_bytes());
        fat[6..8].copy_from_slice(&16_u16.to_le_bytes());
        fat[8..16].copy_from_slice(&(3_u64 * 88).to_le_bytes());
        assert_eq!(fatbin_bytes(&fat), Some(fat.len()));
        assert_eq!(device_bytes(&fat), 300, "a compressed one tells nothing");
    }
}

#[cfg(test)]
mod hostile {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0..3) {
            let mut bytes = bytes;
            let first = [ELF, FATBIN, 0x2e2e_2e2e][usize::try_from(kind).unwrap_or(0)];
            if bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&first.to_le_bytes());
            }
            let _ = (device_bytes(&bytes), elf_bytes(&bytes), fatbin_bytes(&bytes));
        }
    }
}
