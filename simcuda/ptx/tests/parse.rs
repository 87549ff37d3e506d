//! What the parser refuses, how it says so, and that no text makes it panic.

mod common;

use common::{Arg, Device, launch, one_block, parse};
use proptest::prelude::*;
use simcuda_ptx::Module;

const SAMPLES: [&str; 6] = [
    include_str!("data/clang/kernels-O2.ptx"),
    include_str!("data/clang/kernels-O0.ptx"),
    include_str!("data/tinygrad/sum_rows.ptx"),
    include_str!("data/tinygrad/matmul_half.ptx"),
    include_str!("data/tinygrad/half_ops.ptx"),
    include_str!("data/tinygrad/pad.ptx"),
];

fn refusal(body: &str) -> (u32, String) {
    let text = format!(
        ".version 7.0\n.target sm_75\n.entry k() {{\n.reg .b32 %r<4>; .reg .pred %p<4>;\n{body}\n}}"
    );
    let error = Module::parse(&text).expect_err(body);
    (error.line, error.reason)
}

#[test]
fn an_unknown_instruction_is_named_with_its_line() {
    for instruction in [
        "frobnicate.u32",
        "add.rn.u32",
        "add.f31",
        "tex.2d.v4.f32.f32",
        "wgmma.fence.sync.aligned",
        "setp.xx.s32",
    ] {
        let (line, reason) = refusal(&format!("\n\n  {instruction} %r0, %r1, %r2;"));
        assert_eq!(line, 7, "{instruction}");
        assert_eq!(reason, format!("unknown instruction `{instruction}`"));
    }
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    for (body, reason) in [
        ("add.u32 %r0, %r1;", "it takes 3 operands"),
        ("add.u32 %r9, %r1, %r2;", "`%r9` is not a register"),
        ("add.u32 %r0, %r1, nothing;", "`nothing` is not declared"),
        ("add.u32 %r0, %p1, %r2;", "`%p1` is of the wrong type"),
        ("bra NOWHERE;", "there is no label `NOWHERE`"),
        ("L: L:", "label `L` is set twice"),
        ("call nobody;", "function `nobody` is not declared"),
        ("@%r1 ret;", "`%r1` is not a predicate"),
        ("st.global.v2.u32 [%r1], %r2;", "it takes 2 registers"),
        ("ret", "expected an operand, found `}`"),
        (".shared .b8 big[9999999];", "shared memory up to `big` is over 1048576 bytes"),
        (".local .b8 big[9999999];", "local memory is over 524288 bytes a thread"),
        (".reg .b33 %x;", "`.b33` is not a type"),
        ("mov.u32 %r1, 99999999999999999999;", "`99999999999999999999` is not a number"),
    ] {
        let (line, found) = refusal(body);
        assert!(found.contains(reason), "{body}: {found}");
        assert!(line == 5 || line == 6, "{body}: line {line}");
    }
}

#[test]
fn a_function_without_a_body_cannot_be_called() {
    let text = ".version 7.0 .target sm_75\n.extern .func calloc(.param .b64 n);\n.entry k() { .param .b64 x;\ncall calloc, (x); }";
    let error = Module::parse(text).unwrap_err();
    assert_eq!(error.to_string(), "ptx line 4: `calloc` has no definition in this module");
}

#[test]
fn kernels_tell_what_they_take() {
    let module = parse(
        ".version 7.0 .target sm_75 .address_size 64
        .entry a(.param .u8 x, .param .align 16 .b8 y[20], .param .u64 .ptr .global .align 4 z)
            .reqntid 8, 4, 2 { ret; }
        .entry b() .maxntid 100 .minnctapersm 2 { .shared .align 16 .b8 s[40]; .reg .b64 %d; mov.u64 %d, s; }
        .entry c() { ret; }",
    );
    let names: Vec<&str> = module.kernels().map(|kernel| kernel.name()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let a = module.kernel("a").unwrap();
    let layout: Vec<_> = a.params().iter().map(|p| (p.offset, p.size, p.align)).collect();
    assert_eq!(layout, [(0, 1, 1), (16, 20, 16), (40, 8, 8)]);
    assert_eq!((a.param_bytes(), a.max_threads()), (48, Some(64)));
    let b = module.kernel("b").unwrap();
    assert_eq!((b.shared_bytes(), b.max_threads(), b.param_bytes()), (40, Some(100), 0));
    assert_eq!(module.kernel("c").unwrap().max_threads(), None);
    assert!(module.kernel("d").is_none());
}

#[test]
fn module_variables_keep_their_order_and_their_values() {
    let module = parse(
        ".version 7.0 .target sm_75 .address_size 64
        .global .align 8 .u16 a[4] = {1, 0x203, -1};
        .const .f32 b = 0f3F800000;
        .global .u64 c[2] = {generic(a)+2, f};
        .global .b8 d[100];
        .func f() { ret; }",
    );
    let globals = module.globals();
    let names: Vec<&str> = globals.iter().map(|global| global.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert_eq!((globals[0].size, globals[0].align), (8, 8));
    assert_eq!(globals[0].init, [1, 0, 3, 2, 255, 255]);
    assert_eq!(globals[1].init, 1.0_f32.to_le_bytes());
    assert!(globals[1].constant && !globals[0].constant);
    let [pointer] = globals[2].pointers[..] else { panic!("one pointer") };
    assert_eq!((pointer.offset, pointer.global, pointer.addend), (0, 0, 2));
    assert_eq!((globals[3].size, globals[3].init.len()), (100, 0));
}

#[test]
fn a_module_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Module>();
}

#[test]
fn debug_directives_and_comments_are_passed_over() {
    let module = parse(
        ".version 7.0\n.target sm_75, debug\n.file 1 \"a.cu\"\n/* a\n comment */
        .entry k(.param .u64 out) {\n.loc 1 2 3\n.reg .b64 %d; // .reg .b64 %d;
        .pragma \"nounroll\";\nld.param.u64 %d, [out];\n.loc 1 3 4, function_name x, inlined_at 1 2 3
        st.global.u32 [%d], 0b101;\n}
        .section .debug_info { .b8 1, 2, 3 }\0 what follows a NUL is not read $$$",
    );
    let device = Device::new();
    let out = device.allocate(4);
    launch(&device, &module, "k", one_block(1), 0, &[Arg::U64(out)]).unwrap();
    assert_eq!(device.download::<u32>(out, 1), [5]);
}

/// Runs every kernel of a module that still parses, for a little while.
fn run_all(module: &Module) {
    for kernel in module.kernels() {
        let device = Device::new();
        device.patience.set(Some(3));
        device.tick_ns.set(1000);
        let memory = device.allocate(1 << 16);
        let mut params = vec![0; kernel.param_bytes()];
        for param in kernel.params().iter().filter(|param| param.size == 8) {
            params[param.offset..param.offset + 8].copy_from_slice(&memory.to_le_bytes());
        }
        let globals = vec![memory; module.globals().len()];
        let launch = simcuda_ptx::Launch {
            grid: [2, 1, 1],
            block: [40, 1, 1],
            dynamic_shared_bytes: 256,
            params: &params,
            globals: &globals,
        };
        // Any outcome will do, as long as there is one.
        let _outcome = simcuda_ptx::run(module, kernel, &launch, &device);
    }
}

fn mutate(text: &str, edits: &[(usize, u8, usize)]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for &(at, kind, argument) in edits {
        let at = at % bytes.len();
        match kind % 6 {
            0 => bytes[at] = argument as u8,
            1 => {
                bytes.remove(at);
            }
            2 => bytes.insert(at, b"{};,.:[]()<>@%!\"/*-+0x"[argument % 22]),
            3 => bytes.truncate(at.max(1)),
            // A piece of another place: lines that are right in themselves.
            4 => {
                let from = argument % bytes.len();
                let piece = bytes[from..(from + 40).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let end = (at + argument % 60).min(bytes.len());
                bytes.drain(at..end);
            }
        }
        if bytes.is_empty() {
            bytes.push(b' ');
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Replaces words by words of the same text: most of what comes out is still PTX.
fn exchange_words(text: &str, edits: &[(usize, usize)]) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '%';
    let mut pieces: Vec<&str> = text.split_inclusive(|c| !is_word(c)).collect();
    for &(at, from) in edits {
        let (at, from) = (at % pieces.len(), from % pieces.len());
        // Only words with the same mark behind them.
        if pieces[at].chars().last() == pieces[from].chars().last() {
            pieces[at] = pieces[from];
        }
    }
    pieces.concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_text_is_refused_or_run_but_never_panics(
        sample in 0..SAMPLES.len(),
        edits in prop::collection::vec((any::<usize>(), any::<u8>(), any::<usize>()), 1..12),
    ) {
        if let Ok(module) = Module::parse(&mutate(SAMPLES[sample], &edits)) {
            run_all(&module);
        }
    }

    #[test]
    fn exchanged_words_are_refused_or_run_but_never_panic(
        sample in 0..SAMPLES.len(),
        edits in prop::collection::vec((any::<usize>(), any::<usize>()), 1..6),
    ) {
        if let Ok(module) = Module::parse(&exchange_words(SAMPLES[sample], &edits)) {
            run_all(&module);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _outcome = Module::parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_order_of_tokens_is_refused_or_read(
        words in prop::collection::vec(
            prop::sample::select(vec![
                ".entry", ".func", ".global", ".shared", ".local", ".param", ".reg", ".b32", ".u64",
                ".pred", ".v4", ".align", "k", "%r1", "%p", "{", "}", "(", ")", "[", "]", "<", ">",
                ";", ",", "=", "@", "!", "4", "0", "-", "+", "ld", "st", "mov", "add", "bra", "call",
                "ret", "k:", ".version", ".branchtargets", "|", "\"x\"", "%tid", ".x", "0f3F800000",
            ]),
            0..80,
        )
    ) {
        let _outcome = Module::parse(&words.join(" "));
    }
}
