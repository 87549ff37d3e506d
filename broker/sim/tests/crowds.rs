//! Bursts, limits, many tenants, long runs; and that a recorded run replays.

use halfwarp_broker_core::{Config, State};
use halfwarp_rest::Mode;
use halfwarp_turns::{Busy, Load, MS, Requests, SECOND, Spec, Training, US, World, jain};

fn spec(compute: &'static str) -> Spec {
    Spec { compute, ..Spec::default() }
}

#[test]
fn a_limit_above_the_share_holds_also_alone() {
    let mut world = World::new(1, Mode::Fair, 1);
    let a = world.tenant(&spec("25%..60%"));
    world.process(a, vec![Box::new(Busy::of(MS))]);
    world.run_until(31 * SECOND);
    let got = world.percent(0, a, SECOND, 31 * SECOND);
    assert!((got - 60.0).abs() <= 1.0, "{got}");
}

#[test]
fn forty_percent_strict_is_even_over_ten_minutes() {
    let mut world = World::new(1, Mode::Strict, 1);
    let a = world.tenant(&spec("40%"));
    world.process(a, vec![Box::new(Busy::of(MS))]);
    world.run_until(600 * SECOND);
    let windows: Vec<f64> =
        (1..600).map(|s| world.percent(0, a, s * SECOND, (s + 1) * SECOND)).collect();
    let mean = windows.iter().sum::<f64>() / windows.len() as f64;
    let deviation =
        (windows.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / windows.len() as f64).sqrt();
    assert!((mean - 40.0).abs() <= 1.0, "{mean}");
    assert!(deviation < 5.0, "{deviation}");
    assert!(windows.iter().all(|w| (20.0..=60.0).contains(w)));
}

#[test]
fn eight_processes_of_a_tenant_have_one_tenant_s_share_and_all_of_them_progress() {
    let mut world = World::new(1, Mode::Strict, 1);
    let a = world.tenant(&spec("20%"));
    let clients: Vec<_> = (0..8).map(|_| world.process(a, vec![Box::new(Busy::of(MS))])).collect();
    let mut launched = vec![0; 8];
    for second in (2..62).step_by(2) {
        world.run_until(second * SECOND);
        for (client, before) in clients.iter().zip(&mut launched) {
            let now = world.launched(*client);
            assert!(now > *before, "no progress until {second} s");
            *before = now;
        }
    }
    let got = world.percent(0, a, SECOND, 60 * SECOND);
    assert!((got - 20.0).abs() <= 3.0, "{got}");
}

#[test]
fn neither_does_the_bursty_starve_nor_does_the_idle_hoard() {
    let mut world = World::new(1, Mode::Fair, 5);
    let bursty = world.tenant(&spec("30%"));
    let steady = world.tenant(&spec("30%"));
    // 100 ms of kernels every half second: a fifth of the card, below its share.
    world.process(bursty, vec![Box::new(Training::new(100, MS, 400 * MS))]);
    world.process(steady, vec![Box::new(Busy::of(MS))]);
    world.run_until(31 * SECOND);
    let got = world.percent(0, bursty, SECOND, 31 * SECOND);
    assert!(got > 14.0, "a step waits a lease at most: {got}");
    let got = world.percent(0, steady, SECOND, 31 * SECOND);
    assert!(got > 70.0, "{got}");

    let mut world = World::new(1, Mode::Fair, 5);
    let (sleeper, steady) = (world.tenant(&spec("50%")), world.tenant(&spec("50%")));
    world.process(steady, vec![Box::new(Busy::of(MS))]);
    let slept = Training::new(1, MS, 20 * SECOND);
    world.process(sleeper, vec![Box::new(slept) as Box<dyn Load>]);
    world.run_until(19 * SECOND);
    world.process(sleeper, vec![Box::new(Busy::of(MS))]);
    world.run_until(30 * SECOND);
    let got = world.percent(0, sleeper, 19 * SECOND, 20 * SECOND);
    assert!(got <= 65.0, "twenty idle seconds are worth a lease: {got}");
}

#[test]
fn beside_idle_joined_tenants_nothing_is_lost() {
    let native = {
        let mut world = World::new(1, Mode::Timesharing, 1);
        let a = world.tenant(&spec(""));
        world.process(a, vec![Box::new(Busy::of(200 * US))]);
        world.run_until(10 * SECOND);
        world.percent(0, a, SECOND, 10 * SECOND)
    };
    for (idle, least) in [(0, 0.99), (3, 0.98)] {
        let mut world = World::new(1, Mode::Fair, 1);
        let a = world.tenant(&spec("30%"));
        world.process(a, vec![Box::new(Busy::of(200 * US))]);
        for _ in 0..idle {
            let other =
                world.tenant(&Spec { compute: "10%", priority: Some(1000), ..Spec::default() });
            world.process(other, vec![]);
        }
        world.run_until(10 * SECOND);
        let got = world.percent(0, a, SECOND, 10 * SECOND);
        assert!(got >= native * least, "{got} of {native} beside {idle}");
    }
}

#[test]
fn two_hundred_tenants_all_get_their_turn() {
    let mut world = World::new(1, Mode::Fair, 1);
    let tenants: Vec<u64> = (0..200)
        .map(|n| {
            let id = world.tenant(&spec(""));
            let load: Box<dyn Load> = match n % 4 {
                0 => Box::new(Busy::between(10 * US, 2 * MS)),
                _ => Box::new(Busy::of(MS)),
            };
            world.process(id, vec![load]);
            id
        })
        .collect();
    world.run_until(81 * SECOND);
    let parts: Vec<f64> =
        tenants.iter().map(|id| world.percent(0, *id, SECOND, 81 * SECOND)).collect();
    assert!(jain(&parts) >= 0.98, "{}", jain(&parts));
    assert!(parts.iter().all(|part| *part > 0.2), "{parts:?}");
}

#[test]
fn requests_by_chance_share_with_a_busy_one_of_the_same_class() {
    let mut world = World::new(1, Mode::Fair, 9);
    let (a, b) = (world.tenant(&spec("50%")), world.tenant(&spec("50%")));
    let client = world.process(a, vec![Box::new(Requests::new(100 * MS, 10, MS, MS))]);
    world.process(b, vec![Box::new(Busy::of(MS))]);
    world.run_until(31 * SECOND);
    assert!(world.requests_ns(client).len() > 200, "{}", world.requests_ns(client).len());
    let got = world.percent(0, b, SECOND, 31 * SECOND);
    assert!(got > 80.0, "{got}");
}

#[test]
fn a_recorded_run_replays_to_the_same_decisions() {
    let mut world = World::recorded(1, Mode::Timesharing, 1);
    for (compute, load) in [("20%", Busy::of(MS)), ("30%", Busy::of(200 * MS)), ("", Busy::of(MS))]
    {
        let id = world.tenant(&spec(compute));
        world.process(id, vec![Box::new(load)]);
    }
    world.run_until(10 * SECOND);
    let record = std::mem::take(&mut world.record);
    assert!(record.len() > 200, "{}", record.len());
    let mut state = State::new(0, Config::default(), vec![halfwarp_turns::facts(0)]);
    for (at, event, decided) in record {
        let mut actions = Vec::new();
        state.step(at, event, &mut actions);
        assert_eq!(actions, decided, "at {at}");
    }
}
