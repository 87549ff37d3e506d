//! Work that waits for other work, processes that stop or die, jobs on several cards.

use halfwarp_broker_core::{ClientId, Kind};
use halfwarp_rest::{GpuChange, Mode, TenantChange};
use halfwarp_turns::{Busy, Load, MS, Pair, SECOND, Spec, World};

fn spec(compute: &'static str) -> Spec {
    Spec { compute, ..Spec::default() }
}

fn side(side: u64) -> Box<dyn Load> {
    Box::new(Pair::new(0, 1, side, MS, 3 * MS))
}

/// The longest that none of these had the card, in milliseconds.
fn longest_gap_ms(world: &World, tenant: u64, (from, to): (u64, u64)) -> u64 {
    let (mut longest, mut gap) = (0, 0);
    for at in (from..to).step_by(MS as usize) {
        let ran = world.received_ns(0, tenant, at, at + MS) > 0;
        gap = if ran { 0 } else { gap + 1 };
        longest = longest.max(gap);
    }
    longest
}

#[test]
fn two_threads_or_processes_of_a_tenant_that_wait_for_each_other_go_on() {
    for processes in [1, 2] {
        let mut world = World::new(1, Mode::Fair, 11);
        let pair = world.tenant(&spec("50%"));
        let other = world.tenant(&spec("50%"));
        let clients: Vec<ClientId> = if processes == 1 {
            vec![world.process(pair, vec![side(0), side(1)])]
        } else {
            vec![world.process(pair, vec![side(0)]), world.process(pair, vec![side(1)])]
        };
        world.process(other, vec![Box::new(Busy::of(MS))]);
        world.run_until(31 * SECOND);
        let launched: u64 = clients.iter().map(|client| world.launched(*client)).sum();
        assert!(launched > 2000, "{processes} processes: {launched}");
        let gap = longest_gap_ms(&world, pair, (0, 31 * SECOND));
        assert!(gap < 1000, "{processes} processes: nothing for {gap} ms");
        let got = world.percent(0, other, SECOND, 31 * SECOND);
        assert!(got >= 47.5, "{processes} processes: the other has {got}");
    }
}

#[test]
fn two_tenants_that_wait_for_each_other_are_found_out_and_run_together_from_then_on() {
    let mut world = World::new(1, Mode::Fair, 13);
    let pair = [(); 2].map(|()| world.tenant(&spec("25%")));
    let other = world.tenant(&spec("50%"));
    let clients = [0, 1].map(|n| world.process(pair[n], vec![side(n as u64)]));
    world.process(other, vec![Box::new(Busy::of(MS))]);
    world.run_until(31 * SECOND);
    let launched = clients.map(|client| world.launched(client));
    assert!(launched[0] > 1000 && launched[0].abs_diff(launched[1]) <= 1, "{launched:?}");
    for id in pair {
        // It pays back what it kept the third from.
        let gap = longest_gap_ms(&world, id, (0, 31 * SECOND));
        assert!(gap < 2000, "tenant {id} stood for {gap} ms");
    }
    let gap = longest_gap_ms(&world, other, (0, 31 * SECOND));
    assert!(gap < 1000, "the third waited {gap} ms");
    let got = world.percent(0, other, SECOND, 31 * SECOND);
    assert!(got >= 47.5, "{got}");
}

#[test]
fn in_a_group_two_tenants_that_wait_for_each_other_run_at_full_speed() {
    let mut world = World::new(1, Mode::Fair, 13);
    let grouped = Spec { compute: "25%", group: Some("job"), ..Spec::default() };
    let pair = [(); 2].map(|()| world.tenant(&grouped));
    let other = world.tenant(&spec("50%"));
    let clients = [0, 1].map(|n| world.process(pair[n], vec![side(n as u64)]));
    world.process(other, vec![Box::new(Busy::of(MS))]);
    world.run_until(31 * SECOND);
    let launched = clients.map(|client| world.launched(client));
    assert!(launched[0] > 1000 && launched[0].abs_diff(launched[1]) <= 1, "{launched:?}");
    let got = world.percent(0, other, SECOND, 31 * SECOND);
    assert!(got >= 47.5, "{got}");
}

#[test]
fn a_tenant_on_two_cards_has_both_or_none() {
    let mut world = World::new(2, Mode::Fair, 17);
    let both = world.tenant(&Spec { compute: "50%", gpus: &["0", "1"], ..Spec::default() });
    let singles = ["0", "1"].map(|gpu| {
        let gpus: &'static [&'static str] = if gpu == "0" { &["0"] } else { &["1"] };
        world.tenant(&Spec { compute: "50%", gpus, ..Spec::default() })
    });
    let across = |slot, side| Box::new(Pair::new(slot, 1, side, MS, 0)) as Box<dyn Load>;
    let client = world.process(both, vec![across(0, 0), across(1, 1)]);
    for single in singles {
        world.process(single, vec![Box::new(Busy::of(MS))]);
    }
    world.run_until(31 * SECOND);
    assert!(world.launched(client) > 10_000, "{}", world.launched(client));
    for (card, single) in singles.into_iter().enumerate() {
        let got = world.percent(card, single, SECOND, 31 * SECOND);
        assert!((got - 50.0).abs() < 4.0, "card {card}: {got}");
    }
    assert!(!world.told.iter().any(|told| told.kind == Kind::Interlocked));
}

#[test]
fn two_tenants_on_two_cards_in_different_orders_do_not_block_each_other() {
    let mut world = World::new(2, Mode::Fair, 19);
    let orders: [&[&str]; 2] = [&["0", "1"], &["1", "0"]];
    let tenants = orders.map(|gpus| {
        let id = world.tenant(&Spec { compute: "30%", gpus, ..Spec::default() });
        world.process(id, vec![Box::new(Busy::of(MS))]);
        id
    });
    let single = world.tenant(&Spec { compute: "40%", gpus: &["0"], ..Spec::default() });
    world.process(single, vec![Box::new(Busy::of(MS))]);
    world.run_until(31 * SECOND);
    // Each launches on its first card alone, and holds both.
    for (card, id) in tenants.into_iter().enumerate() {
        let got = world.percent(card, id, SECOND, 31 * SECOND);
        assert!(got > 25.0, "card {card}: {got}");
    }
    let got = world.percent(0, single, SECOND, 31 * SECOND);
    assert!(got > 36.0, "{got}");
}

#[test]
fn whoever_is_stopped_or_killed_with_the_lease_loses_it_within_a_lease_and_a_tenth_of_a_second() {
    for kill in [false, true] {
        for after in [10, 30, 70, 99, 101, 150, 180] {
            let mut world = World::new(1, Mode::Fair, after);
            let (a, b) = (world.tenant(&spec("50%")), world.tenant(&spec("50%")));
            let victim = world.process(a, vec![Box::new(Busy::of(MS))]);
            world.process(b, vec![Box::new(Busy::of(MS))]);
            world.run_until(SECOND + after * MS);
            if kill {
                world.kill(victim);
            } else {
                world.stop(victim);
            }
            let at = world.now;
            world.run_until(at + 3 * SECOND);
            let gap = longest_gap_ms(&world, b, (at, at + 3 * SECOND));
            assert!(gap <= 200, "kill {kill} after {after}: {gap} ms");
            if !kill {
                world.go_on(victim);
                let back = world.now;
                world.run_until(back + 10 * SECOND);
                let got = world.percent(0, a, back + SECOND, back + 10 * SECOND);
                assert!((got - 50.0).abs() < 5.0, "back with {got}");
            }
        }
    }
}

#[test]
fn changes_take_effect_while_everybody_runs() {
    let mut world = World::new(1, Mode::Timesharing, 23);
    let (a, b) = (world.tenant(&spec("0%")), world.tenant(&spec("0%")));
    for id in [a, b] {
        world.process(id, vec![Box::new(Busy::of(MS))]);
    }
    world.run_until(5 * SECOND);
    let got = world.percent(0, a, SECOND, 5 * SECOND);
    assert!((got - 50.0).abs() < 3.0, "the driver's own turns: {got}");

    world.change_tenant(a, TenantChange { compute: "20%".parse().ok(), ..TenantChange::default() });
    world.change_tenant(b, TenantChange { compute: "60%".parse().ok(), ..TenantChange::default() });
    world.change_gpu(0, GpuChange { mode: Some(Mode::Fair), lease_ms: Some(50) });
    // What the driver had taken without a bound has to end first, and is charged.
    world.run_until(25 * SECOND);
    let got = world.percent(0, a, 15 * SECOND, 25 * SECOND);
    assert!((got - 30.0).abs() < 1.5, "fair: {got}");

    world.change_gpu(0, GpuChange { mode: Some(Mode::Strict), lease_ms: None });
    world.run_until(36 * SECOND);
    let got = [a, b].map(|id| world.percent(0, id, 26 * SECOND, 36 * SECOND));
    assert!((got[0] - 20.0).abs() < 1.5 && (got[1] - 60.0).abs() < 1.5, "strict: {got:?}");

    world.change_gpu(0, GpuChange { mode: Some(Mode::Fair), lease_ms: None });
    world.change_tenant(a, TenantChange { priority: Some(1000), ..TenantChange::default() });
    world.run_until(47 * SECOND);
    let got = world.percent(0, a, 37 * SECOND, 47 * SECOND);
    assert!((got - 40.0).abs() < 2.0, "a higher class has all but the other's share: {got}");
}
