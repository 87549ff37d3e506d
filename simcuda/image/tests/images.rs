//! Images of every kind, whole and damaged.

use simcuda_image::{Content, ImageError, Target, Text, content, join, module};

const DEVICE: Target = Target { capability: 75, machine_code: true };
const STRICT: Target = Target { machine_code: false, ..DEVICE };
const PTX: u16 = 1;
const ELF: u16 = 2;

fn text(kernel: &str) -> String {
    format!(
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry {kernel}(.param .u64 p) {{ ret; }}\n"
    )
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Packing {
    Plain,
    Lz4,
    Zstd,
}

/// One entry of a fat binary.
fn entry(kind: u16, architecture: u32, body: &[u8], packing: Packing) -> Vec<u8> {
    let (packed, flags) = match packing {
        Packing::Plain => (body.to_vec(), 0_u64),
        Packing::Lz4 => (lz4_flex::block::compress(body), 0x2000),
        Packing::Zstd => {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            (ruzstd::encoding::compress_to_vec(body, level), 0x8000)
        }
    };
    let payload = packed.len().next_multiple_of(8);
    let compressed = if packing == Packing::Plain { 0 } else { packed.len() as u32 };
    let whole = if packing == Packing::Plain { 0 } else { body.len() as u64 };
    let mut out = Vec::new();
    out.extend(kind.to_le_bytes());
    out.extend(0x101_u16.to_le_bytes());
    out.extend(64_u32.to_le_bytes());
    out.extend((payload as u32).to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    out.extend(compressed.to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    out.extend(0x0007_0000_u32.to_le_bytes());
    out.extend(architecture.to_le_bytes());
    out.extend(0_u64.to_le_bytes());
    out.extend((0x11 | flags).to_le_bytes());
    out.extend(0_u64.to_le_bytes());
    out.extend(whole.to_le_bytes());
    out.extend(&packed);
    out.resize(64 + payload, 0);
    out
}

fn fatbin(entries: &[Vec<u8>]) -> Vec<u8> {
    let body = entries.concat();
    let mut out = 0xBA55_ED50_u32.to_le_bytes().to_vec();
    out.extend(1_u16.to_le_bytes());
    out.extend(16_u16.to_le_bytes());
    out.extend((body.len() as u64).to_le_bytes());
    out.extend(body);
    out
}

/// An ELF file of one kernel with two parameters and a variable.
fn cubin() -> Vec<u8> {
    let names =
        b"\0.shstrtab\0.strtab\0.symtab\0.text.work\0.nv.info.work\0.nv.shared.work\0.nv.global\0";
    let at = |name: &str| {
        let found = names
            .windows(name.len() + 1)
            .position(|w| &w[..name.len()] == name.as_bytes() && w[name.len()] == 0);
        found.expect("a name of the table") as u32
    };
    let strings = b"\0work\0seen\0".to_vec();
    let mut symbols = vec![0; 24];
    let mut symbol = |name: u32, info: u8, other: u8, section: u16, size: u64| {
        symbols.extend(name.to_le_bytes());
        symbols.extend([info, other]);
        symbols.extend(section.to_le_bytes());
        symbols.extend(0_u64.to_le_bytes());
        symbols.extend(size.to_le_bytes());
    };
    symbol(1, 0x12, 0x10, 4, 128);
    symbol(6, 0x11, 0, 7, 40);
    let mut info = Vec::new();
    for (index, offset, size) in [(0_u16, 0_u16, 8_u32), (1, 8, 4)] {
        info.extend([4, 0x17, 12, 0, 0, 0, 0, 0]);
        info.extend(index.to_le_bytes());
        info.extend(offset.to_le_bytes());
        info.extend((size << 18).to_le_bytes());
    }
    let sections: [(&str, u32, Vec<u8>, u64, u32); 7] = [
        (".shstrtab", 3, names.to_vec(), 0, 0),
        (".strtab", 3, strings, 0, 0),
        (".symtab", 2, symbols, 0, 2),
        (".text.work", 1, vec![0; 128], 0, 0),
        (".nv.info.work", 0x7000_0000, info, 0, 0),
        (".nv.shared.work", 8, Vec::new(), 512, 0),
        (".nv.global", 8, Vec::new(), 40, 0),
    ];
    let mut out = vec![0; 64];
    let mut headers = vec![0; 64];
    for (name, kind, bytes, empty_size, link) in sections {
        let mut header = Vec::new();
        header.extend(at(name).to_le_bytes());
        header.extend(kind.to_le_bytes());
        header.extend([0; 16]);
        header.extend((out.len() as u64).to_le_bytes());
        header.extend((bytes.len() as u64 + empty_size).to_le_bytes());
        header.extend(link.to_le_bytes());
        header.resize(64, 0);
        headers.extend(header);
        out.extend(bytes);
    }
    let table = out.len() as u64;
    out.extend(&headers);
    out[..6].copy_from_slice(b"\x7fELF\x02\x01");
    out[40..48].copy_from_slice(&table.to_le_bytes());
    out[58..60].copy_from_slice(&64_u16.to_le_bytes());
    out[60..62].copy_from_slice(&8_u16.to_le_bytes());
    out[62..64].copy_from_slice(&1_u16.to_le_bytes());
    out
}

fn only_kernel(image: &[u8], target: Target) -> Result<String, ImageError> {
    let module = module(image, target)?;
    let name = module.kernels().next().map(|kernel| kernel.name().to_owned());
    Ok(name.expect("the module has a kernel"))
}

#[test]
fn ptx_is_read_plain_terminated_and_packed_either_way() {
    let text = text("here");
    assert_eq!(only_kernel(text.as_bytes(), DEVICE).unwrap(), "here");
    let terminated = format!("{text}\0rubbish");
    assert_eq!(only_kernel(terminated.as_bytes(), DEVICE).unwrap(), "here");
    for packing in [Packing::Plain, Packing::Lz4, Packing::Zstd] {
        let image = fatbin(&[entry(PTX, 75, text.as_bytes(), packing)]);
        assert_eq!(only_kernel(&image, DEVICE).unwrap(), "here", "{packing:?}");
    }
}

#[test]
fn of_several_images_the_newest_that_the_device_runs_is_chosen() {
    let each = |arch: u32| entry(PTX, arch, text(&format!("for_{arch}")).as_bytes(), Packing::Lz4);
    let image = fatbin(&[each(50), each(90), each(70), each(60)]);
    assert_eq!(only_kernel(&image, DEVICE).unwrap(), "for_70");
    let newer = Target { capability: 90, ..DEVICE };
    assert_eq!(only_kernel(&image, newer).unwrap(), "for_90");
    assert_eq!(only_kernel(&fatbin(&[each(80)]), DEVICE), Err(ImageError::NotForThisDevice));
    assert_eq!(only_kernel(&fatbin(&[]), DEVICE), Err(ImageError::NotForThisDevice));
}

#[test]
fn machine_code_is_taken_only_without_ptx_and_only_if_it_may_be() {
    let elf = cubin();
    let both = fatbin(&[
        entry(ELF, 75, &elf, Packing::Plain),
        entry(PTX, 75, text("text").as_bytes(), Packing::Plain),
    ]);
    assert_eq!(only_kernel(&both, DEVICE).unwrap(), "text");
    for packing in [Packing::Plain, Packing::Lz4, Packing::Zstd] {
        let image = fatbin(&[entry(ELF, 90, &elf, packing)]);
        let module = module(&image, DEVICE).unwrap();
        let kernel = module.kernel("work").expect("the kernel of the machine code");
        assert!(!kernel.has_code());
        assert_eq!(
            (kernel.param_bytes(), kernel.params().len(), kernel.shared_bytes()),
            (12, 2, 512)
        );
        assert_eq!((module.globals()[0].name.as_str(), module.globals()[0].size), ("seen", 40));
        assert_eq!(only_kernel(&image, STRICT), Err(ImageError::NotForThisDevice));
    }
    assert_eq!(only_kernel(&elf, STRICT), Err(ImageError::NotForThisDevice));
}

#[test]
fn what_the_linker_gave_out_is_an_image_again() {
    let texts = [("a.ptx", text("one")), ("b b.ptx", text("two"))]
        .map(|(name, text)| Text { name: name.to_owned(), text });
    let joined = join(&texts);
    assert_eq!(content(joined.as_bytes(), DEVICE), Ok(Content::Texts(texts.to_vec())));
    assert_eq!(module(joined.as_bytes(), DEVICE).unwrap().kernels().count(), 2);
    let cut = &joined[..joined.len() - 5];
    assert!(matches!(content(cut.as_bytes(), DEVICE), Err(ImageError::Broken(_))));
}

#[test]
fn an_entry_that_claims_to_unpack_to_too_much_is_refused() {
    for packing in [Packing::Lz4, Packing::Zstd] {
        for claim in [1_u64 << 40, u64::MAX, 200 << 20] {
            let mut image = fatbin(&[entry(PTX, 75, text("k").as_bytes(), packing)]);
            image[16 + 56..16 + 64].copy_from_slice(&claim.to_le_bytes());
            assert!(
                matches!(module(&image, DEVICE), Err(ImageError::Broken(_))),
                "{packing:?} {claim}"
            );
        }
    }
}

#[test]
fn thousands_of_cuts_and_flips_give_an_error_or_a_module_and_never_panic() {
    let elf = cubin();
    let body = text("k");
    let mut images = vec![elf.clone(), body.clone().into_bytes()];
    for packing in [Packing::Plain, Packing::Lz4, Packing::Zstd] {
        images.push(fatbin(&[
            entry(ELF, 75, &elf, packing),
            entry(PTX, 70, body.as_bytes(), packing),
            entry(PTX, 90, body.as_bytes(), packing),
        ]));
        images.push(fatbin(&[entry(ELF, 75, &elf, packing)]));
    }
    let mut state = 1_u64;
    let mut next = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % bound.max(1)
    };
    let (mut read, mut refused) = (0, 0);
    for image in &images {
        for end in 0..image.len() {
            let _ = module(&image[..end], DEVICE);
        }
        for _ in 0..3_000 {
            let mut image = image.clone();
            for _ in 0..=next(3) {
                let at = next(image.len());
                match next(4) {
                    0 => image[at] = 0xff,
                    1 => image[at] = 0,
                    _ => image[at] ^= 1 << next(8),
                }
            }
            match module(&image, DEVICE) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(read > 1000 && refused > 1000, "{read} read, {refused} refused");
}
