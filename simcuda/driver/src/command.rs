//! Commands: what a stream can be told to do, and the doing of it.

use crate::engine::Engine;
use crate::event::Record;
use crate::graph_memory::GraphBlock;
use crate::launch::KernelLaunch;
use crate::space::{Access, Observer, SPACE};
use crate::{freeing, launch, pages, raw};
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

    fn row(&self, layer: u64, row: u64) -> u64 {
        let start = match &self.kind {
            SideKind::Staged(bytes) => bytes.as_ptr().expose_provenance() as u64,
            SideKind::Known | SideKind::Pageable => self.base,
        };
        start + layer * self.layer + row * self.pitch
    }

    fn is_known(&self) -> bool {
        matches!(self.kind, SideKind::Known)
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

/// Longest stretch that is copied or filled between two looks at the table.
const STRETCH_BYTES: u64 = 4 << 20;

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

/// Does the command. An error is for good.
pub(crate) fn perform(work: &Work, engine: &Engine, observer: &Observer) -> Result<(), CUresult> {
    match work {
        Work::Nothing | Work::Await(_) => {}
        Work::Copy(copy) => return perform_copy(copy, engine, observer),
        Work::Fill(fill) => return perform_fill(fill, engine, observer),
        Work::Kernel(kernel) => return launch::perform(kernel, engine, observer),
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
        Work::Record(record) => record.finish(),
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
        Work::Free { base } => freeing::free_now(*base),
        Work::Begin(block) => block.begin(),
        Work::End(block) => block.end(),
    }
    Ok(())
}

/// The command will not be done: whoever waits for it must still hear of its end, and memory that
/// it would have given back is given back.
pub(crate) fn abandon(work: &Work) {
    match work {
        Work::Record(record) => record.finish(),
        Work::Free { base } => freeing::free_now(*base),
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

fn perform_copy(copy: &Copy, engine: &Engine, observer: &Observer) -> Result<(), CUresult> {
    for layer in 0..copy.depth {
        for row in 0..copy.height {
            let (to, from) = (copy.to.row(layer, row), copy.from.row(layer, row));
            for offset in (0..copy.width).step_by(STRETCH_BYTES as usize) {
                let bytes = STRETCH_BYTES.min(copy.width - offset);
                let known =
                    |side: &Side, at, access| !side.is_known() || SPACE.allows(at, bytes, access);
                observer.enter();
                if !known(&copy.to, to + offset, Access::ReadWrite)
                    || !known(&copy.from, from + offset, Access::Read)
                {
                    return Err(CUresult::ILLEGAL_ADDRESS);
                }
                pages::copy(to + offset, from + offset, bytes);
                if engine.is_stopping() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn perform_fill(fill: &Fill, engine: &Engine, observer: &Observer) -> Result<(), CUresult> {
    let size = fill.element_bytes;
    let element = fill.value.to_le_bytes();
    for row in 0..fill.height {
        let start = fill.base + row * fill.pitch;
        let length = fill.width * size;
        for offset in (0..length).step_by(STRETCH_BYTES as usize) {
            let bytes = STRETCH_BYTES.min(length - offset);
            observer.enter();
            if !SPACE.allows(start + offset, bytes, Access::ReadWrite) {
                return Err(CUresult::ILLEGAL_ADDRESS);
            }
            pages::fill(start + offset, &element[..size as usize], bytes / size);
            if engine.is_stopping() {
                return Ok(());
            }
        }
    }
    Ok(())
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
