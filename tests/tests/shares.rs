//! Compute shares of real processes on one simulated card, read off the machine's own log of its
//! engine. Windows are short here; `HALFWARP_SECONDS` makes them as long as the promise says, and the
//! tolerance is that of the window: 3 points over 50 leases (5 s), 1 point over 30 s.

use halfwarp_tests::{Busy, Machine};

fn seconds() -> u64 {
    let asked = std::env::var("HALFWARP_SECONDS").ok();
    asked.map_or(5, |seconds| seconds.parse().expect("HALFWARP_SECONDS is a number"))
}

fn points() -> f64 {
    if seconds() >= 30 { 1.0 } else { 3.0 }
}

const MS: &[&str] = &["--ms", "1", "--depth", "8"];

fn fair(share: &'static str) -> [&'static str; 4] {
    ["--compute", share, "--mode", "fair"]
}

fn strict(share: &'static str) -> [&'static str; 4] {
    ["--compute", share, "--mode", "strict"]
}

#[test]
fn share_01_two_busy_tenants_receive_what_they_are_owed_and_without_us_half_each() {
    let machine = Machine::new();
    let long: &[&str] = &["--ms", "5", "--depth", "8"];
    let busy = Busy::on(&machine).tenant(&fair("20%"), long).tenant(&fair("80%"), long);
    busy.receive(seconds()).is(&[20.0, 80.0], points());
    drop(busy);
    let machine = Machine::new();
    let short: &[&str] = &["--ns", "200000", "--depth", "16"];
    let busy = Busy::on(&machine).tenant(&fair("10%"), short).tenant(&fair("90%"), short);
    busy.receive(seconds()).is(&[10.0, 90.0], points());
    drop(busy);
    let machine = Machine::new();
    let busy = Busy::on(&machine).native(long).native(long);
    busy.receive(2).is(&[50.0, 50.0], 3.0);
}

#[test]
fn share_02_a_capped_tenant_alone_receives_its_share_on_a_wide_card() {
    let machine = Machine::with_profile("h200");
    let busy = Busy::on(&machine).tenant(&strict("50%"), MS);
    busy.receive(seconds()).is(&[50.0], points());
}

#[test]
fn share_04_long_kernels_of_a_capped_tenant_are_debt_and_no_gift() {
    let machine = Machine::new();
    let busy = Busy::on(&machine).tenant(&strict("25%"), &["--ms", "500"]);
    // A window holds a kernel more or less, which is 2 points of 24 s.
    busy.receive(seconds().max(24)).is(&[25.0], 5.0);
}

#[test]
fn share_05_eight_processes_of_a_tenant_receive_one_tenants_share() {
    let machine = Machine::new();
    let spin = halfwarp_tests::artefact("samples/spin");
    let shell = format!(
        "for i in 1 2 3 4 5 6 7 8; do '{}' --ms 1 --depth 8 --seconds 3600 & done; wait",
        spin.display()
    );
    let options = [strict("20%").as_slice(), &["--memory", "8GiB", "--name", "busy-0"]].concat();
    let running = machine.tenant(&options).program(["sh", "-c", &shell]).start();
    let busy = Busy::on(&machine).with("busy-0", running);
    busy.wait_for(8);
    busy.receive(seconds()).is(&[20.0], points());
}

#[test]
fn share_07_a_lone_tenant_is_capped_where_strict_and_free_where_fair() {
    let machine = Machine::new();
    let busy = Busy::on(&machine).tenant(&strict("50%"), MS);
    busy.receive(seconds()).is(&[50.0], 2.0_f64.max(points()));
    drop(busy);
    // What one alone gets without us is the measure: launching and waiting cost both the same.
    let machine = Machine::new();
    let natively = Busy::on(&machine).native(MS).receive(3).percent[0];
    let alone = Busy::on(&machine).tenant(&fair("30%"), MS).receive(3).percent[0];
    assert!(alone >= 0.97 * natively, "{alone:.1} % alone, {natively:.1} % natively");
}

#[test]
fn share_08_every_way_to_launch_is_held_to_the_share() {
    for way in ["--per-thread", "--ex", "--cooperative"] {
        let machine = Machine::new();
        let words = [MS, &[way]].concat();
        let busy = Busy::on(&machine).tenant(&strict("10%"), &words);
        busy.receive(seconds()).is(&[10.0], points());
    }
}

#[test]
fn share_09_graphs_are_held_to_the_share_and_share_with_plain_launches() {
    let graph: &[&str] = &["--ns", "300000", "--graph", "100", "--depth", "2"];
    let machine = Machine::new();
    let busy = Busy::on(&machine).tenant(&strict("30%"), graph);
    busy.receive(seconds()).is(&[30.0], points());
    drop(busy);
    let machine = Machine::new();
    let busy = Busy::on(&machine).tenant(&fair("50%"), graph).tenant(&fair("50%"), MS);
    busy.receive(seconds()).is(&[50.0, 50.0], points());
}

#[test]
fn share_10_a_lower_class_without_a_share_receives_nothing_while_a_higher_one_is_busy() {
    let machine = Machine::new();
    let high = ["--priority", "high", "--mode", "fair"];
    let busy = Busy::on(&machine).tenant(&["--priority", "low", "--mode", "fair"], MS);
    assert!(busy.receive(1).percent[0] > 90.0, "the card is its own while nobody else is there");
    let busy = busy.tenant(&high, MS);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let received = busy.receive(seconds());
    assert!(received.percent[0] <= 1.0 && received.percent[1] >= 90.0, "{received:?}");
}
