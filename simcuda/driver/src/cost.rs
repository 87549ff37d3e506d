//! What work costs on a card, from its profile: time per instruction, per launch, per byte.
//!
//! `SIMCUDA_SPEED` divides all of it (0.1: everything takes ten times as long) and leaves the clock
//! alone: what a kernel waits for by itself, it waits for as long as it says.

use simcuda_protocol::Device;
use std::sync::OnceLock;

/// Instructions of single threads that a multiprocessor of compute capability 7.5 ends per cycle,
/// and cycles from one instruction of a warp to its next.
const LANES: u64 = 64;
const ISSUE_CYCLES: u64 = 4;

/// What a copy costs besides its bytes.
const COPY_SETUP_NS: f64 = 1_000.0;

/// A multiprocessor in the units in which kernels take parts of it.
pub(crate) const UNITS: u64 = 1024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    pub(crate) multiprocessors: u64,
    clock_ghz: f64,
    launch_ns: f64,
    opaque_ns: f64,
    link_bytes_per_ns: f64,
    memory_bytes_per_ns: f64,
    speed: f64,
}

impl Costs {
    pub(crate) fn new(device: &Device) -> Self {
        // Two transfers per cycle of the memory's clock.
        let memory_bits =
            f64::from(device.memory_clock_khz) * 2e-6 * f64::from(device.memory_bus_bits);
        Self {
            multiprocessors: device.multiprocessors.max(1).into(),
            clock_ghz: f64::from(device.clock_khz) * 1e-6,
            launch_ns: device.launch_ns as f64,
            opaque_ns: device.opaque_kernel_ns as f64,
            link_bytes_per_ns: device.link_bytes_per_second as f64 * 1e-9,
            memory_bytes_per_ns: memory_bits / 8.0,
            speed: speed(),
        }
    }

    /// What kernels can take of the card together.
    pub(crate) fn capacity(&self) -> u64 {
        self.multiprocessors * UNITS
    }

    pub(crate) fn launch_ns(&self) -> u64 {
        self.scaled(self.launch_ns)
    }

    pub(crate) fn opaque_ns(&self) -> u64 {
        self.scaled(self.opaque_ns)
    }

    /// How long one instruction of one thread takes of a kernel that has so many threads on each of
    /// so many multiprocessors at a time.
    pub(crate) fn instruction_ns(&self, blocks: u64, threads: u64, blocks_each: u64) -> f64 {
        let busy = blocks.clamp(1, self.multiprocessors);
        let each = blocks.div_ceil(self.multiprocessors).clamp(1, blocks_each.max(1));
        let lanes = (threads.next_multiple_of(32) * each / ISSUE_CYCLES).clamp(1, LANES);
        1.0 / (busy as f64 * lanes as f64 * self.clock_ghz.max(0.001) * self.speed)
    }

    /// `None` when the link is without limit.
    pub(crate) fn link_ns(&self, bytes: u64) -> Option<u64> {
        let time = COPY_SETUP_NS + bytes as f64 / self.link_bytes_per_ns;
        (self.link_bytes_per_ns > 0.0).then(|| self.scaled(time))
    }

    /// Bytes that the link carries in about two milliseconds: as much is asked for at a time.
    pub(crate) fn piece_bytes(&self) -> u64 {
        ((self.link_bytes_per_ns * self.speed * 2e6) as u64).max(1 << 20)
    }

    /// Reading and writing `bytes` of the card's own memory, all in all.
    pub(crate) fn memory_ns(&self, bytes: u64) -> u64 {
        self.scaled(COPY_SETUP_NS + bytes as f64 / self.memory_bytes_per_ns.max(1e-3))
    }

    fn scaled(&self, ns: f64) -> u64 {
        (ns / self.speed) as u64
    }
}

fn speed() -> f64 {
    static SPEED: OnceLock<f64> = OnceLock::new();
    *SPEED.get_or_init(|| {
        let asked = std::env::var("SIMCUDA_SPEED").ok().and_then(|text| text.parse().ok());
        asked.filter(|speed: &f64| (1e-6..=1e6).contains(speed)).unwrap_or(1.0)
    })
}
