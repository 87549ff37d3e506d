//! Cards of unlike size in an order that is not NVML's, and cards whose size NVML does not know.

use std::time::Duration;

use halfwarp_tests::{GIB, MIB, Machine, Running, expect, finish, guest};

const DEADLINE: Duration = Duration::from_secs(60);
/// Cards of the profile, in NVML's order: L4, T4, H100, A100.
const T4: usize = 1;
const H100: usize = 2;
const A100: usize = 3;

/// A program that uses every card it sees, and what it says of each: UUID, total, free.
struct Cards {
    running: Running,
    seen: Vec<(String, u64, u64)>,
}

impl Cards {
    /// The program's own environment chooses cards as programs do, after `halfwarp run` has.
    fn start(machine: &Machine, options: &[&str], environment: &[&str]) -> Self {
        let guest = guest("cards").to_string_lossy().into_owned();
        let words = ["env"].iter().chain(environment).map(ToString::to_string);
        let mut running = machine.tenant(options).program(words.chain([guest])).start();
        let mut seen = Vec::new();
        loop {
            let line = running.line("", DEADLINE);
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["CARD", _, uuid, total, free] => seen.push((
                    (*uuid).to_owned(),
                    total.parse().expect("a total"),
                    free.parse().expect("a figure"),
                )),
                ["READY"] => return Self { running, seen },
                other => panic!("{other:?}"),
            }
        }
    }

    fn does(&mut self, words: &str) -> i32 {
        self.running.say(words);
        let line = self.running.line("CODE ", DEADLINE);
        line.trim_start_matches("CODE ").parse().expect("a code")
    }
}

/// What the tenant holds on the card.
fn held(machine: &Machine, tenant: &str, uuid: &str) -> u64 {
    let tenant = machine.tenant_named(tenant);
    let gpu = tenant.gpus.iter().find(|gpu| gpu.uuid == uuid);
    gpu.unwrap_or_else(|| panic!("{uuid} is none of its cards: {tenant:?}")).held_bytes.0
}

#[test]
fn mem_10_the_second_card_of_the_program_is_another_than_the_second_of_the_machine() {
    let machine = Machine::with_profile("unlike-4");
    let uuids = machine.faults().uuids();
    let options = ["--gpu", "0,1,2,3", "--memory", "25%", "--name", "second"];
    let environment = ["CUDA_DEVICE_ORDER=FASTEST_FIRST", "CUDA_VISIBLE_DEVICES=1"];
    let mut cards = Cards::start(&machine, &options, &environment);
    let [(uuid, total, free)] = cards.seen.as_slice() else { panic!("{:?}", cards.seen) };
    assert_eq!((uuid, *total), (&uuids[A100], 10 * GIB));
    let (uuid, fits) = (uuid.clone(), free / MIB - 1);
    assert_eq!(cards.does(&format!("take 0 {}", fits + 2)), 2, "refused at that card's limit");
    let before = held(&machine, "second", &uuid);
    assert_eq!(cards.does(&format!("take 0 {fits}")), 0);
    assert!(held(&machine, "second", &uuid) >= before + fits * MIB, "shown on its UUID");
    assert_eq!(held(&machine, "second", &uuids[T4]), 0, "NVML's second card has none of it");
}

#[test]
fn mem_10_a_percentage_is_of_each_card_whatever_the_order() {
    let machine = Machine::with_profile("unlike-4");
    let uuids = machine.faults().uuids();
    for order in ["FASTEST_FIRST", "PCI_BUS_ID"] {
        let order = format!("CUDA_DEVICE_ORDER={order}");
        for asked in ["0,1,2,3", "2,1"] {
            let options = ["--gpu", asked, "--memory", "25%"];
            let cards = Cards::start(&machine, &options, &[&order]);
            let total = |index: usize| cards.seen.iter().find(|seen| seen.0 == uuids[index]);
            assert_eq!(total(T4).expect("it is seen").1, 4 * GIB, "{order} {asked}");
            assert_eq!(total(H100).expect("it is seen").1, 20 * GIB, "{order} {asked}");
        }
    }
}

#[test]
fn mem_10_memory_comes_back_to_the_card_that_it_is_of() {
    let machine = Machine::with_profile("unlike-4");
    let options = ["--gpu", "2,1", "--memory", "25%", "--name", "two"];
    let mut cards = Cards::start(&machine, &options, &[]);
    let (first, second) = (cards.seen[0].0.clone(), cards.seen[1].0.clone());
    let before = (held(&machine, "two", &first), held(&machine, "two", &second));
    for way in ["async", "take"] {
        assert_eq!(cards.does(&format!("{way} 0 512")), 0);
        assert!(held(&machine, "two", &first) >= before.0 + 512 * MIB, "{way}");
        assert_eq!(held(&machine, "two", &second), before.1, "{way}");
        assert_eq!(cards.does("give 1"), 0);
        let after = (held(&machine, "two", &first), held(&machine, "two", &second));
        assert_eq!(after, before, "{way}");
    }
}

#[test]
fn mem_11_no_mode_of_compute_switches_the_limit_off() {
    for mode in ["timesharing", "fair", "strict"] {
        let machine = Machine::new();
        let options = ["--compute", "100%", "--mode", mode, "--memory", "1GiB"];
        let ended = machine.tenant(&options).program([guest("hold").as_os_str(), "2048".as_ref()]);
        let ended = ended.finish(DEADLINE);
        assert!(ended.stdout.contains("gave 2"), "{mode}: {}", ended.all());
    }
}

#[test]
fn mem_11_the_limit_holds_where_nvml_knows_no_memory() {
    let machine = Machine::new();
    let faults = machine.faults();
    faults.set("nvml:memory,answer=not-supported");
    faults.set("nvml:processes,answer=not-supported");
    let options = ["--memory", "1GiB"];
    let ended = machine.tenant(&options).program([guest("hold").as_os_str(), "2048".as_ref()]);
    let ended = ended.finish(DEADLINE);
    let refused = ended.stdout.contains("gave 2");
    let outcome = if refused { says_where_the_size_is_from(&machine) } else { Err(ended.all()) };
    expect("mem_11_the_limit_holds_where_nvml_knows_no_memory", outcome);
}

fn says_where_the_size_is_from(machine: &Machine) -> Result<(), String> {
    let mut tenant = machine
        .tenant(&["--memory", "1GiB"])
        .program([guest("hold").as_os_str(), "64".as_ref()])
        .start();
    tenant.line("HELD ", DEADLINE);
    let ended = finish(&mut machine.halfwarp(["gpus", "-o", "wide", "--sim=t4"]), DEADLINE);
    tenant.say("end");
    if ended.stdout.contains("driver") { Ok(()) } else { Err(ended.all()) }
}
