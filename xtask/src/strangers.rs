//! Builds the programs of `tests/strangers`: other languages, another C library, a sanitizer, an audit
//! library. Into `target/hw/tests/strangers`, with a link to the Debian packages that their tests use.
//!
//! A compiler that is not there is named with the package that has it; the test of that program then
//! has nothing to run and says so.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::artefacts::{compiler, folder};
use crate::command::{output, root, run};
use crate::debian;

/// One program: how it is called in messages, and what builds it.
type Stranger = (&'static str, fn(&Path, &Path) -> Result<()>);

const STRANGERS: &[Stranger] = &[
    ("musl", musl),
    ("the address sanitizer", sanitized),
    ("an audit library", audit),
    ("Go", go),
    ("Java", java),
];

/// Builds all that can be built here.
pub(crate) fn build() -> Result<()> {
    let out = folder().join("tests/strangers");
    let sources = root().join("tests/strangers");
    fs::create_dir_all(&out)?;
    let mut missing = Vec::new();
    for (name, build) in STRANGERS {
        if let Err(error) = build(&sources, &out) {
            missing.push(format!("{name}: {error:#}"));
        }
    }
    if missing.is_empty() {
        println!(
            "{:>10} new  {}",
            STRANGERS.len(),
            out.strip_prefix(root()).unwrap_or(&out).display()
        );
        return Ok(());
    }
    bail!("not all programs of tests/strangers could be built:\n{}", missing.join("\n"))
}

fn cc(source: &Path, to: &Path, options: &[&str]) -> Result<()> {
    run(compiler()
        .args(["-Wall", "-Wextra", "-Werror", "-O1"])
        .arg(source)
        .args(options)
        .arg("-o")
        .arg(to)
        .args(["-ldl", "-lpthread"]))
}

/// With gcc alone, from the unpacked packages: their `musl-gcc` looks in the system's folders.
fn musl(sources: &Path, out: &Path) -> Result<()> {
    let tree = debian::tree()?;
    let link = out.join("debian");
    let _ = fs::remove_file(&link);
    symlink(&tree, &link)?;
    let lib = tree.join("usr/lib/x86_64-linux-musl");
    let libc = tree.join("lib/x86_64-linux-musl/libc.so");
    let object = out.join("musl.o");
    run(compiler()
        .args(["-nostdinc", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIE", "-c", "-isystem"])
        .arg(tree.join("usr/include/x86_64-linux-musl"))
        .arg(sources.join("musl.c"))
        .arg("-o")
        .arg(&object))?;
    run(compiler()
        .args(["-nostdlib", "-pie", "-o"])
        .arg(out.join("musl"))
        .arg(lib.join("Scrt1.o"))
        .arg(lib.join("crti.o"))
        .arg(&object)
        .arg("-L")
        .arg(tree.join("lib/x86_64-linux-musl"))
        .arg("-lc")
        .arg(lib.join("crtn.o"))
        .arg(format!("-Wl,-dynamic-linker,{}", libc.display())))
}

fn sanitized(sources: &Path, out: &Path) -> Result<()> {
    cc(&sources.join("sanitized.c"), &out.join("sanitized"), &["-g", "-fsanitize=address"])?;
    let runtime = output(compiler().arg("-print-file-name=libasan.so"))?;
    let runtime = fs::canonicalize(runtime.trim()).context("gcc has no libasan (libasan8)")?;
    let link = out.join("libasan.so");
    let _ = fs::remove_file(&link);
    Ok(symlink(runtime, link)?)
}

fn audit(sources: &Path, out: &Path) -> Result<()> {
    cc(&sources.join("audit.c"), &out.join("audit.so"), &["-shared", "-fPIC"])
}

fn go(sources: &Path, out: &Path) -> Result<()> {
    let libraries = format!("-L{}", folder().join("sim").display());
    run(Command::new("go")
        .args(["build", "-buildvcs=false", "-o"])
        .arg(out.join("go"))
        .arg(".")
        .current_dir(sources.join("go"))
        .env("CGO_ENABLED", "1")
        .env("CGO_LDFLAGS", libraries)
        .env("GOTOOLCHAIN", "local"))
    .context("Debian: golang-go")
}

fn java(sources: &Path, out: &Path) -> Result<()> {
    let javac = java_home().context("no javac is there (Debian: default-jdk-headless)")?;
    let include = javac.join("include");
    let options = ["-shared", "-fPIC", "-I", &include.to_string_lossy(), "-I"].map(str::to_owned);
    let linux = include.join("linux").to_string_lossy().into_owned();
    let options: Vec<&str> = options.iter().map(String::as_str).chain([linux.as_str()]).collect();
    cc(&sources.join("jni.c"), &out.join("jni.so"), &options)?;
    run(Command::new(javac.join("bin/javac")).arg("-d").arg(out).arg(sources.join("JniRoad.java")))
}

/// The folder of the Java whose compiler is on PATH.
fn java_home() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let javac = env::split_paths(&path).map(|folder| folder.join("javac")).find(|f| f.exists())?;
    Some(fs::canonicalize(javac).ok()?.parent()?.parent()?.to_path_buf())
}
