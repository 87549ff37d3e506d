//! Fat binaries through the library: plain, LZ4 and zstd, by every call that takes one and through the
//! linker. They are made here, from a sample's PTX, in the form that compilers give them.

use std::fs;
use std::time::Duration;

use halfwarp_tests::{Machine, artefact, guest};

const DEADLINE: Duration = Duration::from_secs(60);
const WAYS: [&str; 6] = [
    "module-bare",
    "module-wrapped",
    "fatbinary-bare",
    "fatbinary-wrapped",
    "library-wrapped",
    "linked",
];
/// 64-bit, for Linux.
const FLAGS: u64 = 0x11;
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;

/// A fat binary with one entry of PTX.
fn fatbin(packed: &[u8], unpacked: usize, flags: u64) -> Vec<u8> {
    let padded = packed.len().next_multiple_of(8);
    let mut entry = vec![0u8; 80];
    let mut put = |at: usize, bytes: &[u8]| entry[at..at + bytes.len()].copy_from_slice(bytes);
    let size = |n: usize| u32::try_from(n).expect("small").to_le_bytes();
    let compressed = flags & (LZ4 | ZSTD) != 0;
    put(0, &1u16.to_le_bytes());
    put(2, &0x101u16.to_le_bytes());
    put(4, &size(80));
    put(8, &size(padded));
    put(16, &size(if compressed { packed.len() } else { 0 }));
    put(24, &0x0006_0003u32.to_le_bytes());
    put(28, &75u32.to_le_bytes());
    put(40, &(FLAGS | flags).to_le_bytes());
    put(56, &(if compressed { unpacked as u64 } else { 0 }).to_le_bytes());
    entry.extend(packed);
    entry.resize(80 + padded, 0);
    let mut whole = 0xba55_ed50u32.to_le_bytes().to_vec();
    whole.extend(1u16.to_le_bytes());
    whole.extend(16u16.to_le_bytes());
    whole.extend((entry.len() as u64).to_le_bytes());
    whole.extend(entry);
    whole
}

fn length(out: &mut Vec<u8>, mut more: usize) {
    while more >= 255 {
        out.push(255);
        more -= 255;
    }
    out.push(u8::try_from(more).expect("below 255"));
}

/// One stretch of an LZ4 block: literals, and a copy of `matched` bytes from `distance` back, if any.
fn sequence(out: &mut Vec<u8>, literals: &[u8], copy: Option<(usize, usize)>) {
    let nibble = |n: usize| u8::try_from(n.min(15)).expect("a nibble");
    let matched = copy.map_or(0, |(_, matched)| matched - 4);
    out.push(nibble(literals.len()) << 4 | nibble(matched));
    if literals.len() >= 15 {
        length(out, literals.len() - 15);
    }
    out.extend(literals);
    if let Some((distance, _)) = copy {
        out.extend(u16::try_from(distance).expect("near").to_le_bytes());
        if matched >= 15 {
            length(out, matched - 15);
        }
    }
}

/// Packs by the first earlier place with the same four bytes; the last twelve bytes stay as they are.
fn lz4(text: &[u8]) -> Vec<u8> {
    let (mut out, mut from, mut at) = (Vec::new(), 0, 4);
    while at + 12 < text.len() {
        let place = text[..at].windows(4).position(|four| four == &text[at..at + 4]);
        let Some(place) = place.filter(|place| at - place < 65536) else {
            at += 1;
            continue;
        };
        let end = text.len() - 12;
        let matched = (0..end - at).take_while(|i| text[place + i] == text[at + i]).count();
        if matched < 4 {
            at += 1;
            continue;
        }
        sequence(&mut out, &text[from..at], Some((at - place, matched)));
        at += matched;
        from = at;
    }
    sequence(&mut out, &text[from..], None);
    out
}

/// Loads it in every way, as a tenant; what each way's code was.
fn codes(name: &str, image: &[u8]) -> Vec<(String, u32)> {
    let machine = Machine::new();
    let file = machine.runtime_dir().join(name);
    fs::write(&file, image).expect("a file");
    let words = [guest("fatbins").into_os_string(), file.into()];
    let ended = machine.tenant(&["--memory", "1GiB"]).program(words).finish(DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
    let line = |line: &str| {
        let (way, code) = line.strip_prefix("SUM ")?.split_once(' ')?;
        Some((way.to_owned(), code.parse().ok()?))
    };
    ended.stdout.lines().filter_map(line).collect()
}

fn ptx() -> Vec<u8> {
    fs::read(artefact("samples/vectorAdd.ptx")).expect("the sample's PTX")
}

fn loads_in_every_way(name: &str, image: &[u8]) {
    let wanted: Vec<_> = WAYS.iter().map(|way| ((*way).to_owned(), 0)).collect();
    assert_eq!(codes(name, image), wanted);
}

#[test]
fn a_plain_fat_binary_loads_in_every_way() {
    loads_in_every_way("plain", &fatbin(&ptx(), ptx().len(), 0));
}

#[test]
fn a_fat_binary_packed_with_lz4_loads_in_every_way() {
    let packed = lz4(&ptx());
    assert!(packed.len() < ptx().len() * 3 / 4, "nothing was packed");
    loads_in_every_way("lz4", &fatbin(&packed, ptx().len(), LZ4));
}

fn zstd() -> Vec<u8> {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    compress_to_vec(&*ptx(), CompressionLevel::Fastest)
}

#[test]
fn a_fat_binary_packed_with_zstd_loads_in_every_way() {
    assert!(zstd().len() < ptx().len() * 3 / 4, "nothing was packed");
    loads_in_every_way("zstd", &fatbin(&zstd(), ptx().len(), ZSTD));
}

#[test]
fn a_fat_binary_whose_packed_part_is_broken_is_refused_as_an_image() {
    let broken = |packed: &[u8], flag: u64| {
        let mut packed = packed.to_vec();
        let middle = packed.len() / 2;
        packed.truncate(middle);
        codes("broken", &fatbin(&packed, ptx().len(), flag))
    };
    for (packed, flag) in [(lz4(&ptx()), LZ4), (zstd(), ZSTD)] {
        let codes = broken(&packed, flag);
        assert_eq!(codes.len(), WAYS.len());
        assert!(codes.iter().all(|(_, code)| *code == 200), "{codes:?}");
    }
}
