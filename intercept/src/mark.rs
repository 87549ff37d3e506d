//! Marks behind all work of a card: events that our own thread records in each of its contexts and
//! looks at, never waits for.

use halfwarp_books::Slot;
use shim_cuda_headers::{CUcontext, CUevent, CUresult, CUstream};

use crate::{
    contexts::{Context, Use},
    facts::LEGACY,
    gates::has_context_events,
    process::Process,
    real::bare,
    wait,
};

/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: u32 = 2;

/// What a look found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Work that came before a mark is not done.
    Running,
    /// All is done, but for contexts in which a capture is open: those were not looked at.
    Captured,
    /// All is done.
    Passed,
}

#[derive(Debug)]
struct Mark {
    context: &'static Context,
    handle: CUcontext,
    event: CUevent,
}

/// The marks of some cards.
#[derive(Debug)]
pub(crate) struct Marks {
    open: Vec<Mark>,
    captured: bool,
}

impl Marks {
    /// Sets a mark in every context of these cards.
    pub(crate) fn set(process: &Process, slots: &[Slot]) -> Self {
        let mut marks = Self { open: Vec::new(), captured: false };
        for context in slots.iter().flat_map(|slot| process.gates.contexts.on(*slot)) {
            for _ in 0..context.leave_captures_of_the_dead() {
                process.gates.guests.lift();
            }
            if wait::is_ending() {
                break;
            }
            if !context.bans.begin() {
                marks.captured = true;
                continue;
            }
            marks.set_in(context);
            context.bans.end();
        }
        // SAFETY: no argument that could be wrong: none is current on our thread between looks.
        unsafe { bare::cuCtxSetCurrent(CUcontext(0)) };
        marks
    }

    /// Sets the marks of one context. One in which that fails has ended, or has an error that stays:
    /// no work of it is left.
    fn set_in(&mut self, context: &'static Context) {
        let handle = context.handle();
        // SAFETY: a live context: its end would have waited for us.
        if handle.0 == 0 || !unsafe { bare::cuCtxSetCurrent(handle) }.is_ok() {
            return;
        }
        if has_context_events()
            && self.record(context, handle, |event| {
                // SAFETY: a live context and an event of it.
                unsafe { bare::cuCtxRecordEvent(handle, event) }
            })
        {
            return;
        }
        // The legacy stream follows every stream but those that were made not to be waited for.
        for stream in [CUstream(LEGACY)].into_iter().chain(context.streams()) {
            self.record(context, handle, |event| {
                // SAFETY: a live stream of this context and an event of it.
                unsafe { bare::cuEventRecord(event, stream) }
            });
        }
    }

    /// Records one event. False if the driver lacks the function.
    fn record(
        &mut self,
        context: &'static Context,
        handle: CUcontext,
        record: impl FnOnce(CUevent) -> CUresult,
    ) -> bool {
        let event = context.take_event(Use::Mark).or_else(|| {
            let mut event = CUevent(0);
            // SAFETY: a writable event.
            let code = unsafe { bare::cuEventCreate(&raw mut event, NO_TIMING) };
            code.is_ok().then_some(event)
        });
        let Some(event) = event else { return true };
        let code = record(event);
        if code.is_ok() {
            self.open.push(Mark { context, handle, event });
        } else {
            context.give_event(handle, Use::Mark, event);
        }
        code != CUresult::NOT_SUPPORTED
    }

    /// Looks at the marks that were not passed yet.
    pub(crate) fn look(&mut self) -> State {
        while let Some(mark) = self.open.last() {
            if wait::is_ending() {
                return State::Running;
            }
            if !mark.context.bans.begin() {
                // A capture has begun since, or the context ends.
                self.captured = true;
            } else {
                // SAFETY: an event of a context that has not ended.
                let ask = || unsafe { bare::cuEventQuery(mark.event) };
                let lives = mark.context.handle() == mark.handle;
                let code = if lives { ask() } else { CUresult::SUCCESS };
                mark.context.bans.end();
                if code == CUresult::NOT_READY {
                    return State::Running;
                }
            }
            if let Some(mark) = self.open.pop() {
                mark.context.give_event(mark.handle, Use::Mark, mark.event);
            }
        }
        if self.captured { State::Captured } else { State::Passed }
    }

    /// They are not needed any more. An event that was not passed can be recorded anew.
    pub(crate) fn abandon(self) {
        for mark in self.open {
            mark.context.give_event(mark.handle, Use::Mark, mark.event);
        }
    }
}
