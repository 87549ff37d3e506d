//! Commands: what a stream can be told to do, and the doing of it.

use crate::cost::Costs;
use crate::engine::Engine;
use crate::event::Record;
use crate::graph_memory::GraphBlock;
use crate::launch::KernelLaunch;
use crate::queue::Ready;
use crate::space::{Access, Kind, Observer, SPACE};
use crate::transfer::{self, Way};
use crate::{clock, freeing, launch, pages, raw};
use shim_cuda_headers::CUresult;
use std::ffi::c_void;
use std::sync::Arc;

/// One command. Graphs keep copies of them as nodes.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Nothing,
    Copy(Copy),
    Fill(Fill),
    Kernel(Arc<KernelLaunch>),
    Host {
        function: usize,
        data: usize,
    },
    Callback {
        function: usize,
        stream: usize,
        data: usize,
    },
    Record(Arc<Record>),
    Await(Arc<Record>),
    AwaitValue {
        address: u64,
        bytes: u32,
        value: u64,
        rule: u32,
    },
    WriteValue {
        address: u64,
        bytes: u32,
        value: u64,
    },
    /// Memory that a stream gives back.
    Free {
        base: u64,
        /// The region's number.
        id: u64,
    },
    /// Memory nodes of graphs.
    Begin(Arc<GraphBlock>),
    End(Arc<GraphBlock>),
}

/// A copy of `depth` layers of `height` rows of `width` bytes.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) to: Side,
    pub(crate) from: Side,
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) depth: u64,
}

/// One end of a copy.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) base: u64,
    pub(crate) pitch: u64,
    pub(crate) layer: u64,
    pub(crate) kind: SideKind,
}

#[derive(Clone, Debug)]
pub(crate) enum SideKind {
    /// Memory in the table of the address space: every access is checked.
    Known,
    /// Host memory of the program's that the driver knows nothing of.
    Pageable,
    /// Host memory that was copied when the command was given.
    Staged(Arc<[u8]>),
}

impl Side {
    pub(crate) fn flat(base: u64, kind: SideKind) -> Self {
        Self { base, pitch: 0, layer: 0, kind }
    }

    pub(crate) fn row(&self, layer: u64, row: u64) -> u64 {
        let start = match &self.kind {
            SideKind::Staged(bytes) => bytes.as_ptr().expose_provenance() as u64,
            SideKind::Known | SideKind::Pageable => self.base,
        };
        start + layer * self.layer + row * self.pitch
    }

    pub(crate) fn is_known(&self) -> bool {
        matches!(self.kind, SideKind::Known)
    }

    /// Memory that nobody knows (a graph will bring it) is a card's.
    pub(crate) fn is_on_card(&self) -> bool {
        self.is_known() && SPACE.find(self.base).is_none_or(|region| region.is_device())
    }
}

/// A fill of `height` rows of `width` elements.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    pub(crate) base: u64,
    pub(crate) value: u32,
    pub(crate) element_bytes: u64,
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) pitch: u64,
}

/// What a command needs to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing, and no time either.
    Instant,
    Kernel {
        units: u64,
    },
    Transfer(Way),
    /// A thread, for as long as the program likes.
    Host,
}

pub(crate) fn class(work: &Work, costs: &Costs) -> Class {
    match work {
        Work::Kernel(kernel) => Class::Kernel { units: kernel.units(costs) },
        Work::Copy(copy) => Class::Transfer(Way::of(copy)),
        Work::Fill(_) => Class::Transfer(Way::Within),
        Work::Host { .. } | Work::Callback { .. } => Class::Host,
        _ => Class::Instant,
    }
}

/// The ranges that the command names, each by its number, which is never used twice: memory that was
/// unmapped and mapped again is not what the command meant. `None` if it is not all there yet, or
/// is a graph's, which comes and goes with each launch.
pub(crate) fn named(work: &Work) -> Option<Box<[u64]>> {
    let mut numbers = Vec::new();
    match work {
        Work::Copy(copy) => {
            let rows = (copy.depth.checked_sub(1)?, copy.height.checked_sub(1)?);
            for side in [&copy.to, &copy.from].into_iter().filter(|side| side.is_known()) {
                let end = side.row(rows.0, rows.1) + copy.width;
                name(side.base, end - side.base, &mut numbers)?;
            }
        }
        Work::Fill(fill) => {
            let last = fill.pitch * fill.height.checked_sub(1)?;
            name(fill.base, last + fill.width * fill.element_bytes, &mut numbers)?;
        }
        _ => return None,
    }
    Some(numbers.into())
}

fn name(base: u64, bytes: u64, numbers: &mut Vec<u64>) -> Option<()> {
    let end = base.checked_add(bytes)?;
    let mut at = base;
    while at < end {
        let region = SPACE.find(at).filter(|region| region.kind != Kind::Graph)?;
        numbers.push(region.id);
        at = region.end();
    }
    Some(())
}

/// Whether the command's own condition holds.
pub(crate) fn may_begin(work: &Work) -> bool {
    match work {
        Work::Await(record) => record.is_done(),
        Work::AwaitValue { address, bytes, value, rule } => {
            // Memory that went away meanwhile ends the wait: doing the command finds the fault.
            load(*address, *bytes).is_none_or(|seen| satisfies(seen, *value, *bytes, *rule))
        }
        _ => true,
    }
}

/// Since when the command's own condition has held, if that is known.
pub(crate) fn condition_ns(work: &Work) -> u64 {
    match work {
        Work::Await(record) => record.passed_ns(),
        Work::AwaitValue { .. } => clock::now_ns(),
        _ => 0,
    }
}

/// Does the command; says when that was over. An error is for good.
pub(crate) fn perform(
    ready: &Ready,
    engine: &Engine,
    observer: &Observer,
) -> Result<u64, CUresult> {
    let (queued, ready_ns) = (&ready.queued, ready.ready_ns);
    match (&queued.given.work, queued.given.class) {
        (Work::Kernel(kernel), _) => {
            launch::perform(kernel, (queued.number, ready_ns), engine, observer)
        }
        (Work::Copy(copy), Class::Transfer(way)) => {
            still_there(ready)?;
            let end_ns = transfer::copy(copy, (way, ready_ns), engine, observer)?;
            still_there(ready).map(|()| end_ns)
        }
        (Work::Fill(fill), _) => {
            still_there(ready)?;
            let end_ns = transfer::fill(fill, ready_ns, engine, observer)?;
            still_there(ready).map(|()| end_ns)
        }
        (work, Class::Host) => {
            call(work);
            Ok(clock::now_ns())
        }
        (work, _) => perform_instant(work, ready_ns, observer).map(|()| ready_ns),
    }
}

/// Whether the memory that the command named is what it was when it was given.
fn still_there(ready: &Ready) -> Result<(), CUresult> {
    let given = &ready.queued.given;
    if given.named.is_none() || given.named == named(&given.work) {
        Ok(())
    } else {
        Err(CUresult::ILLEGAL_ADDRESS)
    }
}

fn call(work: &Work) {
    match work {
        Work::Host { function, data } => {
            raw::call_host_function(pointer(*function), pointer(*data))
        }
        Work::Callback { function, stream, data } => {
            raw::call_stream_callback(
                pointer(*function),
                *stream,
                CUresult::SUCCESS,
                pointer(*data),
            );
        }
        _ => {}
    }
}

fn perform_instant(work: &Work, ready_ns: u64, observer: &Observer) -> Result<(), CUresult> {
    match work {
        Work::Record(record) => record.finish(ready_ns),
        Work::AwaitValue { address, bytes, .. } => {
            observer.enter();
            load(*address, *bytes).ok_or(CUresult::ILLEGAL_ADDRESS)?;
        }
        Work::WriteValue { address, bytes, value } => {
            observer.enter();
            if !SPACE.allows(*address, u64::from(*bytes), Access::ReadWrite) {
                return Err(CUresult::ILLEGAL_ADDRESS);
            }
            pages::store(*address, *bytes, *value);
        }
        Work::Free { base, id } => freeing::free_now(*base, *id),
        Work::Begin(block) => block.begin(),
        Work::End(block) => block.end(),
        _ => {}
    }
    Ok(())
}

/// The command will not be done: whoever waits for it must still hear of its end, and memory that
/// it would have given back is given back.
pub(crate) fn abandon(work: &Work, now_ns: u64) {
    match work {
        Work::Record(record) => record.finish(now_ns),
        Work::Free { base, id } => freeing::free_now(*base, *id),
        Work::End(block) => block.end(),
        // A callback of this kind is told of the error.
        Work::Callback { function, stream, data } => {
            raw::call_stream_callback(
                pointer(*function),
                *stream,
                CUresult::UNKNOWN,
                pointer(*data),
            );
        }
        _ => {}
    }
}

/// A word of memory, if it may be read. The caller has entered its observer.
fn load(address: u64, bytes: u32) -> Option<u64> {
    SPACE.allows(address, u64::from(bytes), Access::Read).then(|| pages::load(address, bytes))
}

/// The four rules of `cuStreamWaitValue`: at least (in wrapping order), equal, and, nor.
fn satisfies(seen: u64, value: u64, bytes: u32, rule: u32) -> bool {
    match rule & 3 {
        0 if bytes == 4 => (seen as u32).wrapping_sub(value as u32).cast_signed() >= 0,
        0 => seen.wrapping_sub(value).cast_signed() >= 0,
        1 => seen == value,
        2 => seen & value != 0,
        _ => !(seen | value) != 0,
    }
}

fn pointer(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}
