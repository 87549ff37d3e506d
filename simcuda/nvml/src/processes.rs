//! Which processes use a card.

use crate::entry::{Args, Done, INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_FOUND, Nvml};
use crate::faults::figure;
use crate::raw;
use simcuda_protocol::Process;

/// "No instance": the card is not divided in hardware.
const NO_INSTANCE: u32 = u32::MAX;

#[repr(C)]
struct ProcessV1 {
    pid: u32,
    used_bytes: u64,
}

#[repr(C)]
struct ProcessV2 {
    pid: u32,
    used_bytes: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// Fills the caller's list, whose room comes in by its count and whose length goes out by it.
fn list<T>(args: Args, processes: &[Process], entry: fn(&Process) -> T) -> Done {
    let count = args.pointer::<u32>(1);
    let room = raw::get(count)? as usize;
    let to = args.pointer::<T>(2);
    if room > 0 && to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    raw::put(count, processes.len() as u32)?;
    if room < processes.len() {
        return Err(INSUFFICIENT_SIZE);
    }
    processes
        .iter()
        .enumerate()
        .try_for_each(|(index, process)| raw::put(to.wrapping_add(index), entry(process)))
}

fn v1(process: &Process) -> ProcessV1 {
    ProcessV1 { pid: process.pid, used_bytes: figure(process.used_bytes) }
}

fn v2(process: &Process) -> ProcessV2 {
    let (pid, used_bytes) = (process.pid, figure(process.used_bytes));
    ProcessV2 { pid, used_bytes, gpu_instance: NO_INSTANCE, compute_instance: NO_INSTANCE }
}

impl Nvml {
    pub(crate) fn nvmlDeviceGetComputeRunningProcesses(args: Args) -> Done {
        list(args, &args.card()?.usage()?.processes, v1)
    }

    pub(crate) fn nvmlDeviceGetComputeRunningProcesses_v2(args: Args) -> Done {
        list(args, &args.card()?.usage()?.processes, v2)
    }

    pub(crate) fn nvmlDeviceGetComputeRunningProcesses_v3(args: Args) -> Done {
        Self::nvmlDeviceGetComputeRunningProcesses_v2(args)
    }

    pub(crate) fn nvmlDeviceGetGraphicsRunningProcesses(args: Args) -> Done {
        args.card()?;
        list(args, &[], v1)
    }

    pub(crate) fn nvmlDeviceGetGraphicsRunningProcesses_v2(args: Args) -> Done {
        args.card()?;
        list(args, &[], v2)
    }

    pub(crate) fn nvmlDeviceGetGraphicsRunningProcesses_v3(args: Args) -> Done {
        Self::nvmlDeviceGetGraphicsRunningProcesses_v2(args)
    }

    pub(crate) fn nvmlDeviceGetMPSComputeRunningProcesses(args: Args) -> Done {
        Self::nvmlDeviceGetGraphicsRunningProcesses(args)
    }

    pub(crate) fn nvmlDeviceGetMPSComputeRunningProcesses_v2(args: Args) -> Done {
        Self::nvmlDeviceGetGraphicsRunningProcesses_v2(args)
    }

    pub(crate) fn nvmlDeviceGetMPSComputeRunningProcesses_v3(args: Args) -> Done {
        Self::nvmlDeviceGetGraphicsRunningProcesses_v2(args)
    }

    pub(crate) fn nvmlDeviceGetSamples(args: Args) -> Done {
        args.card()?;
        Err(NOT_FOUND)
    }
}
