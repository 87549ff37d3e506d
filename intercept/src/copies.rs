//! Copies between a card and host memory, several under way: on a stream of our own in the context that
//! a piece belongs to, each with an event behind it. Our thread's alone.

use halfwarp_books::Piece;
use shim_cuda_headers::{CUcontext, CUevent, CUresult, CUstream};

use crate::{
    chunks::{Chunks, within},
    contexts::{Context, Use},
    process::Process,
    real::bare,
    staging::{Job, Staging, Way},
};

/// `CU_EVENT_DISABLE_TIMING` and `CU_STREAM_NON_BLOCKING`.
const NO_TIMING: u32 = 2;
const NON_BLOCKING: u32 = 1;

/// A copy under way.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) piece: Piece,
    pub(crate) context: &'static Context,
    pub(crate) handle: CUcontext,
    /// `None`: the copy was there already.
    pub(crate) event: Option<CUevent>,
    /// Its units are of what this move brought.
    pub(crate) paid: bool,
}

#[derive(Debug)]
struct Stream {
    context: &'static Context,
    handle: CUcontext,
    stream: CUstream,
}

/// What the copies of one move are made with.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    streams: Vec<Stream>,
    /// For host memory that the driver does not know, in the context where it was first needed.
    staging: Option<(&'static Context, CUcontext, Staging)>,
}

/// What came of beginning to copy.
#[derive(Debug)]
pub(crate) enum Copying {
    Begun(Flight),
    /// Its context is about to end.
    NotNow,
    Refused,
}

impl Copies {
    /// Begins to copy a piece, in its own context.
    pub(crate) fn begin(
        &mut self,
        process: &Process,
        chunks: &Chunks,
        way: Way,
        piece: &Piece,
    ) -> Copying {
        let handle = piece.home.context;
        let Some(context) = process.gates.contexts.find(handle) else { return Copying::Refused };
        if !context.bans.begin() {
            return Copying::NotNow;
        }
        let mut flight = Flight { piece: piece.clone(), context, handle, event: None, paid: false };
        let code = within(handle, || {
            let stream = match self.stream(context, handle) {
                Ok(stream) => stream,
                Err(code) => return code,
            };
            let code = self.enqueue(process, chunks, (context, handle), (way, piece), stream);
            if !code.is_ok() {
                // What was begun must not run on into memory that is used otherwise.
                // SAFETY: a stream of ours.
                unsafe { bare::cuStreamSynchronize(stream) };
                return code;
            }
            match mark(context, stream) {
                Ok(event) => {
                    flight.event = Some(event);
                    CUresult::SUCCESS
                }
                Err(code) => {
                    // SAFETY: as above.
                    unsafe { bare::cuStreamSynchronize(stream) };
                    code
                }
            }
        });
        context.bans.end();
        if code.is_ok() { Copying::Begun(flight) } else { Copying::Refused }
    }

    /// Puts the copies of a piece into a stream; those to or from memory that the driver does not know
    /// are done when this returns.
    fn enqueue(
        &mut self,
        process: &Process,
        chunks: &Chunks,
        (context, handle): (&'static Context, CUcontext),
        (way, piece): (Way, &Piece),
        stream: CUstream,
    ) -> CUresult {
        let mut done = 0;
        for part in piece.copy.iter().flatten() {
            let Some(host) = chunks.address(part) else { return CUresult::INVALID_VALUE };
            let (device, bytes) = (piece.address + done, part.bytes as usize);
            done += part.bytes;
            if !chunks.is_pinned(process, part) {
                if self.staging.is_none() {
                    self.staging = Staging::new().map(|staging| (context, handle, staging));
                }
                let in_this = self.staging.as_ref().filter(|(_, of, _)| *of == handle);
                if let Some((_, _, staging)) = in_this {
                    let code = staging.copy(&Job { way, device, host, bytes, stream });
                    if code.is_ok() {
                        continue;
                    }
                    return code;
                }
            }
            let code = match way {
                // SAFETY: mapped on both sides with at least so many bytes, until the copy has ended.
                Way::Out => unsafe { bare::cuMemcpyDtoHAsync_v2(host, device, bytes, stream) },
                Way::In => {
                    let from = host.cast_const();
                    // SAFETY: as above.
                    unsafe { bare::cuMemcpyHtoDAsync_v2(device, from, bytes, stream) }
                }
            };
            if !code.is_ok() {
                return code;
            }
        }
        if done == piece.bytes { CUresult::SUCCESS } else { CUresult::INVALID_VALUE }
    }

    /// No copy is under way, and none follows.
    pub(crate) fn end(&mut self) {
        for stream in self.streams.drain(..) {
            if stream.context.bans.begin() {
                if stream.context.handle() == stream.handle {
                    // SAFETY: made by us in a live context, and nothing of ours is in it any more.
                    unsafe { bare::cuStreamDestroy_v2(stream.stream) };
                }
                stream.context.bans.end();
            }
        }
        if let Some((context, handle, staging)) = self.staging.take() {
            end_staging(context, handle, staging);
        }
    }

    /// Our stream in a context that is current.
    fn stream(
        &mut self,
        context: &'static Context,
        handle: CUcontext,
    ) -> Result<CUstream, CUresult> {
        if let Some(known) = self.streams.iter().find(|known| known.handle == handle) {
            return Ok(known.stream);
        }
        let mut stream = CUstream(0);
        // SAFETY: a writable stream.
        let code = unsafe { bare::cuStreamCreate(&raw mut stream, NON_BLOCKING) };
        if !code.is_ok() {
            return Err(code);
        }
        self.streams.push(Stream { context, handle, stream });
        Ok(stream)
    }
}

/// The buffers go, with what the driver knows of them.
fn end_staging(context: &Context, handle: CUcontext, staging: Staging) {
    let mut staging = Some(staging);
    if context.bans.begin() {
        if context.handle() == handle {
            within(handle, || {
                staging.take().into_iter().for_each(|staging| staging.end(true));
                CUresult::SUCCESS
            });
        }
        context.bans.end();
    }
    staging.into_iter().for_each(|staging| staging.end(false));
}

/// An event behind what is in a stream.
fn mark(context: &Context, stream: CUstream) -> Result<CUevent, CUresult> {
    let event = match context.take_event(Use::Mark) {
        Some(event) => event,
        None => {
            let mut event = CUevent(0);
            // SAFETY: a writable event.
            let code = unsafe { bare::cuEventCreate(&raw mut event, NO_TIMING) };
            if !code.is_ok() {
                return Err(code);
            }
            event
        }
    };
    // SAFETY: an event and a stream of ours in the context that is current.
    let code = unsafe { bare::cuEventRecord(event, stream) };
    if code.is_ok() {
        return Ok(event);
    }
    context.give_event(context.handle(), Use::Mark, event);
    Err(code)
}

/// Whether a copy is done, as the driver says it.
pub(crate) fn query(flight: &Flight, event: CUevent) -> CUresult {
    if !flight.context.bans.begin() {
        return CUresult::NOT_READY;
    }
    let lives = flight.context.handle() == flight.handle;
    // SAFETY: an event of a context that has not ended.
    let code = if lives { unsafe { bare::cuEventQuery(event) } } else { CUresult::INVALID_CONTEXT };
    flight.context.bans.end();
    code
}
