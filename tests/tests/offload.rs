//! OpenMP programs that GCC offloads to the simulated card: its C library, its `libgomp` and the
//! program itself, linked by the driver as one module.
//!
//! Debian has the compiler as `gcc-12-offload-nvptx`; `.ci/run` installs it. Where it is not, the tests
//! say that they checked nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use halfwarp_tests::{Machine, SkipKind, finish, skip};
use simcuda_ptx::{LinkError, Module};

const LONG: Duration = Duration::from_secs(120);
/// Where the compiler's libraries for the device lie.
const LIBRARIES: &str = "/usr/lib/gcc/x86_64-linux-gnu/12/accel/nvptx-none";

fn is_there(test: &str) -> bool {
    let there = Path::new(LIBRARIES).join("mkoffload").exists();
    if !there {
        skip(test, SkipKind::Registry, "gcc-12-offload-nvptx is not installed");
    }
    there
}

fn compiled(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/offload");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("offload-{name}"));
    let mut compiler = Command::new("gcc-12");
    compiler
        .current_dir(source)
        .args(["-O2", "-w", "-fopenmp", "-foffload=nvptx-none"])
        .args(["-foffload-options=nvptx-none=-lm", "-o"])
        .arg(&program)
        .arg(format!("{name}.c"))
        .arg("-lm");
    let ended = finish(&mut compiler, LONG);
    assert!(ended.status.success(), "{name} does not compile: {}", ended.all());
    program
}

fn right_on_the_device(name: &str) {
    if !is_there(name) {
        return;
    }
    let machine = Machine::new();
    let ended = finish(&mut machine.natively(compiled(name)), LONG);
    let said = ended.all();
    assert!(ended.status.success(), "{name}: {said}");
    assert!(ended.stdout.ends_with("right on the device\n"), "{name}: {said}");
}

macro_rules! programs {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            right_on_the_device(stringify!($name));
        }
    )* };
}
programs! {
    allocate choose data dot extremes functions heap histogram maths matmul nowait saxpy scan
    stencil structures sum teams
}

/// The members of a static library.
fn members(archive: &[u8]) -> Vec<&[u8]> {
    let mut rest = archive.strip_prefix(b"!<arch>\n").expect("an archive");
    let mut members = Vec::new();
    while rest.len() >= 60 {
        let (header, after) = rest.split_at(60);
        let length = std::str::from_utf8(&header[48..58]).expect("a number").trim();
        let length: usize = length.parse().expect("a number");
        let (member, after) = after.split_at(length);
        members.push(member);
        rest = &after[(length % 2).min(after.len())..];
    }
    members
}

#[test]
fn every_text_of_the_compilers_libraries_can_be_read() {
    if !is_there("every_text_of_the_compilers_libraries_can_be_read") {
        return;
    }
    let (mut texts, mut refused) = (0, Vec::new());
    let names = ["libc.a", "libm.a", "libgomp.a", "libgcc.a", "mgomp/libc.a", "mgomp/libm.a"];
    for name in names.into_iter().chain(["mgomp/libgomp.a", "mgomp/libgcc.a"]) {
        let archive = Path::new(LIBRARIES).join(name);
        let archive = std::fs::read(archive).expect("the library can be read");
        for member in members(&archive).into_iter().filter(|m| m.starts_with(b"// BEGIN")) {
            let end = member.iter().position(|byte| *byte == 0).unwrap_or(member.len());
            let text = String::from_utf8_lossy(&member[..end]);
            texts += 1;
            if let Err(LinkError::Text { error, .. }) = Module::link(&[(name, &text)]) {
                refused.push(format!("{name}: {error}"));
            }
        }
    }
    assert!(texts > 600, "only {texts} texts were found");
    assert!(refused.is_empty(), "{} of {texts}:\n{}", refused.len(), refused.join("\n"));
}
