//! Events (XIDs and the like). Nothing happens to a simulated card yet, so waiting only passes.

use crate::entry::{Args, Done, INVALID_ARGUMENT, NOT_SUPPORTED, Nvml, TIMEOUT};
use std::time::Duration;

/// Double-bit ECC, and critical XIDs.
const SUPPORTED: u64 = 0x2 | 0x8;
/// Stands for any set: none has a state.
const SET: usize = 0x4E56_5345;

impl Nvml {
    pub(crate) fn nvmlDeviceGetSupportedEventTypes(args: Args) -> Done {
        args.card()?;
        args.answer(1, SUPPORTED)
    }

    pub(crate) fn nvmlEventSetCreate(args: Args) -> Done {
        args.answer(0, SET)
    }

    pub(crate) fn nvmlEventSetFree(args: Args) -> Done {
        if args.0[0] == SET { Ok(()) } else { Err(INVALID_ARGUMENT) }
    }

    pub(crate) fn nvmlDeviceRegisterEvents(args: Args) -> Done {
        args.card()?;
        let wanted = args.0[1] as u64;
        if args.0[2] != SET {
            return Err(INVALID_ARGUMENT);
        }
        if wanted & !SUPPORTED == 0 { Ok(()) } else { Err(NOT_SUPPORTED) }
    }

    pub(crate) fn nvmlEventSetWait(args: Args) -> Done {
        if args.0[0] != SET {
            return Err(INVALID_ARGUMENT);
        }
        std::thread::sleep(Duration::from_millis(args.number(2).into()));
        Err(TIMEOUT)
    }

    pub(crate) fn nvmlEventSetWait_v2(args: Args) -> Done {
        Self::nvmlEventSetWait(args)
    }
}
