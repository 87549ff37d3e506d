//! Copies and fills: how long they take, and the doing of them in that time.
//!
//! The machine owns the two queues of the link, one each way, for all processes; a long copy takes
//! its places there in pieces. Very short copies are put behind each other here, and their time is
//! taken from the queue when enough has come together: asking would take longer than they do.

use crate::clock;
use crate::command::{Copy, Fill, Side};
use crate::cost::Costs;
use crate::engine::Engine;
use crate::space::{Access, Observer, SPACE};
use crate::{pages, process};
use shim_cuda_headers::CUresult;
use simcuda_protocol::engines;
use std::sync::{Mutex, PoisonError};

/// Longest stretch that is copied or filled between two looks at the table. Much shorter ones are
/// slower on the host, whose library moves long stretches past its caches.
const STRETCH_BYTES: u64 = 64 << 20;

const FILL_BYTES: u64 = 4 << 20;

/// Up to here a copy is short, and short copies may owe the queue so much time together.
const SHORT_NS: u64 = 20_000;
const OWED_NS: u64 = 200_000;

/// Which way a copy goes; what is done within the card, or within the host, is neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
    Within,
}

impl Way {
    pub(crate) fn of(copy: &Copy) -> Self {
        match (copy.from.is_on_card(), copy.to.is_on_card()) {
            (false, true) => Self::In,
            (true, false) => Self::Out,
            _ => Self::Within,
        }
    }
}

#[derive(Debug, Default)]
struct Lately {
    /// When the last one was over.
    free_ns: u64,
    owed_ns: u64,
}

/// A context's copies, by way.
#[derive(Debug)]
pub(crate) struct Transfers {
    device: i32,
    lately: [Mutex<Lately>; 3],
}

impl Transfers {
    pub(crate) fn new(device: i32) -> Self {
        Self { device, lately: Default::default() }
    }

    /// Beginning and end of something on the way that could begin at `ready_ns`.
    fn place(
        &self,
        way: Way,
        (ready_ns, bytes): (u64, u64),
        costs: &Costs,
    ) -> Result<(u64, u64), CUresult> {
        let mut lately = self.lately[way as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let engine = match way {
            Way::In => Some(engines::Engine::CopyIn),
            Way::Out => Some(engines::Engine::CopyOut),
            Way::Within => None,
        };
        let ready_ns = ready_ns.max(lately.free_ns);
        let (Some(engine), Some(takes_ns)) = (engine, costs.link_ns(bytes)) else {
            // A link without limit, or none.
            let takes_ns = if way == Way::Within { costs.memory_ns(bytes) } else { 0 };
            lately.free_ns = ready_ns + takes_ns;
            return Ok((ready_ns, lately.free_ns));
        };
        lately.owed_ns += takes_ns;
        if takes_ns < SHORT_NS && lately.owed_ns < OWED_NS {
            lately.free_ns = ready_ns + takes_ns;
            return Ok((ready_ns, lately.free_ns));
        }
        let asked_ns = std::mem::take(&mut lately.owed_ns);
        let begin_ns = ready_ns.saturating_sub(asked_ns - takes_ns);
        let client = &process::get()?.client;
        let number = process::card(self.device)?.number;
        let start_ns = client.reserve(number, engine, begin_ns, asked_ns);
        let start_ns = start_ns.map_err(|_| CUresult::UNKNOWN)? + (asked_ns - takes_ns);
        lately.free_ns = start_ns + takes_ns;
        Ok((start_ns, lately.free_ns))
    }
}

/// A transfer under way: bytes that have a place in the queue, and when they are over.
struct Progress<'a> {
    engine: &'a Engine,
    observer: &'a Observer,
    way: Way,
    /// How often a byte passes the card's memory, if it is all within.
    passes: u64,
    left_bytes: u64,
    promised_bytes: u64,
    end_ns: u64,
}

impl<'a> Progress<'a> {
    fn new(
        engine: &'a Engine,
        observer: &'a Observer,
        (way, passes): (Way, u64),
        (ready_ns, left_bytes): (u64, u64),
    ) -> Self {
        Self { engine, observer, way, passes, left_bytes, promised_bytes: 0, end_ns: ready_ns }
    }

    /// Before `bytes` are moved: waits until their time has come.
    fn before(&mut self, bytes: u64) -> Result<(), CUresult> {
        if self.promised_bytes >= bytes {
            return Ok(());
        }
        self.wait();
        let piece = self.engine.costs.piece_bytes().max(bytes);
        let asked = (self.left_bytes - self.promised_bytes).min(piece);
        let moved = if self.way == Way::Within { asked * self.passes } else { asked };
        let (start_ns, end_ns) =
            self.engine.transfers.place(self.way, (self.end_ns, moved), &self.engine.costs)?;
        self.end_ns = end_ns;
        self.promised_bytes += asked;
        let stopping = || self.engine.is_stopping();
        clock::pass_until(start_ns, stopping);
        Ok(())
    }

    fn moved(&mut self, bytes: u64) {
        self.promised_bytes -= bytes;
        self.left_bytes -= bytes;
    }

    /// Waits until what was promised is over.
    fn wait(&self) {
        self.observer.leave();
        clock::pass_until(self.end_ns, || self.engine.is_stopping());
    }
}

/// Copies; says when that was over.
pub(crate) fn copy(
    copy: &Copy,
    (way, ready_ns): (Way, u64),
    engine: &Engine,
    observer: &Observer,
) -> Result<u64, CUresult> {
    let bytes = copy.width * copy.height * copy.depth;
    let mut progress = Progress::new(engine, observer, (way, 2), (ready_ns, bytes));
    let is_free = way != Way::Within && engine.costs.link_ns(0).is_none();
    let stretch_bytes = if is_free { STRETCH_BYTES } else { engine.costs.piece_bytes() };
    let stretch_bytes = stretch_bytes.min(STRETCH_BYTES);
    for layer in 0..copy.depth {
        for row in 0..copy.height {
            let (to, from) = (copy.to.row(layer, row), copy.from.row(layer, row));
            for offset in (0..copy.width).step_by(stretch_bytes as usize) {
                let bytes = stretch_bytes.min(copy.width - offset);
                progress.before(bytes)?;
                let known =
                    |side: &Side, at, access| !side.is_known() || SPACE.allows(at, bytes, access);
                observer.enter();
                if !known(&copy.to, to + offset, Access::ReadWrite)
                    || !known(&copy.from, from + offset, Access::Read)
                {
                    return Err(CUresult::ILLEGAL_ADDRESS);
                }
                pages::copy(to + offset, from + offset, bytes);
                progress.moved(bytes);
                if engine.is_stopping() {
                    return Ok(progress.end_ns);
                }
            }
        }
    }
    progress.wait();
    // Over a link without limit a copy takes what the host takes for it.
    Ok(if is_free { clock::now_ns() } else { clock::within_lag(progress.end_ns) })
}

/// Fills; says when that was over.
pub(crate) fn fill(
    fill: &Fill,
    ready_ns: u64,
    engine: &Engine,
    observer: &Observer,
) -> Result<u64, CUresult> {
    let size = fill.element_bytes;
    let element = fill.value.to_le_bytes();
    let length = fill.width * size;
    let whole = (ready_ns, length * fill.height);
    let mut progress = Progress::new(engine, observer, (Way::Within, 1), whole);
    for row in 0..fill.height {
        let start = fill.base + row * fill.pitch;
        for offset in (0..length).step_by(FILL_BYTES as usize) {
            let bytes = FILL_BYTES.min(length - offset);
            progress.before(bytes)?;
            observer.enter();
            if !SPACE.allows(start + offset, bytes, Access::ReadWrite) {
                return Err(CUresult::ILLEGAL_ADDRESS);
            }
            pages::fill(start + offset, &element[..size as usize], bytes / size);
            progress.moved(bytes);
            if engine.is_stopping() {
                return Ok(progress.end_ns);
            }
        }
    }
    progress.wait();
    Ok(clock::within_lag(progress.end_ns))
}
