//! The shares that a user may rely on, as runs in made-up time.

use halfwarp_rest::Mode;
use halfwarp_turns::{Busy, MS, SECOND, Spec, US, World, jain};

const RUN: (u64, u64) = (SECOND, 31 * SECOND);

fn spec(compute: &'static str) -> Spec {
    Spec { compute, ..Spec::default() }
}

/// A tenant with one busy process.
fn busy(world: &mut World, compute: &'static str, load: Busy) -> u64 {
    let id = world.tenant(&spec(compute));
    world.process(id, vec![Box::new(load)]);
    id
}

/// Shares of 30 s within a point, of 50 leases within three, of ten within ten.
fn shares_are(world: &World, expected: &[(u64, f64)]) {
    for (id, percent) in expected {
        let got = world.percent(0, *id, RUN.0, RUN.1);
        assert!((got - percent).abs() <= 1.0, "tenant {id}: {got} of {percent}");
        for (leases, points) in [(50, 3.0), (10, 10.0)] {
            let worst = world.worst_error(*id, *percent, leases * 100 * MS, RUN);
            assert!(worst <= points, "tenant {id}: {worst} points over {leases} leases");
        }
    }
}

#[test]
fn a_quarter_and_three_quarters_come_out_as_such() {
    for mode in [Mode::Fair, Mode::Strict] {
        let mut world = World::new(1, mode, 1);
        let a = busy(&mut world, "25%", Busy::of(MS));
        let b = busy(&mut world, "75%", Busy::of(MS));
        world.run_until(RUN.1);
        shares_are(&world, &[(a, 25.0), (b, 75.0)]);
    }
}

#[test]
fn alone_a_quarter_is_the_whole_card_in_fair_and_a_quarter_in_strict() {
    for (mode, percent) in [(Mode::Fair, 100.0), (Mode::Strict, 25.0)] {
        let mut world = World::new(1, mode, 1);
        let a = busy(&mut world, "25%", Busy::of(MS));
        world.run_until(RUN.1);
        shares_are(&world, &[(a, percent)]);
    }
}

#[test]
fn what_an_idle_third_leaves_is_split_equally() {
    let mut world = World::new(1, Mode::Fair, 1);
    let a = busy(&mut world, "20%", Busy::of(MS));
    let b = busy(&mut world, "30%", Busy::of(MS));
    let c = world.tenant(&spec("50%"));
    world.process(c, vec![]);
    world.run_until(RUN.1);
    shares_are(&world, &[(a, 45.0), (b, 55.0), (c, 0.0)]);
}

#[test]
fn launches_of_one_kernel_come_out_one_to_nine() {
    let mut world = World::new(1, Mode::Fair, 1);
    let (a, b) = (world.tenant(&spec("10%")), world.tenant(&spec("90%")));
    let one = world.process(a, vec![Box::new(Busy::of(200 * US))]);
    let nine = world.process(b, vec![Box::new(Busy::of(200 * US))]);
    world.run_until(RUN.1);
    let ratio = world.launched(nine) as f64 / world.launched(one) as f64;
    assert!((8.55..=9.45).contains(&ratio), "1:{ratio}");
}

#[test]
fn eight_equal_tenants_get_equal_parts() {
    let mut world = World::new(1, Mode::Fair, 1);
    let tenants: Vec<u64> = (0..8).map(|_| busy(&mut world, "", Busy::of(MS))).collect();
    world.run_until(RUN.1);
    let parts: Vec<f64> = tenants.iter().map(|id| world.percent(0, *id, RUN.0, RUN.1)).collect();
    assert!(jain(&parts) >= 0.99, "{parts:?}");
    assert!(parts.iter().sum::<f64>() > 98.0, "{parts:?}");
}

#[test]
fn kernels_longer_than_the_lease_are_paid_for_later() {
    for load in [Busy::of(500 * MS), Busy::synchronous(500 * MS)] {
        for mode in [Mode::Fair, Mode::Strict] {
            let mut world = World::new(1, mode, 1);
            // Whoever comes first has launched without a bound before the second comes.
            let b = busy(&mut world, "75%", Busy::of(MS));
            let a = busy(&mut world, "25%", load.clone());
            world.run_until(61 * SECOND);
            let got = [a, b].map(|id| world.percent(0, id, SECOND, 61 * SECOND));
            assert!((got[0] - 25.0).abs() <= 3.0, "{mode:?} {load:?}: {got:?}");
            assert!((got[1] - 75.0).abs() <= 3.0, "{mode:?} {load:?}: {got:?}");
            let worst = world.worst_error(a, 25.0, 10 * SECOND, (SECOND, 61 * SECOND));
            assert!(worst <= 6.0, "{mode:?} {load:?}: {worst} points over ten seconds");
        }
    }
}
