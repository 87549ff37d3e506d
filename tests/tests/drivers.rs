//! The driver beneath the library is another than the table knows: newer, older, hidden behind the
//! loader's cache, or asked as real runtimes were seen to ask.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use halfwarp_tests::{Ended, Machine, SkipKind, artefact, finish, guest, skip};

const DEADLINE: Duration = Duration::from_secs(60);
const RECORDED: &str = include_str!("../../shim-cuda-headers/data/cudart-getprocaddress.tsv");

/// A program on one of the drivers of `tests/roads.toml`.
fn on(driver: &str, words: &[&str]) -> Vec<OsString> {
    let folder = guest("roads").join(driver);
    let mut all: Vec<OsString> = vec![
        "env".into(),
        format!("ODD_DRIVER_BENEATH={}", artefact("sim/libcuda.so.1").display()).into(),
        format!("LD_LIBRARY_PATH={}", folder.display()).into(),
        guest(words[0]).into(),
    ];
    all.extend(words[1..].iter().map(Into::into));
    all
}

/// What the broker's `/metrics` says.
fn metrics(machine: &Machine) -> String {
    let socket = machine.broker_dir().join("api.sock");
    let mut stream = UnixStream::connect(&socket).expect("the broker serves");
    stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("asked");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

fn doctor(machine: &Machine) -> Ended {
    finish(&mut machine.halfwarp(["doctor", "--sim=t4"]), DEADLINE)
}

#[test]
fn hook_07_a_function_newer_than_the_table_is_passed_through_counted_and_shown() {
    let machine = Machine::new();
    let run = |version: &str| {
        let ended = machine
            .tenant(&["--memory", "1GiB"])
            .program(on("newer", &["newer", version]))
            .finish(DEADLINE);
        assert!(ended.status.success(), "{}", ended.all());
        ended.stdout
    };
    assert_eq!(run("13000"), "SAME\n");
    assert!(
        metrics(&machine).contains("halfwarp_unknown_functions_total 0"),
        "nothing unknown yet"
    );
    assert!(doctor(&machine).stdout.contains("no program asked for a function that is not in it"));
    assert_eq!(run("13060"), "OTHER\n");
    let said = metrics(&machine);
    assert!(said.contains("halfwarp_unknown_functions_total 1"), "{said}");
    let shown = doctor(&machine).stdout;
    let line = shown.lines().find(|line| line.contains("driver table")).unwrap_or_default();
    assert!(line.contains("passed through") && line.contains("13060"), "{shown}");
}

#[test]
fn hook_07_what_an_older_driver_lacks_is_null_by_name_and_not_supported_as_linked() {
    let machine = Machine::new();
    let hidden =
        ["hidden", "cuGetProcAddress_v2", "cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemCreate"];
    let run = |words: &[&str]| {
        let ended =
            machine.tenant(&["--memory", "1GiB"]).program(on("old", words)).finish(DEADLINE);
        assert!(ended.status.success(), "{}", ended.all());
        ended.stdout
    };
    assert_eq!(run(&hidden), "NULL\nNULL\nNULL\nNULL\nCODE 2\n");
    assert_eq!(run(&["linked_hidden"]), "CODES 0 801 801\n");
}

/// The look-ups as "NAME VERSION FLAGS SYMBOL" lines.
fn recorded() -> String {
    let line = |line: &str| {
        let mut columns = line.split('\t');
        let name = columns.next().unwrap_or_default();
        let rest: Vec<&str> = columns.take(3).collect();
        format!("{} {}\n", if name.is_empty() { "-" } else { name }, rest.join(" "))
    };
    RECORDED.lines().skip(1).map(line).collect()
}

fn asked(command: &mut Command) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let writing = thread::spawn(move || stdin.write_all(recorded().as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writing.join().expect("joined").expect("written");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn hook_02_every_look_up_that_runtimes_were_seen_to_make_gets_the_function_of_its_version() {
    let machine = Machine::new();
    let native = asked(&mut machine.natively(guest("recorded")));
    let mut tenant = machine.halfwarp(["run", "--sim=t4", "--memory", "1GiB", "--"]);
    let ours = asked(tenant.arg(guest("recorded")));
    assert_eq!(native.lines().count(), 504);
    let known = native.lines().filter(|line| line.ends_with(" SAME")).count();
    assert!(known > 400, "the driver alone knows {known} of them");
    assert!(!native.contains("OTHER"), "{native}");
    for (native, ours) in native.lines().zip(ours.lines()) {
        assert_eq!(native, ours, "the driver alone on the left");
    }
    assert_eq!(native, ours);
}

/// The loader's cache as `ldconfig` writes it when our directory is one that it scans, which makes us
/// the system's `libcuda.so.1`; the driver's directory comes after it.
fn trapped_cache(folder: &Path) -> PathBuf {
    let (conf, cache) = (folder.join("ld.so.conf"), folder.join("ld.so.cache"));
    let (ours, drivers) = (folder.join("ours"), folder.join("drivers"));
    for folder in [&ours, &drivers] {
        fs::create_dir(folder).expect("a folder");
    }
    for name in ["libhalfwarp.so", "libhalfwarp-core.so"] {
        fs::copy(artefact(name), ours.join(name)).expect("a copy");
    }
    fs::copy(artefact("sim/libcuda.so.1"), drivers.join("libcuda.so.1")).expect("a copy");
    fs::write(&conf, format!("{}\n{}\n", ours.display(), drivers.display())).expect("a file");
    let mut ldconfig = Command::new("/sbin/ldconfig");
    let made = finish(ldconfig.arg("-C").arg(&cache).arg("-f").arg(&conf), DEADLINE);
    assert!(made.status.success(), "{}", made.all());
    cache
}

#[test]
fn where_ldconfig_took_us_for_the_driver_the_limit_holds_all_the_same() {
    let test = "where_ldconfig_took_us_for_the_driver_the_limit_holds_all_the_same";
    let probe = Command::new("unshare").args(["-m", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        skip(test, SkipKind::Machine, "no mount namespace can be made here");
        return;
    }
    let machine = Machine::new();
    let cache = trapped_cache(machine.runtime_dir());
    let listed = finish(Command::new("/sbin/ldconfig").arg("-p").arg("-C").arg(&cache), DEADLINE);
    let first = listed.stdout.lines().find(|line| line.trim().starts_with("libcuda.so.1 "));
    let trapped = first.is_some_and(|line| line.contains("/ours/libcuda.so.1"));
    assert!(trapped, "the trap is not set: {first:?}");
    // The cache is put in the system's place for this program alone, and nothing else leads to the
    // driver: no library path, and the default directories have none.
    let script = "mount --bind $0 /etc/ld.so.cache && unset LD_LIBRARY_PATH && exec \"$@\"";
    let run = |program: &[OsString]| {
        let mut words: Vec<OsString> =
            ["unshare", "-m", "sh", "-c", script].iter().map(Into::into).collect();
        words.push(cache.clone().into());
        words.extend(program.iter().cloned());
        machine.tenant(&["--memory", "1GiB"]).program(words).finish(DEADLINE)
    };
    for road in [vec!["opened", "libcuda.so.1"], vec!["linked"]] {
        let mut program = vec![guest("roads").join(road[0]).into_os_string()];
        program.extend(road[1..].iter().map(Into::into));
        let ended = run(&program);
        assert!(ended.stdout.contains(" 0 2\n"), "{road:?}: {}", ended.all());
    }
}
