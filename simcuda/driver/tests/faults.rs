//! Faults that the machine is told of, as a program meets them.

mod api;

use api::{ILLEGAL_ADDRESS, MIB, NOT_FOUND, NOT_READY, ON_CARD, OUT_OF_MEMORY, Turn, turn};
use libloading::{Library, Symbol};
use simcuda_protocol::place::Place;
use simcuda_protocol::{Client, Control, Told};
use std::ffi::{CString, c_void};
use std::process::Command;
use std::time::{Duration, Instant};

const UNKNOWN: u32 = 999;
const LAUNCH_FAILED: u32 = 719;

/// A test's turn with a way to the machine; leaves no fault behind.
struct Breaker {
    turn: Turn,
    client: Client,
}

fn breaker() -> Breaker {
    let turn = turn();
    let place = Place::from_environment().expect("chosen by the turn");
    Breaker { turn, client: Client::connect_running(&place).expect("it runs") }
}

impl Breaker {
    fn tell(&self, control: Control) -> Told {
        self.client.control(control).expect("an answer").0
    }

    fn set(&self, fault: &str) {
        let told = self.tell(Control::Set(fault.parse().expect(fault)));
        assert!(matches!(told, Told::Set { .. }), "{fault}: {told:?}");
    }

    fn clear(&self) {
        self.tell(Control::Clear(None));
    }

    fn hits(&self) -> Vec<(u64, u64)> {
        match self.tell(Control::List) {
            Told::Faults(faults) => faults.iter().map(|f| (f.seen, f.hit)).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn allocate(&self) -> Result<u64, u32> {
        let mut at = 0;
        match self.turn.driver.cuMemAlloc_v2(&mut at, 4 * MIB) {
            0 => Ok(at),
            code => Err(code),
        }
    }

    fn free(&self, at: u64) -> u32 {
        self.turn.driver.cuMemFree_v2(at)
    }

    /// A context that was struck is of no use to the next test.
    fn begin_again(&self) {
        assert_eq!(self.turn.driver.cuDevicePrimaryCtxReset_v2(0), 0);
        let mut context = 0;
        assert_eq!(self.turn.driver.cuDevicePrimaryCtxRetain(&mut context, 0), 0);
        assert_eq!(self.turn.driver.cuCtxSetCurrent(self.turn.context), 0);
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        let _ = self.client.control(Control::Clear(None));
    }
}

#[test]
fn the_nth_call_alone_fails_with_the_code_and_has_no_effect() {
    let breaker = breaker();
    let before = breaker.turn.free_bytes();
    breaker.set("fail:cuMemAlloc,nth=2,code=LAUNCH_FAILED");
    let first = breaker.allocate().expect("the first");
    assert_eq!(breaker.allocate(), Err(LAUNCH_FAILED));
    let third = breaker.allocate().expect("the third");
    assert_eq!(breaker.hits(), [(3, 1)]);
    assert_eq!((breaker.free(first), breaker.free(third)), (0, 0));
    assert_eq!(breaker.turn.free_bytes(), before);
    breaker.clear();
    let again = breaker.allocate().expect("no fault is set");
    assert_eq!(breaker.free(again), 0);
    assert_eq!(breaker.hits(), []);
}

#[test]
fn a_fault_for_another_process_is_none_for_this_one() {
    let breaker = breaker();
    breaker.set("fail:cuMemAlloc,pid=1");
    let at = breaker.allocate().expect("another's fault");
    assert_eq!(breaker.free(at), 0);
}

#[test]
fn a_call_may_fail_after_all_of_it_was_done() {
    let breaker = breaker();
    let before = breaker.turn.free_bytes();
    let at = breaker.allocate().expect("room");
    breaker.set("fail:cuMemFree,code=LAUNCH_FAILED,when=after");
    assert_eq!(breaker.free(at), LAUNCH_FAILED);
    assert_eq!(breaker.turn.free_bytes(), before, "the memory was freed");
}

#[test]
fn a_mapping_refused_half_way_leaves_nothing_mapped() {
    let breaker = breaker();
    let turn = &breaker.turn;
    let (handle, at) = (turn.create(8 * MIB, &ON_CARD), turn.reserve(8 * MIB));
    let before = turn.free_bytes();
    breaker.set("fail:cuMemMap,when=half,nth=1");
    assert_eq!(turn.driver.cuMemMap(at, 8 * MIB, 0, handle, 0), OUT_OF_MEMORY);
    assert_eq!(turn.free_bytes(), before);
    assert_ne!(turn.driver.cuMemUnmap(at, 8 * MIB), 0, "nothing is mapped");
    turn.map(at, 8 * MIB, handle);
    turn.write(at + 8 * MIB - 1, &[7]);
    assert_eq!(turn.read(at + 8 * MIB - 1, 1), [7]);
    assert_eq!(turn.driver.cuMemUnmap(at, 8 * MIB), 0);
    assert_eq!(turn.driver.cuMemRelease(handle), 0);
    assert_eq!(turn.driver.cuMemAddressFree(at, 8 * MIB), 0);
}

#[test]
fn an_allocation_refused_half_way_costs_nothing() {
    let breaker = breaker();
    let before = breaker.turn.free_bytes();
    breaker.set("fail:cuMemAlloc,when=half,nth=1,code=OUT_OF_MEMORY");
    assert_eq!(breaker.allocate(), Err(OUT_OF_MEMORY));
    assert_eq!(breaker.turn.free_bytes(), before);
    let at = breaker.allocate().expect("only the first was refused");
    assert_eq!(breaker.free(at), 0);
}

#[test]
fn a_call_is_delayed_before_or_after_its_effect() {
    let breaker = breaker();
    let delay = Duration::from_millis(30);
    for fault in ["delay:cuMemAlloc,before=30ms", "delay:cuMemAlloc,after=30ms"] {
        breaker.set(fault);
        let start = Instant::now();
        let at = breaker.allocate().expect("room");
        assert!(start.elapsed() >= delay, "{fault}: {:?}", start.elapsed());
        breaker.clear();
        assert_eq!(breaker.free(at), 0);
    }
}

#[test]
fn a_page_fault_stays_in_the_contexts_of_its_process() {
    let breaker = breaker();
    breaker.set("page-fault:0,pid=1");
    assert_eq!(breaker.turn.driver.cuCtxSynchronize(), 0);
    breaker.set(&format!("page-fault:0,pid={}", std::process::id()));
    assert_eq!(breaker.turn.driver.cuCtxSynchronize(), ILLEGAL_ADDRESS);
    assert_eq!(breaker.allocate(), Err(ILLEGAL_ADDRESS));
    breaker.begin_again();
    assert_eq!(breaker.turn.driver.cuCtxSynchronize(), 0);
}

#[test]
fn a_lost_card_ends_its_contexts_and_takes_no_new_one_until_it_recovers() {
    let breaker = breaker();
    let driver = breaker.turn.driver;
    breaker.set("lose:0");
    assert_eq!(driver.cuCtxSynchronize(), UNKNOWN);
    assert_eq!(breaker.allocate(), Err(UNKNOWN));
    assert_eq!(driver.cuDevicePrimaryCtxReset_v2(0), UNKNOWN, "there is no new context");
    breaker.set("recover:0");
    breaker.begin_again();
    let at = breaker.allocate().expect("the card is as new");
    assert_eq!(breaker.free(at), 0);
}

#[test]
fn a_stuck_stream_goes_on_when_the_fault_is_taken_back_and_ends_when_the_card_is_lost() {
    let breaker = breaker();
    let turn = &breaker.turn;
    let (stream, at) = (turn.stream(), turn.allocate(MIB));
    breaker.set("stuck:0");
    assert_eq!(turn.driver.cuMemsetD8Async(at, 1, MIB, stream), 0);
    let until = Instant::now() + Duration::from_millis(50);
    while Instant::now() < until {
        assert_eq!(turn.driver.cuStreamQuery(stream), NOT_READY);
    }
    breaker.clear();
    assert_eq!(turn.driver.cuStreamSynchronize(stream), 0);
    assert_eq!(turn.read(at, 1), [1]);
    breaker.set("stuck:0");
    assert_eq!(turn.driver.cuMemsetD8Async(at, 2, MIB, stream), 0);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| turn.driver.cuStreamSynchronize(stream));
        breaker.set("lose:0");
        assert_eq!(waiting.join().expect("it ends"), UNKNOWN);
    });
    breaker.set("recover:0");
    breaker.begin_again();
}

type GetProcAddress = extern "C" fn(*const i8, *mut *mut c_void, i32, u64, *mut u32) -> u32;

/// What a look-up answers: its code, the status, and whether there is a pointer.
fn look_up(library: &Library, name: &str, version: i32) -> (u32, u32, usize) {
    // SAFETY: the type is that of the vendor's header.
    let get: Symbol<'_, GetProcAddress> =
        unsafe { library.get("cuGetProcAddress_v2") }.expect("it is exported");
    let name = CString::new(name).expect("no null byte");
    let (mut found, mut status) = (std::ptr::null_mut(), 9);
    let code = get(name.as_ptr(), &mut found, version, 0, &mut status);
    (code, status, found.addr())
}

fn own_driver() -> Library {
    let own = std::env::current_exe().expect("this test's file");
    let file = own.ancestors().nth(2).expect("a build folder").join("libcuda.so");
    // SAFETY: the library is this package's own; loading it only reads what faults are set.
    unsafe { Library::new(file) }.expect("the driver's file")
}

#[test]
fn a_hidden_function_is_not_found_and_an_older_form_is_answered_instead() {
    let breaker = breaker();
    let library = own_driver();
    let newest = look_up(&library, "cuCtxCreate", 13_000).2;
    breaker.set("hide:cuMemCreate");
    breaker.set("hide:cuCtxCreate_v4");
    assert_eq!(look_up(&library, "cuMemCreate", 13_000), (NOT_FOUND, 1, 0));
    let (code, _, older) = look_up(&library, "cuCtxCreate", 13_000);
    assert!(code == 0 && older != 0 && older != newest);
    breaker.clear();
    assert_eq!(look_up(&library, "cuMemCreate", 13_000).0, 0);
    breaker.set("newer:cuMemAlloc");
    let newer = look_up(&library, "cuMemAlloc", 13_000).2;
    // SAFETY: the name is looked up, not called.
    let known: Symbol<'_, extern "C" fn()> =
        unsafe { library.get("cuMemAlloc_v2") }.expect("it is exported");
    assert_ne!(newer, *known as *const () as usize, "a form that is not exported");
}

/// Not a test of its own: a process that loads the driver while functions are hidden.
#[test]
#[ignore = "started by another test as its second process"]
fn looks_for_functions() {
    let library = own_driver();
    // SAFETY: the names are looked up, not called.
    let has = |name: &str| unsafe { library.get::<extern "C" fn()>(name) }.is_ok();
    let mut version = 0;
    // SAFETY: the type is that of the vendor's header.
    let get: Symbol<'_, extern "C" fn(&mut i32) -> u32> =
        unsafe { library.get("cuDriverGetVersion") }.expect("it is exported");
    assert_eq!(get(&mut version), 0);
    println!("FOUND {} {} {version}", has("cuMemCreate"), has("cuMemAlloc_v2"));
}

fn another_process(faults: &str) -> String {
    let mut command = Command::new(std::env::current_exe().expect("this test's file"));
    command.args(["looks_for_functions", "--exact", "--ignored", "--nocapture"]);
    if !faults.is_empty() {
        let folder = std::env::temp_dir().join(format!("simcuda-faults-{}", std::process::id()));
        command.env("SIMCUDA_FAULTS", faults).env("SIMCUDA_DIR", folder);
    }
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let found = said.lines().find_map(|line| line.split_once("FOUND "));
    found.unwrap_or_else(|| panic!("{output:?}")).1.to_owned()
}

#[test]
fn a_process_that_loads_the_driver_afterwards_does_not_find_what_is_hidden() {
    let breaker = breaker();
    assert_eq!(another_process(""), "true true 13000");
    breaker.set("hide:cuMemCreate");
    assert_eq!(another_process(""), "false true 13000");
    breaker.clear();
    breaker.set("driver:10.1");
    assert_eq!(another_process(""), "false true 10010");
    breaker.clear();
    assert_eq!(another_process(""), "true true 13000");
}

#[test]
fn a_machine_may_begin_with_faults_of_the_environment() {
    let _breaker = breaker();
    assert_eq!(another_process("hide:cuMemCreate;driver:12.0"), "false true 12000");
}
