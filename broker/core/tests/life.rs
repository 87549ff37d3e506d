//! Admission, joining, contexts, ends and restarts, each rule a sentence.

mod kit;

use halfwarp_api::{
    version::{CURRENT, Version},
    wire::{NoteKind, Refusal, ToBroker, ToClient},
};
use halfwarp_broker_core::{
    Action, ClientId, Config, Event, Kind, LINGER_NS, Peer, Reason, Runner, State,
};
use halfwarp_rest::{Mode, NewTenant, Percent};
use kit::{GIB, MIB, MS, Node, UID, card, uuid, wish};

fn on(gpus: &[&str], memory: &str) -> NewTenant {
    NewTenant { gpus: gpus.iter().map(|&g| g.to_owned()).collect(), ..wish(memory) }
}

fn reason(node: &mut Node, ask: NewTenant) -> Reason {
    let refused = node.ask(ask).expect_err("refused");
    assert!(!refused.message.is_empty() && !refused.help.is_empty());
    refused.reason
}

#[test]
fn cards_are_chosen_by_index_uuid_beginning_or_what_is_free() {
    let mut node = Node::new(vec![card(0, 16), card(1, 80), card(2, 16)]);
    assert_eq!(node.ask(on(&["2", "0"], "1GiB")).expect("by index").gpus, [uuid(2), uuid(0)]);
    assert_eq!(node.ask(on(&["GPU-0101"], "")).expect("beginning").gpus, [uuid(1)]);
    let whole = uuid(2).to_string();
    assert_eq!(node.ask(on(&[&whole], "")).expect("UUID").gpus, [uuid(2)]);
    assert_eq!(node.tenant("1GiB").gpus, [uuid(1)], "most is free there");
    assert_eq!(node.ask(on(&["any:3"], "1GiB")).expect("all").gpus.len(), 3);
    assert_eq!(node.ask(on(&["1", "any"], "1GiB")).expect("another").gpus[0], uuid(1));
    for (gpus, why) in [
        (["7"].as_slice(), Reason::NoSuchGpu),
        (&["GPU-ff"], Reason::NoSuchGpu),
        (&["any:0"], Reason::NoSuchGpu),
        (&["GPU-"], Reason::NoSuchGpu),
        (&["0", "GPU-0000"], Reason::GpuTwice),
        (&["any:4"], Reason::NotEnoughGpus),
    ] {
        assert_eq!(reason(&mut node, on(gpus, "1MiB")), why, "{gpus:?}");
    }
    let mut twins = card(1, 16);
    twins.uuid.0 = [0; 16];
    twins.uuid.0[15] = 1;
    let mut node = Node::new(vec![card(0, 16), twins]);
    assert_eq!(reason(&mut node, on(&["GPU-00"], "")), Reason::AmbiguousGpu);
    assert_eq!(reason(&mut Node::new(Vec::new()), wish("")), Reason::NoGpu);
}

#[test]
fn any_passes_over_cards_whose_requests_are_full() {
    let mut node = Node::new(vec![card(0, 16), card(1, 16)]);
    node.tenant("10GiB");
    assert_eq!(node.tenant("10GiB").gpus, [uuid(1)]);
    assert_eq!(node.tenant("6GiB").gpus, [uuid(0)]);
    let refused = node.ask(wish("7GiB")).expect_err("full");
    assert_eq!(refused.reason, Reason::CardFull);
    assert!(refused.message.contains("6GiB are left"), "{}", refused.message);
}

#[test]
fn requests_fill_a_card_and_no_more_while_limits_overlap() {
    let mut node = Node::new(vec![card(0, 16)]);
    node.tenant("4GiB..16GiB");
    node.tenant("12GiB..16GiB");
    node.tenant("0B..16GiB");
    assert_eq!(reason(&mut node, wish("1MiB")), Reason::CardFull);
    assert_eq!(reason(&mut node, wish("0B..17GiB")), Reason::LimitAboveCard);
    assert_eq!(reason(&mut node, wish("0B")), Reason::NoMemory);
    assert_eq!(reason(&mut node, wish("8GiB..25%")), Reason::RequestAboveLimit);
    assert_eq!(reason(&mut node, on(&["0"], "0B..1GiB,0B..1GiB")), Reason::MemoryCount);
}

#[test]
fn a_part_of_the_memory_is_resolved_on_each_card_and_brings_the_same_part_of_compute() {
    let mut node = Node::new(vec![card(0, 16), card(1, 80)]);
    let id = node.ask(on(&["0", "1"], "25%")).expect("admitted").id;
    let tenant = node.state.tenant(id).expect("shown");
    assert_eq!(tenant.gpus[0].limit_bytes.0, 4 << 30);
    assert_eq!(tenant.gpus[1].limit_bytes.0, 20 << 30);
    assert_eq!(tenant.share, Percent(25));
    assert_eq!(node.state.gpus()[0].mode, Mode::Fair);
    let by_bytes = node.ask(on(&["0"], "4GiB")).expect("admitted").id;
    assert_eq!(node.state.tenant(by_bytes).expect("shown").share, Percent(0));
}

#[test]
fn shares_on_a_card_sum_to_a_hundred_at_most() {
    let mut node = Node::new(vec![card(0, 16)]);
    let share = |text: &str| NewTenant { compute: text.parse().ok(), ..wish("1GiB") };
    node.ask(share("60%")).expect("fits");
    assert_eq!(reason(&mut node, share("41%")), Reason::SharesFull);
    node.ask(share("40%")).expect("fits");
}

#[test]
fn the_mode_of_a_card_with_tenants_stays() {
    let mut node = Node::new(vec![card(0, 16)]);
    let mode = |mode| NewTenant { mode: Some(mode), compute: "10%".parse().ok(), ..wish("1GiB") };
    let first = node.ask(mode(Mode::Strict)).expect("first");
    assert_eq!(reason(&mut node, mode(Mode::Fair)), Reason::ModeDiffers);
    assert_eq!(reason(&mut node, wish("1GiB")), Reason::ShareMissing);
    node.step(Event::End { tenant: first.id });
    node.ask(mode(Mode::Fair)).expect("empty again");
}

#[test]
fn names_and_priorities_are_checked() {
    let mut node = Node::new(vec![card(0, 16)]);
    for name in ["", "a\nb", "\u{1b}[31m", "\u{202e}evil", &"x".repeat(64)] {
        let ask = NewTenant { name: Some(name.to_owned()), ..wish("") };
        assert_eq!(reason(&mut node, ask), Reason::Name, "{name:?}");
    }
    for priority in [0, 1001] {
        let ask = NewTenant { priority: Some(priority), ..wish("") };
        assert_eq!(reason(&mut node, ask), Reason::Priority);
    }
    assert_eq!(reason(&mut node, NewTenant { swap: true, ..wish("") }), Reason::NoSwap);
}

#[test]
fn without_a_wish_nothing_is_guaranteed_and_the_card_is_the_limit() {
    let mut node = Node::new(vec![card(0, 16)]);
    let id = node.tenant("").id;
    let gpu = &node.state.tenant(id).expect("shown").gpus[0];
    assert_eq!((gpu.request_bytes.0, gpu.limit_bytes.0), (0, 16 << 30));
}

fn hello(client: u64, version: Version, token: [u8; 16], pid: u32, uid: u32) -> Event {
    let peer = Peer { pid, uid, command: "prog".to_owned() };
    Event::Hello { client: ClientId(client), peer, version, token, at_s: 0 }
}

#[test]
fn a_join_needs_our_version_a_known_token_its_user_and_room() {
    let config = Config { processes_max: 1, ..Config::default() };
    let mut node = Node::with(config, vec![card(0, 16)]);
    let tenant = node.tenant("1GiB");
    let other = Version { major: CURRENT.major + 1, minor: 0 };
    let refused = |actions: Vec<Action>| {
        actions.into_iter().find_map(|action| match action {
            Action::Refuse { why, .. } => Some(why),
            _ => None,
        })
    };
    let token = tenant.token;
    assert_eq!(refused(node.step(hello(91, other, token, 5, UID))), Some(Refusal::Version));
    let minor = Version { minor: 99, ..CURRENT };
    assert_eq!(refused(node.step(hello(92, minor, [9; 16], 5, UID))), Some(Refusal::UnknownTenant));
    assert_eq!(refused(node.step(hello(93, CURRENT, token, 5, 0))), Some(Refusal::WrongUser));
    assert_eq!(refused(node.step(hello(94, CURRENT, token, 0, UID))), Some(Refusal::NoIdentity));
    node.join(&tenant);
    assert_eq!(refused(node.step(hello(95, CURRENT, token, 5, UID))), Some(Refusal::Full));
    assert_eq!(node.state.counters().join_refusals.values().sum::<u64>(), 5);
}

#[test]
fn a_dead_process_s_bytes_are_its_tenant_s_at_once_and_the_card_s_when_nvml_agrees() {
    let mut node = Node::new(vec![card(0, 2)]);
    let (a, b) = (node.tenant("0B..2GiB"), node.tenant("0B..2GiB"));
    let (one, two) = (node.join(&a), node.join(&b));
    let pid = node.client(one).pid;
    node.reserve(one, GIB);
    node.settle();
    node.sample(0, &[(pid, 1 << 30)], 0);
    node.die(one);
    assert_eq!(node.state.tenant(a.id).expect("shown").gpus[0].held_bytes.0, 0);
    assert_eq!(node.state.gpus()[0].memory_settling_bytes.0, 1 << 30);
    node.reserve(two, GIB + MIB);
    node.settle();
    assert_eq!(node.client(two).denials, 1, "lent before the card had it");
    node.sample(0, &[(pid, 1 << 30)], 0);
    node.sample(0, &[], 0);
    node.sample(0, &[], 0);
    assert_eq!(node.state.gpus()[0].memory_settling_bytes.0, 0);
    assert!(node.kinds().contains(&Kind::Settled));
    node.reserve(two, GIB + MIB);
    node.settle();
    assert_eq!(node.client(two).word.held, GIB + MIB);
}

#[test]
fn bytes_that_stay_after_a_death_are_told_and_never_lent() {
    let mut node = Node::new(vec![card(0, 2)]);
    let (a, b) = (node.tenant("0B..2GiB"), node.tenant("0B..2GiB"));
    let (one, two) = (node.join(&a), node.join(&b));
    let pid = node.client(one).pid;
    node.reserve(one, GIB);
    node.settle();
    node.die(one);
    assert!(node.state.next_deadline() <= node.now + 100 * MS, "looks often while it settles");
    node.now += 1_100 * MS;
    node.sample(0, &[(pid, 1 << 30)], 0);
    assert!(node.kinds().contains(&Kind::Unattributed));
    // A child keeps the memory: nobody is listed, yet the bytes are in use.
    node.sample(0, &[], 1 << 30);
    node.sample(0, &[], 1 << 30);
    node.reserve(two, GIB + MIB);
    node.settle();
    assert_eq!(node.client(two).denials, 1);
}

#[test]
fn a_context_is_charged_with_what_nvml_shows_besides_the_ledger() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("8GiB");
    let one = node.join(&tenant);
    let pid = node.client(one).pid;
    node.reserve(one, 168 * MIB);
    node.settle();
    node.send(one, ToBroker::ContextMade { seq: 77, gpu: 0, charged: 168 * MIB });
    assert_eq!(node.client(one).inbox.len(), 0, "a fresh look comes first");
    node.sample(0, &[(pid, (300 << 20) + 1)], 0);
    let overhead = ToClient::Overhead { seq: 77, gpu: 0, units: 302 * MIB };
    assert_eq!(node.client(one).inbox.back(), Some(&overhead));
    let gpu = &node.state.gpus()[0];
    assert!(gpu.context_measured && gpu.context_bytes.0 == 302 << 20);
    // The next process is told so.
    let event = hello(90, CURRENT, tenant.token, 50, UID);
    let told = node.step(event).into_iter().find_map(|action| match action {
        Action::Welcome { gpus, .. } => Some(gpus[0].context_units),
        _ => None,
    });
    assert_eq!(told, Some(302 * MIB));
}

#[test]
fn a_context_that_costs_more_than_was_charged_is_counted_whole() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("1GiB");
    let one = node.join(&tenant);
    let pid = node.client(one).pid;
    node.reserve(one, 100 * MIB);
    node.settle();
    node.send(one, ToBroker::ContextMade { seq: 1, gpu: 0, charged: 100 * MIB });
    node.sample(0, &[(pid, 300 << 20)], 0);
    node.settle();
    // The other 200 MiB are no longer there to be granted.
    let two = node.join(&tenant);
    node.reserve(two, 724 * MIB);
    node.settle();
    assert_eq!(node.client(two).denials, 0);
    node.reserve(two, 1);
    node.settle();
    assert_eq!(node.client(two).denials, 1);
}

#[test]
fn a_ledger_that_moves_during_the_look_is_looked_at_again() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("8GiB");
    let one = node.join(&tenant);
    let pid = node.client(one).pid;
    node.reserve(one, 100 * MIB);
    node.settle();
    node.send(one, ToBroker::ContextMade { seq: 1, gpu: 0, charged: 100 * MIB });
    node.reserve(one, 28 * MIB);
    node.settle();
    node.sample(0, &[(pid, 100 << 20)], 0);
    assert_eq!(node.client(one).inbox.len(), 0);
    node.sample(0, &[(pid, 218 << 20)], 0);
    let overhead = ToClient::Overhead { seq: 1, gpu: 0, units: 190 * MIB };
    assert_eq!(node.client(one).inbox.back(), Some(&overhead));
}

#[test]
fn without_nvml_the_charge_of_a_context_stays() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("8GiB");
    let one = node.join(&tenant);
    node.send(one, ToBroker::ContextMade { seq: 3, gpu: 0, charged: 5 });
    assert!(node.state.next_deadline() <= node.now + 200 * MS);
    node.wait(200 * MS);
    let overhead = ToClient::Overhead { seq: 3, gpu: 0, units: 5 };
    assert_eq!(node.client(one).inbox.back(), Some(&overhead));
    assert!(!node.state.gpus()[0].context_measured);
}

#[test]
fn a_tenant_ends_with_its_runner_and_its_last_process() {
    let config = Config { private: true, ..Config::default() };
    let mut node = Node::with(config, vec![card(0, 16)]);
    let tenant = node.tenant("8GiB");
    let one = node.join(&tenant);
    node.step(Event::RunnerGone { tenant: tenant.id });
    assert_eq!(node.state.tenants().len(), 1);
    node.die(one);
    assert_eq!(node.state.tenants().len(), 0);
    node.wait(LINGER_NS - 1);
    assert!(!node.stopped);
    node.wait(1);
    assert!(node.stopped, "a private broker ends after its last tenant");
}

#[test]
fn a_tenant_that_is_to_end_takes_no_new_process_and_goes_with_its_last() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("8GiB");
    let one = node.join(&tenant);
    assert!(node.step(Event::End { tenant: tenant.id }).contains(&Action::Ended));
    assert_eq!(node.state.tenants()[0].state, "ended");
    let actions = node.step(hello(99, CURRENT, tenant.token, 50, UID));
    let client = ClientId(99);
    assert!(actions.contains(&Action::Refuse { client, why: Refusal::UnknownTenant }));
    node.die(one);
    assert!(node.state.tenants().is_empty());
    let unknown = node.step(Event::End { tenant: 12 });
    assert!(matches!(&unknown[0], Action::Rejected(r) if r.reason == Reason::UnknownTenant));
}

#[test]
fn a_process_that_joins_again_keeps_what_it_holds_and_nothing_is_counted_twice() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("1GiB");
    let (one, two) = (node.join(&tenant), node.join(&tenant));
    let pid = node.client(one).pid;
    node.reserve(one, 700 * MIB);
    node.settle();
    node.step(Event::Closed { client: one });
    node.reserve(two, 400 * MIB);
    node.settle();
    assert_eq!(node.client(two).denials, 1, "what it holds is not for others");
    let again = node.join_as(&tenant, pid);
    node.reserve(again, 700 * MIB);
    node.reserve(two, 300 * MIB);
    node.settle();
    assert_eq!(node.client(again).word.held, 700 * MIB);
    assert_eq!(node.client(two).word.held, 300 * MIB);
}

#[test]
fn after_a_restart_room_is_kept_for_those_who_were_there() {
    let mut node = Node::new(vec![card(0, 1)]);
    let mut before = Node::new(vec![card(0, 1)]);
    let tenant = before.tenant("0B..1GiB");
    let old = before.join(&tenant);
    let pid = before.client(old).pid;
    assert!(node.state.restore(0, before.state.saved()).is_empty());
    // NVML shows the process, which is nobody's until it has come back.
    node.sample(0, &[(pid, 700 << 20)], 0);
    let new = node.join_as(&tenant, 5000);
    node.reserve(new, 400 * MIB);
    node.settle();
    assert!(node.client(new).growing.len() == 1, "the new one waits");
    let back = node.join_as(&tenant, pid);
    node.reserve(back, 700 * MIB);
    node.settle();
    assert_eq!(node.client(back).word.held, 700 * MIB);
    assert_eq!(node.client(new).denials, 1);
}

#[test]
fn room_is_not_kept_for_ever_after_a_restart() {
    let mut before = Node::new(vec![card(0, 1)]);
    let tenant = before.tenant("1GiB");
    before.join(&tenant);
    let mut node = Node::new(vec![card(0, 1)]);
    node.state.restore(0, before.state.saved());
    let new = node.join_as(&tenant, 5000);
    node.reserve(new, 400 * MIB);
    node.settle();
    node.wait(2_000 * MS);
    node.settle();
    assert_eq!(node.client(new).word.held, 400 * MIB);
}

#[test]
fn what_is_saved_is_what_is_restored() {
    let mut node = Node::new(vec![card(0, 16), card(1, 16)]);
    let runner = Runner { pid: 77, started_ticks: 5 };
    let ask = NewTenant { priority: Some(7), ..on(&["any:2"], "1GiB..50%") };
    let token = [3; 16];
    node.step(Event::Admit { ask, token, uid: 4, runner: Some(runner), at_s: 9 });
    let saved = node.state.saved();
    let mut state = State::new(0, Config::default(), vec![card(0, 16), card(1, 16)]);
    assert!(state.restore(0, saved.clone()).is_empty());
    assert_eq!(state.saved(), saved);
    let mut fewer = State::new(0, Config::default(), vec![card(0, 16)]);
    assert_eq!(fewer.restore(0, saved), ["unnamed"], "one of its cards is gone");
}

#[test]
fn notes_are_counted_all_and_told_in_measure() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("1GiB");
    let one = node.join(&tenant);
    for _ in 0..1000 {
        let kind = NoteKind::OutOfMemory;
        node.send(one, ToBroker::Note { kind, gpu: 0, a: 4096, b: 1 });
    }
    assert_eq!(node.state.tenant(tenant.id).expect("shown").gpus[0].refused, 1000);
    let told = node.told.iter().filter(|t| t.kind == Kind::OutOfMemory);
    assert!((1..=20).contains(&told.count()));
}

#[test]
fn a_context_dearer_than_the_whole_limit_is_counted_and_nothing_more_is_granted() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("200MiB");
    let one = node.join(&tenant);
    let pid = node.client(one).pid;
    node.reserve(one, 168 * MIB);
    node.settle();
    node.send(one, ToBroker::ContextMade { seq: 1, gpu: 0, charged: 168 * MIB });
    node.sample(0, &[(pid, 300 << 20)], 0);
    let overhead = ToClient::Overhead { seq: 1, gpu: 0, units: 300 * MIB };
    assert_eq!(node.client(one).inbox.back(), Some(&overhead));
    node.reserve(one, MIB + 32 * MIB);
    node.settle();
    assert_eq!(node.client(one).denials, 1);
    node.die(one);
    assert_eq!(node.state.tenant(tenant.id).expect("shown").gpus[0].held_bytes.0, 0);
}

#[test]
fn a_restored_tenant_that_nothing_keeps_goes_and_a_private_broker_with_it() {
    let mut before = Node::new(vec![card(0, 1)]);
    let tenant = before.tenant("1GiB");
    before.join(&tenant);
    before.step(Event::End { tenant: tenant.id });
    let mut saved = before.state.saved();
    saved.tenants[0].pids.clear();
    let config = Config { private: true, ..Config::default() };
    let mut node = Node::with(config, vec![card(0, 1)]);
    assert!(node.state.restore(0, saved).is_empty());
    node.wait(1);
    assert!(node.state.tenants().is_empty());
    node.wait(LINGER_NS);
    assert!(node.stopped);
}

#[test]
fn a_process_that_is_late_after_a_restart_still_counts_with_what_the_card_shows() {
    let mut before = Node::new(vec![card(0, 16)]);
    let tenant = before.tenant("2GiB");
    let old = before.join(&tenant);
    let pid = before.client(old).pid;
    let mut node = Node::new(vec![card(0, 16)]);
    node.state.restore(0, before.state.saved());
    node.sample(0, &[(pid, 1 << 30)], 0);
    node.wait(2_000 * MS);
    let new = node.join_as(&tenant, 5000);
    node.reserve(new, GIB + MIB);
    node.settle();
    node.wait(100 * MS);
    node.settle();
    assert_eq!(node.client(new).denials, 1, "with the late one's it would be above the limit");
    node.reserve(new, GIB);
    node.settle();
    assert_eq!(node.client(new).word.held, GIB);
    let back = node.join_as(&tenant, pid);
    node.reserve(back, GIB);
    node.settle();
    assert_eq!(node.client(back).word.held, GIB, "what it holds is its own");
}

#[test]
fn a_late_process_that_has_ended_counts_no_more() {
    let mut before = Node::new(vec![card(0, 16)]);
    let tenant = before.tenant("2GiB");
    let old = before.join(&tenant);
    let pid = before.client(old).pid;
    let mut node = Node::new(vec![card(0, 16)]);
    node.state.restore(0, before.state.saved());
    node.sample(0, &[(pid, 1 << 30)], 0);
    node.wait(2_000 * MS);
    node.sample(0, &[], 0);
    let new = node.join_as(&tenant, 5000);
    node.reserve(new, 2 * GIB);
    node.settle();
    assert_eq!(node.client(new).word.held, 2 * GIB);
}

#[test]
fn a_process_that_joins_again_is_served_first_only_for_what_it_held() {
    let mut node = Node::new(vec![card(0, 16)]);
    let (greedy, other) = (node.tenant("0B..16GiB"), node.tenant("12GiB"));
    let one = node.join(&greedy);
    let pid = node.client(one).pid;
    node.reserve(one, MIB);
    node.settle();
    node.step(Event::Closed { client: one });
    let again = node.join_as(&greedy, pid);
    node.reserve(again, 8 * GIB);
    node.settle();
    assert_eq!(node.client(again).denials, 1, "twelve of sixteen are promised to the other");
    let two = node.join(&other);
    node.reserve(two, 12 * GIB);
    node.settle();
    assert_eq!(node.client(two).word.held, 12 * GIB);
}

#[test]
fn what_a_program_left_by_exec_is_free_also_when_its_successor_has_joined() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("2GiB");
    let one = node.join(&tenant);
    let pid = node.client(one).pid;
    node.reserve(one, GIB);
    node.settle();
    node.sample(0, &[(pid, 1 << 30)], 0);
    node.step(Event::Closed { client: one });
    node.join_as(&tenant, pid);
    let held = |node: &Node| node.state.tenant(tenant.id).expect("shown").gpus[0].held_bytes.0;
    node.sample(0, &[(pid, 1 << 30)], 0);
    assert_eq!(held(&node), 1 << 30, "it may be the same program, about to say what it holds");
    node.sample(0, &[], 0);
    assert_eq!(held(&node), 0);
}

#[test]
fn one_process_can_not_take_everybody_s_place() {
    let config = Config { processes_max: 128, ..Config::default() };
    let mut node = Node::with(config, vec![card(0, 16)]);
    let (greedy, other) = (node.tenant("1GiB"), node.tenant("1GiB"));
    for client in 1000..1200 {
        node.step(hello(client, CURRENT, greedy.token, 77, UID));
    }
    node.join(&other);
}

#[test]
fn what_a_returning_process_holds_is_granted_though_the_last_look_showed_others_with_more() {
    let mut before = Node::new(vec![card(0, 16)]);
    let tenant = before.tenant("2GiB");
    let (one, two) = (before.join(&tenant), before.join(&tenant));
    let pids = [one, two].map(|client| before.client(client).pid);
    let mut node = Node::new(vec![card(0, 16)]);
    node.state.restore(0, before.state.saved());
    node.sample(0, &[(pids[0], 1 << 30), (pids[1], 1 << 30)], 0);
    // Since then the second has freed something, and the first has taken it.
    let one = node.join_as(&tenant, pids[0]);
    node.reserve(one, GIB + 100 * MIB);
    node.settle();
    assert_eq!(node.client(one).word.held, GIB + 100 * MIB);
    let two = node.join_as(&tenant, pids[1]);
    node.reserve(two, GIB - 100 * MIB);
    node.settle();
    assert_eq!(node.client(two).word.held, GIB - 100 * MIB);
}
