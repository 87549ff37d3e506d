//! Questions about devices.

use crate::entry::{Done, Sim};
use crate::{attributes, process, raw};
use shim_cuda_headers::*;
use std::ffi::{c_char, c_int, c_uint};

impl Sim {
    pub(crate) fn cuDeviceGetCount(count: *mut c_int) -> Done {
        raw::put(count, process::get()?.cards.len() as c_int)
    }

    pub(crate) fn cuDeviceGet(device: *mut CUdevice, number: c_int) -> Done {
        process::card(number)?;
        raw::put(device, number)
    }

    pub(crate) fn cuDeviceGetName(name: *mut c_char, length: c_int, device: CUdevice) -> Done {
        raw::put_text(name, length, &process::card(device)?.device.name)
    }

    pub(crate) fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice) -> Done {
        raw::put(uuid, CUuuid { bytes: process::card(device)?.device.uuid })
    }

    pub(crate) fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice) -> Done {
        Self::cuDeviceGetUuid(uuid, device)
    }

    pub(crate) fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) -> Done {
        raw::put(bytes, process::card(device)?.device.memory_bytes as usize)
    }

    pub(crate) fn cuDeviceComputeCapability(
        major: *mut c_int,
        minor: *mut c_int,
        device: CUdevice,
    ) -> Done {
        let (a, b) = process::card(device)?.device.capability;
        raw::put(major, a.cast_signed())?;
        raw::put(minor, b.cast_signed())
    }

    pub(crate) fn cuDeviceGetAttribute(
        value: *mut c_int,
        attribute: CUdevice_attribute,
        device: CUdevice,
    ) -> Done {
        let card = process::card(device)?;
        raw::put(value, attributes::value(card, attribute).ok_or(CUresult::INVALID_VALUE)?)
    }

    pub(crate) fn cuDeviceGetPCIBusId(text: *mut c_char, length: c_int, device: CUdevice) -> Done {
        raw::put_text(text, length, &process::card(device)?.device.pci_bus_id())
    }

    pub(crate) fn cuDeviceGetByPCIBusId(device: *mut CUdevice, text: *const c_char) -> Done {
        let wanted = raw::text(text)?.to_uppercase();
        // The domain and the function may be left out.
        let matches = |id: &String| {
            *id == wanted || id.trim_end_matches(".0") == wanted || id.get(5..) == Some(&wanted)
        };
        let cards = &process::get()?.cards;
        let found = cards.iter().position(|card| matches(&card.device.pci_bus_id()));
        raw::put(device, found.ok_or(CUresult::INVALID_DEVICE)? as CUdevice)
    }

    pub(crate) fn cuDeviceCanAccessPeer(
        answer: *mut c_int,
        device: CUdevice,
        peer: CUdevice,
    ) -> Done {
        process::card(device)?;
        process::card(peer)?;
        raw::put(answer, c_int::from(device != peer))
    }

    pub(crate) fn cuDeviceGetP2PAttribute(
        value: *mut c_int,
        attribute: CUdevice_P2PAttribute,
        from: CUdevice,
        to: CUdevice,
    ) -> Done {
        let (one, other) = (process::card(from)?, process::card(to)?);
        if from == to || !(1..=5).contains(&attribute) {
            return Err(CUresult::INVALID_VALUE);
        }
        // Access is always supported, atomics over a link of the cards' own; arrays and a rank are not.
        let linked = one.device.nvlinks.contains(&other.number);
        raw::put(value, c_int::from(attribute == 2 || (attribute == 3 && linked)))
    }

    pub(crate) fn cuDeviceGetExecAffinitySupport(
        answer: *mut c_int,
        _: CUexecAffinityType,
        device: CUdevice,
    ) -> Done {
        process::card(device)?;
        raw::put(answer, 0)
    }

    /// Refused: exists on Windows only.
    pub(crate) fn cuDeviceGetLuid(_: *mut c_char, _: *mut c_uint, device: CUdevice) -> Done {
        process::card(device)?;
        // Exists on Windows only.
        Err(CUresult::NOT_SUPPORTED)
    }

    pub(crate) fn cuModuleGetLoadingMode(mode: *mut CUmoduleLoadingMode) -> Done {
        const EAGER: CUmoduleLoadingMode = 1;
        raw::put(mode, EAGER)
    }

    /// Partial: there is no profiler.
    pub(crate) fn cuProfilerStart() -> Done {
        Ok(())
    }

    /// Partial: there is no profiler.
    pub(crate) fn cuProfilerStop() -> Done {
        Ok(())
    }
}
