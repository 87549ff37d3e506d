//! Device attributes, by the header's numbers. Known ones that do not apply are 0.

use crate::process::Card;
use std::ffi::c_int;

/// Largest number that the header of CUDA 13 names.
const LAST: u32 = 150;

/// The attribute's value, or `None` for a number that the header does not have.
pub(crate) fn value(card: &Card, attribute: u32) -> Option<c_int> {
    if attribute == 0 || attribute > LAST {
        return None;
    }
    Some(
        of_card(card, attribute)
            .or_else(|| limits(attribute))
            .or_else(|| features(attribute))
            .unwrap_or(0),
    )
}

/// What the profile says.
fn of_card(card: &Card, attribute: u32) -> Option<c_int> {
    let device = &card.device;
    let value = match attribute {
        13 => device.clock_khz,
        16 => device.multiprocessors,
        32 => u32::from(device.ecc),
        33 => device.pci_bus,
        34 => device.pci_device,
        36 => device.memory_clock_khz,
        37 => device.memory_bus_bits,
        38 => u32::try_from(device.l2_bytes).unwrap_or(u32::MAX >> 1),
        40 => device.copy_engines,
        50 => device.pci_domain,
        75 => device.capability.0,
        76 => device.capability.1,
        134 => device.numa_node,
        _ => return None,
    };
    Some(value.cast_signed())
}

/// Sizes that a program must stay within; those of compute capability 7.5.
fn limits(attribute: u32) -> Option<c_int> {
    Some(match attribute {
        // Threads per block, block and grid dimensions.
        1 => 1024,
        2 | 3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        // Shared memory per block, constant memory, warp, pitch, registers per block.
        8 => 48 << 10,
        9 => 64 << 10,
        10 => 32,
        11 => i32::MAX,
        12 => 65_536,
        // Alignment of textures and surfaces, their pitch.
        14 => 512,
        30 => 512,
        51 => 32,
        // Largest textures: 1D, 2D, 3D, layered.
        21 => 131_072,
        22 => 131_072,
        23 => 65_536,
        24..=26 => 16_384,
        27 => 32_768,
        28 => 32_768,
        29 => 2048,
        42 => 32_768,
        43 => 2048,
        // Threads, shared memory, registers and blocks per multiprocessor.
        39 => 1024,
        81 => 64 << 10,
        82 => 65_536,
        97 => 64 << 10,
        106 => 16,
        111 => 1 << 10,
        // Single to double precision.
        87 => 32,
        _ => return None,
    })
}

/// What the driver can do: 1 for yes.
fn features(attribute: u32) -> Option<c_int> {
    let yes = matches!(
        attribute,
        // Copies beside kernels, integrated: no, mapping of host memory, kernels side by side.
        15 | 19 | 31
        // Unified addressing, priorities, L1 for globals and locals, managed memory.
        | 41 | 78 | 79 | 80 | 83
        // Native host atomics: no. Concurrent managed access, preemption.
        | 89 | 90 | 91 | 95
        // Stream memory operations, their 64-bit and nor forms.
        | 92 | 93 | 94 | 122 | 123
        // Cooperative launch, flushing remote writes, host registration, page tables.
        | 98 | 99 | 100
        // Virtual memory management, and handles as descriptors.
        | 102 | 103
        // Memory pools, timeline semaphores: no.
        | 115
        // Unified function pointers: no. Host memory through NUMA nodes.
        | 141
    );
    yes.then_some(1)
}
