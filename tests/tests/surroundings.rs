//! Other libraries around ours: linked programs, plug-ins, a second preload, another directory.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use halfwarp_tests::{Ended, Machine, artefact, guest};

const DEADLINE: Duration = Duration::from_secs(60);
/// More than the limit of 4 GiB.
const TOO_MUCH_MIB: &str = "4160";
const ENOUGH_MIB: &str = "64";
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const REFUSED: &str = "CODE 2\n";

fn run(machine: &Machine, program: Vec<OsString>) -> Ended {
    machine.tenant(&["--memory", "4GiB"]).program(program).finish(DEADLINE)
}

fn words(program: &str, arguments: &[&str]) -> Vec<OsString> {
    let program = guest(program).into_os_string();
    std::iter::once(program).chain(arguments.iter().map(Into::into)).collect()
}

#[test]
fn hook_03_a_linked_program_has_the_limit() {
    let machine = Machine::new();
    let ended = run(&machine, words("linked", &[TOO_MUCH_MIB]));
    assert_eq!(ended.stdout, REFUSED, "{}", ended.all());
    let ended = run(&machine, words("linked", &[ENOUGH_MIB]));
    assert_eq!(ended.stdout, "CODE 0\n", "{}", ended.all());
}

/// A program that opens the driver and asks for too much, with a second preloaded library.
fn beside_another(machine: &Machine, preload: &str) -> (Ended, u32) {
    let count = machine.runtime_dir().join("count");
    // Set by `env`, after `halfwarp run` has put its own library there.
    let preload = format!("LD_PRELOAD={preload}");
    let words = ["env".into(), preload.into()].into_iter();
    let words = words.chain(words_of_plugin(TOO_MUCH_MIB));
    let tenancy = machine.tenant(&["--memory", "4GiB"]).program(words);
    let ended = tenancy.env("OTHER_DLSYM_COUNT", &count).finish(DEADLINE);
    let seen = fs::read_to_string(&count).unwrap_or_default();
    (ended, seen.trim().parse().unwrap_or(0))
}

fn words_of_plugin(mib: &str) -> Vec<OsString> {
    let plugin = guest("plugin.so").to_string_lossy().into_owned();
    words("opens_plugin", &[&plugin, mib])
}

#[test]
fn hook_05_the_limit_holds_beside_a_second_preload_in_either_order() {
    let machine = Machine::new();
    let ours = artefact("libhalfwarp.so");
    let other = guest("other_dlsym.so");
    for (first, second) in [(&ours, &other), (&other, &ours)] {
        let (ended, seen) =
            beside_another(&machine, &format!("{}:{}", first.display(), second.display()));
        assert_eq!(ended.stdout, REFUSED, "{} first: {}", first.display(), ended.all());
        assert!(ended.took < Duration::from_secs(10), "it took {:?}", ended.took);
        // Named first it sees every look-up, as it would without us.
        assert!(first == &ours || seen > 4, "the other library saw {seen} look-ups");
    }
}

#[test]
fn hook_06_the_limit_holds_for_a_plug_in_and_foreign_names_are_not_answered() {
    let machine = Machine::new();
    let ended = run(&machine, words_of_plugin(TOO_MUCH_MIB));
    assert_eq!(ended.stdout, REFUSED, "{}", ended.all());
    let ended = run(&machine, words_of_plugin(ENOUGH_MIB));
    assert_eq!(ended.stdout, "CODE 0\n", "{}", ended.all());
}

#[test]
fn hook_06_the_library_works_from_another_directory_under_another_name() {
    let machine = Machine::new();
    let elsewhere = machine.runtime_dir().join("lib-1.2");
    fs::create_dir(&elsewhere).expect("a folder");
    let renamed = elsewhere.join("renamed.so");
    copy(&artefact("libhalfwarp.so"), &renamed);
    copy(&artefact("libhalfwarp-core.so"), &elsewhere.join("libhalfwarp-core.so"));
    let (ended, _) = beside_another(&machine, &renamed.display().to_string());
    assert_eq!(ended.stdout, REFUSED, "{}", ended.all());
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).expect("a copy");
}
