//! The driver's state in this process: nothing until `cuInit`, then the machine and its cards.

use crate::entry::{Done, Sim, log};
use crate::{fault, raw};
use shim_cuda_headers::CUresult;
use simcuda_protocol::place::Place;
use simcuda_protocol::{Client, Device, Start};
use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A card as this process sees it.
#[derive(Debug)]
pub(crate) struct Card {
    /// The machine's number of it; the program's number is the place in the list.
    pub(crate) number: u32,
    pub(crate) device: Device,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) place: Place,
    pub(crate) client: Client,
    pub(crate) cards: Vec<Card>,
}

static PROCESS: OnceLock<Process> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());
static FORKED: AtomicBool = AtomicBool::new(false);

/// Whether this process is a fork of one that had started the driver.
pub(crate) fn is_forked_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

extern "C" fn in_forked_child() {
    FORKED.store(true, Ordering::Relaxed);
}

pub(crate) fn has_started() -> bool {
    PROCESS.get().is_some()
}

/// The process's driver. Only calls that come after `cuInit` get this far.
pub(crate) fn get() -> Result<&'static Process, CUresult> {
    PROCESS.get().ok_or(CUresult::NOT_INITIALIZED)
}

/// The card that the program calls by this number.
pub(crate) fn card(number: i32) -> Result<&'static Card, CUresult> {
    let index = usize::try_from(number).map_err(|_| CUresult::INVALID_DEVICE)?;
    get()?.cards.get(index).ok_or(CUresult::INVALID_DEVICE)
}

impl Sim {
    pub(crate) fn cuInit(flags: c_uint) -> Done {
        if flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if has_started() {
            return Ok(());
        }
        let process = start()?;
        raw::at_fork(in_forked_child);
        // Nobody else can have set it: the lock is held.
        let _ = PROCESS.set(process);
        Ok(())
    }
}

fn start() -> Result<Process, CUresult> {
    let connect = || {
        let place = Place::from_environment()?;
        Client::connect(&place, &Start::from_environment()).map(|client| (place, client))
    };
    let (place, client) = connect().map_err(|error| {
        log(format_args!("cuInit: {error}"));
        CUresult::UNKNOWN
    })?;
    // A machine that tells of no faults has none.
    let _ = fault::begin(&client);
    let set = |name| std::env::var(name).ok();
    let order = order(client.devices(), set("CUDA_DEVICE_ORDER").as_deref());
    let cards = visible(client.devices(), &order, set("CUDA_VISIBLE_DEVICES").as_deref());
    if cards.is_empty() {
        return Err(CUresult::NO_DEVICE);
    }
    Ok(Process { place, client, cards })
}

/// The machine's numbers of the cards in the driver's order: the fastest first, if the program does
/// not ask for the order of the bus, which is NVML's.
fn order(devices: &[Device], wanted: Option<&str>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..devices.len()).collect();
    if wanted != Some("PCI_BUS_ID") {
        let speed =
            |device: &Device| u64::from(device.multiprocessors) * u64::from(device.clock_khz);
        order.sort_by_key(|number| std::cmp::Reverse(speed(&devices[*number])));
    }
    order
}

/// The driver's rule: a list of numbers or of beginnings of UUIDs, cut at the first that is wrong.
fn visible(devices: &[Device], order: &[usize], wanted: Option<&str>) -> Vec<Card> {
    let card = |number: usize| {
        let device = devices.get(number)?.clone();
        Some(Card { number: u32::try_from(number).ok()?, device })
    };
    let Some(wanted) = wanted else { return order.iter().copied().filter_map(card).collect() };
    let mut cards: Vec<Card> = Vec::new();
    for name in wanted.split(',').map(str::trim) {
        let number = match name.parse::<usize>() {
            Ok(place) => order.get(place).copied(),
            Err(_) => by_uuid(devices, name),
        };
        match number.and_then(card) {
            // Naming a card twice gives none at all.
            Some(next) if cards.iter().any(|c| c.number == next.number) => return Vec::new(),
            Some(next) => cards.push(next),
            None => break,
        }
    }
    cards
}

fn by_uuid(devices: &[Device], prefix: &str) -> Option<usize> {
    if !prefix.starts_with("GPU-") {
        return None;
    }
    let mut matching = (0..devices.len()).filter(|n| devices[*n].uuid_text().starts_with(prefix));
    let first = matching.next()?;
    matching.next().is_none().then_some(first)
}
