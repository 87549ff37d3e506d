//! Events: marks in a stream, with the time at which the stream passed them.

use crate::capture;
use crate::command::Work;
use crate::context::{self, CONTEXTS, Context};
use crate::engine::Ticket;
use crate::entry::{Done, Sim};
use crate::graph_task::Task;
use crate::raw;
use crate::registry::Registry;
use crate::shared_event::SharedEvent;
use crate::stream::{self, Stream};
use shim_cuda_headers::{CUcontext, CUevent, CUresult, CUstream};
use std::ffi::c_uint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

static EVENTS: Registry<Event> = Registry::new(0x20);

const BLOCKING_SYNC: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;

/// While a stream captures: a node that records or awaits the event at each launch.
const EXTERNAL: c_uint = 1;

/// One recording of an event.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// When the stream passed it, on the card's clock; 0 before.
    passed_ns: AtomicU64,
    /// For an event that other processes see: its number there.
    shared: Option<(Arc<SharedEvent>, u64)>,
}

impl Record {
    pub(crate) fn is_done(&self) -> bool {
        match &self.shared {
            Some((event, number)) => event.has_passed(*number),
            None => self.passed_ns.load(Ordering::Acquire) != 0,
        }
    }

    /// The stream came by at this time.
    pub(crate) fn finish(&self, passed_ns: u64) {
        self.passed_ns.store(passed_ns.max(1), Ordering::Release);
        if let Some((event, number)) = &self.shared {
            event.pass(*number);
        }
    }

    pub(crate) fn passed_ns(&self) -> u64 {
        self.passed_ns.load(Ordering::Acquire)
    }
}

/// What the latest recording was.
#[derive(Clone, Debug, Default)]
enum Latest {
    #[default]
    Never,
    In {
        context: Arc<Context>,
        ticket: Ticket,
        record: Arc<Record>,
    },
    /// In a capture: the nodes that whoever waits must follow.
    Captured(capture::Mark),
}

#[derive(Debug)]
struct Event {
    context: usize,
    flags: c_uint,
    latest: Mutex<Latest>,
    /// Where other processes see it, if it was made for that.
    shared: Option<Arc<SharedEvent>>,
}

impl Event {
    fn set(&self, latest: Latest) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = latest;
    }

    /// For an event that processes share: the latest recording of any of them.
    fn recorded_anywhere(&self) -> Option<Arc<Record>> {
        let shared = self.shared.as_ref()?;
        if matches!(self.latest(), Latest::Captured(_)) {
            return None;
        }
        let shared = Some((Arc::clone(shared), shared.latest()));
        Some(Arc::new(Record { shared, ..Record::default() }))
    }

    fn latest(&self) -> Latest {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn find(event: CUevent) -> Result<Arc<Event>, CUresult> {
    EVENTS.get(event.0).ok_or(CUresult::INVALID_HANDLE)
}

/// The context ends, and its events with it.
pub(crate) fn forget_all(context: usize) {
    EVENTS.remove_all(|event| event.context == context);
}

impl Sim {
    pub(crate) fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> Done {
        let context = context::working()?;
        let interprocess = flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0;
        if flags & !(BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS) != 0
            || interprocess
            || event.is_null()
        {
            return Err(CUresult::INVALID_VALUE);
        }
        let shared = if flags & INTERPROCESS == 0 { None } else { Some(SharedEvent::new()?) };
        let made = Event { context: context.handle, flags, latest: Mutex::default(), shared };
        raw::put(event, CUevent(EVENTS.add(made)))
    }

    pub(crate) fn cuEventDestroy_v2(event: CUevent) -> Done {
        EVENTS.remove(event.0).map(drop).ok_or(CUresult::INVALID_HANDLE)
    }

    pub(crate) fn cuEventDestroy(event: CUevent) -> Done {
        Self::cuEventDestroy_v2(event)
    }

    pub(crate) fn cuEventRecord(event: CUevent, stream: CUstream) -> Done {
        let event = find(event)?;
        let stream = stream::resolve(stream)?;
        if stream.context.handle != event.context {
            return Err(CUresult::INVALID_HANDLE);
        }
        record(&event, &stream)
    }

    pub(crate) fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint) -> Done {
        if flags & !EXTERNAL != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        if flags & EXTERNAL == 0 {
            return Self::cuEventRecord(event, stream);
        }
        let found = find(event)?;
        let stream = stream::resolve(stream)?;
        if stream.context.handle != found.context {
            return Err(CUresult::INVALID_HANDLE);
        }
        if !stream.is_capturing() {
            return Err(CUresult::INVALID_VALUE);
        }
        capture::add(&stream, Task::Record(event.0))
    }

    pub(crate) fn cuEventQuery(event: CUevent) -> Done {
        let event = find(event)?;
        if let Some(record) = event.recorded_anywhere() {
            return if record.is_done() { Ok(()) } else { Err(CUresult::NOT_READY) };
        }
        match event.latest() {
            Latest::Never => Ok(()),
            Latest::Captured(mark) => Err(mark.refuse()),
            Latest::In { context, record, .. } => {
                context.engine.check()?;
                if record.is_done() { Ok(()) } else { Err(CUresult::NOT_READY) }
            }
        }
    }

    pub(crate) fn cuEventSynchronize(event: CUevent) -> Done {
        let event = find(event)?;
        if let Some(shared) = &event.shared
            && !matches!(event.latest(), Latest::Captured(_))
        {
            let context = CONTEXTS.get(event.context).ok_or(CUresult::CONTEXT_IS_DESTROYED)?;
            return shared.wait(shared.latest(), || context.engine.check());
        }
        match event.latest() {
            Latest::Never => Ok(()),
            Latest::Captured(mark) => Err(mark.refuse()),
            Latest::In { context, ticket, .. } => {
                context.engine.wait(ticket);
                context.engine.check()?;
                stream::after_synchronise(&context);
                Ok(())
            }
        }
    }

    pub(crate) fn cuEventElapsedTime_v2(
        milliseconds: *mut f32,
        start: CUevent,
        end: CUevent,
    ) -> Done {
        let (start, end) = (find(start)?, find(end)?);
        if milliseconds.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        if (start.flags | end.flags) & DISABLE_TIMING != 0 {
            return Err(CUresult::INVALID_HANDLE);
        }
        let (from, to) = (passed_ns(&start)?, passed_ns(&end)?);
        let difference = i128::from(to) - i128::from(from);
        raw::put(milliseconds, (difference as f64 / 1e6) as f32)
    }

    pub(crate) fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) -> Done {
        Self::cuEventElapsedTime_v2(milliseconds, start, end)
    }

    pub(crate) fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) -> Done {
        if flags > 1 {
            return Err(CUresult::INVALID_VALUE);
        }
        let stream = stream::resolve(stream)?;
        if flags & EXTERNAL != 0 {
            if !stream.is_capturing() {
                return Err(CUresult::INVALID_VALUE);
            }
            find(event)?;
            return capture::add(&stream, Task::Wait(event.0));
        }
        let event = find(event)?;
        if let Some(record) = event.recorded_anywhere() {
            if stream.is_capturing() {
                return Err(capture::invalidate(&stream, CUresult::STREAM_CAPTURE_ISOLATION));
            }
            return stream.submit(Work::Await(record)).map(drop);
        }
        match event.latest() {
            Latest::Never => Ok(()),
            Latest::Captured(mark) => capture::follow(&stream, &mark),
            // Work outside the capture is nothing that a capture can wait for.
            Latest::In { .. } if stream.is_capturing() => {
                Err(capture::invalidate(&stream, CUresult::STREAM_CAPTURE_ISOLATION))
            }
            Latest::In { record, .. } => stream.submit(Work::Await(record)).map(drop),
        }
    }

    pub(crate) fn cuCtxWaitEvent(context: CUcontext, event: CUevent) -> Done {
        let context = context::named(context)?;
        let event = find(event)?;
        if let Latest::Captured(mark) = event.latest() {
            if mark.is_open() {
                mark.refuse();
                return Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
            }
            return Err(mark.refuse());
        }
        capture::forbid_in(context.handle)?;
        context.engine.check()?;
        let record = match event.latest() {
            Latest::In { record, .. } => Some(record),
            _ => None,
        };
        if let Some(record) = event.recorded_anywhere().or(record) {
            context.add_fence(record);
        }
        Ok(())
    }

    pub(crate) fn cuCtxRecordEvent(context: CUcontext, event: CUevent) -> Done {
        let context = context::named(context)?;
        let event = find(event)?;
        if context.handle != event.context {
            return Err(CUresult::INVALID_HANDLE);
        }
        capture::forbid_in(context.handle)?;
        context.engine.check()?;
        let record = Arc::new(Record::default());
        let ticket = context.engine.submit_behind_all(Work::Record(Arc::clone(&record)));
        event.set(Latest::In { context, ticket, record });
        Ok(())
    }
}

/// Whether there is such an event.
pub(crate) fn check(event: CUevent) -> Done {
    find(event).map(drop)
}

/// A number by which other processes find the event.
pub(crate) fn export(event: CUevent) -> Result<u64, CUresult> {
    let event = find(event)?;
    event.shared.as_ref().ok_or(CUresult::INVALID_HANDLE)?.export()
}

/// An event of another process, as one of this context.
pub(crate) fn import(context: &Context, token: u64) -> Result<CUevent, CUresult> {
    let shared = Some(SharedEvent::collect(token)?);
    let flags = INTERPROCESS | DISABLE_TIMING;
    let made = Event { context: context.handle, flags, latest: Mutex::default(), shared };
    Ok(CUevent(EVENTS.add(made)))
}

/// Records the event in a stream that does not capture.
pub(crate) fn record_in(event: CUevent, stream: &Stream) -> Done {
    record(&*find(event)?, stream)
}

/// What whoever waits for the event must see done; `None` if it was never recorded.
pub(crate) fn latest_record(event: CUevent) -> Result<Option<Arc<Record>>, CUresult> {
    let event = find(event)?;
    if let Some(record) = event.recorded_anywhere() {
        return Ok(Some(record));
    }
    match event.latest() {
        Latest::Never => Ok(None),
        Latest::Captured(mark) => Err(mark.refuse()),
        Latest::In { record, .. } => Ok(Some(record)),
    }
}

fn record(event: &Event, stream: &Stream) -> Done {
    if stream.is_capturing() {
        event.set(Latest::Captured(capture::mark(stream)?));
        return Ok(());
    }
    let shared = event.shared.as_ref().map(|shared| (Arc::clone(shared), shared.record()));
    let record = Arc::new(Record { shared, ..Record::default() });
    if let Some(ticket) = stream.submit(Work::Record(Arc::clone(&record)))? {
        event.set(Latest::In { context: Arc::clone(&stream.context), ticket, record });
    }
    Ok(())
}

fn passed_ns(event: &Event) -> Result<u64, CUresult> {
    match event.latest() {
        Latest::Never => Err(CUresult::INVALID_HANDLE),
        Latest::Captured(mark) => Err(mark.refuse()),
        Latest::In { context, record, .. } => {
            context.engine.check()?;
            match record.passed_ns() {
                0 => Err(CUresult::NOT_READY),
                passed => Ok(passed),
            }
        }
    }
}
