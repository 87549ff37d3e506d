//! When things happen: streams, events, kernels, and errors that stay.

mod api;

use api::{ILLEGAL_ADDRESS, INVALID_VALUE, MIB, NOT_READY, turn};
use std::time::Duration;

const KERNELS: &str = r"
.version 7.5
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter = 5;

.visible .entry spin_ms(.param .u64 ms)
{
    .reg .u64 %rd<6>;
    .reg .pred %p;
    ld.param.u64 %rd1, [ms];
    mul.lo.u64 %rd1, %rd1, 1000000;
    mov.u64 %rd2, %globaltimer;
AGAIN:
    nanosleep.u32 100000;
    mov.u64 %rd3, %globaltimer;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p, %rd4, %rd1;
    @%p bra AGAIN;
    ret;
}

.visible .entry store(.param .u64 at, .param .u64 value)
{
    .reg .u64 %rd<3>;
    .reg .u32 %r<3>;
    ld.param.u64 %rd1, [at];
    ld.param.u32 %r1, [value];
    st.global.u32 [%rd1], %r1;
    ret;
}

.visible .entry count()
{
    .reg .u32 %r<2>;
    atom.global.add.u32 %r1, [counter], 1;
    ret;
}
";

#[test]
fn nothing_takes_effect_at_submission() {
    let turn = turn();
    let module = turn.module(KERNELS);
    let (spin, stream, memory) =
        (turn.function(module, "spin_ms"), turn.stream(), turn.allocate(MIB));
    assert_eq!(turn.driver.cuMemsetD8_v2(memory, 1, MIB), 0);
    assert_eq!(turn.launch(spin, 1, stream, &[100]), 0);
    assert_eq!(turn.driver.cuMemsetD8Async(memory, 2, MIB, stream), 0);
    assert_eq!(turn.driver.cuStreamQuery(stream), NOT_READY);
    assert_eq!(turn.driver.cuStreamSynchronize(stream), 0);
    assert_eq!(turn.driver.cuStreamQuery(stream), 0);
    assert_eq!(turn.read(memory, 1), [2]);
    assert_eq!(turn.driver.cuMemFree_v2(memory), 0);
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

#[test]
fn events_measure_what_the_stream_did_between_them() {
    let turn = turn();
    let module = turn.module(KERNELS);
    let (spin, stream) = (turn.function(module, "spin_ms"), turn.stream());
    let (mut from, mut to, mut milliseconds) = (0, 0, 0.0);
    assert_eq!(turn.driver.cuEventCreate(&mut from, 0), 0);
    assert_eq!(turn.driver.cuEventCreate(&mut to, 0), 0);
    assert_eq!(turn.driver.cuEventRecord(from, stream), 0);
    assert_eq!(turn.launch(spin, 1, stream, &[50]), 0);
    assert_eq!(turn.driver.cuEventRecord(to, stream), 0);
    assert_eq!(turn.driver.cuEventQuery(to), NOT_READY);
    assert_eq!(turn.driver.cuEventSynchronize(to), 0);
    assert_eq!(turn.driver.cuEventElapsedTime_v2(&mut milliseconds, from, to), 0);
    assert!((50.0..200.0).contains(&milliseconds), "{milliseconds} ms");
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

#[test]
fn a_stream_waits_for_another_ones_event_and_for_a_value_in_memory() {
    let turn = turn();
    let (a, b, memory) = (turn.stream(), turn.stream(), turn.allocate(MIB));
    assert_eq!(turn.driver.cuMemsetD8_v2(memory, 0, MIB), 0);
    let mut event = 0;
    assert_eq!(turn.driver.cuEventCreate(&mut event, 2), 0);
    assert_eq!(turn.driver.cuStreamWaitValue32_v2(a, memory, 1, 1), 0);
    assert_eq!(turn.driver.cuEventRecord(event, a), 0);
    assert_eq!(turn.driver.cuStreamWaitEvent(b, event, 0), 0);
    assert_eq!(turn.driver.cuMemsetD8Async(memory + 4, 9, 1, b), 0);
    assert_eq!(turn.driver.cuStreamQuery(b), NOT_READY);
    let c = turn.stream();
    assert_eq!(turn.driver.cuStreamWriteValue32_v2(c, memory, 1, 0), 0);
    assert_eq!(turn.driver.cuStreamSynchronize(b), 0);
    assert_eq!(turn.read(memory, 5), [1, 0, 0, 0, 9]);
    assert_eq!(turn.driver.cuMemFree_v2(memory), 0);
}

#[test]
fn globals_have_their_first_value_and_keep_what_kernels_do_to_them() {
    let turn = turn();
    let module = turn.module(KERNELS);
    let count = turn.function(module, "count");
    let (mut at, mut bytes) = (0, 0);
    assert_eq!(
        turn.driver.cuModuleGetGlobal_v2(&mut at, &mut bytes, module, c"counter".as_ptr().cast()),
        0
    );
    assert_eq!(bytes, 4);
    assert_eq!(turn.launch(count, 64, 0, &[]), 0);
    assert_eq!(turn.read(at, 4), 69_u32.to_le_bytes());
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

#[test]
fn a_wild_store_of_a_kernel_is_an_error_that_stays() {
    let turn = turn();
    let module = turn.module(KERNELS);
    let (store, memory) = (turn.function(module, "store"), turn.allocate(MIB));
    assert_eq!(turn.launch(store, 1, 0, &[memory, 42]), 0);
    assert_eq!(turn.read(memory, 4), 42_u32.to_le_bytes());
    assert_eq!(turn.launch(store, 1, 0, &[memory + MIB * 64, 42]), 0);
    assert_eq!(turn.driver.cuCtxSynchronize(), ILLEGAL_ADDRESS);
    let mut more = 0;
    assert_eq!(turn.driver.cuMemAlloc_v2(&mut more, MIB), ILLEGAL_ADDRESS);
    assert_eq!(turn.launch(store, 1, 0, &[memory, 42]), ILLEGAL_ADDRESS);
    assert_eq!(turn.driver.cuDevicePrimaryCtxReset_v2(0), 0);
    assert_eq!(turn.driver.cuMemAlloc_v2(&mut more, MIB), 0, "a fresh context works");
    assert_eq!(turn.driver.cuMemFree_v2(more), 0);
}

#[test]
fn a_copy_beyond_an_allocation_is_refused_at_once_and_harms_nothing() {
    let turn = turn();
    let memory = turn.allocate(4 * MIB);
    let mut bytes = vec![0; 5 << 20];
    assert_eq!(turn.driver.cuMemcpyDtoH_v2(bytes.as_mut_ptr(), memory, 5 * MIB), INVALID_VALUE);
    assert_eq!(turn.driver.cuMemcpyHtoD_v2(memory + 4 * MIB, bytes.as_ptr(), 1), INVALID_VALUE);
    assert_eq!(turn.driver.cuMemsetD8_v2(memory, 1, 5 * MIB), INVALID_VALUE);
    assert_eq!(turn.driver.cuMemsetD8_v2(memory, 1, u64::MAX), INVALID_VALUE);
    assert_eq!(turn.driver.cuMemsetD8_v2(memory, 1, 4 * MIB), 0);
    assert_eq!(turn.driver.cuMemFree_v2(memory), 0);
}

#[test]
fn unmapping_under_a_running_kernel_faults_the_kernel_and_not_the_process() {
    const HAMMER: &str = r"
.version 7.5
.target sm_75
.address_size 64
.visible .entry hammer(.param .u64 at)
{
    .reg .u64 %rd<2>;
    ld.param.u64 %rd1, [at];
AGAIN:
    st.global.u64 [%rd1], %rd1;
    bra AGAIN;
}
";
    let turn = turn();
    let handle = turn.create(2 * MIB, &api::ON_CARD);
    let range = turn.reserve(2 * MIB);
    turn.map(range, 2 * MIB, handle);
    assert_eq!(turn.driver.cuMemsetD8_v2(range, 0, 8), 0);
    let module = turn.module(HAMMER);
    assert_eq!(turn.launch(turn.function(module, "hammer"), 1, turn.stream(), &[range]), 0);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(turn.driver.cuMemUnmap(range, 2 * MIB), 0);
    assert_eq!(turn.driver.cuCtxSynchronize(), ILLEGAL_ADDRESS);
    assert_eq!(turn.driver.cuMemRelease(handle), 0);
    assert_eq!(turn.driver.cuMemAddressFree(range, 2 * MIB), 0);
    assert_eq!(turn.driver.cuDevicePrimaryCtxReset_v2(0), 0);
}
