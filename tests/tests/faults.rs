//! The driver fails, is slow or is another than expected, on purpose: what a tenant holds stays what
//! its programs hold.

use std::time::Duration;

use halfwarp_tests::{Faults, Machine, Running, guest};

const DEADLINE: Duration = Duration::from_secs(120);
const LINE: Duration = Duration::from_secs(30);
const OUT_OF_MEMORY: i32 = 2;

/// A tenant that gets memory by the way it is told.
struct Getter {
    running: Running,
    faults: Faults,
    pid: u32,
}

impl Getter {
    fn new(machine: &Machine) -> Self {
        let tenancy = machine.tenant(&["--memory", "1GiB"]);
        let mut running = tenancy.program([guest("ways")]).start();
        let ready = running.line("READY ", LINE);
        let pid = ready.trim_start_matches("READY ").parse().expect("READY has the pid");
        Self { running, faults: machine.faults(), pid }
    }

    /// The code that the program got for all of the way.
    fn get(&mut self, way: &str) -> i32 {
        self.running.say(way);
        let line = self.running.line("CODE ", LINE);
        line.trim_start_matches("CODE ").parse().expect("CODE has a number")
    }

    /// What is free in the tenant, and what the card says that the process holds.
    fn figures(&mut self) -> (u64, u64) {
        self.running.say("free");
        let line = self.running.line("FREE ", LINE);
        let free = line.trim_start_matches("FREE ").parse().expect("FREE has a number");
        let usage = self.faults.usage(0);
        let own = usage.processes.iter().find(|process| process.pid == self.pid);
        (free, own.map_or(0, |process| process.used_bytes))
    }

    /// Goes the way once with the fault, and again without. Whether the fault hit a call.
    fn with_fault(&mut self, way: &str, fault: &str, before: (u64, u64)) -> Option<i32> {
        let number = self.faults.set(&format!("{fault},pid={}", self.pid)).expect("it stays");
        let code = self.get(way);
        let hit = self.faults.hits(number) > 0;
        self.faults.clear();
        assert_eq!(self.figures(), before, "{way} with {fault} gave {code}");
        assert_eq!(self.get(way), 0, "{way} again, after {fault}");
        assert_eq!(self.figures(), before, "{way} again, after {fault}");
        hit.then_some(code)
    }
}

const WAYS: [&str; 9] =
    ["plain", "pitched", "managed", "async", "pool", "handle", "mapped", "array", "mipmap"];
/// Every function that a way, or the library behind it, may call.
const GROUPS: [&str; 6] =
    ["cuMem*", "cuArray*", "cuMipmapped*", "cuCtx*", "cuPointer*", "cuDevice*"];

#[test]
fn mem_09_whichever_call_of_an_allocation_fails_nothing_stays_counted() {
    let machine = Machine::new();
    let mut getter = Getter::new(&machine);
    for way in WAYS {
        assert_eq!(getter.get(way), 0, "{way}, with nothing wrong");
        let before = getter.figures();
        let mut refused = 0;
        for group in GROUPS {
            for nth in 1.. {
                let fault = format!("fail:{group},nth={nth}");
                let Some(code) = getter.with_fault(way, &fault, before) else { break };
                assert!([0, OUT_OF_MEMORY].contains(&code), "{way} with {fault} gave {code}");
                refused += u32::from(code == OUT_OF_MEMORY);
            }
        }
        assert!(refused > 0, "no fault reached the program by way of {way}");
    }
}

#[test]
fn mem_09_the_fifth_of_eight_mappings_is_refused_also_half_way() {
    let machine = Machine::new();
    let mut getter = Getter::new(&machine);
    assert_eq!(getter.get("mapped"), 0);
    let before = getter.figures();
    for when in ["before", "half"] {
        let fault = format!("fail:cuMemMap,nth=5,when={when}");
        assert_eq!(getter.with_fault("mapped", &fault, before), Some(OUT_OF_MEMORY), "{fault}");
    }
}

#[test]
fn mem_09_the_first_call_after_an_allocation_may_fail() {
    let machine = Machine::new();
    let mut getter = Getter::new(&machine);
    assert_eq!(getter.get("plain"), 0);
    let before = getter.figures();
    let code = getter.with_fault("plain", "fail:cuMemset*,code=LAUNCH_FAILED,nth=1", before);
    assert_eq!(code, Some(719), "the driver's own code");
}

#[test]
fn mem_14_a_slow_driver_lets_no_more_threads_past_the_limit() {
    let machine = Machine::new();
    let faults = machine.faults();
    let number = faults.set("delay:cuMemAlloc,before=1ms").expect("it stays");
    let tenancy = machine.tenant(&["--memory", "4GiB"]).program([guest("mem_14")]);
    let ended = tenancy.finish(DEADLINE);
    assert_eq!(ended.stdout, "PASS MEM-14\n", "{}", ended.all());
    assert!(faults.hits(number) >= 1600, "only {} calls were slow", faults.hits(number));
}
