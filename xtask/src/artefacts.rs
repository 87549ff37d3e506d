//! `cargo xtask build`: everything that runs, in one folder, `target/hw`.
//!
//! The two stages of the library are linked against glibc 2.17 symbols by zig, since they live in
//! other people's processes; all else is an ordinary release build of this host. Files are replaced by
//! rename, so that a program that has one mapped keeps the one it has.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{cargo, root, run, target};
use crate::roads;
use crate::tools::{Purpose, Venv};

/// The oldest glibc whose hosts can load the library.
const GUEST_TRIPLE: &str = "x86_64-unknown-linux-gnu";
const GUEST_GLIBC: &str = "2.17";

/// A stage of the library: what lives in other people's processes.
pub(crate) struct Guest {
    package: &'static str,
    profile: &'static str,
    built: &'static str,
    /// In `target/hw`.
    pub(crate) name: &'static str,
}

pub(crate) const GUESTS: &[Guest] = &[
    Guest {
        package: "halfwarp-stage1",
        profile: "guest",
        built: "libhalfwarp.so",
        name: "libhalfwarp.so",
    },
    Guest {
        package: "halfwarp-core",
        profile: "release",
        built: "libhalfwarp_core.so",
        name: "libhalfwarp-core.so",
    },
];

/// What a host build makes, and where it goes.
const HOST_ARTEFACTS: &[(&str, &str)] = &[
    ("halfwarp", "halfwarp"),
    ("halfwarpd", "halfwarpd"),
    ("simcudad", "sim/simcudad"),
    ("libcuda.so", "sim/libcuda.so.1"),
    ("libnvidia_ml.so", "sim/libnvidia-ml.so.1"),
    ("libcudart.so", "sim/libcudart.so.13"),
];
const HOST_CRATES: &[&str] =
    &["halfwarp", "halfwarpd", "simcudad", "simcuda-driver", "simcuda-nvml", "simcuda-cudart"];

/// The folder that `HALFWARP_ARTEFACTS` names to tests.
pub(crate) fn folder() -> PathBuf {
    target().join("hw")
}

pub(crate) fn build() -> Result<PathBuf> {
    let hw = folder();
    fs::create_dir_all(hw.join("sim"))?;
    println!("building; the first time takes minutes");
    for guest in GUESTS {
        run(&mut guest_build(guest)?)?;
        place(&guest_file(&target(), guest), guest.name)?;
    }
    build_host()?;
    build_test_programs()?;
    roads::build()?;
    build_samples()?;
    Ok(hw)
}

/// The command that builds one stage of the library, by zig against the oldest glibc.
pub(crate) fn guest_build(guest: &Guest) -> Result<Command> {
    let tools = Venv::for_purpose(Purpose::Build)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(tools.bin()).chain(std::env::split_paths(&path)))?;
    let mut zigbuild = cargo();
    zigbuild
        .args(["zigbuild", "--quiet", "--package", guest.package, "--profile", guest.profile])
        .arg("--target")
        .arg(format!("{GUEST_TRIPLE}.{GUEST_GLIBC}"))
        .env("PATH", path)
        .env("ZIG_GLOBAL_CACHE_DIR", tools.folder().join("zig-cache"))
        .env("ZIG_LOCAL_CACHE_DIR", tools.folder().join("zig-cache"))
        .env("CARGO_ZIGBUILD_CACHE_DIR", tools.folder().join("zigbuild-cache"));
    Ok(zigbuild)
}

/// Where that command leaves it, below cargo's output folder.
pub(crate) fn guest_file(target: &Path, guest: &Guest) -> PathBuf {
    target.join(GUEST_TRIPLE).join(guest.profile).join(guest.built)
}

fn build_host() -> Result<()> {
    let mut build = cargo();
    build.args(["build", "--quiet", "--release"]);
    for package in HOST_CRATES {
        build.args(["--package", package]);
    }
    run(&mut build)?;
    for (built, name) in HOST_ARTEFACTS {
        place(&target().join("release").join(built), name)?;
    }
    let link = folder().join("sim/libcuda.so");
    if fs::symlink_metadata(&link).is_err() {
        symlink("libcuda.so.1", &link)?;
    }
    Ok(())
}

/// Each `cuda-samples/NAME/NAME.c`, linked to `libcuda.so.1` or, in runtime-API form, `libcudart.so.13`
/// by the system's compiler, its PTX beside it.
fn build_samples() -> Result<()> {
    let sources = root().join("cuda-samples");
    let Ok(entries) = fs::read_dir(&sources) else {
        return Ok(());
    };
    let out = folder().join("samples");
    fs::create_dir_all(&out)?;
    let mut folders: Vec<PathBuf> = entries.map(|e| Ok(e?.path())).collect::<Result<_>>()?;
    folders.sort();
    for sample in folders {
        let name = sample.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let source = sample.join(&name).with_extension("c");
        if !source.exists() {
            continue;
        }
        let fresh = out.join(format!(".{name}.new"));
        let mut options = vec!["-O2", "-Wall", "-Wextra", "-ffp-contract=off"];
        if fs::read_to_string(&source)?.contains("/runtime.h\"") {
            options.push("-l:libcudart.so.13");
        }
        compile_c(&[source], &fresh, &options)?;
        finish(&fresh, &out.join(&name))?;
        for ptx in fs::read_dir(&sample)? {
            let ptx = ptx?.path();
            if ptx.extension().is_some_and(|extension| extension == "ptx") {
                place(&ptx, &format!("samples/{}", ptx.file_name().unwrap_or_default().display()))?;
            }
        }
    }
    Ok(())
}

/// How a folder of C becomes programs or libraries of the tests: folder, suffix, options.
type Recipe = (&'static str, &'static str, &'static [&'static str]);

const TEST_PROGRAMS: &[Recipe] = &[
    ("tests/cases/c", "", &["-O1"]),
    ("tests/guests", "", &["-O1"]),
    ("tests/guests/lib", ".so", &["-O0", "-shared", "-fPIC"]),
];
/// Programs that name the driver's functions as ordinary symbols; all others find it by themselves.
const LINKED: &[&str] = &["linked", "linked_hidden", "linked_vmm"];

/// The C programs of the tests. They take nothing of ours.
fn build_test_programs() -> Result<()> {
    let out = folder().join("tests");
    fs::create_dir_all(&out)?;
    let headers = root().join("tests/cases/c");
    let changed = |file: &Path| fs::metadata(file).and_then(|data| data.modified()).ok();
    let newest_header =
        ["case.h", "driver.h"].iter().filter_map(|name| changed(&headers.join(name))).max();
    let mut built = 0;
    for (from, suffix, options) in TEST_PROGRAMS {
        for source in c_files(&root().join(from))? {
            let stem = source.file_stem().unwrap_or_default().to_string_lossy();
            let program = out.join(format!("{stem}{suffix}"));
            if changed(&program) > changed(&source).max(newest_header) {
                continue;
            }
            let fresh = out.join(format!(".{stem}.new"));
            let mut cc = compiler();
            cc.args(*options)
                .args(["-Wall", "-Wextra", "-Werror", "-I"])
                .arg(&headers)
                .arg(&source);
            cc.arg("-o").arg(&fresh).args(["-ldl", "-lpthread"]);
            if LINKED.contains(&&*stem) {
                cc.arg("-L").arg(folder().join("sim")).arg("-lcuda");
            }
            run(&mut cc)?;
            fs::rename(&fresh, &program)?;
            built += 1;
        }
    }
    println!("{built:>10} new  {}", out.strip_prefix(root()).unwrap_or(&out).display());
    Ok(())
}

fn c_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    Ok(files)
}

pub(crate) fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// Compiles C against our own headers and links it to the simulated driver's name, `libcuda.so.1`.
pub(crate) fn compile_c(sources: &[PathBuf], out: &Path, options: &[&str]) -> Result<()> {
    let mut cc = compiler();
    cc.arg("-I")
        .arg(root().join("shim-cuda-headers/include"))
        .args(sources)
        .arg("-o")
        .arg(out)
        .arg("-L")
        .arg(folder().join("sim"))
        .args(options)
        .args(["-Wl,--as-needed", "-lcuda", "-lm", "-ldl", "-lpthread"]);
    run(&mut cc)
}

/// Copies a finished file to its place in `target/hw` and says so.
fn place(from: &Path, name: &str) -> Result<()> {
    let to = folder().join(name);
    let fresh = to.with_file_name(format!(".{}.new", to.file_name().unwrap_or_default().display()));
    fs::copy(from, &fresh)
        .with_context(|| format!("copying {} to {}", from.display(), fresh.display()))?;
    finish(&fresh, &to)
}

fn finish(fresh: &Path, to: &Path) -> Result<()> {
    fs::rename(fresh, to).with_context(|| format!("replacing {}", to.display()))?;
    let size = fs::metadata(to)?.len();
    let name = to.strip_prefix(root()).unwrap_or(to);
    println!("{:>10} KiB  {}", size.div_ceil(1024), name.display());
    Ok(())
}
