//! The child process that asks NVML: one line out for each line in. It ends with its broker, and
//! when NVML says that a card is gone, so that the next one begins afresh.

use std::{
    collections::BTreeMap,
    io::{BufRead, Write},
    path::Path,
};

use nvml_wrapper::{
    Device, Nvml, enums::device::UsedGpuMemory, error::NvmlError, struct_wrappers::device,
};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::{Said, SaidCard, SaidSample};
use crate::failure::Failure;

pub(crate) fn run(library: &Path) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::new("answering the broker", e, "nothing to do");
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| failed(e.into()))?;
    let nvml = match Nvml::builder().lib_path(library.as_os_str()).init() {
        Ok(nvml) => nvml,
        Err(error) => return say(&Said::Failed(error.to_string())).map_err(failed),
    };
    let (driver, cards) = match machine(&nvml) {
        Ok(found) => found,
        Err(error) => return say(&Said::Failed(error.to_string())).map_err(failed),
    };
    say(&Said::Machine { driver, cards }).map_err(failed)?;
    for line in std::io::stdin().lock().lines() {
        line.map_err(failed)?;
        let Ok(samples) = sample(&nvml) else { return Ok(()) };
        say(&Said::Sample(samples)).map_err(failed)?;
    }
    Ok(())
}

fn say(said: &Said) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

fn machine(nvml: &Nvml) -> Result<(Option<String>, Vec<SaidCard>), NvmlError> {
    let cards = (0..nvml.device_count()?).map(|index| {
        let device = nvml.device_by_index(index)?;
        Ok(SaidCard {
            uuid: device.uuid()?,
            index,
            name: device.name().unwrap_or_else(|_| "unknown".to_owned()),
            total_bytes: device.memory_info()?.total,
            multiprocessors: device.attributes().ok().map(|a| a.multiprocessor_count),
        })
    });
    Ok((nvml.sys_driver_version().ok(), cards.collect::<Result<_, NvmlError>>()?))
}

fn sample(nvml: &Nvml) -> Result<Vec<SaidSample>, NvmlError> {
    let cards = (0..nvml.device_count()?).map(|index| {
        let device = nvml.device_by_index(index)?;
        // Not one moment: what is allocated or freed between the two looks at the whole makes one
        // of them too large, so the smaller is nearer to what the list shows.
        let before = used_bytes(&device)?;
        let processes = processes(&device).ok();
        let used_bytes = before.min(used_bytes(&device)?);
        Ok(SaidSample { uuid: device.uuid()?, used_bytes, processes })
    });
    cards.collect()
}

/// In use by anybody, the driver's own part included.
fn used_bytes(device: &Device<'_>) -> Result<u64, NvmlError> {
    let memory = device.memory_info()?;
    Ok(memory.total.saturating_sub(memory.free))
}

/// Compute and graphics processes; one that is both is listed twice, with the same figure.
fn processes(device: &Device<'_>) -> Result<Vec<(u32, Option<u64>)>, NvmlError> {
    let graphics = device.running_graphics_processes().unwrap_or_default();
    let all = device.running_compute_processes()?.into_iter().chain(graphics);
    let bytes = |process: &device::ProcessInfo| match process.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    let by_pid: BTreeMap<_, _> = all.map(|process| (process.pid, bytes(&process))).collect();
    Ok(by_pid.into_iter().collect())
}
