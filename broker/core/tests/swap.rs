//! Swap: idle memory leaves for whoever waits, comes back when it is needed, never more is reserved than
//! the card has, and nobody stays behind a closed gate.

mod kit;

use halfwarp_api::wire::{Outcome, Reason, ToBroker, ToClient};
use halfwarp_broker_core::{
    Admitted, ClientId, Config, GROW_NS, Kind, Nanos, Progress, State, SwapConfig,
};
use halfwarp_rest::NewTenant;
use kit::{GIB, MIB, MS, Node, card, wish};

const S: Nanos = 1000 * MS;

fn with_pool(gib: u64) -> Config {
    Config {
        swap: SwapConfig { pool_bytes: gib << 30, ..SwapConfig::default() },
        ..Config::default()
    }
}

/// A card of 10 GiB.
fn node(pool_gib: u64) -> Node {
    Node::with(with_pool(pool_gib), vec![card(0, 10)])
}

fn movable(node: &mut Node, memory: &str) -> (Admitted, ClientId) {
    let admitted = node.ask(NewTenant { swap: true, ..wish(memory) }).expect("admitted");
    let client = node.join(&admitted);
    (admitted, client)
}

fn take(node: &mut Node, client: ClientId, units: u32) {
    node.reserve(client, units);
    node.settle();
}

fn held(node: &Node, client: ClientId) -> u32 {
    node.client(client).word.held
}

fn state(node: &Node, tenant: &Admitted) -> String {
    node.state.tenant(tenant.id).expect("there").state
}

fn count(node: &Node, kind: Kind) -> usize {
    node.kinds().iter().filter(|told| **told == kind).count()
}

#[test]
fn swap_01_an_idle_tenant_leaves_for_one_that_waits_and_comes_back_when_it_works() {
    let mut node = node(20);
    let (a, one) = movable(&mut node, "1GiB..10GiB");
    let (b, two) = movable(&mut node, "1GiB..10GiB");
    take(&mut node, one, 8 * GIB);
    assert_eq!(held(&node, one), 8 * GIB, "lent, as it can be moved");
    node.wait(11 * S);
    take(&mut node, two, 8 * GIB);
    assert_eq!((held(&node, one), held(&node, two)), (0, 8 * GIB));
    assert_eq!((node.client(two).denials, node.client(one).swapped), (0, 8 * GIB));
    assert_eq!(state(&node, &a), "swapped");
    node.wait(11 * S);
    node.work(one);
    assert_eq!((held(&node, one), held(&node, two)), (8 * GIB, 0));
    assert!(!node.client(one).closed && node.client(two).closed);
    assert_eq!((state(&node, &a).as_str(), state(&node, &b).as_str()), ("running", "swapped"));
    let shown = node.state.tenant(a.id).expect("there").gpus.remove(0);
    assert_eq!((shown.held_bytes.0, shown.swap.swapped_bytes.0), (8 << 30, 0));
    assert_eq!((count(&node, Kind::SwappedOut), count(&node, Kind::SwappedIn)), (2, 1));
    assert!(node.signals.is_empty());
}

#[test]
fn nobody_leaves_before_it_has_been_idle_long_enough_or_its_turn_is_over() {
    let mut node = node(20);
    let (_, one) = movable(&mut node, "1GiB..10GiB");
    let (_, two) = movable(&mut node, "1GiB..10GiB");
    take(&mut node, one, 8 * GIB);
    node.work(one);
    node.now += 100 * MS;
    take(&mut node, two, 8 * GIB);
    assert!(!node.client(one).closed, "busy, and its turn has just begun");
    node.wait(S);
    node.settle();
    assert_eq!(held(&node, two), 8 * GIB, "its turn is over");
}

#[test]
fn room_of_pieces_is_used_before_the_last_has_left() {
    let mut node = node(20);
    let (_, one) = movable(&mut node, "1GiB..10GiB");
    let (_, two) = movable(&mut node, "1GiB..10GiB");
    take(&mut node, one, 8 * GIB);
    node.wait(11 * S);
    node.reserve(two, 5 * GIB);
    while !node.to_broker.is_empty() {
        node.broker_reads(0);
    }
    node.client_reads(one); // Recall
    node.client_reads(one); // SwapOut
    let is_left = |f: &(ClientId, ToBroker)| matches!(f.1, ToBroker::Left { .. });
    let first = node.to_broker.iter().position(is_left).expect("a piece");
    for _ in 0..=first {
        node.broker_reads(0);
    }
    let granted = |f: &ToClient| matches!(f, ToClient::Grant { units, .. } if *units >= 5 * GIB);
    assert!(node.client(two).inbox.iter().any(granted), "with half of the other still there");
    assert_eq!(count(&node, Kind::SwappedOut), 0);
}

#[test]
fn swap_04_of_two_that_resume_one_is_served_and_the_other_waits() {
    let mut node = node(20);
    let (a, one) = movable(&mut node, "1GiB..10GiB");
    take(&mut node, one, 6 * GIB);
    node.suspend(a.id).expect("begun");
    node.settle();
    let (b, two) = movable(&mut node, "1GiB..10GiB");
    take(&mut node, two, 6 * GIB);
    node.suspend(b.id).expect("begun");
    node.settle();
    assert_eq!((state(&node, &a).as_str(), state(&node, &b).as_str()), ("suspended", "suspended"));
    node.work(one);
    assert!(node.client(one).closed, "held until it is resumed");
    node.resume(a.id).expect("begun");
    node.resume(b.id).expect("begun");
    node.settle();
    assert_eq!((held(&node, one), held(&node, two)), (6 * GIB, 0));
    assert_eq!(state(&node, &b), "waiting (no room)");
    node.wait(11 * S);
    node.settle();
    assert_eq!(held(&node, two), 6 * GIB, "the first had nothing to do for a while");
    assert_eq!(count(&node, Kind::Resumed), 2);
}

#[test]
fn swap_04_a_resume_that_fails_says_so_and_leaves_the_tenant_suspended_and_whole() {
    let mut node = node(20);
    let (a, one) = movable(&mut node, "6GiB");
    take(&mut node, one, 6 * GIB);
    node.suspend(a.id).expect("begun");
    node.settle();
    node.clients.get_mut(&one).expect("a client").ends.push_back(Outcome::Driver);
    node.resume(a.id).expect("begun");
    node.settle();
    let (progress, failed) = node.state.suspension(a.id).expect("there");
    assert_eq!(progress, Progress::Suspended);
    assert_eq!(failed.expect("a failure").reason.as_str(), "cannot-move");
    assert_eq!((node.client(one).swapped, node.client(one).closed), (6 * GIB, true));
    assert_eq!(count(&node, Kind::Resumed), 0);
    node.resume(a.id).expect("begun");
    node.settle();
    assert_eq!(held(&node, one), 6 * GIB);
    assert_eq!(node.state.suspension(a.id).expect("there"), (Progress::Running, None));
}

#[test]
fn swap_08_what_a_suspended_tenant_had_is_another_s_at_once() {
    let mut node = node(20);
    let (a, one) = movable(&mut node, "1GiB..10GiB");
    node.clients.get_mut(&one).expect("a client").context = 100 * MIB;
    take(&mut node, one, 100 * MIB);
    node.send(one, ToBroker::ContextMade { seq: 9, gpu: 0, charged: 100 * MIB });
    take(&mut node, one, 6 * GIB);
    node.suspend(a.id).expect("begun");
    node.settle();
    assert_eq!(held(&node, one), 100 * MIB, "its context stays");
    let other = node.tenant("1GiB..9GiB");
    let two = node.join(&other);
    take(&mut node, two, 6 * GIB);
    assert_eq!(held(&node, two), 6 * GIB);
    let (_, three) = movable(&mut node, "1GiB");
    take(&mut node, three, GIB);
    let chunks = |of: ClientId| node.client(of).chunks.keys().copied().collect::<Vec<_>>();
    assert!(chunks(three).iter().all(|chunk| !chunks(one).contains(chunk)), "never the same");
}

#[test]
fn swap_11_with_the_pool_full_nobody_moves_and_the_newcomer_is_refused_in_the_end() {
    let mut node = node(2);
    let (_, one) = movable(&mut node, "8GiB");
    take(&mut node, one, 8 * GIB);
    let (_, two) = movable(&mut node, "0B..10GiB");
    node.wait(20 * S);
    take(&mut node, two, 8 * GIB);
    assert_eq!(node.client(two).denials, 0, "it waits");
    assert!(!node.client(one).closed);
    node.wait(GROW_NS);
    node.settle();
    assert_eq!(node.client(two).denials, 1);
    let told: Vec<_> = node.told.iter().filter(|told| told.kind == Kind::NoRoom).collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].text.contains("8192 MiB were wanted"), "{}", told[0].text);
    assert!(told[0].text.contains("pool of 2048 MiB"), "{}", told[0].text);
    assert_eq!((node.client(one).gate_changes, node.signals.len()), (0, 0));
    assert_eq!(node.state.counters().broken_guarantees, 0);
}

#[test]
fn swap_12_two_busy_tenants_take_turns_by_their_shares() {
    let mut node = node(20);
    let mut busy = Vec::new();
    for share in ["25%", "75%"] {
        let compute = share.parse().ok();
        let ask = NewTenant { swap: true, compute, ..wish("1GiB..10GiB") };
        let admitted = node.ask(ask).expect("admitted");
        let client = node.join(&admitted);
        node.reserve(client, 6 * GIB);
        busy.push(client);
    }
    let (step, moving) = (50 * MS, 300 * MS);
    let (mut on, mut moved) = ([0, 0], 0);
    let mut last_move = 0;
    for _ in 0..6000 {
        node.wait(step);
        for client in &busy {
            node.send(*client, ToBroker::Want { gpu: 0, lease: 0 });
            if node.client(*client).closed {
                node.send(*client, ToBroker::WantMemory { gpu: 0, residency: 0 });
            }
        }
        // A move takes its time: frames are read only after it.
        let moves = |c: &ClientId| {
            let is = |f: &ToClient| matches!(f, ToClient::SwapOut { .. } | ToClient::SwapIn { .. });
            node.client(*c).inbox.iter().any(is)
        };
        if busy.iter().any(moves) {
            if last_move == 0 {
                last_move = node.now;
            }
            moved += step;
            if node.now - last_move < moving {
                continue;
            }
            last_move = 0;
        }
        for client in busy.clone() {
            while !node.client(client).inbox.is_empty() {
                node.client_reads(client);
            }
        }
        while !node.to_broker.is_empty() {
            node.broker_reads(0);
        }
        for (client, on) in busy.iter().zip(&mut on) {
            *on += u64::from(held(&node, *client) == 6 * GIB && !node.client(*client).closed);
        }
    }
    let share = on[0] as f64 / (on[0] + on[1]) as f64;
    assert!((share - 0.25).abs() <= 0.03, "{share}: {on:?}");
    assert!(moved * 100 <= node.now * 12, "moving took {moved} of {}", node.now);
    assert!(count(&node, Kind::SwappedIn) > 20, "in turns");
    assert!(busy.iter().all(|client| node.client(*client).denials == 0));
}

#[test]
fn loans_of_a_movable_tenant_are_taken_back_by_moving_it_and_nobody_ends() {
    let mut node = Node::with(with_pool(20), vec![card(0, 16)]);
    let owner = node.tenant("11GiB");
    let (_, borrower) = movable(&mut node, "4GiB..15GiB");
    let o = node.join(&owner);
    take(&mut node, borrower, 15 * GIB);
    node.work(borrower);
    assert_eq!(held(&node, borrower), 15 * GIB);
    take(&mut node, o, 11 * GIB);
    assert_eq!(held(&node, o), 11 * GIB, "at once, though the borrower is busy");
    assert_eq!(node.client(borrower).swapped, 15 * GIB);
    assert!(node.signals.is_empty());
    assert_eq!(node.state.counters().broken_guarantees, 0);
}

#[test]
fn a_borrower_that_becomes_unmovable_gets_no_more_and_an_event_says_what_is_stuck() {
    let mut node = Node::with(with_pool(20), vec![card(0, 16)]);
    let _owner = node.tenant("8GiB");
    let (a, borrower) = movable(&mut node, "4GiB..15GiB");
    take(&mut node, borrower, 9 * GIB);
    assert_eq!(held(&node, borrower), 9 * GIB);
    node.send(borrower, ToBroker::Reasons { gpu: 0, reasons: 1 << Reason::Rdma as u32 });
    assert_eq!(count(&node, Kind::LoanStuck), 1);
    take(&mut node, borrower, GIB);
    assert_eq!(held(&node, borrower), 9 * GIB, "no more");
    let refused = node.suspend(a.id).expect_err("refused");
    assert_eq!(refused.reason.as_str(), "cannot-move");
    assert!(refused.message.contains("rdma"), "{}", refused.message);
    assert_eq!(node.client(borrower).gate_changes, 0, "nothing was changed");
    let shown = node.state.tenant(a.id).expect("there").gpus.remove(0);
    assert_eq!(shown.swap.reasons, ["rdma"]);
}

#[test]
fn one_that_does_not_drain_goes_on_at_once_and_is_asked_again_later() {
    let mut node = node(20);
    let (_, one) = movable(&mut node, "1GiB..10GiB");
    let (_, two) = movable(&mut node, "1GiB..10GiB");
    take(&mut node, one, 8 * GIB);
    node.wait(11 * S);
    node.clients.get_mut(&one).expect("a client").ends.push_back(Outcome::Undrained);
    take(&mut node, two, 8 * GIB);
    assert!(!node.client(one).closed, "open again");
    assert_eq!((held(&node, two), node.client(two).denials), (0, 0), "it waits on");
    node.wait(S);
    node.settle();
    assert_eq!(held(&node, two), 8 * GIB, "the second attempt");
}

#[test]
fn a_move_that_fails_half_way_is_taken_back_and_the_process_is_whole() {
    let mut node = node(20);
    let (a, one) = movable(&mut node, "8GiB");
    take(&mut node, one, 8 * GIB);
    node.clients.get_mut(&one).expect("a client").ends.push_back(Outcome::Host);
    node.suspend(a.id).expect("begun");
    node.settle();
    node.wait(S);
    node.settle();
    let (progress, failed) = node.state.suspension(a.id).expect("there");
    assert_eq!((progress, failed.is_some()), (Progress::Running, true));
    assert_eq!((held(&node, one), node.client(one).closed), (8 * GIB, false));
    assert_eq!(count(&node, Kind::Suspended), 0);
}

#[test]
fn a_stopped_process_is_named_and_comes_back_once_it_answers() {
    let mut node = node(20);
    let (a, one) = movable(&mut node, "8GiB");
    take(&mut node, one, 8 * GIB);
    node.clients.get_mut(&one).expect("a client").stopped = true;
    node.suspend(a.id).expect("begun");
    node.settle();
    node.wait(6 * S);
    let (progress, failed) = node.state.suspension(a.id).expect("there");
    assert_eq!(progress, Progress::Running);
    let failed = failed.expect("a failure").message;
    assert!(failed.contains("stopped"), "{failed}");
    node.clients.get_mut(&one).expect("a client").stopped = false;
    node.settle();
    node.wait(S);
    node.settle();
    assert_eq!((held(&node, one), node.client(one).closed), (8 * GIB, false));
}

#[test]
fn all_processes_of_a_tenant_leave_or_none() {
    let mut node = node(20);
    let (a, one) = movable(&mut node, "8GiB");
    let two = node.join(&a);
    take(&mut node, one, 3 * GIB);
    take(&mut node, two, 4 * GIB);
    node.clients.get_mut(&two).expect("a client").ends.push_back(Outcome::Undrained);
    node.suspend(a.id).expect("begun");
    node.settle();
    node.wait(S);
    node.settle();
    assert_eq!((held(&node, one), held(&node, two)), (3 * GIB, 4 * GIB));
    assert!(!node.client(one).closed && !node.client(two).closed);
    node.suspend(a.id).expect("begun");
    node.settle();
    assert_eq!((held(&node, one), held(&node, two)), (0, 0));
    let third = node.join(&a);
    assert!(node.client(third).closed, "beside those that are suspended");
    node.resume(a.id).expect("begun");
    node.settle();
    assert!([one, two, third].iter().all(|client| !node.client(*client).closed));
}

#[test]
fn a_suspended_tenant_is_suspended_to_the_next_broker_too() {
    let mut node = node(20);
    let (a, one) = movable(&mut node, "6GiB");
    take(&mut node, one, 6 * GIB);
    node.suspend(a.id).expect("begun");
    node.settle();
    let (saved, pid) = (node.state.saved(), node.client(one).pid);
    let old = node.clients.remove(&one).expect("a client");
    node.state = State::new(node.now, with_pool(20), vec![card(0, 10)]);
    assert!(node.state.restore(node.now, saved).is_empty());
    assert_eq!(state(&node, &a), "suspended");
    let back = node.join_as(&a, pid);
    assert!(node.client(back).closed, "from its welcome on");
    let own = node.clients.get_mut(&back).expect("a client");
    (own.swapped, own.orphans) = (old.swapped, old.swapped);
    let (outcome, swapped) = (Outcome::Done, old.swapped);
    node.send(back, ToBroker::SwapEnded { seq: 0, gpu: 0, outcome, swapped, taken: 0 });
    node.settle();
    assert!(node.client(back).closed);
    node.wait(3 * S);
    node.resume(a.id).expect("begun");
    node.settle();
    assert_eq!((held(&node, back), node.client(back).closed), (6 * GIB, false));
    assert_eq!(node.state.host_pool().used_bytes >> 30, 6, "chunks of its own again");
}

#[test]
fn a_process_that_comes_back_half_moved_is_made_whole_unasked() {
    let mut node = node(20);
    let (a, one) = movable(&mut node, "6GiB");
    take(&mut node, one, 6 * GIB);
    let (saved, pid) = (node.state.saved(), node.client(one).pid);
    node.clients.remove(&one);
    node.state = State::new(node.now, with_pool(20), vec![card(0, 10)]);
    node.state.restore(node.now, saved);
    let back = node.join_as(&a, pid);
    take(&mut node, back, 2 * GIB);
    let own = node.clients.get_mut(&back).expect("a client");
    (own.swapped, own.orphans) = (4 * GIB, 4 * GIB);
    let (outcome, swapped) = (Outcome::Done, 4 * GIB);
    node.send(back, ToBroker::SwapEnded { seq: 0, gpu: 0, outcome, swapped, taken: 0 });
    node.wait(3 * S);
    node.settle();
    assert_eq!((held(&node, back), node.client(back).closed), (6 * GIB, false));
}

#[test]
fn a_tenant_s_end_frees_its_host_memory_and_those_who_wait_go_on() {
    let mut node = node(20);
    let (a, one) = movable(&mut node, "6GiB");
    take(&mut node, one, 6 * GIB);
    node.suspend(a.id).expect("begun");
    node.settle();
    assert_eq!(node.state.host_pool().used_bytes >> 30, 6);
    node.die(one);
    assert_eq!(node.state.host_pool().used_bytes, 0);
}

#[test]
fn swap_is_refused_without_a_pool_and_when_the_pool_is_used_up() {
    let ask = || NewTenant { swap: true, ..wish("1GiB") };
    let mut without = node(0);
    assert_eq!(without.ask(ask()).expect_err("refused").reason.as_str(), "no-swap");
    let mut node = node(2);
    let (_, one) = movable(&mut node, "2GiB");
    take(&mut node, one, 2 * GIB);
    assert_eq!(node.ask(ask()).expect_err("refused").reason.as_str(), "host-pool");
    node.die(one);
    node.ask(ask()).expect("there is room again");
}

#[test]
fn memory_freed_while_it_is_swapped_does_not_come_back_and_its_chunks_go() {
    let mut node = node(20);
    let (a, one) = movable(&mut node, "8GiB");
    take(&mut node, one, 8 * GIB);
    node.suspend(a.id).expect("begun");
    node.settle();
    node.clients.get_mut(&one).expect("a client").swapped = 3 * GIB;
    node.send(one, ToBroker::SwappedFreed { gpu: 0, units: 5 * GIB });
    assert_eq!(node.state.tenant(a.id).expect("there").gpus[0].held_bytes.0, 3 << 30);
    node.resume(a.id).expect("begun");
    node.settle();
    for _ in 0..10 {
        node.wait(3 * S);
        node.settle();
    }
    assert_eq!(held(&node, one), 3 * GIB);
    assert_eq!(node.state.host_pool().used_bytes >> 30, 3);
}

#[test]
fn a_chunk_has_a_gibibyte_at_most() {
    let mut node = Node::with(with_pool(600), vec![card(0, 300)]);
    let (_, one) = movable(&mut node, "300GiB");
    take(&mut node, one, 290 * GIB);
    let chunks = &node.client(one).chunks;
    assert!(chunks.values().all(|bytes| *bytes <= 1 << 30));
    assert_eq!(chunks.values().sum::<u64>(), 290 << 30);
}
