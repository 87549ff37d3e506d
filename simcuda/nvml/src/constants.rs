//! Clocks, temperatures, power and modes: an idle card that never changes.

use crate::entry::{Args, Done, INVALID_ARGUMENT, Nvml};
use crate::raw;

const TEMPERATURE_CELSIUS: u32 = 40;
const SHUTDOWN_CELSIUS: u32 = 96;
const SLOWDOWN_CELSIUS: u32 = 93;
/// Share of the limit that an idle card draws, in percent.
const IDLE_PERCENT: u32 = 15;
const TURING: u32 = 6;
const BRAND_NVIDIA: u32 = 14;
const CORES_PER_MULTIPROCESSOR: u32 = 64;

#[repr(C)]
#[derive(Clone, Copy)]
struct FieldValue {
    field: u32,
    scope: u32,
    timestamp: i64,
    latency: i64,
    value_type: u32,
    code: u32,
    value: u64,
}

/// Functions whose answer is one number, whatever the card does.
macro_rules! constants {
    ($($name:ident($($index:literal = $value:expr),+);)*) => {
        impl Nvml {
            $(
                pub(crate) fn $name(args: Args) -> Done {
                    args.card()?;
                    $(args.answer($index, $value)?;)+
                    Ok(())
                }
            )*
        }
    };
}

constants! {
    nvmlDeviceGetTemperature(2 = TEMPERATURE_CELSIUS);
    nvmlDeviceGetPerformanceState(1 = 0_u32);
    nvmlDeviceGetPowerState(1 = 0_u32);
    nvmlDeviceGetPowerManagementMode(1 = 1_u32);
    nvmlDeviceGetPersistenceMode(1 = 1_u32);
    nvmlDeviceGetComputeMode(1 = 0_u32);
    nvmlDeviceGetDisplayMode(1 = 0_u32);
    nvmlDeviceGetDisplayActive(1 = 0_u32);
    nvmlDeviceGetMultiGpuBoard(1 = 0_u32);
    nvmlDeviceGetVirtualizationMode(1 = 0_u32);
    nvmlDeviceGetArchitecture(1 = TURING);
    nvmlDeviceGetBrand(1 = BRAND_NVIDIA);
    nvmlDeviceGetNumFans(1 = 0_u32);
    nvmlDeviceGetBusType(1 = 2_u32);
    nvmlDeviceGetIrqNum(1 = 0_u32);
    nvmlDeviceGetCurrPcieLinkGeneration(1 = 3_u32);
    nvmlDeviceGetMaxPcieLinkGeneration(1 = 3_u32);
    nvmlDeviceGetGpuMaxPcieLinkGeneration(1 = 3_u32);
    nvmlDeviceGetMaxPcieLinkWidth(1 = 16_u32);
    nvmlDeviceGetPcieThroughput(2 = 0_u32);
    nvmlDeviceGetPcieReplayCounter(1 = 0_u32);
    nvmlDeviceGetEncoderUtilization(1 = 0_u32, 2 = 0_u32);
    nvmlDeviceGetDecoderUtilization(1 = 0_u32, 2 = 0_u32);
    nvmlDeviceGetJpgUtilization(1 = 0_u32, 2 = 0_u32);
    nvmlDeviceGetOfaUtilization(1 = 0_u32, 2 = 0_u32);
    nvmlDeviceGetMigMode(1 = 0_u32, 2 = 0_u32);
    nvmlDeviceIsMigDeviceHandle(1 = 0_u32);
    nvmlDeviceGetMaxMigDeviceCount(1 = 0_u32);
    nvmlDeviceGetCurrentClocksThrottleReasons(1 = 1_u64);
    nvmlDeviceGetCurrentClocksEventReasons(1 = 1_u64);
    nvmlDeviceGetSupportedClocksThrottleReasons(1 = 1_u64);
    nvmlDeviceGetSupportedClocksEventReasons(1 = 1_u64);
    nvmlDeviceGetTotalEnergyConsumption(1 = 0_u64);
}

impl Nvml {
    pub(crate) fn nvmlDeviceGetTemperatureThreshold(args: Args) -> Done {
        args.card()?;
        match args.number(1) {
            0 => args.answer(2, SHUTDOWN_CELSIUS),
            1 => args.answer(2, SLOWDOWN_CELSIUS),
            _ => Err(crate::entry::NOT_SUPPORTED),
        }
    }

    pub(crate) fn nvmlDeviceGetTemperatureV(args: Args) -> Done {
        args.card()?;
        // A version, the sensor, then the temperature.
        raw::put(args.pointer::<u32>(1).wrapping_add(2), TEMPERATURE_CELSIUS)
    }

    pub(crate) fn nvmlDeviceGetPowerUsage(args: Args) -> Done {
        args.answer(1, args.card()?.device().power_limit_milliwatts / 100 * IDLE_PERCENT)
    }

    pub(crate) fn nvmlDeviceGetPowerManagementLimit(args: Args) -> Done {
        args.answer(1, args.card()?.device().power_limit_milliwatts)
    }

    pub(crate) fn nvmlDeviceGetPowerManagementDefaultLimit(args: Args) -> Done {
        Self::nvmlDeviceGetPowerManagementLimit(args)
    }

    pub(crate) fn nvmlDeviceGetEnforcedPowerLimit(args: Args) -> Done {
        Self::nvmlDeviceGetPowerManagementLimit(args)
    }

    pub(crate) fn nvmlDeviceGetPowerManagementLimitConstraints(args: Args) -> Done {
        let limit = args.card()?.device().power_limit_milliwatts;
        args.answer(1, limit / 2)?;
        args.answer(2, limit)
    }

    pub(crate) fn nvmlDeviceGetNumGpuCores(args: Args) -> Done {
        args.answer(1, args.card()?.device().multiprocessors * CORES_PER_MULTIPROCESSOR)
    }

    /// Graphics, multiprocessor, memory and video clocks, in MHz.
    pub(crate) fn nvmlDeviceGetClockInfo(args: Args) -> Done {
        let card = args.card()?;
        let khz = match args.number(1) {
            0 | 1 | 3 => card.device().clock_khz,
            2 => card.device().memory_clock_khz,
            _ => return Err(INVALID_ARGUMENT),
        };
        args.answer(2, khz / 1000)
    }

    pub(crate) fn nvmlDeviceGetMaxClockInfo(args: Args) -> Done {
        Self::nvmlDeviceGetClockInfo(args)
    }

    pub(crate) fn nvmlDeviceGetApplicationsClock(args: Args) -> Done {
        Self::nvmlDeviceGetClockInfo(args)
    }

    pub(crate) fn nvmlDeviceGetDefaultApplicationsClock(args: Args) -> Done {
        Self::nvmlDeviceGetClockInfo(args)
    }

    pub(crate) fn nvmlDeviceGetClock(args: Args) -> Done {
        let [device, kind, _, to, ..] = args.0;
        Self::nvmlDeviceGetClockInfo(Args([device, kind, to, 0, 0, 0]))
    }

    /// Each field has a code of its own; there is none that is known here.
    pub(crate) fn nvmlDeviceGetFieldValues(args: Args) -> Done {
        args.card()?;
        for index in 0..args.number(1) as usize {
            let at = args.pointer::<FieldValue>(2).wrapping_add(index);
            let asked = raw::get(at)?;
            raw::put(at, FieldValue { code: crate::entry::NOT_SUPPORTED, value: 0, ..asked })?;
        }
        Ok(())
    }
}
