//! What people and accidents do to `halfwarp run`: each ends with exit code 125, a message that says
//! what was tried, what was found and what to do, and nothing left behind.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use halfwarp_tests::{Ended, Machine, SkipKind, artefact, finish, guest, skip, until};
use rustix::process::{Pid, Signal, kill_process};

const DEADLINE: Duration = Duration::from_secs(60);
const LINE: Duration = Duration::from_secs(60);
/// A private broker ends 5 s after its last tenant, and the simulated machine after it.
const GONE_WITHIN: Duration = Duration::from_secs(30);
const OWN_FAILURE: i32 = 125;

/// A failure of ours: the code, one message on stderr that contains all of `said`, no output.
fn is_refused(ended: &Ended, said: &[&str]) {
    assert_eq!(ended.status.code(), Some(OWN_FAILURE), "{}", ended.all());
    assert_eq!(ended.stdout, "", "{}", ended.all());
    let lower = ended.stderr.to_lowercase();
    for word in said {
        assert!(lower.contains(&word.to_lowercase()), "{word:?} is not said: {}", ended.all());
    }
    for noise in ["panicked", "backtrace", "unwrap"] {
        assert!(!lower.contains(noise), "{}", ended.all());
    }
}

/// `halfwarp run OPTIONS -- true`.
fn run(machine: &Machine, options: &[&str]) -> Ended {
    machine.tenant(options).program(["true"]).finish(DEADLINE)
}

/// `halfwarp run --broker FOLDER -- true`, with whatever is in that folder.
fn run_at(machine: &Machine, folder: &Path) -> Ended {
    let mut command = machine.halfwarp(["run", "--broker"]);
    finish(command.arg(folder).args(["--", "true"]), DEADLINE)
}

#[test]
fn a_quantity_that_cannot_be_read_is_quoted_with_an_example() {
    let machine = Machine::new();
    for (option, said) in [
        ("--memory=8GIB", "8GiB"),
        ("--memory=-1", "8GiB"),
        ("--memory=16GiB..4GiB", "4GiB..16GiB"),
        ("--compute=250%", "25%"),
        ("--mode=nice", "timesharing"),
    ] {
        let quoted = option.split_once('=').expect("a value").1;
        is_refused(&run(&machine, &[option]), &[quoted, said]);
    }
    assert!(machine.processes().is_empty(), "nothing was started for a bad quantity");
}

#[test]
fn a_card_that_is_not_there_is_named_and_leaves_no_tenant() {
    let machine = Machine::new();
    let hold = guest("hold").to_string_lossy().into_owned();
    let mut other = machine.tenant(&["--memory", "1GiB"]).program([hold.as_str(), "1"]).start();
    other.line("HELD ", LINE);
    for gpu in ["7", "GPU-deadbeef", "any:9"] {
        is_refused(&run(&machine, &["--gpu", gpu, "--memory", "1GiB"]), &[]);
    }
    assert_eq!(machine.tenants().len(), 1, "{:?}", machine.tenants());
    other.say("end");
    assert!(other.end(LINE).status.success());
}

#[test]
fn a_limit_above_the_card_is_refused_with_the_cards_size() {
    let machine = Machine::new();
    is_refused(&run(&machine, &["--memory", "900GiB"]), &["900GiB"]);
    is_refused(&run(&machine, &["--memory", "1GiB..900GiB"]), &["900GiB"]);
    until(GONE_WITHIN, "the private broker and the machine have ended", || {
        machine.processes().is_empty().then_some(())
    });
}

#[test]
fn a_profile_that_cannot_be_used_is_named_and_starts_nothing() {
    let machine = Machine::new();
    let file = machine.runtime_dir().join("wrong.toml");
    fs::write(&file, "driver_version = \"580\"\ndevice = []\ncolour = 1\n").expect("a file");
    let file = format!("--sim={}", file.display());
    for (sim, said) in [("--sim=t5", "h200"), (&file, "colour"), ("--sim=none.toml", "none.toml")] {
        let ended = finish(&mut machine.halfwarp(["run", sim, "--", "true"]), DEADLINE);
        is_refused(&ended, &["profile", said]);
    }
    assert!(machine.processes().is_empty());
}

#[test]
fn requests_beyond_the_card_are_refused_and_those_before_keep_theirs() {
    let machine = Machine::new();
    let hold = guest("hold").to_string_lossy().into_owned();
    let mut first = machine.tenant(&["--memory", "10GiB"]).program([hold.as_str(), "64"]).start();
    let before = first.line("HELD ", LINE);
    is_refused(&run(&machine, &["--memory", "10GiB"]), &["10GiB"]);
    first.say("look");
    let after = first.line("AFTER ", LINE);
    assert_eq!(after.trim_start_matches("AFTER"), before.trim_start_matches("HELD"));
    assert!(first.end(LINE).status.success());
}

#[test]
fn without_a_broker_in_the_folder_named_the_command_that_starts_one_is_said() {
    let machine = Machine::new();
    let folder = machine.runtime_dir().join("empty");
    fs::create_dir(&folder).expect("a folder");
    is_refused(&run_at(&machine, &folder), &["no broker", "halfwarpd"]);
    assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 0, "something was left there");
}

#[test]
fn a_broker_that_is_stopped_is_not_waited_for_and_its_tenants_go_on() {
    let machine = Machine::new();
    let hold = guest("hold").to_string_lossy().into_owned();
    let mut tenant = machine.tenant(&["--memory", "2GiB"]).program([hold.as_str(), "64"]).start();
    let before = tenant.line("HELD ", LINE);
    let broker = pid_of(&machine, "halfwarpd");
    kill_process(broker, Signal::STOP).expect("it can be stopped");
    let ended = run(&machine, &["--memory", "1GiB"]);
    kill_process(broker, Signal::CONT).expect("it can go on");
    is_refused(&ended, &["broker"]);
    assert!(ended.took < Duration::from_secs(30), "it waited {:?}", ended.took);
    tenant.say("look");
    let after = tenant.line("AFTER ", LINE);
    assert_eq!(after.trim_start_matches("AFTER"), before.trim_start_matches("HELD"));
    assert!(tenant.end(LINE).status.success());
}

fn pid_of(machine: &Machine, program: &str) -> Pid {
    let found = machine.processes().into_iter().find(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == program)
    });
    let pid = found.unwrap_or_else(|| panic!("no {program} runs in this machine"));
    i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid")
}

/// Answers every request on a socket with this text.
fn pretend(folder: &Path, answer: &'static str) {
    let listener = UnixListener::bind(folder.join("api.sock")).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
}

#[test]
fn a_broker_of_another_release_is_refused_with_both_versions() {
    let machine = Machine::new();
    let body = r#"{"version":"9.9.9","protocol":"9.0","pid":1,"join_socket":"/x","driver":null,"kind":"node"}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    pretend(machine.runtime_dir(), answer.leak());
    is_refused(&run_at(&machine, machine.runtime_dir()), &["9.0", "1.0"]);
}

#[test]
fn a_socket_that_is_not_a_brokers_is_refused() {
    let machine = Machine::new();
    let folders = ["file", "deserted", "garbage"].map(|name| machine.runtime_dir().join(name));
    for folder in &folders {
        fs::create_dir(folder).expect("a folder");
    }
    fs::write(folders[0].join("api.sock"), "not a socket").expect("a file");
    drop(UnixListener::bind(folders[1].join("api.sock")).expect("a socket"));
    pretend(&folders[2], "220 mail.example.com ESMTP\r\n");
    for folder in &folders {
        let ended = run_at(&machine, folder);
        let shown = folder.display().to_string();
        is_refused(&ended, &[&shown]);
    }
    let kept = fs::read_to_string(folders[0].join("api.sock")).expect("the file is still there");
    assert_eq!(kept, "not a socket", "bad input loses nothing");
}

#[test]
fn a_second_broker_for_a_card_is_refused_and_names_the_first() {
    let machine = Machine::new();
    let hold = guest("hold").to_string_lossy().into_owned();
    let mut tenant = machine.tenant(&["--memory", "2GiB"]).program([hold.as_str(), "64"]).start();
    tenant.line("HELD ", LINE);
    let first = pid_of(&machine, "halfwarpd");
    let mut second = machine.natively(artefact("halfwarpd"));
    let second = second.args(["--private", "--run-dir"]).arg(machine.runtime_dir().join("second"));
    let ended = finish(second, DEADLINE);
    assert!(!ended.status.success(), "{}", ended.all());
    let holder = first.as_raw_nonzero().to_string();
    assert!(ended.stderr.contains(&holder), "pid {holder} is not named: {}", ended.all());
    assert_eq!(machine.tenants().len(), 1);
    tenant.say("end");
    assert!(tenant.end(LINE).status.success());
}

/// A file system with no room for one more file.
struct Full<'a>(&'a Path);

impl<'a> Full<'a> {
    fn mount(folder: &'a Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4k,nr_inodes=1", "full"]).arg(folder);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then_some(Self(folder))
    }
}

impl Drop for Full<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).output();
    }
}

#[test]
fn a_full_disk_is_said_and_nothing_is_left_behind() {
    let test = "a_full_disk_is_said_and_nothing_is_left_behind";
    let machine = Machine::new();
    let Some(full) = Full::mount(machine.runtime_dir()) else {
        return skip(test, SkipKind::Machine, "no file system can be mounted here");
    };
    is_refused(&run(&machine, &["--memory", "1GiB"]), &["no space left"]);
    assert!(machine.processes().is_empty());
    assert_eq!(fs::read_dir(full.0).expect("the folder").count(), 0);
}
