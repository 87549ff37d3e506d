//! How the cards are, the strikes that ended contexts, and the events that NVML reports.

use super::{XID_DOUBLE_BIT, XID_OFF_THE_BUS, XID_PAGE_FAULT, XID_ROW_REMAPPED};
use simcuda_protocol::Device;
use simcuda_protocol::control::{Event, Happened, Health, Strike};

/// What calls answer in a context that was struck.
const ILLEGAL_ADDRESS: u32 = 700;
const ECC_UNCORRECTABLE: u32 = 214;
const UNKNOWN: u32 = 999;

/// Older ones are forgotten: nobody who listens is that far behind.
const KEPT: usize = 512;

#[derive(Debug)]
struct Card {
    index: u32,
    uuid: String,
    ecc: bool,
    health: Health,
}

#[derive(Debug)]
pub(super) struct Cards {
    cards: Vec<Card>,
    strikes: Vec<Strike>,
    last_strike: u64,
    events: Vec<Event>,
    last_event: u64,
}

impl Cards {
    pub(super) fn new(devices: &[Device]) -> Self {
        let card = |(index, device): (u32, &Device)| Card {
            index,
            uuid: device.uuid_text(),
            ecc: device.ecc,
            health: Health::default(),
        };
        let cards = (0..).zip(devices).map(card).collect();
        Self { cards, strikes: Vec::new(), last_strike: 0, events: Vec::new(), last_event: 0 }
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.cards.len()).unwrap_or(u32::MAX)
    }

    /// By NVML's index, by UUID or by a beginning of one that only one card has.
    pub(super) fn named(&self, name: &str) -> Result<u32, String> {
        let mut found = self.cards.iter().filter(|card| match name.parse::<u32>() {
            Ok(index) => card.index == index,
            Err(_) => name.len() > 4 && card.uuid.starts_with(name),
        });
        match (found.next(), found.next()) {
            (Some(card), None) => Ok(card.index),
            (Some(_), Some(_)) => Err(format!("more than one card's UUID begins with {name}")),
            (None, _) => Err(format!(
                "no card is called {name}; there are {}",
                self.cards
                    .iter()
                    .map(|c| format!("{} ({})", c.index, c.uuid))
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
        }
    }

    pub(super) fn lose(&mut self, device: u32) {
        self.happened(device, Happened::Xid(XID_OFF_THE_BUS));
        self.strike(device, None, UNKNOWN);
    }

    /// An error that ECC finds and cannot correct; the row is replaced for the next start.
    pub(super) fn double_bit(&mut self, device: u32) -> Result<(), String> {
        let card = &mut self.cards[device as usize];
        if !card.ecc {
            return Err(format!("card {device} has no ECC; use one whose profile says ecc = true"));
        }
        card.health.uncorrected += 1;
        card.health.uncorrected_volatile += 1;
        card.health.remapped_rows += 1;
        self.happened(device, Happened::Xid(XID_DOUBLE_BIT));
        self.happened(device, Happened::DoubleBit);
        self.happened(device, Happened::Xid(XID_ROW_REMAPPED));
        self.strike(device, None, ECC_UNCORRECTABLE);
        Ok(())
    }

    pub(super) fn page_fault(&mut self, device: u32, pid: Option<u32>) {
        self.happened(device, Happened::Xid(XID_PAGE_FAULT));
        self.strike(device, pid, ILLEGAL_ADDRESS);
    }

    pub(super) fn recover(&mut self, device: u32) {
        self.cards[device as usize].health.uncorrected_volatile = 0;
    }

    pub(super) fn happened(&mut self, device: u32, what: Happened) {
        self.last_event += 1;
        self.events.push(Event { number: self.last_event, device, what });
        let old = self.events.len().saturating_sub(KEPT);
        self.events.drain(..old);
    }

    fn strike(&mut self, device: u32, pid: Option<u32>, code: u32) {
        self.last_strike += 1;
        self.strikes.push(Strike { number: self.last_strike, device, pid, code });
        let old = self.strikes.len().saturating_sub(KEPT);
        self.strikes.drain(..old);
    }

    pub(super) fn last_strike(&self) -> u64 {
        self.last_strike
    }

    pub(super) fn strikes_on(&self, pid: u32) -> Vec<Strike> {
        let on_it = |strike: &&Strike| strike.pid.is_none_or(|struck| struck == pid);
        self.strikes.iter().filter(on_it).copied().collect()
    }

    pub(super) fn last_event(&self) -> u64 {
        self.last_event
    }

    pub(super) fn events_after(&self, number: u64) -> Vec<Event> {
        self.events.iter().filter(|event| event.number > number).copied().collect()
    }

    pub(super) fn health(&self, device: u32) -> Option<Health> {
        Some(self.cards.get(device as usize)?.health)
    }
}
