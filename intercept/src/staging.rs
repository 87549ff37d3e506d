//! Copies into and out of host memory that the driver does not know yet: by way of two buffers that it
//! does, one being filled while the other is emptied. Slower than a copy in one go, never wrong.

use std::{ffi::c_void, time::Duration};

use halfwarp_label as label;
use shim_cuda_headers::{CUdeviceptr, CUevent, CUresult, CUstream};

use crate::{real::bare, sys, wait};

const BUFFER_BYTES: usize = 64 << 20;
const PORTABLE: u32 = 1;
const LOOK: Duration = Duration::from_micros(50);
/// A copy of one buffer that takes longer has failed.
const PATIENCE_NS: u64 = 30_000_000_000;

/// Between card and host, which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Out,
    In,
}

/// The two buffers, made known in a context.
#[derive(Debug)]
pub(crate) struct Staging {
    buffers: [*mut c_void; 2],
    events: [CUevent; 2],
}

/// What is to be copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) way: Way,
    pub(crate) device: CUdeviceptr,
    pub(crate) host: *mut c_void,
    pub(crate) bytes: usize,
    pub(crate) stream: CUstream,
}

// SAFETY: the mapping is of no particular thread.
unsafe impl Send for Staging {}

impl Staging {
    /// Makes the buffers, known in the context that is current; `None` if that is refused.
    pub(crate) fn new() -> Option<Self> {
        let first = sys::map_private(2 * BUFFER_BYTES)?;
        // SAFETY: a mapping of ours, not made known yet.
        let code = unsafe { bare::cuMemHostRegister_v2(first, 2 * BUFFER_BYTES, PORTABLE) };
        if !code.is_ok() {
            sys::unmap(first, 2 * BUFFER_BYTES);
            return None;
        }
        let mut staging = Self {
            buffers: [first, first.wrapping_byte_add(BUFFER_BYTES)],
            events: [CUevent(0); 2],
        };
        for event in &mut staging.events {
            // SAFETY: a writable event.
            unsafe { bare::cuEventCreate(event, 2) };
        }
        if staging.events.iter().any(|event| event.0 == 0) {
            staging.end(true);
            return None;
        }
        Some(staging)
    }

    /// Takes them away. `lives`: their context is current.
    pub(crate) fn end(self, lives: bool) {
        let [first, _] = self.buffers;
        if lives {
            for event in self.events.into_iter().filter(|event| event.0 != 0) {
                // SAFETY: an event of ours that nobody waits for.
                unsafe { bare::cuEventDestroy_v2(event) };
            }
            // SAFETY: made known by us, and no copy is under way.
            unsafe { bare::cuMemHostUnregister(first) };
        }
        sys::unmap(first, 2 * BUFFER_BYTES);
    }

    /// Copies, and returns when that is done. The context is current.
    pub(crate) fn copy(&self, job: &Job) -> CUresult {
        label::copy_staged();
        let mut done = 0;
        let mut before: Option<(usize, usize, usize)> = None;
        let mut turn = 0;
        while done < job.bytes {
            let bytes = BUFFER_BYTES.min(job.bytes - done);
            let code = self.begin(job, turn, done, bytes);
            if !code.is_ok() {
                return code;
            }
            if let Some((turn, at, bytes)) = before.replace((turn, done, bytes)) {
                let code = self.finish(job, turn, at, bytes);
                if !code.is_ok() {
                    return code;
                }
            }
            done += bytes;
            turn = 1 - turn;
        }
        before.map_or(CUresult::SUCCESS, |(turn, at, bytes)| self.finish(job, turn, at, bytes))
    }

    fn buffer(&self, turn: usize) -> (*mut c_void, CUevent) {
        let ([a, b], [x, y]) = (self.buffers, self.events);
        if turn == 0 { (a, x) } else { (b, y) }
    }

    /// Begins with one buffer: into it from the card, or from the host and on to the card.
    fn begin(&self, job: &Job, turn: usize, at: usize, bytes: usize) -> CUresult {
        let (buffer, event) = self.buffer(turn);
        let (device, stream) = (job.device + at as u64, job.stream);
        let code = match job.way {
            // SAFETY: mapped on both sides with at least so many bytes, until `finish`.
            Way::Out => unsafe { bare::cuMemcpyDtoHAsync_v2(buffer, device, bytes, stream) },
            Way::In => {
                sys::copy(buffer, job.host.wrapping_byte_add(at), bytes);
                let from = buffer.cast_const();
                // SAFETY: as above.
                unsafe { bare::cuMemcpyHtoDAsync_v2(device, from, bytes, stream) }
            }
        };
        if !code.is_ok() {
            return code;
        }
        // SAFETY: an event and a stream of ours in the context that is current.
        unsafe { bare::cuEventRecord(event, stream) }
    }

    /// Waits for one buffer, and brings what came from the card to the host.
    fn finish(&self, job: &Job, turn: usize, at: usize, bytes: usize) -> CUresult {
        let (buffer, event) = self.buffer(turn);
        let until = wait::now_ns().saturating_add(PATIENCE_NS);
        loop {
            // SAFETY: an event of ours that was recorded.
            let code = unsafe { bare::cuEventQuery(event) };
            if code == CUresult::NOT_READY && wait::now_ns() < until && !wait::is_ending() {
                std::thread::sleep(LOOK);
                continue;
            }
            if code.is_ok() && job.way == Way::Out {
                sys::copy(job.host.wrapping_byte_add(at), buffer, bytes);
            }
            return code;
        }
    }
}
