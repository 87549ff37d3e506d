//! Threads that wait for time or for each other, and kernels that do not end well.

mod common;

use common::{Arg, Device, HEAD, kernel, launch, one_block, parse, run_block};
use simcuda_ptx::{Fault, Memory};

#[test]
fn lanes_of_one_warp_may_wait_for_each_other() {
    // A lock taken by one lane at a time, the others spinning at a lower address.
    let module = parse(&format!(
        "{HEAD}.visible .entry k(.param .u64 out, .param .u32 n) {{
            .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %out;
            ld.param.u64 %out, [out];
        SPIN: atom.global.cas.b32 %r1, [%out], 0, 1;
            setp.ne.u32 %p1, %r1, 0;
            @%p1 bra SPIN;
            ld.volatile.global.u32 %r2, [%out+4];
            add.u32 %r2, %r2, 1;
            st.volatile.global.u32 [%out+4], %r2;
            membar.gl;
            atom.global.exch.b32 %r3, [%out], 0;
        }}"
    ));
    let device = Device::new();
    let out = device.upload(&[0_u32, 0]);
    let arguments = [Arg::U64(out), Arg::U32(0)];
    launch(&device, &module, "k", [[2, 1, 1], [64, 1, 1]], 0, &arguments).unwrap();
    assert_eq!(device.download::<u32>(out, 2), [0, 128]);
}

#[test]
fn blocks_that_wait_for_each_other_all_run() {
    // Every block adds one and waits until all have: a barrier across the grid.
    let module = parse(&format!(
        "{HEAD}.visible .entry k(.param .u64 out, .param .u32 n) {{
            .reg .pred %p1; .reg .b32 %r<5>; .reg .b64 %out;
            ld.param.u64 %out, [out]; ld.param.u32 %r1, [n];
            red.global.add.u32 [%out], 1;
        WAIT: ld.acquire.gpu.global.u32 %r2, [%out];
            setp.lt.u32 %p1, %r2, %r1;
            @%p1 bra WAIT;
            red.global.add.u32 [%out+4], %r2;
        }}"
    ));
    let device = Device::new();
    let out = device.upload(&[0_u32, 0]);
    let arguments = [Arg::U64(out), Arg::U32(40)];
    launch(&device, &module, "k", [[40, 1, 1], [1, 1, 1]], 0, &arguments).unwrap();
    assert_eq!(device.download::<u32>(out, 2), [40, 1600]);
}

#[test]
fn a_thread_that_polls_the_clock_ends_when_time_has_passed() {
    let module = kernel(
        "mov.u64 %d1, %globaltimer; cvt.u64.u32 %d2, %n; add.u64 %d2, %d1, %d2;
        POLL: mov.u64 %d3, %globaltimer;
            setp.lt.u64 %p1, %d3, %d2;
            @%p1 bra POLL;
            st.global.u32 [%at], 1;",
    );
    let device = Device::new();
    device.tick_ns.set(100);
    let out = device.allocate(4 * 4);
    let arguments = [Arg::U64(out), Arg::U32(1_000_000)];
    launch(&device, &module, "k", [[8, 1, 1], [4, 1, 1]], 0, &arguments).unwrap();
    assert_eq!(device.download::<u32>(out, 4), [1; 4]);
    // Eight blocks polled at the same time, not one after the other.
    assert!((1_000_000..2_000_000).contains(&device.now_ns.get()), "{}", device.now_ns.get());
}

#[test]
fn sleeping_blocks_sleep_together() {
    let module = kernel("nanosleep.u32 %n; st.global.u32 [%at], 1;");
    let device = Device::new();
    let out = device.allocate(32 * 4);
    let arguments = [Arg::U64(out), Arg::U32(30_000_000)];
    launch(&device, &module, "k", [[50, 1, 1], [32, 1, 1]], 0, &arguments).unwrap();
    assert_eq!(device.now_ns(), 30_000_000);
}

#[test]
fn an_endless_kernel_stops_when_asked() {
    let module = kernel("HERE: bra HERE;");
    let device = Device::new();
    device.patience.set(Some(10));
    let arguments = [Arg::U64(0), Arg::U32(0)];
    let outcome = launch(&device, &module, "k", one_block(32), 0, &arguments);
    assert_eq!(outcome, Err(Fault::Stopped));
}

#[test]
fn a_trap_ends_the_launch() {
    let module = kernel("setp.eq.u32 %p1, %t, 5; @%p1 trap; st.global.u32 [%at], 1;");
    assert_eq!(run_block(&module, 32, 0), Err(Fault::Trap));
}

#[test]
fn shared_memory_ends_where_it_ends() {
    let module =
        kernel(".shared .align 4 .b32 cells[8]; mov.u64 %d1, cells; st.shared.u32 [%d1+32], %t;");
    let fault = run_block(&module, 1, 0).unwrap_err();
    assert_eq!(fault, Fault::Address { address: 0xffff_0000_0000_0020, bytes: 4, write: true });
}

#[test]
fn a_stack_without_end_overflows_into_a_fault() {
    let module = parse(&format!(
        "{HEAD}.func deeper() {{ .local .b8 own[64]; call deeper; ret; }}
        .visible .entry k(.param .u64 out, .param .u32 n) {{ call deeper; }}"
    ));
    assert!(matches!(run_block(&module, 1, 0), Err(Fault::Address { write: true, .. })));
}

#[test]
fn a_pointer_to_a_function_without_a_body_is_a_fault() {
    let module = parse(&format!(
        "{HEAD}.extern .func outside();
        .visible .entry k(.param .u64 out, .param .u32 n) {{
            .reg .b64 %d; mov.u64 %d, outside;
            proto: .callprototype _ ();
            call %d, proto;
        }}"
    ));
    assert!(matches!(run_block(&module, 1, 0), Err(Fault::Address { write: false, .. })));
}

#[test]
fn what_no_device_could_launch_is_unsupported() {
    let module = kernel("ret;");
    let device = Device::new();
    let arguments = [Arg::U64(0), Arg::U32(0)];
    let too_many = launch(&device, &module, "k", one_block(1025), 0, &arguments);
    assert_eq!(too_many, Err(Fault::Unsupported));
    let too_much = launch(&device, &module, "k", one_block(1), u32::MAX, &arguments);
    assert_eq!(too_much, Err(Fault::Unsupported));
    let nothing = launch(&device, &module, "k", [[0, 1, 1], [1, 1, 1]], 0, &arguments).unwrap();
    assert_eq!(nothing.instructions, 0);
}
