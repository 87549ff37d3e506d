//! What a node of a graph does, and the commands that come of it when the graph is launched.

use crate::command::{Copy, Fill, Side, SideKind, Work};
use crate::graph::Graph;
use crate::graph_memory::GraphBlock;
use crate::launch::KernelLaunch;
use crate::layout::{CopyParams, CopySide, MemOp};
use crate::space::SPACE;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) enum Task {
    Kernel(KernelTask),
    Copy(Box<CopyTask>),
    Fill {
        fill: Fill,
        context: usize,
    },
    Host {
        function: usize,
        data: usize,
    },
    Child(Arc<Graph>),
    Empty,
    /// Of the event with this handle, as it is at the launch.
    Wait(usize),
    Record(usize),
    Allocate(Arc<GraphBlock>),
    Free(Arc<GraphBlock>),
    Batch(BatchTask),
}

#[derive(Clone, Debug)]
pub(crate) struct KernelTask {
    pub(crate) launch: Arc<KernelLaunch>,
    pub(crate) context: usize,
    /// Launch attributes by number, as they were set.
    pub(crate) attributes: Vec<(u32, [u8; 64])>,
}

#[derive(Clone, Debug)]
pub(crate) struct CopyTask {
    /// `None` if nothing is to be copied.
    pub(crate) copy: Option<Copy>,
    pub(crate) params: CopyParams,
    pub(crate) context: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct BatchTask {
    pub(crate) context: usize,
    pub(crate) flags: u32,
    pub(crate) ops: Arc<[MemOp]>,
}

/// Kinds of operations on memory words, by the header's numbers.
pub(crate) const WAIT_32: u32 = 1;
pub(crate) const WRITE_32: u32 = 2;
pub(crate) const FLUSH: u32 = 3;
pub(crate) const WAIT_64: u32 = 4;
pub(crate) const WRITE_64: u32 = 5;
pub(crate) const BARRIER: u32 = 6;

impl Task {
    /// `CUgraphNodeType`.
    pub(crate) fn kind(&self) -> u32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy(_) => 1,
            Self::Fill { .. } => 2,
            Self::Host { .. } => 3,
            Self::Child(_) => 4,
            Self::Empty => 5,
            Self::Wait(_) => 6,
            Self::Record(_) => 7,
            Self::Allocate(_) => 10,
            Self::Free(_) => 11,
            Self::Batch(_) => 12,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "kernel",
            Self::Copy(_) => "copy",
            Self::Fill { .. } => "fill",
            Self::Host { .. } => "host function",
            Self::Child(_) => "graph",
            Self::Empty => "empty",
            Self::Wait(_) => "event wait",
            Self::Record(_) => "event record",
            Self::Allocate(_) => "memory taken",
            Self::Free(_) => "memory given",
            Self::Batch(_) => "memory operations",
        }
    }

    pub(crate) fn is_memory(&self) -> bool {
        match self {
            Self::Allocate(_) | Self::Free(_) => true,
            Self::Child(child) => child.has_memory(),
            _ => false,
        }
    }

    /// A command that a capturing stream was given, as a node.
    pub(crate) fn captured(work: Work, context: usize) -> Self {
        match work {
            Work::Kernel(launch) => {
                Self::Kernel(KernelTask { launch, context, attributes: Vec::new() })
            }
            Work::Copy(copy) => {
                let params = params_of(&copy);
                Self::Copy(Box::new(CopyTask { copy: Some(copy), params, context }))
            }
            Work::Fill(fill) => Self::Fill { fill, context },
            Work::Host { function, data } => Self::Host { function, data },
            Work::Begin(block) => Self::Allocate(block),
            Work::End(block) => Self::Free(block),
            Work::AwaitValue { address, bytes, value, rule } => {
                let operation = if bytes == 4 { WAIT_32 } else { WAIT_64 };
                Self::one_op(context, operation, address, value, rule)
            }
            Work::WriteValue { address, bytes, value } => {
                let operation = if bytes == 4 { WRITE_32 } else { WRITE_64 };
                Self::one_op(context, operation, address, value, 0)
            }
            // What else a stream can be given is no node, and is not given to a capture.
            _ => Self::Empty,
        }
    }

    fn one_op(context: usize, operation: u32, address: u64, value: u64, flags: u32) -> Self {
        let op = MemOp {
            operation,
            short_flags: 0,
            address,
            value,
            flags,
            padding: 0,
            alias: 0,
            reserved: 0,
        };
        Self::Batch(BatchTask { context, flags: 0, ops: Arc::from([op]) })
    }

    /// The commands that it stands for, where it needs no more than itself to say so.
    pub(crate) fn works(&self) -> Vec<Work> {
        match self {
            Self::Kernel(kernel) => vec![Work::Kernel(Arc::clone(&kernel.launch))],
            Self::Copy(task) => task.copy.clone().map(Work::Copy).into_iter().collect(),
            Self::Fill { fill, .. } => vec![Work::Fill(fill.clone())],
            Self::Host { function, data } => {
                vec![Work::Host { function: *function, data: *data }]
            }
            Self::Allocate(block) => vec![Work::Begin(Arc::clone(block))],
            Self::Free(block) => vec![Work::End(Arc::clone(block))],
            Self::Batch(batch) => batch.ops.iter().filter_map(work_of_op).collect(),
            Self::Empty | Self::Child(_) | Self::Wait(_) | Self::Record(_) => Vec::new(),
        }
    }
}

/// The command of one operation; barriers need none, because commands see each other's effects.
pub(crate) fn work_of_op(op: &MemOp) -> Option<Work> {
    let MemOp { address, value, flags, .. } = *op;
    let word = value & u64::from(u32::MAX);
    match op.operation {
        WAIT_32 => Some(Work::AwaitValue { address, bytes: 4, value: word, rule: flags }),
        WAIT_64 => Some(Work::AwaitValue { address, bytes: 8, value, rule: flags }),
        WRITE_32 => Some(Work::WriteValue { address, bytes: 4, value: word }),
        WRITE_64 => Some(Work::WriteValue { address, bytes: 8, value }),
        _ => None,
    }
}

/// A captured copy in the words of the structure that a program reads it by.
fn params_of(copy: &Copy) -> CopyParams {
    CopyParams {
        src: side_of(&copy.from),
        dst: side_of(&copy.to),
        width_in_bytes: copy.width as usize,
        height: copy.height as usize,
        depth: copy.depth as usize,
    }
}

fn side_of(side: &Side) -> CopySide {
    let on_device = matches!(side.kind, SideKind::Known)
        && SPACE.find(side.base).is_none_or(|region| region.is_device());
    let rows = side.layer.checked_div(side.pitch).unwrap_or(0);
    let mut words = CopySide {
        memory_type: if on_device { 2 } else { 1 },
        pitch: side.pitch as usize,
        height: rows as usize,
        ..CopySide::default()
    };
    if on_device {
        words.device = side.base;
    } else {
        words.host = side.base as usize;
    }
    words
}
