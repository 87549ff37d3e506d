//! NVML as `nvml-wrapper` asks it, on machines that are well and on machines that are not.
//!
//! The library finds its machine by the environment, so each test runs itself again as a process with
//! a machine of its own.

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{
    EccCounter, MemoryError, MemoryLocation, TemperatureSensor, TopologyLevel,
};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use simcuda_protocol::place::Place;
use simcuda_protocol::{Charge, Client, Control, Reply, Request, Start, Told};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// Runs the body in a process of its own with a fresh machine of the profile.
fn on(profile: &str, test: &str, body: impl FnOnce(&Nvml, &Client)) {
    let built = build_folder();
    if std::env::var_os("SIMCUDA_MACHINE").is_some_and(|machine| machine == test) {
        let start = Start { program: Some(built.join("simcudad")), ..Start::from_environment() };
        let place = Place::from_environment().expect("set by the first process");
        let client = Client::connect(&place, &start).expect("a machine");
        let library = built.join("libnvidia_ml.so");
        let nvml = Nvml::builder().lib_path(library.as_os_str()).init().expect("NVML");
        body(&nvml, &client);
        return;
    }
    for package in ["simcudad", "simcuda-nvml"] {
        let build = Command::new(env!("CARGO")).args(["build", "--quiet", "-p", package]).status();
        assert!(build.expect("cargo runs").success(), "{package} could not be built");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(std::env::current_exe().expect("this test's file"))
        .args([test, "--exact", "--nocapture"])
        .envs([("SIMCUDA_MACHINE", test), ("SIMCUDA_PROFILE", profile)])
        .env("SIMCUDA_DIR", folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(" 1 passed"), "{said}{why}");
}

fn build_folder() -> PathBuf {
    let own = std::env::current_exe().expect("this test's file");
    own.ancestors().nth(2).expect("a build folder").to_owned()
}

fn set(client: &Client, fault: &str) {
    let told = client.control(Control::Set(fault.parse().expect(fault))).expect("an answer").0;
    assert!(matches!(told, Told::Set { .. }), "{fault}: {told:?}");
}

fn charge(client: &Client, device: u32, bytes: u64) {
    let request = Request::Charge { device, bytes, charge: Charge::Memory };
    assert_eq!(client.ask(&request).expect("an answer").0, Reply::Done);
}

fn memory(device: &Device<'_>) -> (u64, u64, u64) {
    let memory = device.memory_info().expect("figures");
    (memory.total, memory.used, memory.free)
}

#[test]
fn all_that_a_listing_of_cards_shows_is_answered() {
    on("unlike-4", "all_that_a_listing_of_cards_shows_is_answered", |nvml, _| {
        assert_eq!(nvml.sys_driver_version().expect("a version"), "580.65.06");
        assert_eq!(nvml.sys_cuda_driver_version().expect("a version"), 13_000);
        assert_eq!(nvml.device_count().expect("a count"), 4);
        for index in 0..4 {
            let device = nvml.device_by_index(index).expect("a card");
            let uuid = device.uuid().expect("a UUID");
            let by_uuid = nvml.device_by_uuid(uuid.as_str()).expect("the same card");
            assert_eq!(by_uuid.index().expect("an index"), index);
            let bus = device.pci_info().expect("a place on the bus");
            let by_bus = nvml.device_by_pci_bus_id(bus.bus_id.as_str()).expect("the same card");
            assert_eq!(by_bus.index().expect("an index"), index);
            device.name().expect("a name");
            device.brand().expect("a brand");
            device.serial().expect("a serial number");
            device.vbios_version().expect("a version");
            device.minor_number().expect("a number");
            device.is_ecc_enabled().expect("yes or no");
            device.temperature(TemperatureSensor::Gpu).expect("degrees");
            device.power_usage().expect("power");
            device.enforced_power_limit().expect("power");
            device.performance_state().expect("a state");
            device.utilization_rates().expect("percents");
            device.current_pcie_link_gen().expect("a generation");
            device.current_pcie_link_width().expect("a width");
            device.is_display_active().expect("yes or no");
            device.is_in_persistent_mode().expect("yes or no");
            device.compute_mode().expect("a mode");
            device.mig_mode().expect("a mode");
            device.running_graphics_processes().expect("a list");
            device.encoder_utilization().expect("percents");
            device.bar1_memory_info().expect("figures");
            device.max_clock_info(nvml_wrapper::enum_wrappers::device::Clock::SM).expect("a clock");
            device.num_cores().expect("a number");
            device.cpu_affinity(1).expect("processors");
        }
    });
}

#[test]
fn memory_and_processes_are_the_machines_to_the_byte() {
    on("node-2", "memory_and_processes_are_the_machines_to_the_byte", |nvml, client| {
        charge(client, 1, 300 * MIB + 4096);
        let (first, second) = (nvml.device_by_index(0), nvml.device_by_index(1));
        let (first, second) = (first.expect("a card"), second.expect("a card"));
        assert_eq!(memory(&first), (16_384 * MIB, 0, 16_384 * MIB));
        let used = 300 * MIB + 4096;
        assert_eq!(memory(&second), (16_384 * MIB, used, 16_384 * MIB - used));
        assert!(first.running_compute_processes().expect("a list").is_empty());
        let list = second.running_compute_processes().expect("a list");
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].pid, std::process::id());
        assert!(matches!(list[0].used_gpu_memory, UsedGpuMemory::Used(bytes) if bytes == used));
    });
}

#[test]
fn accounting_keeps_the_most_that_a_process_held() {
    on("t4", "accounting_keeps_the_most_that_a_process_held", |nvml, client| {
        let device = nvml.device_by_index(0).expect("a card");
        assert!(device.is_accounting_enabled().expect("yes or no"));
        charge(client, 0, 700 * MIB);
        let release = Request::Release { device: 0, bytes: 600 * MIB, charge: Charge::Memory };
        assert_eq!(client.ask(&release).expect("an answer").0, Reply::Done);
        let own = std::process::id();
        assert_eq!(device.accounting_pids().expect("a list"), [own]);
        let stats = device.accounting_stats_for(own).expect("statistics");
        assert_eq!(stats.max_memory_usage, Some(700 * MIB));
        assert!(stats.is_running);
        assert!(device.accounting_stats_for(1).is_err());
    });
}

#[test]
fn an_error_is_an_event_for_those_who_registered_for_it() {
    on("node-2", "an_error_is_an_event_for_those_who_registered_for_it", |nvml, client| {
        set(client, "page-fault:0");
        let (first, second) = (nvml.device_by_index(0), nvml.device_by_index(1));
        let (first, second) = (first.expect("a card"), second.expect("a card"));
        let both = EventTypes::CRITICAL_XID_ERROR | EventTypes::DOUBLE_BIT_ECC_ERROR;
        assert_eq!(first.supported_event_types().expect("types"), both);
        let events = nvml.create_event_set().expect("a set");
        let events = first.register_events(EventTypes::CRITICAL_XID_ERROR, events).expect("xids");
        let events = second.register_events(both, events).expect("both");
        assert!(matches!(events.wait(30), Err(NvmlError::Timeout)), "what was before is over");
        set(client, "page-fault:0,pid=1");
        set(client, "ecc:1");
        let next = || {
            let event = events.wait(2000).expect("an event");
            let data = match event.event_data {
                Some(nvml_wrapper::enums::event::XidError::Value(xid)) => Some(xid),
                _ => None,
            };
            (event.device.index().expect("an index"), event.event_type, data)
        };
        assert_eq!(next(), (0, EventTypes::CRITICAL_XID_ERROR, Some(31)));
        assert_eq!(next(), (1, EventTypes::CRITICAL_XID_ERROR, Some(48)));
        assert_eq!(next().1, EventTypes::DOUBLE_BIT_ECC_ERROR);
        assert_eq!(next(), (1, EventTypes::CRITICAL_XID_ERROR, Some(63)));
        assert!(matches!(events.wait(30), Err(NvmlError::Timeout)));
        let count = |counter| second.total_ecc_errors(MemoryError::Uncorrected, counter);
        assert_eq!(count(EccCounter::Volatile).expect("a number"), 1);
        let location = MemoryLocation::Device;
        let at =
            second.memory_error_counter(MemoryError::Uncorrected, EccCounter::Aggregate, location);
        assert_eq!(at.expect("a number"), 1);
        set(client, "recover:1");
        assert_eq!(count(EccCounter::Volatile).expect("a number"), 0);
        assert_eq!(count(EccCounter::Aggregate).expect("a number"), 1);
    });
}

#[test]
fn a_lost_card_says_so_and_its_neighbour_goes_on() {
    on("node-2", "a_lost_card_says_so_and_its_neighbour_goes_on", |nvml, client| {
        let (first, second) = (nvml.device_by_index(0), nvml.device_by_index(1));
        let (first, second) = (first.expect("a card"), second.expect("a card"));
        let events = nvml.create_event_set().expect("a set");
        let events = first.register_events(EventTypes::CRITICAL_XID_ERROR, events).expect("xids");
        set(client, "lose:0");
        assert!(matches!(first.memory_info(), Err(NvmlError::GpuLost)));
        assert!(matches!(nvml.device_by_index(0), Err(NvmlError::GpuLost)));
        second.memory_info().expect("the neighbour's figures");
        assert_eq!(nvml.device_count().expect("a count"), 2);
        let refused = Request::Charge { device: 0, bytes: 1, charge: Charge::Memory };
        assert!(matches!(client.ask(&refused).expect("an answer").0, Reply::Refused(_)));
        // The event names a card that answers no more.
        assert!(events.wait(2000).is_ok() || matches!(events.wait(0), Err(NvmlError::GpuLost)));
        set(client, "recover:0");
        first.memory_info().expect("the card is as new");
    });
}

#[test]
fn figures_can_be_refused_unknown_or_late() {
    on("t4", "figures_can_be_refused_unknown_or_late", |nvml, client| {
        let device = nvml.device_by_index(0).expect("a card");
        charge(client, 0, MIB);
        set(client, "nvml:memory,answer=not-supported");
        assert!(matches!(device.memory_info(), Err(NvmlError::NotSupported)));
        device.running_compute_processes().expect("only memory is refused");
        client.control(Control::Clear(None)).expect("an answer");
        set(client, "nvml:processes,answer=all-ones");
        let list = device.running_compute_processes().expect("a list");
        assert!(matches!(list[0].used_gpu_memory, UsedGpuMemory::Unavailable));
        client.control(Control::Clear(None)).expect("an answer");
        set(client, "nvml:utilisation,hang=60ms");
        let start = Instant::now();
        device.utilization_rates().expect("late");
        assert!(start.elapsed() >= Duration::from_millis(60));
        client.control(Control::Clear(None)).expect("an answer");
        set(client, "fail:nvmlDeviceGetName,code=TIMEOUT,nth=1");
        assert!(matches!(device.name(), Err(NvmlError::Timeout)));
        device.name().expect("only the first");
        set(client, "driver:12.4");
        assert_eq!(nvml.sys_cuda_driver_version().expect("a version"), 12_040);
        set(client, "link:0,to=25%");
        assert_eq!(device.current_pcie_link_width().expect("a width"), 4);
    });
}

#[test]
fn cards_are_near_or_far_and_links_have_two_ends() {
    on("unlike-4", "cards_are_near_or_far_and_links_have_two_ends", |nvml, _| {
        let cards: Vec<Device<'_>> =
            (0..4).map(|index| nvml.device_by_index(index).expect("a card")).collect();
        let level = |a: usize, b: u32| {
            let other = nvml.device_by_index(b).expect("a card");
            cards[a].topology_common_ancestor(other)
        };
        assert!(matches!(level(0, 1), Ok(TopologyLevel::HostBridge)));
        assert!(matches!(level(0, 2), Ok(TopologyLevel::System)));
        let near = cards[2].topology_nearest_gpus(TopologyLevel::HostBridge).expect("a list");
        assert_eq!(near.len(), 1);
        assert_eq!(near[0].index().expect("an index"), 3);
        for link in 0..4 {
            let link = cards[2].link_wrapper_for(link);
            assert!(link.is_active().expect("yes or no"));
            let there = link.remote_pci_info().expect("a place on the bus");
            assert_eq!(there.bus_id, cards[3].pci_info().expect("a place").bus_id);
        }
        assert!(matches!(cards[2].link_wrapper_for(4).is_active(), Err(NvmlError::InvalidArg)));
        assert!(matches!(cards[0].link_wrapper_for(0).is_active(), Err(NvmlError::NotSupported)));
    });
}
