//! A broker killed at every crash label it has: the tenants that were there keep what they hold, and
//! the next broker, started by the next `halfwarp run`, counts it as before.

use std::{thread, time::Duration};

use halfwarp_label::LABELS;
use halfwarp_tests::{
    Machine, guest,
    trace::{Reached, Traced, binary, labels_of},
    until,
};

const START: Duration = Duration::from_secs(30);
/// A re-join begins within a second of the broker's return.
const JOINED_AGAIN: Duration = Duration::from_secs(3);

#[test]
fn life_06_tenants_outlive_a_broker_killed_at_any_label() {
    let broker = binary("halfwarpd");
    let built = labels_of(&broker).expect("the broker has labels");
    let listed = || LABELS.iter().filter(|label| label.place == "broker");
    let missing: Vec<_> = listed().filter(|l| !built.contains_key(l.name)).collect();
    assert!(missing.is_empty(), "labels that nothing in the broker calls: {missing:?}");

    let machine = Machine::new();
    let mut neighbour = machine
        .tenant(&["--memory", "4GiB", "--name", "neighbour"])
        .program([guest("hold").into_os_string(), "512".into()])
        .start();
    neighbour.line("HELD", START);
    let held = || machine.tenant_named("neighbour").gpus[0].held_bytes;
    let before = held();

    for label in listed() {
        let pid = machine.broker_pid().expect("a broker runs");
        let mut traced = Traced::seize(pid).expect("the broker can be traced");
        traced.stop_at(&broker, label.name).expect("the label is in the broker");
        let newcomer = || machine.tenant(&["--memory", "1GiB", "--name", "newcomer"]);
        let program = || [guest("hold").into_os_string(), "64".into()];
        let reached = thread::scope(|scope| {
            // What becomes of the one in whose moment the broker dies is not this rule's business.
            scope.spawn(|| _ = newcomer().program(program()).finish(START * 2));
            let reached = traced.run(START);
            traced.kill();
            reached
        });
        let reached = reached.expect("the label is reached in time");
        assert_eq!(reached, Reached::Label(label.name.to_owned()), "{}", label.after);

        let ended = newcomer().program(program()).finish(START);
        assert!(ended.status.success(), "after {}: {}", label.name, ended.all());
        until(
            JOINED_AGAIN,
            &format!("the neighbour is counted again after {}", label.name),
            || (held() == before).then_some(()),
        );
    }
    neighbour.say("end");
    let ended = neighbour.end(START);
    assert!(ended.status.success(), "{}", ended.all());
}
