//! Arrays of every form are counted, by what the driver says they take, until they end.

use std::time::Duration;

use halfwarp_tests::{Machine, guest};

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn mem_03_every_form_of_array_counts_until_it_ends() {
    let machine = Machine::new();
    let program = guest("arrays").into_os_string();
    let ended = machine.tenant(&["--memory", "1GiB"]).program([program]).finish(DEADLINE);
    assert_eq!(ended.stdout, "PASS ARRAYS\n", "{}", ended.all());
}
