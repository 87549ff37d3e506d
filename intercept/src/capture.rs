//! Captures and streams as the program makes and ends them. While a capture is open nothing of ours
//! calls the driver in its context (`contexts`), and the streams that the legacy stream does not wait
//! for are listed, because a driver without `cuCtxRecordEvent` can be drained only stream by stream.

use shim_cuda_headers::{CUcontext, CUresult, CUstream};

use crate::{
    contexts::{Context, Origin},
    facts::{Facts, PER_THREAD},
    gates::{self, context_of, is_capturing},
    life,
    process::Process,
    sys::Errno,
    thread, wait,
};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

/// The context of a call's stream.
fn place(facts: &Facts) -> Option<(&'static Process, &'static Context)> {
    let process = life::joined()?;
    let here = thread::here();
    gates::refresh(process, here);
    Some((process, context_of(process, here, facts.stream)?))
}

fn origin(stream: usize) -> Origin {
    (stream, if stream == PER_THREAD { wait::own_tid() } else { 0 })
}

/// A capture is about to begin.
pub(crate) fn begin(facts: &Facts, call: impl FnOnce() -> CUresult) -> CUresult {
    let errno = Errno::keep();
    let Some((process, context)) = place(facts) else { return gates::memory(call) };
    process.gates.guests.ban();
    context.ban();
    drop(errno);
    let code = gates::memory(call);
    let _errno = Errno::keep();
    if code.is_ok() {
        context.enter_capture(origin(facts.stream));
    } else {
        context.bans.lift();
        process.gates.guests.lift();
    }
    code
}

/// A capture is about to end. Whether it has is asked of the driver: some errors end it, some do not.
pub(crate) fn end(facts: &Facts, call: impl FnOnce() -> CUresult) -> CUresult {
    let errno = Errno::keep();
    let Some((process, context)) = place(facts) else { return gates::memory(call) };
    let was = is_capturing(facts.stream);
    drop(errno);
    let code = gates::memory(call);
    let _errno = Errno::keep();
    if was && !is_capturing(facts.stream) && context.leave_capture(origin(facts.stream)) {
        process.gates.guests.lift();
    }
    code
}

/// A stream has been made.
pub(crate) fn stream_made(facts: &Facts, call: impl FnOnce() -> CUresult) -> CUresult {
    let code = call();
    if !code.is_ok() || facts.flags() & NON_BLOCKING == 0 || facts.made.is_null() {
        return code;
    }
    let _errno = Errno::keep();
    // SAFETY: the driver succeeded, so it has written the stream.
    let stream = unsafe { facts.made.read() };
    let Some(process) = life::joined() else { return code };
    let here = thread::here();
    gates::refresh(process, here);
    if let Some(context) = context_of(process, here, stream.0) {
        context.enter_stream(stream);
    }
    code
}

/// A stream is about to end, and a capture that began on it.
pub(crate) fn stream_gone(facts: &Facts, call: impl FnOnce() -> CUresult) -> CUresult {
    let errno = Errno::keep();
    let Some((process, context)) = place(facts) else { return call() };
    context.ban();
    drop(errno);
    let code = call();
    let _errno = Errno::keep();
    if code.is_ok() {
        context.leave_stream(CUstream(facts.stream));
        if context.leave_capture(origin(facts.stream)) {
            process.gates.guests.lift();
        }
        // The handle may stand for another stream from here on.
        life::begin_epoch();
    }
    context.bans.lift();
    code
}

/// A context is about to end: no call of ours is in it from here on.
pub(crate) fn begin_end(process: &Process, handle: Option<CUcontext>) -> Option<&'static Context> {
    process.gates.contexts.begin_end(handle?)
}

/// It has ended, or has not.
pub(crate) fn finish_end(process: &Process, context: Option<&'static Context>, gone: bool) {
    let Some(context) = context else { return };
    for _ in 0..process.gates.contexts.finish_end(context, gone) {
        process.gates.guests.lift();
    }
}
