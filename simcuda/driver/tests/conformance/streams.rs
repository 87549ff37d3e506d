//! Rules: streams, what they are given, and what is said of them.

use crate::api::{MIB, Turn};
use crate::call::{NULL, code, fails, ok};
use crate::rule::rules;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

const STORE: &str = r"
.version 7.5
.target sm_75
.address_size 64
.visible .entry store(.param .u64 at, .param .u64 value)
{
    .reg .u64 %a;
    .reg .u32 %b;
    ld.param.u64 %a, [at];
    ld.param.u32 %b, [value];
    st.global.u32 [%a], %b;
    ret;
}
";

/// Holds a stream back until the word is written.
fn held(turn: &Turn, stream: usize) -> u64 {
    let gate = turn.allocate(MIB);
    turn.write(gate, &[0; 4]);
    ok!("cuStreamWaitValue32_v2", stream, gate, 1_u32, 1_u32);
    gate
}

fn release(turn: &Turn, gate: u64) {
    ok!("cuStreamWriteValue32_v2", turn.stream(), gate, 1_u32, 0_u32);
}

extern "C" fn add_one(data: *mut c_void) {
    add(data, 1);
}

extern "C" fn add_status(_: usize, status: u32, data: *mut c_void) {
    add(data, 10 + u64::from(status));
}

fn add(data: *mut c_void, amount: u64) {
    COUNTS[data.expose_provenance()].fetch_add(amount, Ordering::SeqCst);
}

static COUNTS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// Where `add_one` is, as a word.
pub(crate) fn adder() -> u64 {
    (add_one as *const ()).expose_provenance() as u64
}

/// Counts that functions of the host have made, by number.
pub(crate) fn count(number: usize) -> u64 {
    COUNTS[number].load(Ordering::SeqCst)
}

rules! {
    /// cuda.h, cuStreamCreate, cuStreamDestroy: a stream does its work in order; a destroyed
    /// stream's work is still done, its handle is not valid any more. Priorities are clamped to
    /// the range of cuCtxGetStreamPriorityRange.
    fn a_stream_is_made_does_its_work_and_goes(turn) covers [
        cuStreamCreate, cuStreamCreateWithPriority, cuStreamDestroy, cuStreamDestroy_v2,
        cuStreamGetPriority, cuStreamGetPriority_ptsz, cuStreamGetFlags, cuStreamGetFlags_ptsz
    ] {
        let at = turn.allocate(MIB);
        let (mut least, mut greatest) = (0_i32, 0_i32);
        ok!("cuCtxGetStreamPriorityRange", &mut least, &mut greatest);
        assert!(greatest < least, "lower numbers come first");
        for (round, destroy) in ["cuStreamDestroy", "cuStreamDestroy_v2"].into_iter().enumerate() {
            let (mut stream, mut priority, mut flags) = (0_usize, 9_i32, 9_u32);
            ok!("cuStreamCreateWithPriority", &mut stream, 1_u32, greatest - 100);
            let form = ["", "_ptsz"][round];
            ok!(&format!("cuStreamGetPriority{form}"), stream, &mut priority);
            ok!(&format!("cuStreamGetFlags{form}"), stream, &mut flags);
            assert_eq!((priority, flags), (greatest, 1));
            let gate = held(turn, stream);
            turn.write(at, &[0; 4]);
            ok!("cuMemsetD8Async", at, 6_u32, 4_u64, stream);
            ok!(destroy, stream);
            fails!(400, "cuStreamQuery", stream);
            release(turn, gate);
            ok!("cuCtxSynchronize");
            assert_eq!(turn.read(at, 4), [6; 4]);
            fails!(400, destroy, stream);
            fails!(400, destroy, 1_u64);
        }
        let mut stream = 0_usize;
        ok!("cuStreamCreate", &mut stream, 0_u32);
        ok!("cuStreamDestroy_v2", stream);
        fails!(1, "cuStreamCreate", &mut stream, 0x100_u32);
        fails!(1, "cuStreamCreate", NULL, 0_u32);
    }

    /// cuda.h, cuStreamQuery: CUDA_SUCCESS if all operations in the stream have completed, or
    /// CUDA_ERROR_NOT_READY; cuStreamSynchronize: waits until they have.
    fn a_stream_says_whether_it_is_done_and_can_be_waited_for(turn) covers [
        cuStreamQuery, cuStreamQuery_ptsz, cuStreamSynchronize, cuStreamSynchronize_ptsz
    ] {
        for form in ["", "_ptsz"] {
            let stream = turn.stream();
            ok!(&format!("cuStreamQuery{form}"), stream);
            let gate = held(turn, stream);
            fails!(600, &format!("cuStreamQuery{form}"), stream);
            release(turn, gate);
            ok!(&format!("cuStreamSynchronize{form}"), stream);
            ok!(&format!("cuStreamQuery{form}"), stream);
            fails!(400, &format!("cuStreamQuery{form}"), 0xDEAD_u64);
            fails!(400, &format!("cuStreamSynchronize{form}"), 0xDEAD_u64);
        }
    }

    /// cuda.h, cuStreamGetId, cuStreamGetCtx, cuStreamGetDevice: an id that is unique for the life
    /// of the program; the context that the stream was made in, and its device.
    fn a_stream_knows_who_it_is(turn) covers [
        cuStreamGetId, cuStreamGetId_ptsz, cuStreamGetCtx, cuStreamGetCtx_ptsz, cuStreamGetCtx_v2,
        cuStreamGetCtx_v2_ptsz, cuStreamGetDevice, cuStreamGetDevice_ptsz
    ] {
        for form in ["", "_ptsz"] {
            let (a, b) = (turn.stream(), turn.stream());
            let id = |stream: usize| {
                let mut id = 0_u64;
                ok!(&format!("cuStreamGetId{form}"), stream, &mut id);
                id
            };
            assert!(id(a) != id(b) && id(a) == id(a));
            let (mut context, mut device, mut green) = (0_usize, 9_i32, 9_usize);
            ok!(&format!("cuStreamGetCtx{form}"), a, &mut context);
            assert_eq!(context, turn.context);
            context = 0;
            ok!(&format!("cuStreamGetCtx_v2{form}"), a, &mut context, &mut green);
            assert_eq!((context, green), (turn.context, 0));
            ok!(&format!("cuStreamGetDevice{form}"), a, &mut device);
            assert_eq!(device, 0);
            fails!(400, &format!("cuStreamGetId{form}"), 0xDEAD_u64, &mut context);
            fails!(1, &format!("cuStreamGetCtx{form}"), a, NULL);
        }
    }

    /// cuda.h, cuStreamSetAttribute, cuStreamCopyAttributes: what was set is what is said, also by
    /// the stream that it was copied to; the priority is the stream's.
    fn a_streams_attributes_are_what_was_set(turn) covers [
        cuStreamSetAttribute, cuStreamSetAttribute_ptsz, cuStreamGetAttribute,
        cuStreamGetAttribute_ptsz, cuStreamCopyAttributes, cuStreamCopyAttributes_ptsz
    ] {
        for form in ["", "_ptsz"] {
            let (a, b) = (turn.stream(), turn.stream());
            let (mut value, mut priority) = ([0_i32; 16], 9_i32);
            value[0] = -2;
            ok!(&format!("cuStreamSetAttribute{form}"), a, 8_u32, &value);
            ok!("cuStreamGetPriority", a, &mut priority);
            assert_eq!(priority, -2);
            value[0] = 3;
            ok!(&format!("cuStreamSetAttribute{form}"), a, 3_u32, &value);
            ok!(&format!("cuStreamCopyAttributes{form}"), b, a);
            for stream in [a, b] {
                let mut seen = [0_i32; 16];
                ok!(&format!("cuStreamGetAttribute{form}"), stream, 3_u32, &mut seen);
                assert_eq!(seen[0], 3);
            }
            ok!("cuStreamGetPriority", b, &mut priority);
            assert_eq!(priority, -2);
            fails!(1, &format!("cuStreamSetAttribute{form}"), a, 99_u32, &value);
            fails!(1, &format!("cuStreamGetAttribute{form}"), a, 3_u32, NULL);
        }
    }

    /// cuda.h, cuLaunchHostFunc, cuStreamAddCallback: the function is called after the work that
    /// was in the stream before, and the stream's later work waits for it; a callback is told the
    /// stream's status.
    fn a_function_of_the_host_has_its_turn_in_the_stream(turn) covers [
        cuLaunchHostFunc, cuLaunchHostFunc_ptsz, cuLaunchHostFunc_v2, cuLaunchHostFunc_v2_ptsz,
        cuStreamAddCallback, cuStreamAddCallback_ptsz
    ] {
        let callback = (add_status as *const ()).expose_provenance() as u64;
        for form in ["", "_ptsz", "_v2", "_v2_ptsz"] {
            let (stream, before) = (turn.stream(), count(0));
            let gate = held(turn, stream);
            let name = format!("cuLaunchHostFunc{form}");
            if form.starts_with("_v2") {
                ok!(&name, stream, adder(), 0_u64, 0_u32);
                fails!(1, &name, stream, NULL, 0_u64, 0_u32);
            } else {
                ok!(&name, stream, adder(), 0_u64);
                fails!(1, &name, stream, NULL, 0_u64);
            }
            assert_eq!(count(0), before);
            release(turn, gate);
            ok!("cuStreamSynchronize", stream);
            assert_eq!(count(0), before + 1);
        }
        for form in ["", "_ptsz"] {
            let (stream, before) = (turn.stream(), count(1));
            let name = format!("cuStreamAddCallback{form}");
            ok!(&name, stream, callback, 1_u64, 0_u32);
            ok!("cuStreamSynchronize", stream);
            assert_eq!(count(1), before + 10);
            fails!(1, &name, stream, callback, 1_u64, 1_u32);
            fails!(1, &name, stream, NULL, 1_u64, 0_u32);
        }
    }

    /// cuda.h, cuLaunchKernel, cuLaunchKernelEx, cuLaunchCooperativeKernel: kernelParams[i] points
    /// to the i-th parameter, read at the call; a grid or block without threads, or more than 1024
    /// to a block, is CUDA_ERROR_INVALID_VALUE.
    fn a_kernel_runs_with_the_parameters_of_the_call(turn) covers [
        cuLaunchKernel, cuLaunchKernel_ptsz, cuLaunchKernelEx, cuLaunchKernelEx_ptsz,
        cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz
    ] {
        let module = turn.module(STORE);
        let (store, at) = (turn.function(module, "store"), turn.allocate(MIB));
        for form in ["", "_ptsz"] {
            let stream = turn.stream();
            let launches: [&dyn Fn(u64, u32) -> u32; 3] = [
                &|value, threads| {
                    let params = [&raw const at as u64, &raw const value as u64];
                    code!(&format!("cuLaunchKernel{form}"), store, 1_u32, 1_u32, 1_u32, threads,
                        1_u32, 1_u32, 0_u32, stream, &params, NULL)
                },
                &|value, threads| {
                    let params = [&raw const at as u64, &raw const value as u64];
                    code!(&format!("cuLaunchCooperativeKernel{form}"), store, 1_u32, 1_u32, 1_u32,
                        threads, 1_u32, 1_u32, 0_u32, stream, &params)
                },
                &|value, threads| {
                    let params = [&raw const at as u64, &raw const value as u64];
                    // Grid, block, shared memory; the stream; no attributes.
                    let one = 1_u64;
                    let config = [one | one << 32, one | u64::from(threads) << 32,
                        one | one << 32, 0, stream as u64, 0, 0];
                    code!(&format!("cuLaunchKernelEx{form}"), &config, store, &params, NULL)
                },
            ];
            for (round, launch) in launches.iter().enumerate() {
                let value = 40 + round as u64;
                assert_eq!(launch(value, 1), 0);
                ok!("cuStreamSynchronize", stream);
                assert_eq!(turn.read(at, 4), (value as u32).to_le_bytes());
                assert_eq!(launch(value, 0), 1);
                assert_eq!(launch(value, 1025), 1);
            }
        }
        assert_eq!(turn.launch(0xDEAD, 1, 0, &[at, 1]), 400);
    }
}
