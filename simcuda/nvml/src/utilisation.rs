//! How busy a card is, from the machine's log of its engines: of the last while, how much of it some
//! process computed or copied.

use crate::entry::{Args, Card, Done, INSUFFICIENT_SIZE, NOT_FOUND, Nvml, Return, UNKNOWN};
use crate::{faults, raw};
use rustix::time::{ClockId, clock_gettime};
use simcuda_protocol::engines::{Engine, Entry};
use std::collections::BTreeMap;

/// What NVML calls now.
const WINDOW_NS: u64 = 500_000_000;

#[repr(C)]
struct Utilization {
    gpu_percent: u32,
    memory_percent: u32,
}

/// `nvmlProcessUtilizationSample_t`.
#[repr(C)]
struct Sample {
    pid: u32,
    /// Microseconds of the host's calendar.
    at_us: u64,
    sm_percent: u32,
    memory_percent: u32,
    encoder_percent: u32,
    decoder_percent: u32,
}

/// Percent of the last while, by process.
fn busy(card: &Card, engine: Engine) -> Result<BTreeMap<u32, u32>, Return> {
    let entries = card.entries(engine)?;
    let to_ns = now_ns(ClockId::Monotonic);
    // What the log has no room for any more is not known.
    let first_ns = entries.first().map_or(0, |entry| entry.start_ns);
    let is_cut = entries.len() >= simcuda_protocol::engines::MOST_ENTRIES;
    let from_ns = to_ns.saturating_sub(WINDOW_NS).max(if is_cut { first_ns } else { 0 });
    let mut used_ns: BTreeMap<u32, u64> = BTreeMap::new();
    for Entry { pid, start_ns, used_ns: whole_ns, .. } in entries {
        let end_ns = (start_ns + whole_ns).min(to_ns);
        *used_ns.entry(pid).or_default() += end_ns.saturating_sub(start_ns.max(from_ns));
    }
    let window_ns = (to_ns - from_ns).max(1);
    let percent = |ns: u64| (ns * 100).div_ceil(window_ns).min(100) as u32;
    Ok(used_ns.into_iter().filter(|(_, ns)| *ns > 0).map(|(pid, ns)| (pid, percent(ns))).collect())
}

fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// The busier of the two directions.
fn copying(card: &Card) -> Result<BTreeMap<u32, u32>, Return> {
    let mut both = busy(card, Engine::CopyIn)?;
    for (pid, percent) in busy(card, Engine::CopyOut)? {
        let known = both.entry(pid).or_default();
        *known = percent.max(*known);
    }
    Ok(both)
}

impl Nvml {
    pub(crate) fn nvmlDeviceGetUtilizationRates(args: Args) -> Done {
        let card = args.card()?;
        let sum = |by_process: BTreeMap<u32, u32>| by_process.values().sum::<u32>().min(100);
        let gpu_percent = sum(busy(&card, Engine::Compute)?);
        let memory_percent = faults::small_figure(sum(copying(&card)?));
        args.answer(
            1,
            Utilization { gpu_percent: faults::small_figure(gpu_percent), memory_percent },
        )
    }

    /// A sample for each process that used an engine lately.
    pub(crate) fn nvmlDeviceGetProcessUtilization(args: Args) -> Done {
        let card = args.card()?;
        let (computing, copying) = (busy(&card, Engine::Compute)?, copying(&card)?);
        let mut pids: Vec<u32> = computing.keys().chain(copying.keys()).copied().collect();
        pids.sort_unstable();
        pids.dedup();
        let (to, count) = (args.pointer::<Sample>(1), args.pointer::<u32>(2));
        let room = raw::get(count)? as usize;
        raw::put(count, pids.len() as u32)?;
        if pids.is_empty() {
            return Err(NOT_FOUND);
        }
        if to.is_null() || room < pids.len() {
            return Err(INSUFFICIENT_SIZE);
        }
        let at_us = now_ns(ClockId::Realtime) / 1000;
        pids.into_iter().enumerate().try_for_each(|(index, pid)| {
            let percent = |of: &BTreeMap<u32, u32>| of.get(&pid).copied().unwrap_or(0);
            let sample = Sample {
                pid,
                at_us,
                sm_percent: percent(&computing),
                memory_percent: percent(&copying),
                encoder_percent: 0,
                decoder_percent: 0,
            };
            raw::put(to.wrapping_add(index), sample)
        })
    }
}

impl Card {
    fn entries(&self, engine: Engine) -> Result<Vec<Entry>, Return> {
        self.client().engine_entries(self.index, engine).map_err(|_| UNKNOWN)
    }
}
