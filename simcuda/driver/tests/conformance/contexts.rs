//! Rules: contexts, and waiting for them.

use crate::api::MIB;
use crate::call::{NULL, code, fails, ok};
use crate::rule::rules;

fn current() -> usize {
    let mut context = 0_usize;
    ok!("cuCtxGetCurrent", &mut context);
    context
}

rules! {
    /// cuda.h, cuCtxCreate: a new context is current to the calling thread; cuCtxDestroy: it is
    /// popped if it is on top, and its memory is freed; its handle is not valid afterwards.
    fn a_made_context_is_current_and_takes_its_memory_along(turn) covers [
        cuCtxCreate, cuCtxCreate_v2, cuCtxCreate_v3, cuCtxCreate_v4, cuCtxDestroy, cuCtxDestroy_v2,
        cuCtxGetCurrent
    ] {
        let before = turn.free_bytes();
        for (round, form) in ["", "_v2", "_v3", "_v4"].iter().enumerate() {
            let (name, mut context, mut at) = (format!("cuCtxCreate{form}"), 0_usize, 0_u64);
            match *form {
                "_v3" => ok!(&name, &mut context, NULL, 0_u32, 0_u32, 0_u32),
                "_v4" => ok!(&name, &mut context, NULL, 0_u32, 0_u32),
                _ => ok!(&name, &mut context, 0_u32, 0_u32),
            }
            assert_eq!(current(), context);
            ok!("cuMemAlloc_v2", &mut at, 8 * MIB);
            let destroy = if round % 2 == 0 { "cuCtxDestroy" } else { "cuCtxDestroy_v2" };
            ok!(destroy, context);
            assert_eq!(current(), turn.context);
            assert_eq!(turn.free_bytes(), before);
            fails!(201, destroy, context);
            fails!(201, "cuCtxSetCurrent", context);
            let bad = 0x1000_u32;
            if form.len() < 3 || *form == "_v2" {
                fails!(1, &name, &mut context, bad, 0_u32);
                fails!(101, &name, &mut context, 0_u32, 99_u32);
                fails!(1, &name, NULL, 0_u32, 0_u32);
            }
        }
    }

    /// cuda.h, cuCtxPushCurrent, cuCtxPopCurrent: a stack per thread; cuCtxSetCurrent replaces its
    /// top, and with NULL takes it away.
    fn contexts_are_a_stack_of_the_thread(turn) covers [
        cuCtxPushCurrent, cuCtxPushCurrent_v2, cuCtxPopCurrent, cuCtxPopCurrent_v2, cuCtxSetCurrent
    ] {
        let (mut other, mut popped) = (0_usize, 0_usize);
        ok!("cuCtxCreate_v2", &mut other, 0_u32, 0_u32);
        for form in ["", "_v2"] {
            ok!(&format!("cuCtxPushCurrent{form}"), turn.context);
            assert_eq!(current(), turn.context);
            ok!(&format!("cuCtxPopCurrent{form}"), &mut popped);
            assert_eq!((popped, current()), (turn.context, other));
            fails!(201, &format!("cuCtxPushCurrent{form}"), 0xDEAD_u64);
        }
        let elsewhere = std::thread::spawn(|| {
            let mut popped = 0_usize;
            (current(), code!("cuCtxPopCurrent_v2", &mut popped))
        });
        assert_eq!(elsewhere.join().expect("a thread"), (0, 201));
        ok!("cuCtxSetCurrent", turn.context);
        assert_eq!(current(), turn.context);
        ok!("cuCtxSetCurrent", NULL);
        let mut at = 0_u64;
        assert_eq!(current(), turn.context, "the thread had the primary context below");
        ok!("cuCtxSetCurrent", NULL);
        fails!(201, "cuMemAlloc_v2", &mut at, MIB);
        ok!("cuCtxSetCurrent", turn.context);
        ok!("cuCtxDestroy_v2", other);
    }

    /// cuda.h, cuDevicePrimaryCtxRetain: one context per device, counted; released as often as it
    /// was retained it ends; cuDevicePrimaryCtxReset destroys what is in it.
    fn a_primary_context_lives_as_long_as_somebody_retains_it(_turn) covers [
        cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2,
        cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxGetState,
        cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2
    ] {
        let state = || {
            let (mut flags, mut active) = (0_u32, 9_i32);
            ok!("cuDevicePrimaryCtxGetState", 1_u32, &mut flags, &mut active);
            (flags, active)
        };
        for form in ["", "_v2"] {
            assert_eq!(state().1, 0);
            ok!(&format!("cuDevicePrimaryCtxSetFlags{form}"), 1_u32, 4_u32);
            let (mut one, mut two) = (0_usize, 0_usize);
            ok!("cuDevicePrimaryCtxRetain", &mut one, 1_u32);
            ok!("cuDevicePrimaryCtxRetain", &mut two, 1_u32);
            assert_eq!((one, state()), (two, (4, 1)));
            ok!(&format!("cuDevicePrimaryCtxRelease{form}"), 1_u32);
            assert_eq!(state().1, 1);
            ok!("cuCtxPushCurrent_v2", one);
            let (mut at, mut free, mut total, mut later) = (0_u64, 0_u64, 0_u64, 0_u64);
            ok!("cuMemGetInfo_v2", &mut free, &mut total);
            ok!("cuMemAlloc_v2", &mut at, 8 * MIB);
            ok!(&format!("cuDevicePrimaryCtxReset{form}"), 1_u32);
            ok!("cuMemGetInfo_v2", &mut later, &mut total);
            assert_eq!(later, free);
            ok!("cuCtxPopCurrent_v2", NULL);
            ok!(&format!("cuDevicePrimaryCtxRelease{form}"), 1_u32);
            assert_eq!(state().1, 0);
            fails!(201, &format!("cuDevicePrimaryCtxRelease{form}"), 1_u32);
            fails!(1, &format!("cuDevicePrimaryCtxSetFlags{form}"), 1_u32, 7_u32);
        }
        fails!(101, "cuDevicePrimaryCtxRetain", &mut 0_usize, 9_u32);
    }

    /// cuda.h, cuCtxAttach, cuCtxDetach: a usage count besides; at zero the context is destroyed;
    /// only the current context can be detached.
    fn an_attached_context_ends_with_its_last_user(turn) covers [cuCtxAttach, cuCtxDetach] {
        let (mut made, mut same) = (0_usize, 0_usize);
        ok!("cuCtxCreate_v2", &mut made, 0_u32, 0_u32);
        ok!("cuCtxAttach", &mut same, 0_u32);
        assert_eq!(same, made);
        fails!(1, "cuCtxAttach", &mut same, 1_u32);
        ok!("cuCtxDetach", made);
        assert_eq!(current(), made);
        ok!("cuCtxDetach", made);
        assert_eq!(current(), turn.context);
        fails!(201, "cuCtxDetach", made);
    }

    /// cuda.h, cuCtxSetFlags, cuCtxSetLimit: what was set is what is said; one way of waiting only;
    /// an unknown limit is CUDA_ERROR_UNSUPPORTED_LIMIT (215).
    fn flags_and_limits_are_what_was_set(_turn) covers [cuCtxSetFlags, cuCtxSetLimit, cuCtxGetLimit] {
        let (mut flags, mut value) = (0_u32, 0_u64);
        ok!("cuCtxSetFlags", 4_u32);
        ok!("cuCtxGetFlags", &mut flags);
        assert_eq!(flags, 4);
        fails!(1, "cuCtxSetFlags", 3_u32);
        ok!("cuCtxSetLimit", 2_u32, 32 * MIB);
        ok!("cuCtxGetLimit", &mut value, 2_u32);
        assert_eq!(value, 32 * MIB);
        fails!(215, "cuCtxGetLimit", &mut value, 99_u32);
        fails!(215, "cuCtxSetLimit", 99_u32, 1_u64);
        fails!(1, "cuCtxGetLimit", NULL, 2_u32);
    }

    /// cuda.h, cuCtxEnablePeerAccess: enabled twice is PEER_ACCESS_ALREADY_ENABLED (704), disabled
    /// without being enabled PEER_ACCESS_NOT_ENABLED (705); a context is no peer of itself.
    fn peer_access_is_given_and_taken_once(turn) covers [cuCtxEnablePeerAccess, cuCtxDisablePeerAccess] {
        let mut peer = 0_usize;
        ok!("cuDevicePrimaryCtxRetain", &mut peer, 1_u32);
        fails!(705, "cuCtxDisablePeerAccess", peer);
        ok!("cuCtxEnablePeerAccess", peer, 0_u32);
        fails!(704, "cuCtxEnablePeerAccess", peer, 0_u32);
        ok!("cuCtxDisablePeerAccess", peer);
        fails!(1, "cuCtxEnablePeerAccess", peer, 1_u32);
        fails!(101, "cuCtxEnablePeerAccess", turn.context, 0_u32);
        fails!(201, "cuCtxEnablePeerAccess", 0xDEAD_u64, 0_u32);
        ok!("cuDevicePrimaryCtxRelease_v2", 1_u32);
    }

    /// cuda.h, cuCtxSynchronize: blocks until the context has completed all preceding requested
    /// tasks, of all its streams.
    fn waiting_for_a_context_is_waiting_for_all_its_streams(turn) covers [
        cuCtxSynchronize, cuCtxSynchronize_v2
    ] {
        let (at, a, b, gate) = (turn.allocate(MIB), turn.stream(), turn.stream(), turn.allocate(MIB));
        for form in ["", "_v2"] {
            turn.write(at, &[0; 8]);
            turn.write(gate, &[0; 4]);
            ok!("cuStreamWaitValue32_v2", a, gate, 1_u32, 1_u32);
            ok!("cuMemsetD8Async", at, 1_u32, 4_u64, a);
            ok!("cuStreamWriteValue32_v2", b, gate, 1_u32, 0_u32);
            ok!("cuMemsetD8Async", at + 4, 2_u32, 4_u64, b);
            if form.is_empty() { ok!("cuCtxSynchronize") } else { ok!("cuCtxSynchronize_v2", turn.context) }
            ok!("cuStreamQuery", a);
            assert_eq!(turn.read(at, 8), [1, 1, 1, 1, 2, 2, 2, 2]);
        }
        fails!(201, "cuCtxSynchronize_v2", 0xDEAD_u64);
    }

    /// cuda.h, cuCtxRecordEvent, cuCtxWaitEvent: the event holds all activities of the context at
    /// the time of the call; all future work of a context waits for what an event holds.
    fn a_context_records_and_waits_as_one(turn) covers [cuCtxRecordEvent, cuCtxWaitEvent] {
        let (at, a, b, gate) = (turn.allocate(MIB), turn.stream(), turn.stream(), turn.allocate(MIB));
        turn.write(gate, &[0; 4]);
        turn.write(at, &[0; 4]);
        let mut event = 0_usize;
        ok!("cuEventCreate", &mut event, 2_u32);
        ok!("cuStreamWaitValue32_v2", a, gate, 1_u32, 1_u32);
        ok!("cuCtxRecordEvent", turn.context, event);
        fails!(600, "cuEventQuery", event);
        ok!("cuStreamWriteValue32_v2", b, gate, 1_u32, 0_u32);
        ok!("cuEventSynchronize", event);
        // And the other way: a third stream's work waits for what the first is at.
        turn.write(gate, &[0; 4]);
        ok!("cuStreamWaitValue32_v2", a, gate, 1_u32, 1_u32);
        ok!("cuEventRecord", event, a);
        let gate_writer = turn.stream();
        ok!("cuCtxWaitEvent", turn.context, event);
        ok!("cuMemsetD8Async", at, 5_u32, 4_u64, b);
        fails!(600, "cuStreamQuery", b);
        let mut other = 0_usize;
        ok!("cuCtxCreate_v2", &mut other, 0_u32, 0_u32);
        let outside = turn.stream();
        ok!("cuStreamWriteValue32_v2", outside, gate, 1_u32, 0_u32);
        ok!("cuStreamSynchronize", outside);
        ok!("cuCtxDestroy_v2", other);
        ok!("cuStreamSynchronize", b);
        assert_eq!(turn.read(at, 4), [5; 4]);
        ok!("cuStreamDestroy_v2", gate_writer);
        fails!(400, "cuCtxRecordEvent", turn.context, 0xDEAD_u64);
        fails!(400, "cuCtxWaitEvent", turn.context, 0xDEAD_u64);
        fails!(201, "cuCtxWaitEvent", 0xDEAD_u64, event);
    }
}
