//! Faults: what can be made to go wrong on a simulated machine. The types; their text form is in
//! [`crate::fault_text`].
//!
//! A fault names functions, codes and cards as people write them; what they stand for is resolved by
//! the server, which knows the table of functions and its own cards.

use serde::{Deserialize, Serialize};

/// Something that goes wrong, at once or until it is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// Calls of a function fail. Without a code: out of memory for the driver, unknown for NVML.
    Fail { function: String, code: Option<String>, when: When, calls: Calls },
    /// Calls of a function take longer.
    Delay { function: String, before_ns: u64, after_ns: u64, calls: Calls },
    /// The driver has no such function, as an older one.
    Hide { function: String },
    /// A look-up by `cuGetProcAddress` gives a form of the function that is newer than any list.
    Newer { function: String },
    /// The driver says that it is of this version (major * 1000 + minor * 10), and has no function
    /// that came later.
    Driver { version: u32 },
    /// The card falls off the bus (XID 79), until it recovers.
    Lose { gpu: String },
    /// A double-bit error in the card's memory (XID 48): every context on it is lost, once.
    Ecc { gpu: String },
    /// A page fault (XID 31) of the contexts of one process, or of all.
    PageFault { gpu: String, pid: Option<u32> },
    /// The card is as new; contexts that were lost stay so.
    Recover { gpu: String },
    /// The card's link has this part of its speed and width.
    Link { gpu: String, percent: u32 },
    /// No stream gets on: of one process, or of all.
    Stuck { gpu: String, pid: Option<u32> },
    /// NVML does not know.
    Nvml { subject: Subject, answer: Answer },
}

/// At which point of the call it fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// Nothing of the call has happened.
    #[default]
    Before,
    /// Part of it was done and is taken back: mappings and allocations only.
    Half,
    /// All of it has happened; the code is the only thing wrong, as with an error of earlier work.
    After,
}

/// Which calls are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    pub which: Which,
    /// Each process's calls are counted on their own.
    pub each_process: bool,
    /// Only calls of this process count.
    pub pid: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Which {
    #[default]
    All,
    /// The n-th alone.
    Nth(u64),
    /// The first k.
    Next(u64),
    /// Each n-th.
    Every(u64),
}

impl Which {
    /// Whether the call with this number, from 1, is meant.
    #[must_use]
    pub const fn means(self, number: u64) -> bool {
        match self {
            Self::All => true,
            Self::Nth(n) => number == n,
            Self::Next(k) => number <= k,
            Self::Every(n) => number.is_multiple_of(n),
        }
    }
}

/// A group of NVML's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    Memory,
    Processes,
    Utilisation,
    All,
}

/// What NVML does instead of answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    NotSupported,
    /// Every figure has all bits set, which is how NVML says that there is none.
    AllOnes,
    /// The answer comes this much later.
    Hang {
        ns: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_from_one() {
        let meant = |which: Which| (1..=6).filter(|n| which.means(*n)).collect::<Vec<u64>>();
        assert_eq!(meant(Which::All), [1, 2, 3, 4, 5, 6]);
        assert_eq!(meant(Which::Nth(5)), [5]);
        assert_eq!(meant(Which::Next(2)), [1, 2]);
        assert_eq!(meant(Which::Every(3)), [3, 6]);
    }
}
