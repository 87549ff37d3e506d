//! The board of faults: which are set, which calls they hit, how the cards are, what has happened.
//!
//! Drivers in other processes look at one word of a shared page and ask only when it has changed or
//! says that calls must be asked about; as long as no fault was ever set it is 0. The decisions are
//! in [`rules`] (calls) and [`cards`] (cards and events); here is what joins them.

mod cards;
mod page;
mod rules;
mod words;

use cards::Cards;
use page::Page;
use rules::Rules;
use simcuda_protocol::control::{Act, CardState, Event, Function, Happened, Health, Listed};
use simcuda_protocol::control::{State, Word};
use simcuda_protocol::fault::Fault;
use simcuda_protocol::{Device, Refusal};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The vendor's numbers of errors.
pub(crate) const XID_PAGE_FAULT: u32 = 31;
pub(crate) const XID_DOUBLE_BIT: u32 = 48;
pub(crate) const XID_ROW_REMAPPED: u32 = 63;
pub(crate) const XID_OFF_THE_BUS: u32 = 79;

#[derive(Debug)]
pub(crate) struct Board {
    inner: Mutex<Inner>,
    /// Something has happened that NVML reports.
    happened: Condvar,
}

#[derive(Debug)]
struct Inner {
    rules: Rules,
    cards: Cards,
    page: Page,
    /// Names that processes which load the driver later must not find; a file, since they have no
    /// connection then.
    hidden_file: Option<PathBuf>,
}

impl Board {
    pub(crate) fn new(devices: &[Device], hidden_file: Option<PathBuf>) -> Self {
        let inner = Inner {
            rules: Rules::default(),
            cards: Cards::new(devices),
            page: Page::default(),
            hidden_file,
        };
        Self { inner: Mutex::new(inner), happened: Condvar::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a fault and says its number, or does what happens at once.
    pub(crate) fn set(&self, fault: &Fault) -> Result<Option<u64>, String> {
        let mut inner = self.inner();
        let number = inner.set(fault)?;
        inner.publish().map_err(|error| format!("setting {fault}: {error}"))?;
        self.happened.notify_all();
        Ok(number)
    }

    pub(crate) fn clear(&self, number: Option<u64>) -> Result<u64, String> {
        let mut inner = self.inner();
        let count = inner.rules.clear(number);
        if let (0, Some(number)) = (count, number) {
            return Err(format!(
                "no fault has the number {number}; list them to see those there are"
            ));
        }
        inner.publish().map_err(|error| format!("taking faults back: {error}"))?;
        Ok(count)
    }

    pub(crate) fn list(&self) -> Vec<Listed> {
        self.inner().rules.list()
    }

    /// The page's descriptor, and the number of the last strike.
    pub(crate) fn page(&self) -> io::Result<(OwnedFd, u64)> {
        let mut inner = self.inner();
        let file = inner.page.reader()?;
        Ok((file, inner.cards.last_strike()))
    }

    pub(crate) fn state(&self, pid: u32) -> State {
        let inner = self.inner();
        let card = |device| CardState {
            lost: inner.rules.is_lost(device),
            stuck: inner.rules.is_stuck(device, pid),
            link_percent: inner.rules.link_percent(device),
        };
        State {
            watched: inner.rules.watched(),
            hidden: inner.rules.hidden(),
            newer: inner.rules.newer(),
            driver_version: inner.rules.driver_version(),
            strikes: inner.cards.strikes_on(pid),
            cards: (0..inner.cards.count()).map(card).collect(),
        }
    }

    pub(crate) fn called(&self, function: Function, pid: u32) -> Act {
        self.inner().rules.called(function, pid)
    }

    /// Whether the card answers at all.
    pub(crate) fn answers(&self, device: u32) -> Result<(), Refusal> {
        if self.inner().rules.is_lost(device) { Err(Refusal::Lost) } else { Ok(()) }
    }

    /// A process's own context has failed.
    pub(crate) fn tell(&self, device: u32, xid: u32) {
        let mut inner = self.inner();
        if device < inner.cards.count() {
            inner.cards.happened(device, Happened::Xid(xid));
            self.happened.notify_all();
        }
    }

    /// Events after that number, waiting a while for the first.
    pub(crate) fn events(&self, after: u64, patience: Duration) -> (u64, Vec<Event>) {
        let inner = self.inner();
        let none = |inner: &mut Inner| inner.cards.events_after(after).is_empty();
        let waited = self.happened.wait_timeout_while(inner, patience, none);
        let (inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (inner.cards.last_event(), inner.cards.events_after(after))
    }

    pub(crate) fn health(&self, device: u32) -> Option<Health> {
        let inner = self.inner();
        let link_percent = inner.rules.link_percent(device);
        let lost = inner.rules.is_lost(device);
        inner.cards.health(device).map(|health| Health { lost, link_percent, ..health })
    }

    /// Nothing of it is left for the next machine.
    pub(crate) fn end(&self) {
        if let Some(file) = &self.inner().hidden_file {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Inner {
    fn set(&mut self, fault: &Fault) -> Result<Option<u64>, String> {
        let cards = &mut self.cards;
        match fault {
            Fault::Ecc { gpu } => {
                let device = cards.named(gpu)?;
                cards.double_bit(device)?;
                Ok(None)
            }
            Fault::PageFault { gpu, pid } => {
                let device = cards.named(gpu)?;
                cards.page_fault(device, *pid);
                Ok(None)
            }
            Fault::Recover { gpu } => {
                let device = cards.named(gpu)?;
                cards.recover(device);
                self.rules.recover(device);
                Ok(None)
            }
            Fault::Lose { gpu } => {
                let device = cards.named(gpu)?;
                if !self.rules.is_lost(device) {
                    cards.lose(device);
                }
                Ok(Some(self.rules.add_to_card(fault, device)))
            }
            Fault::Link { gpu, .. } | Fault::Stuck { gpu, .. } => {
                let device = cards.named(gpu)?;
                Ok(Some(self.rules.add_to_card(fault, device)))
            }
            _ => self.rules.add(fault).map(Some),
        }
    }

    /// Tells all processes that something has changed.
    fn publish(&mut self) -> io::Result<()> {
        self.write_hidden()?;
        let mut bits = 0;
        if self.rules.ask_about_calls() {
            bits |= Word::CALLS;
        }
        if self.rules.ask_nvml() {
            bits |= Word::NVML;
        }
        self.page.change(bits)
    }

    fn write_hidden(&self) -> io::Result<()> {
        let Some(file) = &self.hidden_file else { return Ok(()) };
        let text = self.rules.early_text();
        if text.is_empty() {
            return match std::fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let fresh = file.with_extension("new");
        std::fs::write(&fresh, text)?;
        std::fs::rename(&fresh, file)
    }
}
