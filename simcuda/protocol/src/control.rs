//! Messages of control: setting faults and being told of them, what a machine says of itself, its
//! end. They travel on the machine's socket inside [`crate::Request::Control`].

use crate::fault::{Fault, When};
use serde::{Deserialize, Serialize};

/// A function of the driver or of NVML by its row in the table; all sides are built from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Function {
    Driver(u16),
    Nvml(u16),
}

/// Asked of the machine's server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// The page with the word of [`crate::control::Word`]. Answered by `Page`, with its descriptor.
    Page,
    /// What a driver in a process must know. Answered by `State`.
    State,
    /// A call that a fault may concern. Answered by `Act`.
    Called(Function),
    /// Sets a fault, or does what happens once. Answered by `Set`, or `Refused`.
    Set(Fault),
    /// Answered by `Faults`.
    List,
    /// Takes back one fault, or all. Answered by `Cleared`.
    Clear(Option<u64>),
    /// Answered by `Description`.
    Describe,
    /// Ends the machine; with processes on it only if `force` is set. Answered by `Done`, or `Refused`.
    Stop { force: bool },
    /// A context of this process has failed with the XID. Answered by `Done`.
    Tell { device: u32, xid: u32 },
    /// What has happened after the event with this number, waiting at most so long for something.
    /// Answered by `Events`.
    Events { after: u64, wait_ms: u32 },
    /// Answered by `Health`.
    Health { device: u32 },
    /// Answered by `Accounts`.
    Accounts { device: u32 },
}

/// The server's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    Done,
    /// Strikes up to this number are older than the asking process.
    Page {
        last_strike: u64,
    },
    State(State),
    Act(Act),
    Set {
        number: Option<u64>,
    },
    Faults(Vec<Listed>),
    Cleared {
        count: u64,
    },
    Description(Description),
    Events {
        last: u64,
        events: Vec<Event>,
    },
    Health(Health),
    Accounts(Vec<Account>),
    /// In words, for people.
    Refused(String),
}

/// The first word of the shared page: what a driver looks at on every call.
///
/// Bit 0: some calls of the driver must be asked about. Bit 1: NVML must ask. The rest counts
/// changes; all is 0 as long as nothing was ever set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Word(pub u32);

impl Word {
    pub const CALLS: u32 = 1;
    pub const NVML: u32 = 2;
    const STEP: u32 = 4;

    #[must_use]
    pub const fn next(self, bits: u32) -> Self {
        Self((self.0 & !(Self::STEP - 1)).wrapping_add(Self::STEP) | bits)
    }

    /// How often something has changed.
    #[must_use]
    pub const fn change(self) -> u32 {
        self.0 / Self::STEP
    }

    #[must_use]
    pub const fn asks_about_calls(self) -> bool {
        self.0 & Self::CALLS != 0
    }

    #[must_use]
    pub const fn asks_nvml(self) -> bool {
        self.0 & Self::NVML != 0
    }
}

/// What a driver in a process must know: for this very process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Rows of driver functions whose calls must be asked about.
    pub watched: Vec<u16>,
    /// Rows that this driver does not have.
    pub hidden: Vec<u16>,
    /// Rows whose look-up gives a newer form.
    pub newer: Vec<u16>,
    /// Version to report, if not the usual one.
    pub driver_version: Option<u32>,
    pub strikes: Vec<Strike>,
    /// One for each card of the machine.
    pub cards: Vec<CardState>,
}

/// Something that ended contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strike {
    pub number: u64,
    pub device: u32,
    /// Only the contexts of this process.
    pub pid: Option<u32>,
    /// What all their calls answer from then on.
    pub code: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardState {
    pub lost: bool,
    /// No stream of the asking process gets on.
    pub stuck: bool,
    /// Part of the link's speed that is left.
    pub link_percent: u32,
}

/// What is to be done about one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    pub before_ns: u64,
    pub after_ns: u64,
    pub code: Option<u32>,
    pub when: When,
    /// NVML: every figure of the answer has all bits set.
    pub all_ones: bool,
}

/// A fault that is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub number: u64,
    pub fault: Fault,
    /// Calls that it was asked about, and those that it changed.
    pub seen: u64,
    pub hit: u64,
}

/// What a machine says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    pub pid: u32,
    pub profile: String,
    pub uptime_ms: u64,
    /// Stays without clients until it is stopped.
    pub stays: bool,
    pub clients: Vec<u32>,
    pub faults: u64,
}

/// Something that NVML reports as an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub number: u64,
    pub device: u32,
    pub what: Happened,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happened {
    /// An error by the vendor's number.
    Xid(u32),
    /// A memory error that could not be corrected.
    DoubleBit,
}

/// How a card is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    pub lost: bool,
    pub link_percent: u32,
    /// Memory errors that could not be corrected since the machine's start.
    pub uncorrected: u64,
    /// Since the card last recovered.
    pub uncorrected_volatile: u64,
    /// Rows that were replaced for that.
    pub remapped_rows: u32,
}

/// A process on a card, as accounting keeps it; also after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub pid: u32,
    pub most_bytes: u64,
    /// Since the epoch.
    pub started_us: u64,
    /// From its first to its last byte, or until now.
    pub lived_ms: u64,
    pub running: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_word_differs_and_keeps_its_bits_apart() {
        let first = Word::default().next(Word::CALLS);
        assert!(first.asks_about_calls() && !first.asks_nvml());
        let second = first.next(Word::NVML);
        assert!(!second.asks_about_calls() && second.asks_nvml());
        assert_eq!((first.change(), second.change(), second.next(0).change()), (1, 2, 3));
    }
}
