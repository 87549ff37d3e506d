//! Memory errors, rows that were replaced for them, and the link to the host.

use crate::entry::{Args, Done, INVALID_ARGUMENT, NOT_SUPPORTED, Nvml};
use crate::faults;
use simcuda_protocol::control::Health;

const UNCORRECTED: u32 = 1;
const VOLATILE: u32 = 0;
const AGGREGATE: u32 = 1;
const DEVICE_MEMORY: u32 = 2;
const LOCATIONS: u32 = 8;
const DOUBLE_BIT: u32 = 1;
const CAUSES: u32 = 2;
const FULL_WIDTH: u32 = 16;

#[repr(C)]
struct ErrorCounts {
    l1_cache: u64,
    l2_cache: u64,
    device_memory: u64,
    register_file: u64,
}

/// Health of a card whose memory finds errors.
fn with_ecc(args: Args) -> Result<Health, u32> {
    let card = args.card()?;
    if card.device().ecc { faults::health(&card) } else { Err(NOT_SUPPORTED) }
}

/// Errors of one kind since one beginning: only those in device memory happen, none is corrected.
fn errors(args: Args) -> Result<u64, u32> {
    let health = with_ecc(args)?;
    match (args.number(1), args.number(2)) {
        (UNCORRECTED, VOLATILE) => Ok(health.uncorrected_volatile),
        (UNCORRECTED, AGGREGATE) => Ok(health.uncorrected),
        (0, VOLATILE | AGGREGATE) => Ok(0),
        _ => Err(INVALID_ARGUMENT),
    }
}

impl Nvml {
    pub(crate) fn nvmlDeviceGetEccMode(args: Args) -> Done {
        let on = u32::from(args.card()?.device().ecc);
        args.answer(1, on)?;
        args.answer(2, on)
    }

    pub(crate) fn nvmlDeviceGetDefaultEccMode(args: Args) -> Done {
        args.answer(1, u32::from(args.card()?.device().ecc))
    }

    pub(crate) fn nvmlDeviceGetTotalEccErrors(args: Args) -> Done {
        args.answer(3, errors(args)?)
    }

    pub(crate) fn nvmlDeviceGetDetailedEccErrors(args: Args) -> Done {
        let device_memory = errors(args)?;
        let none = 0;
        args.answer(
            3,
            ErrorCounts { l1_cache: none, l2_cache: none, device_memory, register_file: none },
        )
    }

    pub(crate) fn nvmlDeviceGetMemoryErrorCounter(args: Args) -> Done {
        let count = errors(args)?;
        match args.number(3) {
            DEVICE_MEMORY => args.answer(4, count),
            location if location < LOCATIONS => args.answer(4, 0_u64),
            _ => Err(INVALID_ARGUMENT),
        }
    }

    /// Rows for corrected and for uncorrected errors, whether some wait for a reset, whether it failed.
    pub(crate) fn nvmlDeviceGetRemappedRows(args: Args) -> Done {
        let health = with_ecc(args)?;
        args.answer(1, 0_u32)?;
        args.answer(2, health.remapped_rows)?;
        args.answer(3, u32::from(health.uncorrected_volatile > 0))?;
        args.answer(4, 0_u32)
    }

    /// Pages are older than rows: a card that replaces rows retires no page.
    pub(crate) fn nvmlDeviceGetRetiredPages(args: Args) -> Done {
        with_ecc(args)?;
        if args.number(1) >= CAUSES.max(DOUBLE_BIT) {
            return Err(INVALID_ARGUMENT);
        }
        args.answer(2, 0_u32)
    }

    pub(crate) fn nvmlDeviceGetRetiredPages_v2(args: Args) -> Done {
        Self::nvmlDeviceGetRetiredPages(args)
    }

    pub(crate) fn nvmlDeviceGetRetiredPagesPendingStatus(args: Args) -> Done {
        let health = with_ecc(args)?;
        args.answer(1, u32::from(health.uncorrected_volatile > 0))
    }

    /// Widths are powers of two.
    pub(crate) fn nvmlDeviceGetCurrPcieLinkWidth(args: Args) -> Done {
        let percent = faults::health(&args.card()?)?.link_percent;
        let lanes = (FULL_WIDTH * percent / 100).max(1);
        args.answer(1, 1 << lanes.ilog2())
    }
}
