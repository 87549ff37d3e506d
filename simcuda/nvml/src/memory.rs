//! How much memory a card has and how much is in use: the machine's own figures.

use crate::entry::{ARGUMENT_VERSION_MISMATCH, Args, Done, Nvml};
use crate::faults::figure;
use crate::raw;

#[repr(C)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct MemoryV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

const MEMORY_V2: u32 = size_of::<MemoryV2>() as u32 | 2 << 24;

impl Nvml {
    pub(crate) fn nvmlDeviceGetMemoryInfo(args: Args) -> Done {
        let usage = args.card()?.usage()?;
        let free = usage.total_bytes - usage.used_bytes;
        let [total, free, used] = [usage.total_bytes, free, usage.used_bytes].map(figure);
        args.answer(1, Memory { total, free, used })
    }

    pub(crate) fn nvmlDeviceGetMemoryInfo_v2(args: Args) -> Done {
        let card = args.card()?;
        let version = raw::get(args.pointer::<u32>(1))?;
        if version != MEMORY_V2 {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        let usage = card.usage()?;
        let free = usage.total_bytes - usage.used_bytes;
        let [total, free, used] = [usage.total_bytes, free, usage.used_bytes].map(figure);
        args.answer(1, MemoryV2 { version, total, reserved: 0, free, used })
    }

    pub(crate) fn nvmlDeviceGetBAR1MemoryInfo(args: Args) -> Done {
        const BAR1_BYTES: u64 = 256 << 20;
        args.card()?;
        args.answer(1, Memory { total: BAR1_BYTES, free: BAR1_BYTES, used: 0 })
    }

    pub(crate) fn nvmlDeviceGetMemoryBusWidth(args: Args) -> Done {
        args.answer(1, args.card()?.device().memory_bus_bits)
    }
}
