//! Priorities: a bound for the higher class, the guaranteed share for the lower one.

use halfwarp_rest::Mode;
use halfwarp_turns::{Busy, Load, MS, Requests, SECOND, Spec, Training, US, World, percentile};

fn classed(compute: &'static str, priority: u16) -> Spec {
    Spec { compute, priority: Some(priority), ..Spec::default() }
}

/// Requests of one process, alone or beside a low busy one, and what the low one received.
fn latencies(requests: &Requests, beside: Option<Busy>) -> (Vec<u64>, f64) {
    let mut world = World::new(1, Mode::Fair, 7);
    let high = world.tenant(&classed("", 1000));
    let low = world.tenant(&classed("", 100));
    let client = world.process(high, vec![Box::new(requests.clone())]);
    if let Some(load) = beside {
        world.process(low, vec![Box::new(load)]);
    }
    world.run_until(30 * SECOND);
    (world.requests_ns(client).to_vec(), world.percent(0, low, 0, 30 * SECOND))
}

#[test]
fn a_higher_class_waits_at_most_for_what_is_in_flight() {
    let half_load = Requests::new(4 * MS, 1, 2 * MS, 2 * MS);
    let jitter = Requests::new(20 * MS, 1, 10 * US, 2 * MS);
    let (alone, _) = latencies(&half_load, None);
    for beside in [Busy::of(MS), Busy::between(10 * US, 2 * MS)] {
        let (got, low) = latencies(&half_load, Some(beside.clone()));
        assert!(got.len() > 5000, "{}", got.len());
        let (p99, p99_alone) = (percentile(&got, 0.99), percentile(&alone, 0.99));
        assert!(
            p99 <= p99_alone * 110 / 100 + 4 * MS,
            "{p99} against {p99_alone} alone, {beside:?}"
        );
        assert!(low > 1.0, "the low one runs in the gaps: {low}");
    }
    let (alone, _) = latencies(&jitter, None);
    let (got, low) = latencies(&jitter, Some(Busy::of(MS)));
    let (p99, p99_alone) = (percentile(&got, 0.99), percentile(&alone, 0.99));
    assert!(p99 <= p99_alone + 5 * MS, "{p99} against {p99_alone} alone");
    assert!(low > 50.0, "{low}");
}

#[test]
fn waking_from_idle_meets_no_deep_queue() {
    let mut world = World::new(1, Mode::Fair, 3);
    let high = world.tenant(&classed("", 1000));
    let low = world.tenant(&classed("", 100));
    let wakes = world.process(high, vec![Box::new(Requests::new(200 * MS, 1, 100 * US, 100 * US))]);
    world.process(low, vec![Box::new(Busy::of(MS))]);
    world.run_until(60 * SECOND);
    let edges = world.requests_ns(wakes);
    assert!(edges.len() > 200);
    let worst = percentile(edges, 0.99);
    assert!(worst < 5 * MS, "{worst}");
    let low = world.percent(0, low, 0, 60 * SECOND);
    assert!(low > 95.0, "{low}");
}

#[test]
fn a_lower_class_has_its_guaranteed_share_and_no_more() {
    for (compute, percent) in [("", 0.0), ("25%", 25.0)] {
        let mut world = World::new(1, Mode::Fair, 1);
        let high = world.tenant(&classed("", 1000));
        let low = world.tenant(&classed(compute, 100));
        world.process(high, vec![Box::new(Busy::of(MS))]);
        world.process(low, vec![Box::new(Busy::of(MS))]);
        world.run_until(31 * SECOND);
        let got = world.percent(0, low, SECOND, 31 * SECOND);
        assert!((got - percent).abs() <= 1.0, "{got} of {percent}");
    }
}

#[test]
fn when_the_higher_class_falls_silent_the_lower_one_has_the_card_within_a_tenth_of_a_second() {
    let mut world = World::new(1, Mode::Fair, 1);
    let high = world.tenant(&classed("", 1000));
    let low = world.tenant(&classed("", 100));
    // Two seconds of kernels, two seconds of nothing.
    let load = Training::new(2000, MS, 2 * SECOND);
    world.process(high, vec![Box::new(load) as Box<dyn Load>]);
    world.process(low, vec![Box::new(Busy::of(MS))]);
    world.run_until(12 * SECOND);
    let while_busy = world.percent(0, low, 200 * MS, 1900 * MS);
    assert!(while_busy <= 1.0, "{while_busy}");
    let after = world.percent(0, low, 2100 * MS, 3900 * MS);
    assert!(after > 98.0, "{after}");
}

#[test]
fn within_a_class_time_is_fair_also_below_a_higher_one() {
    let mut world = World::new(1, Mode::Fair, 1);
    let high = world.tenant(&classed("", 1000));
    let lows = [(); 2].map(|()| world.tenant(&classed("", 100)));
    world.process(high, vec![Box::new(Requests::new(40 * MS, 5, MS, MS))]);
    for low in lows {
        world.process(low, vec![Box::new(Busy::of(MS))]);
    }
    world.run_until(31 * SECOND);
    let got = lows.map(|low| world.percent(0, low, SECOND, 31 * SECOND));
    assert!((got[0] - got[1]).abs() < 2.0 && got[0] > 30.0, "{got:?}");
}
