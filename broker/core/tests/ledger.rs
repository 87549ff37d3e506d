//! The ledger against simulated clients: exact in races, one answer for each question, and the same
//! again from the same events.

mod kit;

use halfwarp_api::wire::{Denial, ToBroker, ToClient};
use halfwarp_broker_core::{ClientId, Event, Kind};
use halfwarp_rest::{NewTenant, OnReclaim};
use kit::{GIB, MIB, MS, Node, card, wish};
use proptest::prelude::*;

#[test]
fn far_from_the_limit_a_grant_is_rounded_up_and_near_it_is_exact() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("256MiB");
    let one = node.join(&tenant);
    node.reserve(one, 1);
    node.settle();
    assert_eq!(node.client(one).word.allowed, 64 * MIB);
    let two = node.join(&tenant);
    node.reserve(two, 64 * MIB + 1);
    node.settle();
    // Rounded up it would leave less than the slack of two processes: what is asked is given.
    assert_eq!(node.client(two).word.allowed, 64 * MIB + 1);
}

#[test]
fn thirty_two_processes_race_for_the_last_bytes_and_exactly_what_fits_is_granted() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("1000MiB");
    let clients: Vec<_> = (0..32).map(|_| node.join(&tenant)).collect();
    for (round, piece_mib) in [48, 31, 100, 7].into_iter().enumerate() {
        let piece = piece_mib * MIB;
        for client in &clients {
            node.reserve(*client, piece);
        }
        let mut turn = round;
        while !node.to_broker.is_empty() || node.clients.values().any(|c| !c.inbox.is_empty()) {
            turn = (turn + 5) % 32;
            node.broker_reads(turn);
            node.client_reads(clients[turn]);
        }
        let holders = clients.iter().filter(|c| node.client(**c).word.held > 0).count();
        assert_eq!(holders, (1000 / piece_mib as usize).min(32), "round {round}");
        let denied: u32 = clients.iter().map(|c| node.client(*c).denials).sum();
        assert_eq!(denied as usize, 32 - holders, "round {round}");
        for client in &clients {
            node.release(*client, node.client(*client).word.held);
            node.clients.get_mut(client).expect("a client").denials = 0;
        }
        node.settle();
    }
}

#[test]
fn slack_of_another_process_is_called_back_before_anybody_is_denied() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("256MiB");
    let (one, two) = (node.join(&tenant), node.join(&tenant));
    node.reserve(one, 1);
    node.settle();
    assert_eq!(node.client(one).word.allowed, 64 * MIB);
    node.reserve(two, 256 * MIB - 1);
    node.settle();
    assert_eq!(node.client(two).word.held, 256 * MIB - 1);
    assert_eq!(node.client(one).word.allowed, 1);
}

#[test]
fn the_asker_s_own_slack_counts_too() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("256MiB");
    let one = node.join(&tenant);
    node.reserve(one, 1);
    node.settle();
    node.reserve(one, 256 * MIB - 1);
    node.settle();
    assert_eq!(node.client(one).word.held, 256 * MIB);
}

#[test]
fn a_stopped_process_delays_a_grow_by_a_tenth_of_a_second_and_keeps_its_allowance() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("256MiB");
    let (stopped, asker) = (node.join(&tenant), node.join(&tenant));
    node.reserve(stopped, 1);
    node.settle();
    node.reserve(asker, 250 * MIB);
    node.broker_reads(0);
    assert!(node.client(asker).inbox.is_empty(), "answered before the deadline");
    assert!(node.state.next_deadline() <= node.now + 100 * MS);
    node.wait(100 * MS);
    let deny = ToClient::Deny { seq: 1, gpu: 0, why: Denial::Limit };
    assert_eq!(node.client(asker).inbox.front(), Some(&deny));
    // It is not asked again before it has answered, so the next refusal is immediate.
    node.reserve(asker, 250 * MIB);
    node.broker_reads(0);
    assert_eq!(node.client(asker).inbox.len(), 2);
    // When it goes on, its late answer frees what it did not use.
    node.client_reads(stopped);
    node.settle();
    node.reserve(asker, 250 * MIB);
    node.settle();
    assert_eq!(node.client(asker).word.held, 250 * MIB);
}

#[test]
fn what_is_above_the_request_comes_only_from_what_no_request_covers() {
    let mut node = Node::new(vec![card(0, 16)]);
    let owner = node.tenant("12GiB");
    let guest = node.tenant("0B..16GiB");
    let (o, g) = (node.join(&owner), node.join(&guest));
    node.reserve(g, 4 * GIB);
    node.settle();
    assert_eq!(node.client(g).word.held, 4 * GIB);
    node.reserve(g, 1);
    node.settle();
    assert_eq!(node.client(g).denials, 1);
    node.reserve(o, 12 * GIB);
    node.settle();
    assert_eq!(node.client(o).word.held, 12 * GIB);
}

#[test]
fn slack_above_a_request_is_called_back_from_other_tenants_when_the_card_is_full() {
    let mut node = Node::new(vec![card(0, 1)]);
    let (a, b) = (node.tenant("0B..1GiB"), node.tenant("0B..1GiB"));
    let (a, b) = (node.join(&a), node.join(&b));
    node.reserve(a, 1);
    node.settle();
    assert_eq!(node.client(a).word.allowed, 64 * MIB);
    node.reserve(b, GIB - 1);
    node.settle();
    assert_eq!(node.client(b).word.held, GIB - 1);
}

#[test]
fn bytes_of_strangers_are_not_lent_but_never_cut_a_request() {
    let mut node = Node::new(vec![card(0, 16)]);
    let guest = node.tenant("1GiB..16GiB");
    let g = node.join(&guest);
    node.sample(0, &[(7, 10 << 30)], 1 << 30);
    node.reserve(g, 5 * GIB);
    node.settle();
    assert_eq!(node.client(g).word.held, 5 * GIB);
    node.reserve(g, MIB);
    node.settle();
    assert_eq!(node.client(g).denials, 1);
    node.release(g, 4 * GIB);
    node.send(g, ToBroker::Return { seq: 77, gpu: 0, units: 4 * GIB });
    node.clients.get_mut(&g).expect("g").word.allowed = GIB;
    let owner = node.tenant("15GiB");
    let o = node.join(&owner);
    node.reserve(o, 15 * GIB);
    node.settle();
    assert_eq!(node.client(o).word.held, 15 * GIB);
}

#[test]
fn figures_are_the_tenant_s_and_a_page_cannot_claim_more_than_was_granted() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("1GiB");
    let (one, two) = (node.join(&tenant), node.join(&tenant));
    node.reserve(one, 100 * MIB);
    node.reserve(two, 50 * MIB);
    node.settle();
    node.clients.get_mut(&two).expect("two").word.held = u32::MAX;
    node.send(one, ToBroker::Ask { seq: 9, gpu: 0 });
    let granted_to_two = 64 * MIB;
    let held = 100 * MIB + granted_to_two;
    let figures = ToClient::Figures { seq: 9, gpu: 0, limit: GIB, held };
    assert_eq!(node.client(one).inbox.back(), Some(&figures));
}

#[test]
fn a_return_of_what_was_never_granted_changes_nothing_and_is_told() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("1GiB");
    let one = node.join(&tenant);
    node.send(one, ToBroker::Return { seq: 1, gpu: 0, units: u32::MAX });
    assert!(node.kinds().contains(&Kind::ProtocolError));
    node.reserve(one, GIB);
    node.settle();
    assert_eq!(node.client(one).grants, [GIB]);
}

#[test]
fn a_card_that_the_tenant_has_not_is_denied_by_name() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("1GiB");
    let one = node.join(&tenant);
    node.send(one, ToBroker::Grow { seq: 5, gpu: 3, wanted: 1 });
    let deny = ToClient::Deny { seq: 5, gpu: 3, why: Denial::UnknownCard };
    assert_eq!(node.client(one).inbox.back(), Some(&deny));
}

/// One move of a random run.
#[derive(Clone, Debug)]
enum Move {
    Reserve { client: usize, units: u32 },
    Release { client: usize, part: u8 },
    BrokerReads { skip: usize },
    ClientReads { client: usize },
    Die { client: usize },
    Join { tenant: usize },
    Close { client: usize },
    Resize { tenant: usize, mib: u64 },
    Wait { ms: u64 },
    Sample { foreign_mib: u64 },
    Lie { client: usize, held: u32, allowed: u32 },
}

fn moves() -> impl Strategy<Value = Move> {
    let client = 0..64_usize;
    prop_oneof![
        6 => (client.clone(), 0..200 * MIB)
            .prop_map(|(client, units)| Move::Reserve { client, units }),
        3 => (client.clone(), any::<u8>()).prop_map(|(client, part)| Move::Release { client, part }),
        8 => (0..8_usize).prop_map(|skip| Move::BrokerReads { skip }),
        8 => client.clone().prop_map(|client| Move::ClientReads { client }),
        1 => client.clone().prop_map(|client| Move::Die { client }),
        1 => (0..4_usize).prop_map(|tenant| Move::Join { tenant }),
        1 => (0..4_usize, 0..2048_u64).prop_map(|(tenant, mib)| Move::Resize { tenant, mib }),
        1 => client.clone().prop_map(|client| Move::Close { client }),
        2 => (0..150_u64).prop_map(|ms| Move::Wait { ms }),
        1 => (0..512_u64).prop_map(|foreign_mib| Move::Sample { foreign_mib }),
        1 => (client, any::<u32>(), any::<u32>())
            .prop_map(|(client, held, allowed)| Move::Lie { client, held, allowed }),
    ]
}

/// A page as a hostile process may write it; its own word stays what it was.
fn lie(node: &mut Node, client: ClientId, held: u32, allowed: u32) {
    let word = halfwarp_broker_core::Word { held, allowed };
    let at = halfwarp_broker_core::PageRef { client, slot: 0 };
    let words = vec![halfwarp_broker_core::PageWord { at, word }];
    node.step(Event::Pages { number: 0, words });
}

fn play(moves: &[Move]) -> Node {
    let mut node = Node::new(vec![card(0, 2)]);
    let may_end = NewTenant { on_reclaim: Some(OnReclaim::End), ..wish("128MiB..2GiB") };
    let tenants = [
        node.tenant("512MiB"),
        node.tenant("256MiB..1GiB"),
        node.tenant("0B..2GiB"),
        node.ask(may_end).expect("admitted"),
    ];
    for tenant in &tenants {
        node.join(tenant);
        node.join(tenant);
    }
    for one in moves {
        let ids: Vec<ClientId> = node.clients.keys().copied().collect();
        let pick = |n: usize| ids.get(n % ids.len().max(1)).copied();
        match *one {
            Move::Reserve { client, units } => {
                if let Some(client) = pick(client) {
                    node.reserve(client, units);
                }
            }
            Move::Release { client, part } => {
                if let Some(client) = pick(client) {
                    let held = u64::from(node.client(client).word.held);
                    let units = held * u64::from(part) / 255;
                    node.release(client, u32::try_from(units).expect("a part"));
                }
            }
            Move::BrokerReads { skip } => node.broker_reads(skip),
            Move::ClientReads { client } => {
                pick(client).into_iter().for_each(|c| node.client_reads(c));
            }
            Move::Die { client } => pick(client).into_iter().for_each(|c| node.die(c)),
            Move::Join { tenant } => _ = node.try_join(&tenants[tenant]),
            Move::Resize { tenant, mib } => _ = node.resize(&tenants[tenant], &format!("{mib}MiB")),
            Move::Close { client } => {
                if let Some(client) = pick(client) {
                    node.step(Event::Closed { client });
                    node.clients.remove(&client);
                    node.to_broker.retain(|(sender, _)| *sender != client);
                }
            }
            Move::Wait { ms } => node.wait(ms * MS),
            Move::Sample { foreign_mib } => {
                let by_pid: Vec<_> =
                    node.clients.values().map(|c| (c.pid, u64::from(c.word.held) * 512)).collect();
                node.sample(0, &by_pid, foreign_mib << 20);
            }
            Move::Lie { client, held, allowed } => {
                pick(client).into_iter().for_each(|c| lie(&mut node, c, held, allowed));
            }
        }
        let allowed: u64 = node.clients.values().map(|c| u64::from(c.word.allowed)).sum();
        assert!(allowed <= 2 * u64::from(GIB), "{allowed} units are allowed on a card of 2 GiB");
    }
    node
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The books are checked after every step by the core itself; here: what clients believe to be
    /// allowed fits the card, and each grow gets one answer.
    #[test]
    fn no_order_of_events_overshoots_or_leaves_a_grow_unanswered(
        moves in prop::collection::vec(moves(), 1..300)
    ) {
        let mut node = play(&moves);
        // What a tenant is owed it waits for, so each thread's grow may take that long.
        for _ in 0..60 {
            node.settle();
            node.wait(1000 * MS);
        }
        for (id, client) in &node.clients {
            prop_assert!(client.growing.is_empty(), "{id:?} waits for {:?}", client.growing);
        }
    }

    #[test]
    fn the_same_events_give_the_same_actions(
        moves in prop::collection::vec(moves(), 1..100)
    ) {
        prop_assert_eq!(play(&moves).log, play(&moves).log);
    }
}
