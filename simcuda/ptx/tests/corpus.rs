//! The corpus: kernels in C, compiled by clang at `-O2` and `-O0`, against the same C compiled for the
//! host by the system's compiler. Bit for bit, except where the ISA itself only bounds an error.

mod common;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::{Arg, Device, Random, launch, parse};
use simcuda_ptx::Module;

/// Bytes each thread reads and writes, and what all share behind that.
const THREAD_BYTES: usize = 64;
const COMMON_BYTES: usize = 1024;

/// A line of `corpus/list.h`.
#[derive(Clone, Copy, Debug)]
struct Entry {
    name: &'static str,
    file: &'static str,
    blocks: u32,
    threads: u32,
    input: &'static str,
    output: &'static str,
    bound: &'static str,
}

fn entries() -> Vec<Entry> {
    let lines = include_str!("corpus/list.h").lines();
    let fields = lines.filter_map(|line| line.strip_prefix("K(")?.strip_suffix(')'));
    fields
        .map(|line| {
            let words: Vec<&'static str> = line.split(", ").collect();
            let [name, file, blocks, threads, input, output, bound] = words[..] else {
                panic!("a line of list.h has seven words: {line}");
            };
            let number = |word: &str| word.parse().expect("blocks and threads are numbers");
            let (blocks, threads) = (number(blocks), number(threads));
            Entry { name, file, blocks, threads, input, output, bound }
        })
        .collect()
}

/// The corpus as a program of the host, compiled once.
fn host() -> &'static Path {
    static HOST: OnceLock<PathBuf> = OnceLock::new();
    HOST.get_or_init(|| {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus-host");
        let mut files: Vec<&str> = entries().iter().map(|entry| entry.file).collect();
        files.dedup();
        let output = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .current_dir(&corpus)
            // Each operation rounds once, in the rounding that is set; integers wrap.
            .args(["-std=gnu11", "-w", "-O1", "-fwrapv", "-ffp-contract=off", "-frounding-math"])
            .args(["-fexcess-precision=16", "-o"])
            .arg(&program)
            .arg("host.c")
            .args(files.iter().map(|file| format!("{file}.c")))
            .arg("-lm")
            .output()
            .expect("a C compiler can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the corpus does not compile for the host:\n{said}");
        program
    })
}

/// What the host makes of `input`: output, and what was printed.
fn on_the_host(entry: Entry, input: &[u8]) -> (Vec<u8>, String) {
    let mut child = Command::new(host())
        .args([entry.name, &entry.blocks.to_string(), &entry.threads.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the host program starts");
    child.stdin.take().expect("its input is a pipe").write_all(input).expect("it reads its input");
    let output = child.wait_with_output().expect("it ends");
    assert!(
        output.status.success(),
        "{}: the host program ended with {}",
        entry.name,
        output.status
    );
    (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn interpreted(module: &Module, entry: Entry, input: &[u8]) -> (Vec<u8>, String) {
    let device = Device::new();
    let out_bytes = input.len() + COMMON_BYTES;
    let (from, to) = (device.upload(input), device.allocate(out_bytes));
    let arguments = [Arg::U64(from), Arg::U64(to), Arg::U32(entry.blocks * entry.threads)];
    let shape = [[entry.blocks, 1, 1], [entry.threads, 1, 1]];
    launch(&device, module, entry.name, shape, 0, &arguments)
        .unwrap_or_else(|fault| panic!("{}: {fault}", entry.name));
    (device.download(to, out_bytes), device.printed.take())
}

/// Numbers at the edges of every format: what random bits seldom are.
const SINGLES: [u32; 16] = [
    0,
    1 << 31,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    1,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0x3f7f_ffff,
    0x4b80_0001,
    0x3f00_0000,
    0x4f00_0000,
];

fn double(random: &mut Random) -> u64 {
    let (high, low) = (u64::from(random.next()), u64::from(random.next()));
    match random.next() % 5 {
        0 => f64::from(f32::from_bits(SINGLES[random.next() as usize % 16])).to_bits(),
        1 => high << 32 | low,
        2 => (f64::from(high as u32 as i32) / 256.0).to_bits(),
        // Near one, so that sums cancel and products stay in range.
        3 => (0x3fe << 52) + (high << 31 | low >> 1),
        _ => (high & 0xffff) << 48,
    }
}

fn single(random: &mut Random) -> u32 {
    let bits = random.next();
    match random.next() % 5 {
        0 => SINGLES[random.next() as usize % 16],
        1 => bits,
        2 => (bits as i32 as f32 / 256.0).to_bits(),
        3 => 0x3f00_0000 + (bits >> 8),
        _ => bits & 0xfff0_0000,
    }
}

fn inputs(kind: &str, bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut input = Vec::with_capacity(bytes);
    while input.len() < bytes {
        let word = match kind {
            "f64" => double(&mut random),
            "small64" => (f64::from(random.float()) * 4.0).to_bits(),
            _ => {
                let mut half = || match kind {
                    "f32" => single(&mut random),
                    "small" => (random.float() * 4.0).to_bits(),
                    "f16" => {
                        let bits = random.next();
                        if bits & 7 == 0 { bits & 0xfc00_fc00 } else { bits & 0xbfff_bfff }
                    }
                    _ => {
                        let bits = random.next();
                        [bits, bits >> (bits & 31), 0u32.wrapping_sub(bits & 3), bits]
                            [random.next() as usize % 4]
                    }
                };
                u64::from(half()) | u64::from(half()) << 32
            }
        };
        input.extend(word.to_le_bytes());
    }
    input
}

/// Equal as the entry says. NaNs are equal whatever their bits: the ISA and the host differ there.
fn equal(entry: Entry, ours: &[u8], theirs: &[u8]) -> bool {
    let double = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let single = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let singles = || ours.chunks(4).zip(theirs.chunks(4));
    let close = |x: f64, y: f64| x.is_nan() && y.is_nan() || x == y || within(entry.bound, x, y);
    ours == theirs
        || match entry.output {
            "f64" => close(double(ours), double(theirs)),
            "f32" if entry.bound != "0" => {
                singles().all(|(x, y)| close(single(x).into(), single(y).into()))
            }
            "f32" => singles().all(|(x, y)| x == y || single(x).is_nan() && single(y).is_nan()),
            "f16" => ours.chunks(2).zip(theirs.chunks(2)).all(|(x, y)| x == y || half_nans(x, y)),
            "mixed" => {
                double(ours).is_nan() && double(theirs).is_nan()
                    || singles().all(|(x, y)| x == y || single(x).is_nan() && single(y).is_nan())
            }
            _ => false,
        }
}

fn half_nans(x: &[u8], y: &[u8]) -> bool {
    let nan = |h: &[u8]| u16::from_le_bytes([h[0], h[1]]) & 0x7fff > 0x7c00;
    nan(x) && nan(y)
}

fn within(bound: &str, x: f64, y: f64) -> bool {
    let (kind, bits) = bound.split_at(1);
    let Ok(bits) = bits.parse::<i32>() else { return false };
    let error = (x - y).abs();
    match kind {
        "r" => error <= y.abs() * f64::powi(2.0, -bits),
        _ => error <= f64::powi(2.0, -bits),
    }
}

fn compare(entry: Entry, level: &str, module: &Module, seed: u64) {
    let input = inputs(entry.input, (entry.blocks * entry.threads) as usize * THREAD_BYTES, seed);
    let (theirs, they_printed) = on_the_host(entry, &input);
    let (ours, we_printed) = interpreted(module, entry, &input);
    for (i, (x, y)) in ours.chunks_exact(8).zip(theirs.chunks_exact(8)).enumerate() {
        let (thread, word) = (i * 8 / THREAD_BYTES, i * 8 % THREAD_BYTES / 4);
        assert!(
            equal(entry, x, y),
            "{} at -{level}, seed {seed}: thread {thread}, from word {word}: {x:02x?} instead of {y:02x?}, input {:08x?}",
            entry.name,
            input.chunks(4).skip(thread * 16).take(16).map(word_of).collect::<Vec<_>>(),
        );
    }
    assert_eq!(sorted(&we_printed), sorted(&they_printed), "{} prints", entry.name);
}

fn word_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Lines in no order of threads.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn read(level: &str, file: &str) -> Module {
    let path = format!("{}/tests/corpus/{level}/{file}.ptx", env!("CARGO_MANIFEST_DIR"));
    parse(&std::fs::read_to_string(path).expect("the corpus is beside the test"))
}

/// Compares the kernels of some files; three inputs each.
fn check(files: &[&str]) {
    let mut modules = HashMap::new();
    let mut failures = Vec::new();
    for entry in entries().into_iter().filter(|entry| files.contains(&entry.file)) {
        for level in ["O2", "O0"] {
            let module =
                modules.entry((level, entry.file)).or_insert_with(|| read(level, entry.file));
            for seed in 1..=3 {
                let run = std::panic::AssertUnwindSafe(|| compare(entry, level, module, seed));
                if let Err(why) = std::panic::catch_unwind(run) {
                    failures.push(why.downcast_ref::<String>().cloned().unwrap_or_default());
                    break;
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_corpus_has_at_least_sixty_kernels_and_lists_each_once() {
    let mut names: Vec<&str> = entries().iter().map(|entry| entry.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(count >= 60 && names.len() == count, "{count} kernels, {} names", names.len());
    for entry in entries() {
        let module = read("O2", entry.file);
        assert!(module.kernel(entry.name).is_some(), "{} is in {}.ptx", entry.name, entry.file);
        assert!(module.kernels().count() > 1);
    }
}

#[test]
fn integers_of_every_width_equal_the_host_bit_for_bit() {
    check(&["ints"]);
}

#[test]
fn bit_tricks_equal_their_definition_bit_for_bit() {
    check(&["bits"]);
}

#[test]
fn floats_in_every_rounding_equal_the_host_bit_for_bit() {
    check(&["floats"]);
}

#[test]
fn halves_equal_the_host_bit_for_bit() {
    check(&["halves"]);
}

#[test]
fn approximations_stay_within_the_bounds_of_the_isa() {
    check(&["approx"]);
}

#[test]
fn every_memory_holds_what_the_host_would_hold() {
    check(&["memory"]);
}

#[test]
fn calls_and_what_they_print_equal_the_host() {
    check(&["calls"]);
}

#[test]
fn exchanges_between_lanes_and_barriers_follow_the_isa() {
    check(&["warp"]);
}

#[test]
fn atomics_lose_nothing_at_any_scope() {
    check(&["atomics"]);
}

#[test]
fn diverged_lanes_meet_again_with_the_right_values() {
    check(&["flow"]);
}
