//! Request and limit: what is guaranteed can be had in time, what is lent is taken back only from those
//! who may be ended, and nobody is ended for less.

mod kit;

use halfwarp_api::wire::{Denial, ToClient};
use halfwarp_broker_core::{ClientId, END_GRACE_NS, GROW_NS, Kind};
use halfwarp_rest::{NewTenant, OnReclaim};
use kit::{GIB, MIB, MS, Node, card, wish};

fn may_end(memory: &str) -> NewTenant {
    NewTenant { on_reclaim: Some(OnReclaim::End), ..wish(memory) }
}

fn held(node: &Node, client: ClientId) -> u32 {
    node.client(client).word.held
}

/// Takes pieces of 256 MiB until refused.
fn fill(node: &mut Node, client: ClientId) {
    while node.client(client).denials == 0 {
        node.reserve(client, 256 * MIB);
        node.settle();
    }
    node.clients.get_mut(&client).expect("a client").denials = 0;
}

#[test]
fn who_keeps_its_loans_borrows_only_what_no_request_covers() {
    let mut node = Node::new(vec![card(0, 16)]);
    let owner = node.tenant("11GiB");
    let borrower = node.tenant("4GiB..15GiB");
    let (o, b) = (node.join(&owner), node.join(&borrower));
    fill(&mut node, b);
    assert_eq!(held(&node, b), 5 * GIB, "its request and the 1 GiB that nobody is guaranteed");
    node.reserve(o, 11 * GIB);
    node.settle();
    assert_eq!(held(&node, o), 11 * GIB, "at once");
    assert!(node.signals.is_empty());
    assert_eq!(node.state.counters().broken_guarantees, 0);
}

#[test]
fn who_may_be_ended_borrows_all_and_the_owner_gets_its_guarantee() {
    let mut node = Node::new(vec![card(0, 16)]);
    let owner = node.tenant("11GiB");
    let borrower = node.ask(may_end("4GiB..15GiB")).expect("admitted");
    let (o, b) = (node.join(&owner), node.join(&borrower));
    fill(&mut node, b);
    assert_eq!(held(&node, b), 15 * GIB);
    node.reserve(o, 11 * GIB);
    node.settle();
    assert_eq!(held(&node, o), 0, "not before the borrower is gone");
    assert_eq!(node.signals, [(b, false)]);
    assert!(node.kinds().contains(&Kind::Reclaimed));
    node.wait(END_GRACE_NS);
    assert_eq!(node.signals, [(b, false), (b, true)], "it did not end when it was told");
    node.die(b);
    node.sample(0, &[], 0);
    node.sample(0, &[], 0);
    node.settle();
    assert_eq!(held(&node, o), 11 * GIB);
    assert_eq!(node.state.counters().reclaims, 1);
    assert_eq!(node.state.counters().broken_guarantees, 0);
}

#[test]
fn an_owner_that_wants_less_than_is_free_ends_nobody() {
    let mut node = Node::new(vec![card(0, 16)]);
    let owner = node.tenant("11GiB");
    let borrower = node.ask(may_end("4GiB..14GiB")).expect("admitted");
    let (o, b) = (node.join(&owner), node.join(&borrower));
    fill(&mut node, b);
    node.reserve(o, 2 * GIB);
    node.settle();
    assert_eq!((held(&node, o), held(&node, b)), (2 * GIB, 14 * GIB));
    assert!(node.signals.is_empty());
}

#[test]
fn slack_comes_back_before_anybody_is_ended() {
    let mut node = Node::new(vec![card(0, 16)]);
    let owner = node.tenant("8GiB");
    let borrower = node.ask(may_end("0B..16GiB")).expect("admitted");
    let (o, b) = (node.join(&owner), node.join(&borrower));
    fill(&mut node, b);
    node.release(b, 12 * GIB);
    node.reserve(o, 8 * GIB);
    node.settle();
    assert_eq!(held(&node, o), 8 * GIB);
    assert!(node.signals.is_empty());
}

#[test]
fn the_victim_is_the_least_important_then_the_latest_and_no_more_than_needed() {
    let mut node = Node::new(vec![card(0, 16)]);
    let owner = node.tenant("4GiB");
    let tenant = |node: &mut Node, priority| {
        let ask = NewTenant { priority: Some(priority), ..may_end("1GiB..16GiB") };
        let admitted = node.ask(ask).expect("admitted");
        node.join(&admitted)
    };
    let low = tenant(&mut node, 100);
    let early = tenant(&mut node, 500);
    let late = tenant(&mut node, 500);
    let within = tenant(&mut node, 1);
    node.reserve(within, GIB);
    for (client, units) in [(low, 2 * GIB), (early, 6 * GIB), (late, 7 * GIB)] {
        node.now += MS;
        node.reserve(client, units);
        node.settle();
    }
    let o = node.join(&owner);
    node.reserve(o, 4 * GIB);
    node.settle();
    assert_eq!(node.signals, [(late, false)], "the low one alone would not do, the late one does");
}

#[test]
fn nobody_is_ended_where_that_would_not_do() {
    let mut node = Node::new(vec![card(0, 16)]);
    let keeper = node.tenant("0B..16GiB");
    let borrower = node.ask(may_end("0B..16GiB")).expect("admitted");
    let (k, b) = (node.join(&keeper), node.join(&borrower));
    node.reserve(b, 2 * GIB);
    node.settle();
    fill(&mut node, k);
    assert_eq!(held(&node, k), 14 * GIB);
    let refused = node.ask(wish("8GiB")).expect_err("what is kept is no room");
    assert!(refused.message.contains("cannot be made to give them back"), "{}", refused.message);
    node.ask(wish("2GiB")).expect("what may be taken back is room");
    assert!(node.signals.is_empty());
}

#[test]
fn guaranteed_memory_that_stays_stuck_is_refused_in_the_end_and_counted() {
    let mut node = Node::new(vec![card(0, 16)]);
    let owner = node.tenant("11GiB");
    let borrower = node.ask(may_end("4GiB..15GiB")).expect("admitted");
    let (o, b) = (node.join(&owner), node.join(&borrower));
    fill(&mut node, b);
    node.reserve(o, 11 * GIB);
    node.settle();
    node.wait(GROW_NS);
    let stuck = ToClient::Deny { seq: 1, gpu: 0, why: Denial::Stuck };
    assert_eq!(node.client(o).inbox.back(), Some(&stuck));
    assert_eq!(node.state.counters().broken_guarantees, 1);
    assert!(node.kinds().contains(&Kind::GuaranteeBroken));
}

#[test]
fn a_process_that_follows_a_dead_one_waits_for_its_bytes() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("16GiB");
    let one = node.join(&tenant);
    node.reserve(one, 16 * GIB);
    node.settle();
    node.die(one);
    let two = node.join(&tenant);
    node.reserve(two, 16 * GIB);
    node.settle();
    assert_eq!(held(&node, two), 0, "the card still has the dead one's");
    node.sample(0, &[], 0);
    node.sample(0, &[], 0);
    node.settle();
    assert_eq!(held(&node, two), 16 * GIB);
    assert_eq!(node.client(two).denials, 0);
}

#[test]
fn a_limit_moves_while_processes_run() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("2GiB");
    let one = node.join(&tenant);
    node.reserve(one, 3 * GIB);
    node.settle();
    assert_eq!(node.client(one).denials, 1);
    node.resize(&tenant, "4GiB").expect("raised");
    node.reserve(one, 3 * GIB);
    node.settle();
    assert_eq!(held(&node, one), 3 * GIB);
    node.resize(&tenant, "1GiB").expect("lowered");
    node.settle();
    assert_eq!(node.client(one).word.allowed, 3 * GIB, "no slack is left, and nothing taken away");
    node.reserve(one, 1);
    node.settle();
    assert_eq!(node.client(one).denials, 2);
    node.release(one, 5 * GIB / 2);
    node.settle();
    node.reserve(one, GIB / 2);
    node.settle();
    assert_eq!(held(&node, one), GIB, "new memory again once below");
    node.reserve(one, 1);
    node.settle();
    assert_eq!(node.client(one).denials, 3);
}

#[test]
fn slack_above_a_lowered_limit_is_called_back() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("2GiB");
    let one = node.join(&tenant);
    node.reserve(one, MIB);
    node.settle();
    assert_eq!(node.client(one).word.allowed, 64 * MIB);
    node.resize(&tenant, "32MiB").expect("lowered");
    node.settle();
    assert_eq!(node.client(one).word.allowed, MIB, "it must not be used any more");
    node.reserve(one, 32 * MIB);
    node.settle();
    assert_eq!(node.client(one).denials, 1);
    node.reserve(one, 31 * MIB);
    node.settle();
    assert_eq!(held(&node, one), 32 * MIB);
}

#[test]
fn what_is_exhausted_is_refused_without_asking_until_somebody_releases() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("2GiB");
    let (one, two) = (node.join(&tenant), node.join(&tenant));
    node.reserve(one, GIB);
    node.reserve(two, GIB - MIB);
    node.settle();
    node.reserve(one, 2 * MIB);
    node.settle();
    assert_eq!((node.client(one).denials, node.client(one).refused_here), (1, 0), "asked once");
    node.reserve(one, 2 * MIB);
    node.reserve(two, GIB);
    assert!(node.to_broker.is_empty(), "nothing is asked");
    assert_eq!((node.client(one).refused_here, node.client(two).refused_here), (1, 1));
    node.reserve(one, MIB);
    node.settle();
    assert_eq!(held(&node, one), GIB + MIB, "what is left can be had");
    node.release(two, 3 * MIB);
    node.settle();
    node.reserve(one, 3 * MIB);
    node.settle();
    assert_eq!(held(&node, one), GIB + 4 * MIB, "and what another has released");
    let three = node.join(&tenant);
    node.reserve(three, 1);
    node.settle();
    node.reserve(three, 1);
    node.settle();
    assert_eq!(node.client(three).refused_here, 1);
}

#[test]
fn a_change_that_cannot_be_guaranteed_changes_nothing() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("2GiB");
    let _other = node.tenant("10GiB");
    for (memory, reason) in [
        ("7GiB", "card-full"),
        ("17GiB", "limit-above-card"),
        ("0B", "no-memory"),
        ("1GiB,1GiB", "memory-count"),
    ] {
        let refused = node.resize(&tenant, memory).expect_err("refused");
        assert_eq!(refused.reason.as_str(), reason, "{}", refused.message);
    }
    let shown = node.state.tenant(tenant.id).expect("there").gpus.remove(0);
    assert_eq!((shown.request_bytes.0, shown.limit_bytes.0), (2 << 30, 2 << 30));
    node.resize(&tenant, "6GiB..16GiB").expect("what is left");
}
