//! What every call passes on its way in: has the driver started, is this a forked child, may the
//! call come while a stream is captured; and on its way out: `errno` is the program's own.

use crate::{capture, context, fault, process, raw};
use shim_cuda_headers::row::{Capture, Start, StreamVariant};
use shim_cuda_headers::{CUresult, DriverFn};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

/// The driver; its functions are in the subject files.
#[derive(Debug)]
pub(crate) struct Sim;

/// Success, or the driver's code for what went wrong.
pub(crate) type Done = Result<(), CUresult>;

thread_local! {
    /// Whether the current call is of the forms for the per-thread default stream.
    static PER_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Calls of functions that this driver does not have, by row.
static UNSUPPORTED: [AtomicU32; DriverFn::COUNT] = [const { AtomicU32::new(0) }; DriverFn::COUNT];

/// Runs one call.
pub(crate) fn enter(function: DriverFn, body: impl FnOnce() -> Done) -> CUresult {
    let errno = raw::errno();
    let call = || match admit(function) {
        Ok(()) => run(function, body),
        Err(code) => code,
    };
    let result = if fault::stirred() { fault::around(function, call) } else { call() };
    raw::set_errno(errno);
    result
}

fn admit(function: DriverFn) -> Done {
    let row = function.row();
    if process::is_forked_child() {
        // The driver does not survive a fork; what needs no driver still answers.
        let harmless = row.start == Start::Early && function != DriverFn::cuInit;
        return if harmless { Ok(()) } else { Err(CUresult::NOT_INITIALIZED) };
    }
    if row.start == Start::AfterInit && !process::has_started() {
        return Err(CUresult::NOT_INITIALIZED);
    }
    if row.capture == Capture::Unsafe {
        // A copy that waits uses the legacy stream, which is said before all else.
        if row.stream == StreamVariant::Legacy && row.symbol.starts_with("cuMem") {
            capture::forbid_implicit(context::current_handle())?;
        }
        capture::forbid_unsafe_call()?;
    }
    Ok(())
}

fn run(function: DriverFn, body: impl FnOnce() -> Done) -> CUresult {
    let per_thread = function.row().stream == StreamVariant::PerThread;
    let before = PER_THREAD.replace(per_thread);
    // A defect of ours must not unwind into the program.
    let result = catch_unwind(AssertUnwindSafe(body));
    PER_THREAD.set(before);
    match result {
        Ok(Ok(())) => CUresult::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => CUresult::UNKNOWN,
    }
}

/// Which default stream the current call means.
pub(crate) fn means_per_thread_stream() -> bool {
    PER_THREAD.get()
}

/// The answer of a function that is not there.
pub(crate) fn unsupported(function: DriverFn) -> Done {
    if UNSUPPORTED[function as usize].fetch_add(1, Ordering::Relaxed) == 0 {
        log(format_args!("{} is not supported", function.row().symbol));
    }
    Err(CUresult::NOT_SUPPORTED)
}

/// A line for people, when `SIMCUDA_LOG` asks for them; standard error is the program's otherwise.
pub(crate) fn log(line: std::fmt::Arguments<'_>) {
    if std::env::var_os("SIMCUDA_LOG").is_some_and(|value| value != "0") {
        eprintln!("simcuda: {line}");
    }
}
