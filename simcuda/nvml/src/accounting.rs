//! Accounting: what the machine keeps of each process on a card, also after its end.

use crate::entry::{Args, Card, Done, INSUFFICIENT_SIZE, NOT_FOUND, Nvml, Return, UNKNOWN};
use crate::raw;
use simcuda_protocol::control::{Account, Control, Told};

const KEPT: u32 = 4000;

/// `nvmlAccountingStats_t`. Time on the engines is not measured yet and is 0.
#[repr(C)]
struct Stats {
    gpu_percent: u32,
    memory_percent: u32,
    most_bytes: u64,
    /// 0 while it runs.
    lived_ms: u64,
    started_us: u64,
    running: u32,
    reserved: [u32; 5],
}

fn accounts(card: &Card) -> Result<Vec<Account>, Return> {
    match card.client().control(Control::Accounts { device: card.index }) {
        Ok((Told::Accounts(accounts), _)) => Ok(accounts),
        _ => Err(UNKNOWN),
    }
}

impl Nvml {
    pub(crate) fn nvmlDeviceGetAccountingMode(args: Args) -> Done {
        args.card()?;
        args.answer(1, 1_u32)
    }

    pub(crate) fn nvmlDeviceGetAccountingBufferSize(args: Args) -> Done {
        args.card()?;
        args.answer(1, KEPT)
    }

    pub(crate) fn nvmlDeviceGetAccountingPids(args: Args) -> Done {
        let mut pids: Vec<u32> = accounts(&args.card()?)?.iter().map(|a| a.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let room = raw::get(args.pointer::<u32>(1))? as usize;
        args.answer(1, pids.len() as u32)?;
        if room < pids.len() {
            return Err(INSUFFICIENT_SIZE);
        }
        let to = args.pointer::<u32>(2);
        pids.into_iter().enumerate().try_for_each(|(n, pid)| raw::put(to.wrapping_add(n), pid))
    }

    /// The latest life of that process id.
    pub(crate) fn nvmlDeviceGetAccountingStats(args: Args) -> Done {
        let all = accounts(&args.card()?)?;
        let account = all.iter().rev().find(|a| a.pid == args.number(1)).ok_or(NOT_FOUND)?;
        args.answer(
            2,
            Stats {
                gpu_percent: 0,
                memory_percent: 0,
                most_bytes: account.most_bytes,
                lived_ms: if account.running { 0 } else { account.lived_ms },
                started_us: account.started_us,
                running: u32::from(account.running),
                reserved: [0; 5],
            },
        )
    }
}
