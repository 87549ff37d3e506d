//! The whole road: a program that is not ours, the library in it, the broker, the simulated card.
//! tinygrad compiles its kernels to PTX by itself and calls the driver by its exported names.

use std::path::PathBuf;
use std::time::Duration;

use halfwarp_tests::{Ended, GIB, MIB, Machine, SkipKind, guest, python, skip};

const DEADLINE: Duration = Duration::from_secs(180);
const LINE: Duration = Duration::from_secs(60);

/// Runs `tests/programs/matmul.py` under the options; `None` where pip could not bring tinygrad.
fn tinygrad(test: &str, machine: &Machine, options: &[&str], arguments: &[&str]) -> Option<Ended> {
    let Some(python) = python() else {
        skip(test, SkipKind::Registry, "tinygrad is not there; `cargo xtask test` fetches it");
        return None;
    };
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("programs/matmul.py");
    let words = [python.into_os_string(), script.into_os_string()];
    let words = words.into_iter().chain(arguments.iter().map(Into::into));
    let cache = machine.runtime_dir().join("cache");
    let tenancy = machine.tenant(options).program(words).env("DEV", "CUDA:PTX");
    Some(tenancy.env("XDG_CACHE_HOME", cache).env("CACHELEVEL", "0").finish(DEADLINE))
}

#[test]
fn tinygrads_product_equals_numpys_under_a_limit_that_it_reads_exactly() {
    let test = "tinygrads_product_equals_numpys_under_a_limit_that_it_reads_exactly";
    let machine = Machine::new();
    let Some(ended) = tinygrad(test, &machine, &["--memory", "1GiB"], &[]) else { return };
    assert!(ended.status.success(), "{}", ended.all());
    assert!(ended.stdout.contains("PRODUCT equals numpy's"), "{}", ended.all());
    assert!(ended.stdout.contains(&format!("TOTAL {GIB}")), "{}", ended.all());
}

#[test]
fn tinygrad_is_refused_beyond_its_limit_as_a_full_card_would_refuse_it() {
    let test = "tinygrad_is_refused_beyond_its_limit_as_a_full_card_would_refuse_it";
    let machine = Machine::new();
    let Some(ended) = tinygrad(test, &machine, &["--memory", "1GiB"], &["1100"]) else { return };
    assert!(ended.status.success(), "{}", ended.all());
    // The words are tinygrad's own for a driver that answers out of memory.
    let refused = ended.stdout.lines().find(|line| line.starts_with("REFUSED MemoryError "));
    assert!(refused.is_some_and(|line| line.contains("failed on CUDA")), "{}", ended.all());
    let told = machine.events().into_iter().find(|event| event.kind == "out-of-memory");
    let bytes = told.and_then(|event| event.bytes).map(|bytes| bytes.0);
    assert_eq!(bytes, Some(1100 * MIB), "the broker's log has the refusal");
}

#[test]
fn two_tenants_side_by_side_do_not_move_each_others_figures() {
    let machine = Machine::new();
    let hold = guest("hold").to_string_lossy().into_owned();
    let first = ["--memory", "6GiB", "--name", "first"];
    let mut first = machine.tenant(&first).program([hold.as_str(), "1024"]).start();
    let before = first.line("HELD ", LINE);
    let before = before.trim_start_matches("HELD ");
    assert!(before.starts_with(&format!("{} ", 6 * GIB)), "{before}");

    let second = ["--memory", "4GiB", "--name", "second"];
    let mut second = machine.tenant(&second).program([hold.as_str(), "3000"]).start();
    second.line("HELD ", LINE);
    let tenants: Vec<(String, u64)> = machine
        .tenants()
        .into_iter()
        .map(|tenant| (tenant.name, tenant.gpus[0].held_bytes.0))
        .collect();
    assert_eq!(tenants.len(), 2, "{tenants:?}");
    for (name, held) in &tenants {
        let allocated = if name == "first" { GIB } else { 3000 * MIB };
        assert!(*held > allocated && *held < allocated + GIB, "{name} holds {held}");
    }
    let refused = machine.tenant(&["--memory", "4GiB"]).program([hold.as_str(), "4096"]);
    let refused = refused.finish(DEADLINE);
    assert!(refused.stdout.contains("gave 2"), "a context costs memory too: {}", refused.all());

    first.say("look");
    let after = first.line("AFTER ", LINE);
    assert_eq!(after.trim_start_matches("AFTER "), before);
    second.say("end");
    assert!(second.end(LINE).status.success());
    assert!(first.end(LINE).status.success());
}

#[test]
fn what_the_card_shows_is_what_the_ledgers_say() {
    let machine = Machine::new();
    let hold = guest("hold").to_string_lossy().into_owned();
    let options = ["--memory", "6GiB", "--name", "one"];
    let mut one = machine.tenant(&options).program([hold.as_str(), "1024"]).start();
    one.line("HELD ", LINE);
    // A context's measured cost may still be on its way into the ledger.
    halfwarp_tests::until(LINE, "the card's figure and the ledger's agree within 1 MiB", || {
        let gpu = machine.gpus().remove(0);
        let used = gpu.memory_used_bytes.map_or(0, |bytes| bytes.0);
        (used.abs_diff(gpu.memory_held_bytes.0) <= MIB).then_some(())
    });
    one.say("end");
    assert!(one.end(LINE).status.success());
}
