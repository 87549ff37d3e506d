use halfwarp_broker_core::{Action, Event};
use halfwarp_rest::{GpuChange, Mode, TenantChange};
use halfwarp_turns::*;
fn main() {
    let which = std::env::args().nth(1).unwrap_or_default();
    let mut world = World::recorded(1, Mode::Fair, 13);
    match which.as_str() {
        "group" => {
            let grouped = Spec { compute: "25%", group: Some("job"), ..Spec::default() };
            let pair = [(); 2].map(|()| world.tenant(&grouped));
            let other = world.tenant(&Spec { compute: "50%", ..Spec::default() });
            for n in 0..2 {
                world.process(pair[n], vec![Box::new(Pair::new(0, 1, n as u64, MS, 3 * MS))]);
            }
            world.process(other, vec![Box::new(Busy::of(MS))]);
            world.run_until(SECOND);
        }
        "changes" => {
            let mut w2 = World::recorded(1, Mode::Timesharing, 23);
            std::mem::swap(&mut world, &mut w2);
            let (a, b) = (
                world.tenant(&Spec { compute: "0%", ..Spec::default() }),
                world.tenant(&Spec { compute: "0%", ..Spec::default() }),
            );
            for id in [a, b] {
                world.process(id, vec![Box::new(Busy::of(MS))]);
            }
            world.run_until(SECOND);
            world.run_until(5 * SECOND);
            world.change_tenant(
                a,
                TenantChange { compute: "20%".parse().ok(), ..TenantChange::default() },
            );
            world.change_tenant(
                b,
                TenantChange { compute: "60%".parse().ok(), ..TenantChange::default() },
            );
            world.change_gpu(0, GpuChange { mode: Some(Mode::Fair), lease_ms: Some(50) });
            world.run_until(18 * SECOND);
        }
        "pair" => {
            world = World::recorded(1, Mode::Fair, 11);
            let pair = world.tenant(&Spec { compute: "50%", ..Spec::default() });
            let other = world.tenant(&Spec { compute: "50%", ..Spec::default() });
            let side = |s| Box::new(Pair::new(0, 1, s, MS, 3 * MS)) as Box<dyn Load>;
            world.process(pair, vec![side(0), side(1)]);
            world.process(other, vec![Box::new(Busy::of(MS))]);
            world.run_until(4 * SECOND);
        }
        "cards" => {
            world = World::recorded(2, Mode::Fair, 17);
            let both = world.tenant(&Spec { compute: "50%", gpus: &["0", "1"], ..Spec::default() });
            let a = world.tenant(&Spec { compute: "50%", gpus: &["0"], ..Spec::default() });
            let b = world.tenant(&Spec { compute: "50%", gpus: &["1"], ..Spec::default() });
            let across = |slot, side| Box::new(Pair::new(slot, 1, side, MS, 0)) as Box<dyn Load>;
            world.process(both, vec![across(0, 0), across(1, 1)]);
            world.process(a, vec![Box::new(Busy::of(MS))]);
            world.process(b, vec![Box::new(Busy::of(MS))]);
            world.run_until(2 * SECOND);
        }
        "two" => {
            let pair = [(); 2].map(|()| world.tenant(&Spec { compute: "25%", ..Spec::default() }));
            let other = world.tenant(&Spec { compute: "50%", ..Spec::default() });
            for n in 0..2 {
                world.process(pair[n], vec![Box::new(Pair::new(0, 1, n as u64, MS, 3 * MS))]);
            }
            world.process(other, vec![Box::new(Busy::of(MS))]);
            world.run_until(6 * SECOND);
        }
        _ => {}
    }
    for (at, event, actions) in &world.record {
        if actions.is_empty() && matches!(event, Event::Tick) {
            continue;
        }
        let ev = match event {
            Event::Admit { .. } => "admit".to_owned(),
            Event::Hello { client, .. } => format!("hello {client:?}"),
            e => format!("{e:?}"),
        };
        println!("{:9.3} {ev}", *at as f64 / 1e6);
        for a in actions {
            if !matches!(a, Action::Save | Action::Headcount { .. } | Action::Sample) {
                println!("              {a:?}");
            }
        }
    }
}
