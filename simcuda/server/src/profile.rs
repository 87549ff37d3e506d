//! Profiles: which cards a machine has. Shipped ones are part of the program; any other is a path.

use crate::topology::Topology;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use simcuda_protocol::Device;

/// Name and text of each shipped profile.
pub(crate) const SHIPPED: &[(&str, &str)] = &[
    ("t4", include_str!("../../profiles/t4.toml")),
    ("toy", include_str!("../../profiles/toy.toml")),
    ("l4", include_str!("../../profiles/l4.toml")),
    ("a100-40", include_str!("../../profiles/a100-40.toml")),
    ("h100-80", include_str!("../../profiles/h100-80.toml")),
    ("h200", include_str!("../../profiles/h200.toml")),
    ("node-2", include_str!("../../profiles/node-2.toml")),
    ("node-8", include_str!("../../profiles/node-8.toml")),
    ("unlike-4", include_str!("../../profiles/unlike-4.toml")),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// As NVML reports it.
    pub(crate) driver_version: String,
    device: Vec<Cards>,
    #[serde(default)]
    topology: Topology,
}

/// Some cards of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cards {
    #[serde(default = "one")]
    count: u32,
    name: String,
    memory_bytes: u64,
    multiprocessors: u32,
    #[serde(default = "capability")]
    capability: (u32, u32),
    clock_khz: u32,
    memory_clock_khz: u32,
    memory_bus_bits: u32,
    l2_bytes: u64,
    #[serde(default = "two")]
    copy_engines: u32,
    link_bytes_per_second: u64,
    #[serde(default = "slice")]
    slice_ns: u64,
    #[serde(default = "launch")]
    launch_ns: u64,
    #[serde(default = "opaque_kernel")]
    opaque_kernel_ns: u64,
    context_overhead_bytes: u64,
    #[serde(default = "granularity")]
    granularity_bytes: u64,
    pci_device_id: u32,
    power_limit_milliwatts: u32,
    #[serde(default = "yes")]
    ecc: bool,
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

fn two() -> u32 {
    2
}

/// What every compiler has its simplest dialect of PTX for, and what the interpreter runs.
fn capability() -> (u32, u32) {
    (7, 5)
}

/// As long as the driver lets a process compute while others want to.
fn slice() -> u64 {
    2_000_000
}

fn launch() -> u64 {
    3_000
}

fn opaque_kernel() -> u64 {
    20_000
}

fn granularity() -> u64 {
    2 << 20
}

impl Profile {
    /// By shipped name, or from a file when the name has a slash or ends in `.toml`.
    pub(crate) fn load(name: &str) -> Result<Self> {
        if name.contains('/') || name.ends_with(".toml") {
            let text =
                std::fs::read_to_string(name).with_context(|| format!("reading profile {name}"))?;
            return Self::parse(name, &text);
        }
        match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            Some((_, text)) => Self::parse(name, text),
            None => {
                let names: Vec<_> = SHIPPED.iter().map(|(shipped, _)| *shipped).collect();
                bail!("no profile is called {name:?}; use one of {} or a path", names.join(", "))
            }
        }
    }

    fn parse(name: &str, text: &str) -> Result<Self> {
        let profile: Self = toml::from_str(text).with_context(|| format!("profile {name}"))?;
        for cards in &profile.device {
            let unit = cards.granularity_bytes;
            ensure!(
                unit.is_power_of_two(),
                "profile {name}: granularity_bytes is not a power of two"
            );
            ensure!(
                cards.memory_bytes >= unit,
                "profile {name}: memory_bytes is below granularity_bytes"
            );
            ensure!(
                (10_000..=1_000_000_000).contains(&cards.slice_ns),
                "profile {name}: slice_ns is {}; use 10_000 to 1_000_000_000",
                cards.slice_ns
            );
        }
        let count = profile.count();
        profile.topology.check(count).with_context(|| format!("profile {name}"))?;
        Ok(profile)
    }

    fn count(&self) -> u32 {
        self.device.iter().map(|cards| cards.count).sum()
    }

    /// The cards of the machine with this name.
    pub(crate) fn devices(&self, machine: &str) -> Vec<Device> {
        let kinds = self.device.iter().flat_map(|cards| (0..cards.count).map(move |_| cards));
        let devices = (0..).zip(kinds).map(|(index, cards)| {
            let mut device = cards.device(machine, index);
            device.numa_node = self.topology.numa_node(index);
            device.nvlinks = self.topology.nvlinks(index, self.count());
            device
        });
        devices.collect()
    }
}

impl Cards {
    fn device(&self, machine: &str, index: u32) -> Device {
        Device {
            name: self.name.clone(),
            uuid: uuid(machine, index),
            memory_bytes: self.memory_bytes,
            multiprocessors: self.multiprocessors,
            capability: self.capability,
            clock_khz: self.clock_khz,
            memory_clock_khz: self.memory_clock_khz,
            memory_bus_bits: self.memory_bus_bits,
            l2_bytes: self.l2_bytes,
            copy_engines: self.copy_engines,
            link_bytes_per_second: self.link_bytes_per_second,
            slice_ns: self.slice_ns,
            launch_ns: self.launch_ns,
            opaque_kernel_ns: self.opaque_kernel_ns,
            context_overhead_bytes: self.context_overhead_bytes,
            granularity_bytes: self.granularity_bytes,
            pci_domain: 0,
            pci_bus: 0x17 + index * 0x11,
            pci_device: 0,
            pci_device_id: self.pci_device_id,
            power_limit_milliwatts: self.power_limit_milliwatts,
            ecc: self.ecc,
            numa_node: 0,
            nvlinks: Vec::new(),
        }
    }
}

/// The same card keeps its UUID from start to start, and cards of different machines differ.
fn uuid(machine: &str, index: u32) -> [u8; 16] {
    let half = |salt: u64| {
        let bytes = machine.bytes().chain(index.to_le_bytes());
        bytes.fold(0xCBF2_9CE4_8422_2325 ^ salt, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23)
        })
    };
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&half(0).to_be_bytes());
    uuid[8..].copy_from_slice(&half(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    // Version and variant of a UUID that is derived from nothing official.
    uuid[6] = uuid[6] & 0x0F | 0x80;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_shipped_profile_can_be_read() {
        for (name, _) in SHIPPED {
            let profile = Profile::load(name).expect("a shipped profile");
            assert!(!profile.devices("m").is_empty(), "{name} has no device");
        }
    }

    #[test]
    fn cards_have_uuids_of_their_own_that_stay() {
        let eight = Profile::load("node-8").expect("shipped");
        let uuids: HashSet<_> =
            ["a", "b"].iter().flat_map(|m| eight.devices(m)).map(|d| d.uuid).collect();
        assert_eq!(uuids.len(), 16);
        assert_eq!(
            eight.devices("a")[3].uuid,
            Profile::load("node-2").expect("shipped").device[0].device("a", 3).uuid
        );
    }

    #[test]
    fn an_unknown_name_is_told_what_there_is() {
        let error = Profile::load("t5").expect_err("there is none").to_string();
        assert!(error.contains("t4") && error.contains("h200"), "{error}");
    }
}
