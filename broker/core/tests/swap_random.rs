//! Swap under random events: nothing is promised twice, and whoever works gets its memory.

mod kit;

use halfwarp_api::wire::{Outcome, ToBroker};
use halfwarp_broker_core::{Admitted, Config, Nanos, SwapConfig};
use halfwarp_rest::NewTenant;
use kit::{GIB, MS, Node, card, wish};

const S: Nanos = 1000 * MS;

/// A card of 10 GiB.
fn a_node() -> Node {
    let swap = SwapConfig { pool_bytes: 24 << 30, ..SwapConfig::default() };
    Node::with(Config { swap, ..Config::default() }, vec![card(0, 10)])
}

#[test]
fn whatever_happens_no_more_is_promised_than_the_card_has_and_nobody_is_left_behind() {
    for seed in 0..40 {
        random_run(seed);
    }
}

/// Numbers that look random, the same for a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn promised(node: &Node) -> u64 {
    let held = node.clients.values().map(|c| u64::from(c.word.allowed));
    held.sum()
}

fn random_run(seed: u64) {
    let mut numbers = Numbers(seed);
    let mut node = a_node();
    let mut tenants = Vec::new();
    for _ in 0..3 {
        let admitted = node.ask(NewTenant { swap: true, ..wish("2GiB..8GiB") }).expect("room");
        node.join(&admitted);
        if numbers.below(2) == 0 {
            node.join(&admitted);
        }
        tenants.push(admitted);
    }
    for _ in 0..400 {
        anything(&mut node, &mut numbers, &tenants);
        assert!(promised(&node) <= u64::from(10 * GIB), "seed {seed}");
    }
    nobody_is_left_behind(&mut node, &tenants, seed);
}

/// One thing that can happen.
fn anything(node: &mut Node, numbers: &mut Numbers, tenants: &[Admitted]) {
    let clients: Vec<_> = node.clients.keys().copied().collect();
    let client = clients.get(numbers.below(clients.len().max(1) as u64) as usize).copied();
    let tenant = &tenants[numbers.below(3) as usize];
    match (numbers.below(14), client) {
        (0..=2, Some(client)) if !node.client(client).closed => {
            let units = numbers.below(u64::from(3 * GIB)) as u32;
            node.reserve(client, units);
        }
        (3, Some(client)) if !node.client(client).closed => {
            let units = numbers.below(u64::from(node.client(client).word.held) + 1) as u32;
            node.release(client, units);
        }
        (4, Some(client)) => {
            let own = node.clients.get_mut(&client).expect("a client");
            let kinds = [Outcome::Undrained, Outcome::Driver, Outcome::Host, Outcome::Capture];
            own.ends.push_back(kinds[numbers.below(4) as usize]);
        }
        (5, _) => drop(node.suspend(tenant.id)),
        (6, _) => drop(node.resume(tenant.id)),
        (7, Some(client)) => {
            node.send(client, ToBroker::Want { gpu: 0, lease: 0 });
            if node.client(client).closed {
                node.send(client, ToBroker::WantMemory { gpu: 0, residency: 0 });
            }
        }
        (8, Some(client)) if numbers.below(8) == 0 => node.die(client),
        (9, _) if node.clients.len() < 6 => drop(node.try_join(tenant)),
        (10, _) => node.wait(numbers.below(4) * S),
        (11, _) => {
            for _ in 0..numbers.below(6) {
                node.broker_reads(numbers.below(4) as usize);
            }
        }
        (_, Some(client)) => node.client_reads(client),
        _ => {}
    }
}

/// Everybody behaves from now on and all are resumed: every gate opens for whoever works.
fn nobody_is_left_behind(node: &mut Node, tenants: &[Admitted], seed: u64) {
    for client in node.clients.values_mut() {
        client.ends.clear();
    }
    node.sample(0, &[], 0);
    node.sample(0, &[], 0);
    for tenant in tenants {
        drop(node.resume(tenant.id));
    }
    node.settle();
    let clients: Vec<_> = node.clients.keys().copied().collect();
    for client in clients {
        for _ in 0..200 {
            if !node.client(client).closed {
                break;
            }
            // A resume that was on its way when everybody began to behave may still have failed.
            for tenant in tenants {
                drop(node.resume(tenant.id));
            }
            node.work(client);
            node.wait(S);
            node.settle();
        }
        if node.client(client).closed {
            for (id, c) in &node.clients {
                eprintln!("{id:?} {c:?}");
            }
            eprintln!("{:#?}", node.state);
        }
        assert!(
            !node.client(client).closed,
            "seed {seed}: {client:?} is left behind a closed gate"
        );
    }
}
