//! The watchdog: what the cards show against what was promised.

mod kit;

use halfwarp_broker_core::{Action, Config, Kind, Runner, Stray};
use kit::{GIB, Node, card};

const MIB: u64 = 1 << 20;

fn findings(node: &Node, kind: Kind) -> usize {
    node.kinds().into_iter().filter(|seen| *seen == kind).count()
}

#[test]
fn a_process_with_more_than_it_was_ever_allowed_is_told_once_after_two_looks() {
    let mut node = Node::new(vec![card(0, 16)]);
    let tenant = node.tenant("4GiB");
    let one = node.join(&tenant);
    let pid = node.client(one).pid;
    node.reserve(one, GIB);
    node.settle();
    let allowed = u64::from(node.client(one).word.allowed) * 512;
    let most = allowed + 64 * MIB + allowed / 20;
    node.sample(0, &[(pid, most - MIB)], 0);
    node.sample(0, &[(pid, most + MIB)], 0);
    node.sample(0, &[(pid, most - MIB)], 0);
    node.sample(0, &[(pid, most + MIB)], 0);
    assert_eq!(findings(&node, Kind::Uncounted), 0, "twice, but not in a row");
    for _ in 0..5 {
        node.sample(0, &[(pid, most + MIB)], 0);
    }
    assert_eq!(findings(&node, Kind::Uncounted), 1);
    node.sample(0, &[(pid, MIB)], 0);
    node.sample(0, &[(pid, 8 << 30)], 0);
    node.sample(0, &[(pid, 8 << 30)], 0);
    assert_eq!(findings(&node, Kind::Uncounted), 2, "again, once it had gone");
}

fn with_a_stray(config: Config) -> (Node, Runner) {
    let mut node = Node::with(config, vec![card(0, 16)]);
    let tenant = node.tenant("4GiB");
    node.join(&tenant);
    let process = Runner { pid: 777, started_ticks: 5 };
    node.strays = vec![Stray { process, tenant: tenant.id }];
    (node, process)
}

#[test]
fn a_process_that_never_joined_is_told() {
    let (mut node, _) = with_a_stray(Config::default());
    node.sample(0, &[(777, 300 << 20)], 0);
    assert_eq!(findings(&node, Kind::NeverJoined), 0);
    for _ in 0..3 {
        node.sample(0, &[(777, 300 << 20)], 0);
    }
    assert_eq!(findings(&node, Kind::NeverJoined), 1);
    assert!(!node.log.iter().any(|action| matches!(action, Action::EndStray { .. })));
}

#[test]
fn and_ended_if_the_operator_chose_that() {
    let (mut node, process) = with_a_stray(Config { end_strays: true, ..Config::default() });
    node.sample(0, &[(777, 300 << 20)], 0);
    node.sample(0, &[(777, 300 << 20)], 0);
    assert!(node.log.contains(&Action::EndStray { process }));
}

#[test]
fn no_data_decides_nothing() {
    let (mut node, _) = with_a_stray(Config { end_strays: true, ..Config::default() });
    node.sample(0, &[], 0);
    node.sample(0, &[], 0);
    assert_eq!(findings(&node, Kind::NeverJoined), 0, "it is on no card");
}
