//! Stream memory operations: a stream waits for a word of memory, or writes one; singly or many in
//! order. The first and the second form of each call differ only in what old drivers demanded.

use crate::command::Work;
use crate::entry::{Done, Sim};
use crate::graph_parts::operations;
use crate::graph_task::{BatchTask, Task, work_of_op};
use crate::layout::MemOp;
use crate::space::SPACE;
use crate::{capture, stream};
use shim_cuda_headers::*;
use std::ffi::c_uint;

/// The rule of a wait, and the wish that remote writes be seen before it.
const KNOWN_WAIT_FLAGS: c_uint = 3 | 1 << 30;
const KNOWN_WRITE_FLAGS: c_uint = 1;

fn wait_value(stream: CUstream, address: u64, bytes: u32, value: u64, rule: u32) -> Done {
    check_word(address, bytes)?;
    if rule & !KNOWN_WAIT_FLAGS != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    stream::resolve(stream)?.submit(Work::AwaitValue { address, bytes, value, rule }).map(drop)
}

fn write_value(stream: CUstream, address: u64, bytes: u32, value: u64, flags: u32) -> Done {
    check_word(address, bytes)?;
    if flags & !KNOWN_WRITE_FLAGS != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    stream::resolve(stream)?.submit(Work::WriteValue { address, bytes, value }).map(drop)
}

fn check_word(address: u64, bytes: u32) -> Done {
    let aligned = address.is_multiple_of(bytes.into());
    if aligned && SPACE.find(address).is_some() { Ok(()) } else { Err(CUresult::INVALID_VALUE) }
}

impl Sim {
    pub(crate) fn cuStreamWaitValue32_v2(
        stream: CUstream,
        address: CUdeviceptr,
        value: u32,
        flags: c_uint,
    ) -> Done {
        wait_value(stream, address, 4, value.into(), flags)
    }

    pub(crate) fn cuStreamWaitValue64_v2(
        stream: CUstream,
        address: CUdeviceptr,
        value: u64,
        flags: c_uint,
    ) -> Done {
        wait_value(stream, address, 8, value, flags)
    }

    pub(crate) fn cuStreamWriteValue32_v2(
        stream: CUstream,
        address: CUdeviceptr,
        value: u32,
        flags: c_uint,
    ) -> Done {
        write_value(stream, address, 4, value.into(), flags)
    }

    pub(crate) fn cuStreamWriteValue64_v2(
        stream: CUstream,
        address: CUdeviceptr,
        value: u64,
        flags: c_uint,
    ) -> Done {
        write_value(stream, address, 8, value, flags)
    }

    pub(crate) fn cuStreamWaitValue32(
        stream: CUstream,
        address: CUdeviceptr,
        value: u32,
        flags: c_uint,
    ) -> Done {
        Self::cuStreamWaitValue32_v2(stream, address, value, flags)
    }

    pub(crate) fn cuStreamWaitValue64(
        stream: CUstream,
        address: CUdeviceptr,
        value: u64,
        flags: c_uint,
    ) -> Done {
        Self::cuStreamWaitValue64_v2(stream, address, value, flags)
    }

    pub(crate) fn cuStreamWriteValue32(
        stream: CUstream,
        address: CUdeviceptr,
        value: u32,
        flags: c_uint,
    ) -> Done {
        Self::cuStreamWriteValue32_v2(stream, address, value, flags)
    }

    pub(crate) fn cuStreamWriteValue64(
        stream: CUstream,
        address: CUdeviceptr,
        value: u64,
        flags: c_uint,
    ) -> Done {
        Self::cuStreamWriteValue64_v2(stream, address, value, flags)
    }

    pub(crate) fn cuStreamBatchMemOp_v2(
        stream: CUstream,
        count: c_uint,
        ops: *mut CUstreamBatchMemOpParams,
        flags: c_uint,
    ) -> Done {
        let stream = stream::resolve(stream)?;
        let ops = operations(ops.cast::<MemOp>(), count)?;
        let known = |op: &MemOp| work_of_op(op).is_none() || SPACE.find(op.address).is_some();
        if flags != 0 || ops.is_empty() || !ops.iter().all(known) {
            return Err(CUresult::INVALID_VALUE);
        }
        if stream.is_capturing() {
            let context = stream.context.handle;
            let batch = BatchTask { context, flags, ops: ops.into() };
            return capture::add(&stream, Task::Batch(batch));
        }
        let works = ops.iter().filter_map(work_of_op);
        works.into_iter().try_for_each(|work| stream.submit(work).map(drop))
    }

    pub(crate) fn cuStreamBatchMemOp(
        stream: CUstream,
        count: c_uint,
        ops: *mut CUstreamBatchMemOpParams,
        flags: c_uint,
    ) -> Done {
        Self::cuStreamBatchMemOp_v2(stream, count, ops, flags)
    }
}
