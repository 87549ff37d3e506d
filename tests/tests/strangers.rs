//! The library in strangers' processes: other languages, another C library, allocators and audit
//! libraries of others, a sanitizer, an image with nothing but libc. In each the limit holds; where it
//! cannot, CUDA calls fail with one line and nothing else is changed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use halfwarp_tests::roads::limited;
use halfwarp_tests::{Ended, Machine, SkipKind, artefact, finish, guest, python, skip};

const DEADLINE: Duration = Duration::from_secs(90);
const OPTIONS: [&str; 2] = ["--memory", "1GiB"];

/// A file of `target/hw/tests/strangers`; `None`, noted as skipped, where it could not be built.
fn stranger(test: &str, name: &str) -> Option<PathBuf> {
    let file = guest("strangers").join(name);
    if file.exists() {
        return Some(file);
    }
    skip(
        test,
        SkipKind::Registry,
        &format!("{name} is not built; `cargo xtask strangers` says why"),
    );
    None
}

fn run(machine: &Machine, words: &[OsString]) -> Ended {
    machine.tenant(&OPTIONS).program(words).finish(DEADLINE)
}

/// Runs as a tenant, where the limit must hold.
fn held(words: &[OsString]) {
    let machine = Machine::new();
    let ended = run(&machine, words);
    limited(&machine, &ended).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(ended.stderr, "", "{}", ended.all());
}

/// The words of a road's program under variables of its own.
fn with(variables: &[(&str, String)], words: &[&str]) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["env".into()];
    all.extend(variables.iter().map(|(name, value)| format!("{name}={value}").into()));
    all.push(guest("roads").join(words[0]).into());
    all.extend(words[1..].iter().map(Into::into));
    all
}

const OPENED: &[&str] = &["opened", "libcuda.so.1"];

/// In both orders of the preload.
fn held_beside(other: &Path) {
    let (ours, other) = (artefact("libhalfwarp.so"), other.display());
    for list in [format!("{}:{other}", ours.display()), format!("{other}:{}", ours.display())] {
        held(&with(&[("LD_PRELOAD", list.clone())], OPENED));
        held(&with(&[("LD_PRELOAD", list)], &["linked"]));
    }
}

#[test]
fn hook_05_the_limit_holds_beside_jemalloc_in_either_order() {
    let test = "hook_05_the_limit_holds_beside_jemalloc_in_either_order";
    let name = "debian/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    if let Some(jemalloc) = stranger(test, name) {
        held_beside(&jemalloc);
    }
}

#[test]
fn hook_05_the_limit_holds_beside_tcmalloc_in_either_order() {
    let test = "hook_05_the_limit_holds_beside_tcmalloc_in_either_order";
    let name = "debian/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4";
    if let Some(tcmalloc) = stranger(test, name) {
        held_beside(&tcmalloc);
    }
}

#[test]
fn the_limit_holds_under_the_address_sanitizer_named_first() {
    let test = "the_limit_holds_under_the_address_sanitizer_named_first";
    let Some(program) = stranger(test, "sanitized") else { return };
    let runtime = guest("strangers").join("libasan.so");
    let list = format!("{}:{}", runtime.display(), artefact("libhalfwarp.so").display());
    // The driver keeps what it allocates until the end, with us and without.
    let options = "ASAN_OPTIONS=detect_leaks=0".into();
    held(&["env".into(), format!("LD_PRELOAD={list}").into(), options, program.into()]);
}

#[test]
fn the_limit_holds_under_somebody_elses_audit_library() {
    let test = "the_limit_holds_under_somebody_elses_audit_library";
    let Some(audit) = stranger(test, "audit.so") else { return };
    let count = tempfile::NamedTempFile::new().expect("a file");
    let variables = [
        ("LD_AUDIT", audit.display().to_string()),
        ("AUDIT_COUNT", count.path().display().to_string()),
    ];
    for road in [OPENED, &["linked"], &["plugin", &guest("roads/opens.so").to_string_lossy()]] {
        held(&with(&variables, road));
        let seen = fs::read_to_string(count.path()).expect("the audit library's file");
        assert_eq!(seen, "11", "it saw objects, and the driver, while {road:?} ran");
    }
}

#[test]
fn the_limit_holds_for_go_with_cgo() {
    if let Some(program) = stranger("the_limit_holds_for_go_with_cgo", "go") {
        held(&[program.into()]);
    }
}

#[test]
fn the_limit_holds_for_java_with_native_methods() {
    let test = "the_limit_holds_for_java_with_native_methods";
    if let Some(native) = stranger(test, "jni.so") {
        let classes = guest("strangers").into_os_string();
        let words = ["java".into(), "-Xshare:auto".into(), "-cp".into(), classes];
        let words: Vec<OsString> =
            words.into_iter().chain(["JniRoad".into(), native.into()]).collect();
        held(&words);
    }
}

/// A Java whose foreign-function interface is final.
fn java_22() -> Option<PathBuf> {
    let homes = fs::read_dir("/usr/lib/jvm").ok()?.flatten().map(|entry| entry.path());
    let of = |home: &PathBuf| {
        let release = fs::read_to_string(home.join("release")).ok()?;
        let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
        version.split(['.', '"']).next()?.parse::<u32>().ok()
    };
    let java = homes.filter(|home| of(home) >= Some(22)).map(|home| home.join("bin/java"));
    java.into_iter().find(|java| java.exists())
}

#[test]
fn the_limit_holds_for_java_without_native_code() {
    let test = "the_limit_holds_for_java_without_native_code";
    let Some(java) = java_22() else {
        skip(
            test,
            SkipKind::Machine,
            "no Java from release 22 on is installed, and Debian has none",
        );
        return;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("strangers/ForeignRoad.java");
    held(&[java.into(), "--enable-native-access=ALL-UNNAMED".into(), source.into()]);
}

#[test]
fn the_limit_holds_for_python_with_ctypes_beside_a_wheel_with_a_runpath() {
    let test = "the_limit_holds_for_python_with_ctypes_beside_a_wheel_with_a_runpath";
    let Some(python) = python() else {
        skip(test, SkipKind::Registry, "numpy is not there; `cargo xtask test` fetches it");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/wheel.py");
    held(&[python.into(), script.into()]);
}

/// A musl program under the preload, by its own loader, with an entitlement that nobody serves.
fn musl(test: &str, arguments: &[&str], preload: bool) -> Option<Ended> {
    let program = stranger(test, "musl")?;
    let mut command = Command::new(program);
    command.args(arguments).env_remove("LD_LIBRARY_PATH");
    command.env("HALFWARP_TENANT", "00000000000000000000000000000001");
    command.env("HALFWARP_JOIN", "/nonexistent/join.sock");
    if preload {
        command.env("LD_PRELOAD", artefact("libhalfwarp.so"));
    }
    Some(finish(&mut command, DEADLINE))
}

#[test]
fn hook_08_a_musl_program_starts_under_the_preload_and_notices_nothing() {
    let test = "hook_08_a_musl_program_starts_under_the_preload_and_notices_nothing";
    for preload in [false, true] {
        let Some(ended) = musl(test, &[], preload) else { return };
        assert!(ended.status.success(), "{}", ended.all());
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("musl lives\n", ""));
    }
}

#[test]
fn hook_08_a_musl_programs_cuda_calls_fail_closed_with_one_line() {
    let test = "hook_08_a_musl_programs_cuda_calls_fail_closed_with_one_line";
    let Some(without) = musl(test, &["cuda"], false) else { return };
    assert_eq!(without.stdout, "LOST\n", "without us there is no such function");
    let Some(ended) = musl(test, &["cuda"], true) else { return };
    assert_eq!(ended.stdout, "CODES 802 802 802\n", "{}", ended.all());
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{}", ended.all());
    assert!(lines[0].starts_with("halfwarp: cannot load libhalfwarp-core.so"), "{lines:?}");
}

/// The files that a program needs to run, by `ldd`, under their own names.
fn needed(program: &Path) -> Vec<PathBuf> {
    let ended = finish(Command::new("ldd").arg(program), DEADLINE);
    let paths = ended.stdout.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(PathBuf::from).collect()
}

#[test]
fn the_limit_holds_in_an_image_with_nothing_but_libc() {
    let test = "the_limit_holds_in_an_image_with_nothing_but_libc";
    let probe = Command::new("unshare").args(["-m", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        skip(test, SkipKind::Machine, "no mount namespace can be made here");
        return;
    }
    let machine = Machine::new();
    let image = tempfile::Builder::new().prefix("image").tempdir().expect("a folder");
    let program = guest("roads").join("opened");
    // libgcc_s is what the simulated driver needs; ours are to load without it.
    let mut files = needed(&program);
    for library in ["libhalfwarp.so", "libhalfwarp-core.so", "sim/libcuda.so.1"] {
        files.extend(needed(&artefact(library)));
    }
    for file in files.iter().chain([&program]) {
        let to = image.path().join(file.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        fs::copy(file, to).expect("a copy");
    }
    // What a container runtime mounts: /proc, the library, the broker's socket, the driver.
    let script = r#"image=$1; shift
        for from in /proc "$1" "$2"; do
            mkdir -p "$image$from" && mount --rbind "$from" "$image$from" || exit 99
        done
        shift 2; exec chroot "$image" "$@""#;
    let hw = artefact("libhalfwarp.so").parent().expect("a folder").to_path_buf();
    let mut words: Vec<OsString> =
        ["unshare", "-m", "sh", "-c", script, "image"].map(Into::into).into();
    words.extend([image.path().into(), hw.into(), machine.runtime_dir().into()]);
    words.extend([program.into(), "libcuda.so.1".into()]);
    let ended = run(&machine, &words);
    limited(&machine, &ended).unwrap_or_else(|why| panic!("{why}"));
}
