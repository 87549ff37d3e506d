//! Which cards there are, and what they are called.

use crate::entry::{Args, Card, Done, INVALID_ARGUMENT, NOT_FOUND, Nvml, cards};
use crate::{faults, raw};

const LEGACY_ID_BYTES: usize = 16;
const ID_BYTES: usize = 32;

/// `nvmlPciInfo_t` as it is now.
#[repr(C)]
pub(crate) struct PciInfo {
    legacy_id: [u8; LEGACY_ID_BYTES],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    id: [u8; ID_BYTES],
}

/// As the first two forms of the call fill it.
#[repr(C)]
struct PciInfoV2 {
    id: [u8; LEGACY_ID_BYTES],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    reserved: [u32; 4],
}

fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let length = text.len().min(N - 1);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

fn found(args: Args, index: usize, wanted: impl Fn(&Card) -> bool) -> Done {
    let card = cards()?.into_iter().find(wanted).ok_or(NOT_FOUND)?;
    faults::check(&card)?;
    args.answer(index, card.handle())
}

/// The bus id in NVML's form: the domain has eight digits.
fn long_id(card: &Card) -> String {
    let device = card.device();
    format!("{:08X}:{:02X}:{:02X}.0", device.pci_domain, device.pci_bus, device.pci_device)
}

pub(crate) fn pci_info(card: &Card) -> PciInfo {
    let device = card.device();
    PciInfo {
        legacy_id: bytes(&device.pci_bus_id()),
        domain: device.pci_domain,
        bus: device.pci_bus,
        device: device.pci_device,
        device_id: device.pci_device_id,
        subsystem_id: 0,
        id: bytes(&long_id(card)),
    }
}

impl Nvml {
    pub(crate) fn nvmlDeviceGetCount(args: Args) -> Done {
        args.answer(0, cards()?.len() as u32)
    }

    pub(crate) fn nvmlDeviceGetCount_v2(args: Args) -> Done {
        Self::nvmlDeviceGetCount(args)
    }

    pub(crate) fn nvmlDeviceGetHandleByIndex(args: Args) -> Done {
        let card = cards()?.into_iter().nth(args.number(0) as usize).ok_or(INVALID_ARGUMENT)?;
        faults::check(&card)?;
        args.answer(1, card.handle())
    }

    pub(crate) fn nvmlDeviceGetHandleByIndex_v2(args: Args) -> Done {
        Self::nvmlDeviceGetHandleByIndex(args)
    }

    pub(crate) fn nvmlDeviceGetHandleByUUID(args: Args) -> Done {
        let wanted = raw::text(args.pointer(0))?;
        found(args, 1, |card| card.device().uuid_text() == wanted)
    }

    pub(crate) fn nvmlDeviceGetHandleByPciBusId(args: Args) -> Done {
        let wanted = raw::text(args.pointer(0))?.to_uppercase();
        found(args, 1, |card| {
            let (short, long) = (card.device().pci_bus_id(), long_id(card));
            [short.as_str(), &long, &short[5..]].contains(&wanted.as_str())
        })
    }

    pub(crate) fn nvmlDeviceGetHandleByPciBusId_v2(args: Args) -> Done {
        Self::nvmlDeviceGetHandleByPciBusId(args)
    }

    pub(crate) fn nvmlDeviceGetHandleBySerial(args: Args) -> Done {
        let wanted = raw::text(args.pointer(0))?;
        found(args, 1, |card| serial(card) == wanted)
    }

    pub(crate) fn nvmlDeviceGetIndex(args: Args) -> Done {
        args.answer(1, args.card()?.index)
    }

    pub(crate) fn nvmlDeviceGetMinorNumber(args: Args) -> Done {
        args.answer(1, args.card()?.index)
    }

    pub(crate) fn nvmlDeviceGetModuleId(args: Args) -> Done {
        args.answer(1, args.card()?.index)
    }

    pub(crate) fn nvmlDeviceGetName(args: Args) -> Done {
        raw::put_text(args.pointer(1), args.number(2), &args.card()?.device().name)
    }

    pub(crate) fn nvmlDeviceGetUUID(args: Args) -> Done {
        raw::put_text(args.pointer(1), args.number(2), &args.card()?.device().uuid_text())
    }

    pub(crate) fn nvmlDeviceGetSerial(args: Args) -> Done {
        raw::put_text(args.pointer(1), args.number(2), &serial(&args.card()?))
    }

    pub(crate) fn nvmlDeviceGetVbiosVersion(args: Args) -> Done {
        args.card()?;
        raw::put_text(args.pointer(1), args.number(2), "00.00.00.00.01")
    }

    pub(crate) fn nvmlDeviceGetBoardPartNumber(args: Args) -> Done {
        args.card()?;
        raw::put_text(args.pointer(1), args.number(2), "000-00000-0000-000")
    }

    pub(crate) fn nvmlDeviceGetBoardId(args: Args) -> Done {
        args.answer(1, args.card()?.device().pci_bus << 8)
    }

    pub(crate) fn nvmlDeviceGetPciInfo_v3(args: Args) -> Done {
        args.answer(1, pci_info(&args.card()?))
    }

    pub(crate) fn nvmlDeviceGetPciInfo_v2(args: Args) -> Done {
        let card = args.card()?;
        let device = card.device();
        args.answer(
            1,
            PciInfoV2 {
                id: bytes(&device.pci_bus_id()),
                domain: device.pci_domain,
                bus: device.pci_bus,
                device: device.pci_device,
                device_id: device.pci_device_id,
                subsystem_id: 0,
                reserved: [0; 4],
            },
        )
    }

    pub(crate) fn nvmlDeviceGetPciInfo(args: Args) -> Done {
        Self::nvmlDeviceGetPciInfo_v2(args)
    }

    pub(crate) fn nvmlDeviceGetCudaComputeCapability(args: Args) -> Done {
        let (major, minor) = args.card()?.device().capability;
        args.answer(1, major)?;
        args.answer(2, minor)
    }

    pub(crate) fn nvmlDeviceOnSameBoard(args: Args) -> Done {
        args.card()?;
        args.answer(2, i32::from(args.0[0] == args.0[1]))
    }
}

fn serial(card: &Card) -> String {
    let number =
        card.device().uuid.iter().take(6).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    format!("{:013}", number % 10_000_000_000_000)
}
