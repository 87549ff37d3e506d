//! Texts that are damaged or made to hurt: refused with a reason, in time and memory that the text's
//! length bounds; and if they are read all the same, their kernels end or can be stopped.

mod common;

use std::time::{Duration, Instant};

use common::{Device, HEAD, Random, place_globals};
use simcuda_ptx::{Launch, Module, run};

/// Longer than any of these may take, on a slow machine too.
const LONG: Duration = Duration::from_secs(20);

fn corpus() -> Vec<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/");
    let mut texts = Vec::new();
    for folder in ["corpus/O2", "data/tinygrad", "data/clang"] {
        let files = std::fs::read_dir(format!("{root}{folder}")).expect("the corpus is there");
        let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        files.retain(|file| file.extension().is_some_and(|kind| kind == "ptx"));
        files.sort();
        texts.extend(files.iter().map(|file| std::fs::read_to_string(file).expect("a text")));
    }
    texts
}

/// A piece of a text that begins and ends at lines, so that a case is quick and still means something.
fn excerpt(random: &mut Random, text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let entries: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].contains(".entry")).collect();
    let Some(&start) = entries.get(random.next() as usize % entries.len().max(1)) else {
        return text.to_owned();
    };
    let end = entries.iter().copied().find(|&i| i > start).unwrap_or(lines.len());
    let head = lines.iter().take(entries[0]).copied();
    head.chain(lines[start..end].iter().copied()).collect::<Vec<_>>().join("\n")
}

/// One damage: a cut, a flipped bit, a byte, a line twice or away, a number made huge.
fn damage(random: &mut Random, text: &mut Vec<u8>) {
    let at = random.next() as usize % text.len().max(1);
    let lines = |text: &[u8]| text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    match random.next() % 8 {
        0 => text.truncate(at),
        1 => text[at] ^= 1 << (random.next() % 8),
        2 => text[at] = b"{}[]();,.%@!+-09az\"\0"[random.next() as usize % 20],
        3 => {
            text.remove(at);
        }
        4 | 5 => {
            let mut lines = lines(text);
            let (from, to) =
                (random.next() as usize % lines.len(), random.next() as usize % lines.len());
            if random.next() & 1 == 0 {
                lines.swap(from, to)
            } else {
                drop(lines.remove(from))
            }
            *text = lines.join(&b'\n');
        }
        6 => {
            if let Some(digit) = text[at..].iter().position(u8::is_ascii_digit) {
                let big = ["4294967295", "18446744073709551615", "2147483648", "0"];
                let big = big[random.next() as usize % 4].bytes();
                text.splice(at + digit..=at + digit, big);
            }
        }
        _ => {
            let piece: Vec<u8> = text[at..].iter().take(40).copied().collect();
            let to = random.next() as usize % text.len();
            text.splice(to..to, piece);
        }
    }
}

/// Runs every kernel of a module that was read, for as long as patience lasts.
fn try_out(module: &Module) {
    if module.globals().iter().map(|global| global.size).sum::<usize>() > 1 << 24 {
        return;
    }
    for kernel in module.kernels() {
        let device = Device::new();
        device.tick_ns.set(1000);
        device.patience.set(Some(50));
        let globals = place_globals(&device, module);
        let memory = device.allocate(1 << 14);
        let mut params = vec![0; kernel.param_bytes()];
        for param in kernel.params().iter().filter(|param| param.size == 8) {
            params[param.offset..param.offset + 8].copy_from_slice(&memory.to_le_bytes());
        }
        let launch = Launch {
            grid: [2, 1, 1],
            block: [40, 1, 1],
            dynamic_shared_bytes: 256,
            params: &params,
            globals: &globals,
        };
        // Whatever comes of it, it comes.
        let _ = run(module, kernel, &launch, &device);
    }
}

#[test]
fn thousands_of_cuts_and_flips_are_refused_or_run_and_never_panic() {
    let rounds = std::env::var("HALFWARP_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(6000);
    let seed = std::env::var("HALFWARP_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let corpus = corpus();
    let mut random = Random(seed);
    let mut read = 0;
    for round in 0..rounds {
        let text = excerpt(&mut random, &corpus[round % corpus.len()]);
        let mut bytes = text.into_bytes();
        for _ in 0..=random.next() % 3 {
            if !bytes.is_empty() {
                damage(&mut random, &mut bytes);
            }
        }
        let began = Instant::now();
        if let Ok(module) = Module::parse(&String::from_utf8_lossy(&bytes)) {
            read += 1;
            try_out(&module);
        }
        let took = began.elapsed();
        assert!(took < LONG, "round {round} of seed {seed} took {took:?}");
    }
    println!("{rounds} damaged texts of seed {seed}, {read} of them read and run");
    assert!(read > rounds / 20, "the damage leaves {read} of {rounds} readable");
}

/// Refused or not, it is over soon.
fn soon(what: &str, text: &str) -> bool {
    let began = Instant::now();
    let read = Module::parse(text).is_ok();
    let took = began.elapsed();
    assert!(took < LONG, "{what}: {took:?}");
    read
}

#[test]
fn what_grows_faster_than_the_text_is_bounded() {
    let many = |piece: &str, count: usize| piece.repeat(count);
    let digits =
        format!("{HEAD}.entry k() {{ .reg .b32 %r<4>; mov.b32 %r{}, 0; }}", many("1", 1 << 20));
    assert!(!soon("a name of a million digits", &digits));
    let dots = format!("{HEAD}.entry k() {{ add{} %a, %b; }}", many(".x", 1 << 20));
    assert!(!soon("a million modifiers", &dots));
    let braces = format!("{HEAD}.entry k() {}", many("{", 1 << 20));
    assert!(!soon("a million braces", &braces));
    let init = format!("{HEAD}.global .b8 x[4] = {};", many("{", 1 << 20));
    assert!(!soon("a million braces of an initialiser", &init));
    let lists = format!(
        "{HEAD}.entry k() {{ .reg .b32 %r; A: L: .branchtargets {} A; {} }}",
        many("A,", 100_000),
        many("brx.idx %r, L;", 100_000)
    );
    assert!(!soon("long lists of targets, often", &lists));
    let blank = many(";", (32 << 20) + 1);
    assert!(!soon("a text that is too long", &blank));
    assert!(!soon("too many tokens", &many(";", 16 << 20)));
}

#[test]
fn many_functions_that_call_each_other_are_read_in_time() {
    let mut text = String::from(HEAD);
    for i in 0..5_000 {
        text += &format!(".func f{i};\n");
    }
    for i in 0..5_000 {
        let (next, other) = ((i + 1) % 5_000, (i * 7 + 1) % 5_000);
        text += &format!(".func f{i} {{ .shared .b8 s[4]; call f{next}; call f{other}; }}\n");
        text += &format!(".entry k{i}() {{ call f{i}; }}\n");
    }
    assert!(soon("calls in a ring", &text));
}

#[test]
fn a_recursion_with_many_registers_overflows_its_stack_instead_of_the_host() {
    let mut text = format!("{HEAD}.func f; .func f {{ .reg .b32 %r<9000>;");
    for i in 0..9_000 {
        text += &format!("mov.u32 %r{i}, {i};");
    }
    text += "call f; } .entry k() { call f; }";
    let module = Module::parse(&text).unwrap();
    let device = Device::new();
    let shape = [[1, 1, 1], [1024, 1, 1]];
    let fault = common::launch(&device, &module, "k", shape, 0, &[]);
    assert!(matches!(fault, Err(simcuda_ptx::Fault::Address { write: true, .. })), "{fault:?}");
}
