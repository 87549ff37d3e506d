//! `cargo xtask sim-report`: runs the model of compute sharing and writes what came out, as a page with
//! plots. Made-up time and fixed seeds: the same source gives the same page.

mod plot;

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use halfwarp_rest::Mode;
use halfwarp_turns::{
    Busy, Load, MS, Nanos, Requests, SECOND, Spec, Training, US, World, jain, percentile,
};

use crate::command::root;

/// What is measured: from the second on, when everybody has come, for 30 s.
const FROM: Nanos = SECOND;
const TO: Nanos = 31 * SECOND;

/// A run with its tenants and what each is to get.
struct Run {
    name: &'static str,
    world: World,
    tenants: Vec<(u64, f64)>,
}

pub(crate) fn write() -> Result<()> {
    let runs = runs();
    let mut page = String::from(HEAD);
    shares(&mut page, &runs)?;
    index_and_loss(&mut page)?;
    let (alone, beside) = latencies(&mut page)?;
    let folder = root().join("docs/measurements");
    plot::shares(&folder.join("shares.svg"), &arrivals()).context("plotting shares")?;
    plot::latencies(&folder.join("latencies.svg"), &alone, &beside)
        .context("plotting latencies")?;
    page.push_str(PLOTS);
    let path = folder.join("compute.md");
    fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}

const HEAD: &str = "# Compute sharing in made-up time

Written by `cargo xtask sim-report`; the same source gives the same page.
The decisions are the broker's own; cards, kernels, processes and the library in them are modelled (`broker/sim/`).
It says nothing of a real card's speed, and the seed is fixed.
The lease is 100 ms; a share is of the card's time as the model's card ran it, over 30 s; an error is in points of the card.
";

const PLOTS: &str = "
## Plots

Three tenants with shares of 20, 30 and 50 %, the last one busy from the tenth to the twentieth second.

![Shares over time](shares.svg)

Requests of a `high` tenant, alone and beside a busy `low` one.

![Latencies](latencies.svg)
";

fn spec(compute: &'static str) -> Spec {
    Spec { compute, ..Spec::default() }
}

fn run(name: &'static str, mode: Mode, tenants: Vec<(&'static str, Box<dyn Load>, f64)>) -> Run {
    let mut world = World::new(1, mode, 1);
    let tenants = tenants.into_iter().map(|(compute, load, percent)| {
        let id = world.tenant(&spec(compute));
        world.process(id, vec![load]);
        (id, percent)
    });
    let tenants = tenants.collect();
    world.run_until(TO);
    Run { name, world, tenants }
}

fn busy(ns: Nanos) -> Box<dyn Load> {
    Box::new(Busy::of(ns))
}

fn runs() -> Vec<Run> {
    let jitter = || Box::new(Busy::between(10 * US, 2 * MS)) as Box<dyn Load>;
    let asleep = || Box::new(Training::new(1, MS, 3600 * SECOND)) as Box<dyn Load>;
    vec![
        run("25/75, fair", Mode::Fair, vec![("25%", busy(MS), 25.0), ("75%", busy(MS), 75.0)]),
        run("25/75, strict", Mode::Strict, vec![("25%", busy(MS), 25.0), ("75%", busy(MS), 75.0)]),
        run("25 alone, fair", Mode::Fair, vec![("25%", busy(MS), 100.0)]),
        run("25 alone, strict", Mode::Strict, vec![("25%", busy(MS), 25.0)]),
        run(
            "20/30/50, the third idle, fair",
            Mode::Fair,
            vec![("20%", busy(MS), 45.0), ("30%", busy(MS), 55.0), ("50%", asleep(), 0.0)],
        ),
        run(
            "10/90, kernels of 0.2 ms, fair",
            Mode::Fair,
            vec![("10%", busy(200 * US), 10.0), ("90%", busy(200 * US), 90.0)],
        ),
        run(
            "25/75, kernels of 10 µs to 2 ms, fair",
            Mode::Fair,
            vec![("25%", jitter(), 25.0), ("75%", jitter(), 75.0)],
        ),
        run(
            "75/25, the second with kernels of 500 ms, fair",
            Mode::Fair,
            vec![("75%", busy(MS), 75.0), ("25%", busy(500 * MS), 25.0)],
        ),
        run(
            "75/25, the second with kernels of 500 ms, strict",
            Mode::Strict,
            vec![("75%", busy(MS), 75.0), ("25%", busy(500 * MS), 25.0)],
        ),
    ]
}

fn shares(page: &mut String, runs: &[Run]) -> Result<()> {
    page.push_str("\n## Shares\n\n");
    page.push_str("| run | to get | got | largest error over 50 leases | over 10 leases |\n");
    page.push_str("|---|---|---|---|---|\n");
    for Run { name, world, tenants } in runs {
        for (id, percent) in tenants {
            let got = world.percent(0, *id, FROM, TO);
            let [fifty, ten] =
                [50, 10].map(|n| world.worst_error(*id, *percent, n * 100 * MS, (FROM, TO)));
            writeln!(page, "| {name} | {percent} % | {got:.2} % | {fifty:.1} | {ten:.1} |")?;
        }
    }
    Ok(())
}

fn index_and_loss(page: &mut String) -> Result<()> {
    page.push_str("\n## Fairness and loss\n\n| figure | value |\n|---|---|\n");
    for count in [8, 200] {
        let mut world = World::new(1, Mode::Fair, 1);
        let tenants: Vec<u64> = (0..count).map(|_| world.tenant(&spec(""))).collect();
        for id in &tenants {
            world.process(*id, vec![busy(MS)]);
        }
        let to = SECOND * count.max(30) + SECOND;
        world.run_until(to);
        let parts: Vec<f64> = tenants.iter().map(|id| world.percent(0, *id, FROM, to)).collect();
        writeln!(page, "| Jain's index of {count} equal busy tenants | {:.4} |", jain(&parts))?;
        let gap = 100.0 - parts.iter().sum::<f64>();
        writeln!(page, "| card time that {count} busy tenants left unused | {gap:.2} % |")?;
    }
    for idle in [0, 3] {
        let mut world = World::new(1, Mode::Fair, 1);
        let id = world.tenant(&spec("30%"));
        world.process(id, vec![busy(200 * US)]);
        for _ in 0..idle {
            let other = world.tenant(&spec("10%"));
            world.process(other, vec![]);
        }
        world.run_until(TO);
        let got = world.percent(0, id, FROM, TO);
        writeln!(page, "| the only busy one beside {idle} idle joined ones | {got:.2} % |")?;
    }
    Ok(())
}

/// Requests of a high tenant alone and beside a low one.
fn latencies(page: &mut String) -> Result<(Vec<Nanos>, Vec<Nanos>)> {
    page.push_str("\n## Requests of a higher class\n\n");
    page.push_str(
        "Requests of 2 ms at half load by chance; the other is busy without a share.\n\n",
    );
    page.push_str("| beside | median | p99 | of the card for the other |\n|---|---|---|---|\n");
    let requests = || Requests::new(4 * MS, 1, 2 * MS, 2 * MS);
    let measure = |beside: Option<Box<dyn Load>>| {
        let mut world = World::new(1, Mode::Fair, 7);
        let class = |priority| Spec { priority: Some(priority), ..Spec::default() };
        let (high, low) = (world.tenant(&class(1000)), world.tenant(&class(100)));
        let client = world.process(high, vec![Box::new(requests())]);
        if let Some(load) = beside {
            world.process(low, vec![load]);
        }
        world.run_until(TO);
        (world.requests_ns(client).to_vec(), world.percent(0, low, FROM, TO))
    };
    let cases: [(&str, Option<Box<dyn Load>>); 3] = [
        ("nobody", None),
        ("kernels of 1 ms", Some(busy(MS))),
        ("kernels of 10 µs to 2 ms", Some(Box::new(Busy::between(10 * US, 2 * MS)))),
    ];
    let mut all = Vec::new();
    for (name, load) in cases {
        let (times, other) = measure(load);
        let [median, p99] = [0.5, 0.99].map(|part| percentile(&times, part) as f64 / 1e6);
        writeln!(page, "| {name} | {median:.2} ms | {p99:.2} ms | {other:.1} % |")?;
        all.push(times);
    }
    let beside = all.swap_remove(1);
    Ok((all.swap_remove(0), beside))
}

/// Shares of three tenants in windows of half a second; the third works for ten seconds only.
fn arrivals() -> Vec<(&'static str, Vec<(f64, f64)>)> {
    let mut world = World::new(1, Mode::Fair, 1);
    let [a, b, c] = ["20%", "30%", "50%"].map(|compute| world.tenant(&spec(compute)));
    for id in [a, b] {
        world.process(id, vec![busy(MS)]);
    }
    world.run_until(10 * SECOND);
    let client = world.process(c, vec![busy(MS)]);
    world.run_until(20 * SECOND);
    world.kill(client);
    world.run_until(30 * SECOND);
    let window = SECOND;
    let line = |id| {
        let points = (0..58).map(|n| {
            let from = n * SECOND / 2;
            (from as f64 / 1e9 + 0.5, world.percent(0, id, from, from + window))
        });
        points.collect()
    };
    vec![("20 %", line(a)), ("30 %", line(b)), ("50 %", line(c))]
}
