//! The broker's watchdog: processes of a tenant that use the GPU without the library.

use std::time::Duration;

use halfwarp_tests::{MIB, Machine, guest, until};

const LINE: Duration = Duration::from_secs(60);
/// What is promised.
const REPORTED_WITHIN: Duration = Duration::from_secs(10);

#[test]
fn a_process_of_a_tenant_that_never_joined_is_reported() {
    let machine = Machine::new();
    let shed = ["env", "-u", "LD_PRELOAD", "-u", "HALFWARP_TENANT", "-u", "HALFWARP_JOIN"];
    let program = shed.map(Into::into).into_iter().chain([guest("hold").into_os_string()]);
    let tenancy = machine.tenant(&["--memory", "1GiB", "--name", "shed"]);
    let mut program = tenancy.program(program.chain(["2048".into()])).start();
    program.line("HELD", LINE);
    let told = until(REPORTED_WITHIN, "the process is reported", || {
        machine.events().into_iter().find(|event| event.kind == "never-joined")
    });
    assert_eq!(told.tenant, Some(machine.tenant_named("shed").id));
    assert!(told.bytes.is_some_and(|bytes| bytes.0 >= 2048 * MIB), "{told:?}");
    program.say("end");
    assert!(program.end(LINE).status.success());
    assert_eq!(machine.events().iter().filter(|event| event.kind == "never-joined").count(), 1);
}
