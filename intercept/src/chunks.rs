//! Host memory for copies: chunks that the broker made for this tenant alone. Mapped when they come,
//! made known to the driver piece by piece in the background, given up when the broker asks and nothing
//! of ours lies in them any more. Our thread's alone.

use std::{ffi::c_void, os::fd::OwnedFd, time::Duration};

use halfwarp_api::wire::{Reason, ToBroker};
use halfwarp_books::{Extent, Slot};
use halfwarp_label as label;
use shim_cuda_headers::{CUcontext, CUresult};

use crate::{process::Process, real::bare, sys, wait};

/// The driver's locks for pinning are of the whole node: one piece, then a pause.
const PIECE_BYTES: u64 = 64 << 20;
const PAUSE_NS: u64 = 5_000_000;
/// `CU_MEMHOSTREGISTER_PORTABLE`: for every context.
const PORTABLE: u32 = 1;

#[derive(Debug)]
struct Mapped {
    /// This process's own number for it.
    own: u32,
    /// The broker's; `None` once that broker is gone.
    number: Option<u32>,
    slot: Slot,
    at: *mut c_void,
    bytes: u64,
    leaves: bool,
    /// By piece: the context in which it was made known.
    pinned: Vec<Option<CUcontext>>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    all: Vec<Mapped>,
    next: u32,
    last_ns: u64,
    /// The driver pins nothing here.
    refused: bool,
}

// SAFETY: the mappings are of no particular thread.
unsafe impl Send for Chunks {}

impl Chunks {
    /// A chunk has come, with its descriptor.
    pub(crate) fn enter(
        &mut self,
        process: &Process,
        slot: Slot,
        number: u32,
        file: &OwnedFd,
        bytes: u64,
    ) {
        let fits = sys::file_bytes(file).is_ok_and(|there| bytes > 0 && bytes <= there);
        let Some(at) = usize::try_from(bytes)
            .ok()
            .filter(|_| fits)
            .and_then(|bytes| sys::map_shared(file, bytes, true).ok())
        else {
            // It is of no use: the broker has it back.
            return answer(process, number);
        };
        self.next += 1;
        let pieces = usize::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(0);
        self.all.push(Mapped {
            own: self.next,
            number: Some(number),
            slot,
            at,
            bytes,
            leaves: false,
            pinned: vec![None; pieces],
        });
        process.swap.backing().room(slot).enter(self.next, bytes);
        label::chunk_mapped();
    }

    /// The broker wants a chunk back.
    pub(crate) fn drop(&mut self, process: &Process, number: u32) {
        match self.all.iter_mut().find(|chunk| chunk.number == Some(number)) {
            Some(chunk) => {
                chunk.leaves = true;
                process.swap.backing().room(chunk.slot).begin_leave(chunk.own);
                self.leave(process);
            }
            None => answer(process, number),
        }
    }

    /// The broker is gone: nobody asks for these any more, so they go when nothing lies in them.
    pub(crate) fn orphan(&mut self, process: &Process) {
        for chunk in &mut self.all {
            (chunk.number, chunk.leaves) = (None, true);
            process.swap.backing().room(chunk.slot).begin_leave(chunk.own);
        }
    }

    /// Gives up what is to be given up and is empty.
    pub(crate) fn leave(&mut self, process: &Process) {
        self.all.retain(|chunk| {
            if !chunk.leaves {
                return true;
            }
            let mut backing = process.swap.backing();
            backing.forget_copies(chunk.slot, Some(chunk.own));
            if !backing.room(chunk.slot).leave(chunk.own) {
                return true;
            }
            drop(backing);
            unpin(process, chunk);
            sys::unmap(chunk.at, chunk.bytes as usize);
            label::chunk_unmapped();
            if let Some(number) = chunk.number {
                answer(process, number);
            }
            false
        });
    }

    /// Where a part of a copy lies in this process.
    pub(crate) fn address(&self, part: &Extent) -> Option<*mut c_void> {
        let chunk = self.all.iter().find(|chunk| chunk.own == part.chunk)?;
        let inside = part.offset.checked_add(part.bytes)? <= chunk.bytes;
        inside.then(|| chunk.at.wrapping_byte_add(part.offset as usize))
    }

    /// Whether the driver knows all of a part.
    pub(crate) fn is_pinned(&self, process: &Process, part: &Extent) -> bool {
        let Some(chunk) = self.all.iter().find(|chunk| chunk.own == part.chunk) else {
            return false;
        };
        let first = part.offset / PIECE_BYTES;
        let last = (part.offset + part.bytes.max(1) - 1) / PIECE_BYTES;
        (first..=last).all(|piece| {
            let pinned = usize::try_from(piece).ok().and_then(|piece| chunk.pinned.get(piece));
            pinned.is_some_and(|context| {
                context.is_some_and(|context| process.gates.contexts.find(context).is_some())
            })
        })
    }

    /// Makes the next piece known to the driver, if it is time; when to come again, if at all.
    pub(crate) fn step(&mut self, process: &Process) -> Option<Duration> {
        if self.all.iter().any(|chunk| chunk.leaves) {
            self.leave(process);
        }
        if self.refused {
            return None;
        }
        let contexts = &process.gates.contexts;
        let lives =
            |context: &Option<CUcontext>| context.is_some_and(|c| contexts.find(c).is_some());
        let open = self.all.iter_mut().filter(|chunk| !chunk.leaves).find_map(|chunk| {
            let piece = chunk.pinned.iter().position(|context| !lives(context))?;
            Some((chunk, piece))
        });
        let (chunk, piece) = open?;
        let now = wait::now_ns();
        let since = now.saturating_sub(self.last_ns);
        if since < PAUSE_NS {
            return Some(Duration::from_nanos(PAUSE_NS - since));
        }
        // Without a context there is nothing to make it known in: one is met before long, or never.
        let context = *process.gates.contexts.on(chunk.slot).first()?;
        let offset = piece as u64 * PIECE_BYTES;
        let bytes = PIECE_BYTES.min(chunk.bytes - offset);
        let at = chunk.at.wrapping_byte_add(offset as usize);
        self.last_ns = now;
        if context.bans.begin() {
            let handle = context.handle();
            let code = within(handle, || {
                // SAFETY: a part of a mapping of ours, not made known yet.
                unsafe { bare::cuMemHostRegister_v2(at, bytes as usize, PORTABLE) }
            });
            context.bans.end();
            let known = code.is_ok() || code == CUresult::HOST_MEMORY_ALREADY_REGISTERED;
            if let Some(pinned) = chunk.pinned.get_mut(piece).filter(|_| known) {
                *pinned = Some(handle);
                label::piece_pinned();
            } else {
                self.refused = true;
                process.note_lasting(chunk.slot, Reason::NoPin);
                return None;
            }
        }
        Some(Duration::from_nanos(PAUSE_NS))
    }
}

/// Calls with a context current on our thread.
pub(crate) fn within(context: CUcontext, call: impl FnOnce() -> CUresult) -> CUresult {
    // SAFETY: a live context: its end would have waited for us.
    let code = unsafe { bare::cuCtxSetCurrent(context) };
    if !code.is_ok() {
        return code;
    }
    let code = call();
    // SAFETY: no argument that could be wrong.
    unsafe { bare::cuCtxSetCurrent(CUcontext(0)) };
    code
}

fn unpin(process: &Process, chunk: &Mapped) {
    for (piece, handle) in chunk.pinned.iter().enumerate() {
        let Some(context) = handle.and_then(|handle| process.gates.contexts.find(handle)) else {
            continue;
        };
        let at = chunk.at.wrapping_byte_add(piece * PIECE_BYTES as usize);
        let until = wait::now_ns() + 1_000_000_000;
        while !context.bans.begin() {
            if wait::now_ns() > until || wait::is_ending() {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        if Some(context.handle()) == *handle {
            within(context.handle(), || {
                // SAFETY: made known by us, and no copy of ours is under way.
                unsafe { bare::cuMemHostUnregister(at) }
            });
        }
        context.bans.end();
    }
}

fn answer(process: &Process, chunk: u32) {
    // If it can't be sent the broker is gone, and with it the question.
    let _ = process.line.send(&ToBroker::ChunkGone { chunk }.encode());
}
