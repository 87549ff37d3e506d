//! Faults of the machine as NVML shows them: what a call answers instead, and how a card is.
//!
//! The word that says whether anything is to be asked is read from the machine's page by its
//! descriptor: NVML is asked some times a second, not millions of times.

use crate::entry::{Card, Done, GPU_IS_LOST, Return, UNKNOWN, client};
use shim_cuda_headers::NvmlFn;
use simcuda_protocol::control::{Act, Control, Function, Health, State, Told, Word};
use simcuda_protocol::{Client, Reply, Request};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

thread_local! {
    /// The call that runs on this thread knows no figure.
    static NO_FIGURES: Cell<bool> = const { Cell::new(false) };
}

/// The machine's page, and the connection that it came by.
#[derive(Debug)]
struct Page {
    of: Arc<Client>,
    file: OwnedFd,
}

static PAGE: Mutex<Option<Page>> = Mutex::new(None);

/// The word as it is now; a machine that tells of no faults has none.
fn word(client: &Arc<Client>) -> Word {
    let mut page = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    if page.as_ref().is_none_or(|page| !Arc::ptr_eq(&page.of, client)) {
        let Ok((Told::Page { .. }, Some(file))) = client.control(Control::Page) else {
            return Word::default();
        };
        *page = Some(Page { of: Arc::clone(client), file });
    }
    let mut bytes = [0; 4];
    let read = page.as_ref().map(|page| rustix::io::pread(&page.file, &mut bytes, 0));
    if matches!(read, Some(Ok(4))) { Word(u32::from_ne_bytes(bytes)) } else { Word::default() }
}

/// The connection is gone, and its page with it.
pub(crate) fn forget() {
    *PAGE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn tell(client: &Client, control: Control) -> Result<Told, Return> {
    match client.ask(&Request::Control(control)) {
        Ok((Reply::Control(told), _)) => Ok(told),
        _ => Err(UNKNOWN),
    }
}

/// Runs a call with what the machine has in store for it.
pub(crate) fn around(function: NvmlFn, body: impl FnOnce() -> Done) -> Done {
    let Ok(client) = client() else { return body() };
    if !word(&client).asks_nvml() {
        return body();
    }
    let act = match tell(&client, Control::Called(Function::Nvml(function as u16))) {
        Ok(Told::Act(act)) => act,
        _ => Act::default(),
    };
    std::thread::sleep(Duration::from_nanos(act.before_ns));
    if let Some(code) = act.code {
        return Err(code);
    }
    let before = NO_FIGURES.replace(act.all_ones);
    let result = body();
    NO_FIGURES.set(before);
    std::thread::sleep(Duration::from_nanos(act.after_ns));
    result
}

/// A figure, or what NVML says where it has none.
pub(crate) fn figure(value: u64) -> u64 {
    if NO_FIGURES.get() { u64::MAX } else { value }
}

pub(crate) fn small_figure(value: u32) -> u32 {
    if NO_FIGURES.get() { u32::MAX } else { value }
}

/// How the card is, which is well where nothing was ever said.
pub(crate) fn health(card: &Card) -> Result<Health, Return> {
    let well = Health { link_percent: 100, ..Health::default() };
    if word(card.client()) == Word::default() {
        return Ok(well);
    }
    match tell(card.client(), Control::Health { device: card.index })? {
        Told::Health(health) => Ok(health),
        _ => Err(UNKNOWN),
    }
}

/// A card that fell off the bus answers nothing else.
pub(crate) fn check(card: &Card) -> Done {
    if word(card.client()).asks_nvml() && health(card)?.lost { Err(GPU_IS_LOST) } else { Ok(()) }
}

/// Version of the driver's interface, if it is to be another than the usual one.
pub(crate) fn driver_version() -> Option<u32> {
    let client = client().ok()?;
    if !word(&client).asks_nvml() {
        return None;
    }
    match tell(&client, Control::State) {
        Ok(Told::State(State { driver_version, .. })) => driver_version,
        _ => None,
    }
}
