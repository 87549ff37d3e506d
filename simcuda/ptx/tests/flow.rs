//! Divergence, calls and barriers, on PTX written for the purpose.

mod common;

use common::{Arg, Device, HEAD, kernel, launch, parse, run_block};
use simcuda_ptx::Fault;

#[test]
fn loops_of_different_length_meet_behind_the_loop() {
    let module = kernel(
        "mov.u32 %r1, 0; mov.u32 %r2, 0;
        LOOP:
            setp.ge.u32 %p1, %r1, %t;
            @%p1 bra DONE;
            add.u32 %r2, %r2, %r1;
            add.u32 %r1, %r1, 1;
            bra LOOP;
        DONE:
            activemask.b32 %r3;
            popc.b32 %r3, %r3;
            shl.b32 %r3, %r3, 16;
            or.b32 %r2, %r2, %r3;
            st.global.u32 [%at], %r2;
            ret;",
    );
    let expected: Vec<u32> = (0..32).map(|t| 32 << 16 | (0..t).sum::<u32>()).collect();
    assert_eq!(run_block(&module, 32, 0).unwrap(), expected);
}

#[test]
fn both_sides_of_a_branch_run_and_meet() {
    let module = kernel(
        "and.b32 %r1, %t, 3;
            setp.eq.u32 %p1, %r1, 0;
            @%p1 bra ZERO;
            setp.eq.u32 %p2, %r1, 1;
            @%p2 bra ONE;
            mov.u32 %r2, 300;
            bra JOIN;
        ONE: mov.u32 %r2, 200;
            bra JOIN;
        ZERO: mov.u32 %r2, 100;
        JOIN: activemask.b32 %r3;
            setp.ne.u32 %p3, %r3, 0xffffffff;
            @%p3 add.u32 %r2, %r2, 1;
            st.global.u32 [%at], %r2;",
    );
    let expected: Vec<u32> = (0..32).map(|t| [100, 200, 300, 300][t % 4]).collect();
    assert_eq!(run_block(&module, 32, 0).unwrap(), expected);
}

#[test]
fn a_barrier_in_a_loop_orders_the_warps_each_time_around() {
    // Each round, every thread adds its neighbour's value of the round before.
    let module = kernel(
        ".shared .align 4 .b32 cells[96];
            mov.u32 %r1, cells; mad.lo.u32 %r2, %t, 4, %r1;
            add.u32 %r3, %t, 1; rem.u32 %r3, %r3, 96; mad.lo.u32 %r3, %r3, 4, %r1;
            st.shared.u32 [%r2], %t;
            mov.u32 %r5, 0;
        AGAIN: bar.sync 0;
            ld.shared.u32 %r6, [%r3]; ld.shared.u32 %r7, [%r2];
            bar.sync 0;
            add.u32 %r6, %r6, %r7;
            st.shared.u32 [%r2], %r6;
            add.u32 %r5, %r5, 1;
            setp.lt.u32 %p1, %r5, %n;
            @%p1 bra AGAIN;
            st.global.u32 [%at], %r6;",
    );
    let mut cells: Vec<u32> = (0..96).collect();
    for _ in 0..10 {
        cells = (0..96).map(|i| cells[i].wrapping_add(cells[(i + 1) % 96])).collect();
    }
    assert_eq!(run_block(&module, 96, 10).unwrap(), cells);
}

#[test]
fn named_barriers_let_a_producer_go_on() {
    // Warp 0 arrives without waiting; warp 1 waits for it.
    let module = kernel(
        ".shared .align 4 .b32 cell[1];
            setp.ge.u32 %p1, %t, 32;
            @%p1 bra CONSUMER;
            mov.u32 %r1, 77;
            st.shared.u32 [cell], %r1;
            bar.arrive 1, 64;
            st.global.u32 [%at], %t;
            ret;
        CONSUMER: bar.sync 1, 64;
            ld.shared.u32 %r2, [cell];
            st.global.u32 [%at], %r2;",
    );
    let out = run_block(&module, 64, 0).unwrap();
    assert!(out[..32].iter().copied().eq(0..32));
    assert!(out[32..].iter().all(|&value| value == 77));
}

#[test]
fn barrier_reductions_count_the_whole_block() {
    let module = kernel(
        "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 1;
            bar.red.popc.u32 %r2, 0, %p1;
            bar.red.or.pred %p2, 0, %p1;
            bar.red.and.pred %p3, 0, %p1;
            selp.u32 %r3, 1000, 0, %p2; selp.u32 %r4, 5000, 0, %p3;
            add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;
            st.global.u32 [%at], %r2;",
    );
    assert_eq!(run_block(&module, 80, 0).unwrap(), [1040; 80]);
}

#[test]
fn threads_that_left_do_not_hold_up_a_barrier() {
    let module = kernel(
        "setp.lt.u32 %p1, %t, 40;
            @%p1 exit;
            bar.sync 0;
            st.global.u32 [%at], 9;",
    );
    let out = run_block(&module, 64, 0).unwrap();
    assert!(out[..40].iter().all(|&x| x == 0) && out[40..].iter().all(|&x| x == 9));
}

#[test]
fn a_barrier_that_cannot_complete_is_a_deadlock() {
    let module = kernel("setp.lt.u32 %p1, %t, 32; @%p1 bar.sync 1, 96; bar.sync 0;");
    assert_eq!(run_block(&module, 64, 0), Err(Fault::Deadlock));
}

#[test]
fn indexed_branches_go_where_the_list_says() {
    let module = kernel(
        "and.b32 %r1, %t, 3;
        list: .branchtargets L0, L1, L2, L1;
            brx.idx %r1, list;
        L0: mov.u32 %r2, 10; bra END;
        L1: mov.u32 %r2, 11; bra END;
        L2: mov.u32 %r2, 12;
        END: st.global.u32 [%at], %r2;",
    );
    let expected: Vec<u32> = (0..32).map(|t| [10, 11, 12, 11][t % 4]).collect();
    assert_eq!(run_block(&module, 32, 0).unwrap(), expected);
}

#[test]
fn functions_may_take_and_give_registers() {
    let module = parse(&format!(
        "{HEAD}.func (.reg .b32 %sum) add3(.reg .b32 %a, .reg .b32 %b, .param .b32 c) {{
            .reg .b32 %x;
            ld.param.b32 %x, [c];
            add.u32 %sum, %a, %b; add.u32 %sum, %sum, %x;
            ret;
        }}
        .visible .entry k(.param .u64 out, .param .u32 n) {{
            .reg .b32 %r<4>; .reg .b64 %d<3>;
            ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mad.wide.u32 %d2, %r1, 4, %d1;
            call (%r2), add3, (%r1, 100, %r1);
            st.global.u32 [%d2], %r2;
        }}"
    ));
    let expected: Vec<u32> = (0..40).map(|t| 2 * t + 100).collect();
    assert_eq!(run_block(&module, 40, 0).unwrap(), expected);
}

#[test]
fn generic_addresses_find_shared_and_local_memory() {
    let module = kernel(
        ".shared .align 8 .b8 cells[512]; .local .align 8 .b8 own[16];
            mov.u64 %d1, cells; cvta.shared.u64 %d1, %d1; mad.wide.u32 %d1, %t, 4, %d1;
            mov.u64 %d2, own; cvta.local.u64 %d2, %d2;
            st.u32 [%d1], %t; st.u32 [%d2+8], %t;
            isspacep.shared %p1, %d1; isspacep.local %p2, %d2; isspacep.global %p3, %out;
            isspacep.global %p4, %d1;
            ld.u32 %r1, [%d1]; ld.local.u32 %r2, [own+8];
            add.u32 %r1, %r1, %r2;
            @%p1 add.u32 %r1, %r1, 1000; @%p2 add.u32 %r1, %r1, 1000;
            @%p3 add.u32 %r1, %r1, 1000; @%p4 add.u32 %r1, %r1, 1;
            st.u32 [%at], %r1;",
    );
    let expected: Vec<u32> = (0..64).map(|t| 2 * t + 3000).collect();
    assert_eq!(run_block(&module, 64, 0).unwrap(), expected);
}

#[test]
fn warp_barriers_wait_for_the_lanes_they_name() {
    // The upper half stores late; the lower half reads behind the barrier.
    let module = kernel(
        ".shared .align 4 .b32 cells[32];
            mov.u32 %r1, cells; mad.lo.u32 %r2, %t, 4, %r1;
            xor.b32 %r3, %t, 16; mad.lo.u32 %r3, %r3, 4, %r1;
            setp.lt.u32 %p1, %t, 16;
            @%p1 bra LOW;
            mov.u32 %r4, 0;
        BUSY: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, %n; @%p2 bra BUSY;
            st.shared.u32 [%r2], %t;
            bar.warp.sync 0xffffffff;
            bra END;
        LOW: st.shared.u32 [%r2], %t;
            bar.warp.sync 0xffffffff;
        END: ld.shared.u32 %r5, [%r3];
            st.global.u32 [%at], %r5;",
    );
    let expected: Vec<u32> = (0..32).map(|t| t ^ 16).collect();
    assert_eq!(run_block(&module, 32, 100).unwrap(), expected);
}

#[test]
fn a_shuffle_waits_for_lanes_that_took_another_way() {
    let module = kernel(
        "mov.u32 %r1, %t;
            and.b32 %r2, %t, 1; setp.eq.u32 %p1, %r2, 0;
            @%p1 bra EVEN;
            mov.u32 %r4, 0;
        BUSY: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, %n; @%p2 bra BUSY;
            add.u32 %r1, %r1, 100;
        EVEN: shfl.sync.bfly.b32 %r5|%p3, %r1, 1, 31, 0xffffffff;
            st.global.u32 [%at], %r5;",
    );
    let value = |t: u32| if t % 2 == 1 { t + 100 } else { t };
    let expected: Vec<u32> = (0..32).map(|t| value(t ^ 1)).collect();
    assert_eq!(run_block(&module, 32, 50).unwrap(), expected);
}

#[test]
fn threads_know_where_they_are_in_three_dimensions() {
    let module = parse(&format!(
        "{HEAD}.visible .entry k(.param .u64 out) {{
            .reg .b32 %r<20>; .reg .b64 %d<4>;
            ld.param.u64 %d1, [out];
            mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
            mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y; mov.u32 %r6, %ntid.z;
            mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mov.u32 %r9, %ctaid.z;
            mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y;
            mad.lo.u32 %r12, %r9, %r11, %r8; mad.lo.u32 %r12, %r12, %r10, %r7;
            mad.lo.u32 %r13, %r3, %r5, %r2; mad.lo.u32 %r13, %r13, %r4, %r1;
            mul.lo.u32 %r14, %r4, %r5; mul.lo.u32 %r14, %r14, %r6;
            mad.lo.u32 %r15, %r12, %r14, %r13;
            mad.wide.u32 %d2, %r15, 4, %d1;
            red.global.add.u32 [%d2], 1;
        }}"
    ));
    let device = Device::new();
    let total = 3 * 2 * 4 * 5 * 3 * 2;
    let out = device.allocate(total * 4);
    launch(&device, &module, "k", [[3, 2, 4], [5, 3, 2]], 0, &[Arg::U64(out)]).unwrap();
    assert_eq!(device.download::<u32>(out, total), vec![1; total]);
}

#[test]
fn instructions_are_counted_once_for_each_thread() {
    let module = kernel("st.global.u32 [%at], %t;");
    let device = Device::new();
    let out = device.allocate(4096);
    let arguments = [Arg::U64(out), Arg::U32(0)];
    let stats = launch(&device, &module, "k", [[2, 1, 1], [48, 1, 1]], 0, &arguments).unwrap();
    // Four to set up, one store, one return.
    assert_eq!(stats.instructions, 2 * 48 * 6);
}
