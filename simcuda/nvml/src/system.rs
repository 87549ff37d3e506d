//! Questions about the whole: beginning and end, versions, error texts, names of processes.

use crate::entry::{
    Args, Done, INVALID_ARGUMENT, NOT_FOUND, Nvml, Return, client, initialise, shut_down,
};
use crate::raw;
use std::ffi::CStr;

const CUDA_VERSION: i32 = 13000;

impl Nvml {
    pub(crate) fn nvmlInit(_: Args) -> Done {
        initialise()
    }

    pub(crate) fn nvmlInit_v2(_: Args) -> Done {
        initialise()
    }

    pub(crate) fn nvmlInitWithFlags(_: Args) -> Done {
        initialise()
    }

    pub(crate) fn nvmlShutdown(_: Args) -> Done {
        shut_down()
    }

    pub(crate) fn nvmlSystemGetDriverVersion(args: Args) -> Done {
        raw::put_text(args.pointer(0), args.number(1), client()?.driver())
    }

    pub(crate) fn nvmlSystemGetDriverBranch(args: Args) -> Done {
        let client = client()?;
        let branch = client.driver().split('.').next().unwrap_or_default().to_owned();
        // The structure has a version, then the text.
        let text = args.pointer::<u8>(0).wrapping_add(4).cast();
        raw::put_text(text, args.number(1), &format!("r{branch}_00"))
    }

    pub(crate) fn nvmlSystemGetNVMLVersion(args: Args) -> Done {
        let version = format!("13.{}", client()?.driver());
        raw::put_text(args.pointer(0), args.number(1), &version)
    }

    pub(crate) fn nvmlSystemGetCudaDriverVersion(args: Args) -> Done {
        args.answer(0, crate::faults::driver_version().map_or(CUDA_VERSION, u32::cast_signed))
    }

    pub(crate) fn nvmlSystemGetCudaDriverVersion_v2(args: Args) -> Done {
        Self::nvmlSystemGetCudaDriverVersion(args)
    }

    pub(crate) fn nvmlSystemGetProcessName(args: Args) -> Done {
        let line =
            std::fs::read(format!("/proc/{}/cmdline", args.number(0))).map_err(|_| NOT_FOUND)?;
        let name = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let capacity = args.number(2);
        if capacity == 0 {
            return Err(INVALID_ARGUMENT);
        }
        let room = (capacity as usize - 1).min(name.len());
        raw::put_text(args.pointer(1), capacity, &String::from_utf8_lossy(&name[..room]))
    }

    pub(crate) fn nvmlUnitGetCount(args: Args) -> Done {
        args.answer(0, 0_u32)
    }
}

/// What a code means, for people.
pub(crate) fn error_text(code: Return) -> &'static CStr {
    match code {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        15 => c"GPU is lost",
        17 => c"The operating system has blocked the request",
        25 => c"Argument version mismatch",
        _ => c"Unknown Error",
    }
}
