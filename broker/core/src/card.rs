//! A card as the broker sees it: what NVML says of it, and what is derived from that. Not who has
//! what on it; that is each tenant's.

use std::{collections::BTreeMap, fmt, str::FromStr};

use halfwarp_api::UNIT_BYTES;
use halfwarp_rest::Mode;

use crate::{Nanos, event::CardSample};

/// A card's UUID, `GPU-` and the usual five groups in text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// A text that is no card's UUID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UuidError(pub String);

impl fmt::Display for UuidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no GPU UUID; one looks like GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
            self.0
        )
    }
}

impl std::error::Error for UuidError {}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU")?;
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 0 | 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        let bad = || UuidError(text.to_owned());
        let groups = text.strip_prefix("GPU-").ok_or_else(bad)?;
        let lengths: Vec<_> = groups.split('-').map(str::len).collect();
        let digits: Vec<_> = groups.bytes().filter(|b| *b != b'-').collect();
        if lengths != [8, 4, 4, 4, 12] || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(bad());
        }
        let mut uuid = [0; 16];
        for (byte, pair) in uuid.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| bad())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(Self(uuid))
    }
}

/// What is known of a card when the broker starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CardFacts {
    pub uuid: Uuid,
    /// In NVML's order.
    pub index: u32,
    pub name: String,
    pub total_bytes: u64,
    pub multiprocessors: Option<u32>,
}

/// A card and what the samples of it amount to.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    pub(crate) facts: CardFacts,
    pub(crate) mode: Mode,
    /// Length of a turn.
    pub(crate) lease_ms: u16,
    /// Measured cost of a context.
    pub(crate) context_units: Option<u32>,
    pub(crate) sample: Option<CardSample>,
    /// Units in use that no promise of ours covers, as the last sample and the one before show
    /// them. The smaller counts: a sample is no atomic look, and a single one may be off by
    /// whatever was allocated while it was taken.
    pub(crate) foreign_units: [u64; 2],
    /// What ended processes still block.
    pub(crate) settling: BTreeMap<u64, Settling>,
}

/// Bytes of an ended process, until the card no longer shows them.
#[derive(Clone, Debug)]
pub(crate) struct Settling {
    pub(crate) tenant: u64,
    pub(crate) pid: u32,
    pub(crate) units: u64,
    pub(crate) since: Nanos,
    /// Samples, all taken after the end, that did not show the process.
    pub(crate) unseen: u8,
    pub(crate) told: bool,
}

/// First guess for a context, before one was measured: 128 MiB and 4 MiB a multiprocessor.
const GUESS_BYTES: u64 = 128 << 20;
const GUESS_BYTES_EACH: u64 = 4 << 20;
/// Assumed where NVML does not say how many multiprocessors there are.
const MULTIPROCESSORS: u32 = 80;

pub(crate) const LEASE_MS_DEFAULT: u16 = 100;

impl Card {
    pub(crate) fn new(facts: CardFacts) -> Self {
        Self {
            facts,
            mode: Mode::default(),
            lease_ms: LEASE_MS_DEFAULT,
            context_units: None,
            sample: None,
            foreign_units: [0; 2],
            settling: BTreeMap::new(),
        }
    }

    pub(crate) fn total_units(&self) -> u64 {
        self.facts.total_bytes / UNIT_BYTES
    }

    /// What a context will cost, as far as is known.
    pub(crate) fn context_estimate_units(&self) -> u32 {
        self.context_units.unwrap_or_else(|| {
            let each = u64::from(self.facts.multiprocessors.unwrap_or(MULTIPROCESSORS));
            let bytes = GUESS_BYTES + each * GUESS_BYTES_EACH;
            u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX)
        })
    }

    pub(crate) fn settling_units(&self) -> u64 {
        self.settling.values().map(|s| s.units).sum()
    }

    pub(crate) fn unattributed_units(&self) -> u64 {
        self.foreign_units[0].min(self.foreign_units[1])
    }

    /// Units that can be promised at all: neither in strangers' hands nor still settling.
    pub(crate) fn usable_units(&self) -> u64 {
        self.total_units().saturating_sub(self.settling_units() + self.unattributed_units())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_read_as_it_is_printed() {
        let uuid = Uuid(*b"0123456789abcdef");
        assert_eq!(uuid.to_string(), "GPU-30313233-3435-3637-3839-616263646566");
        assert_eq!(uuid.to_string().parse(), Ok(uuid));
        for text in ["", "GPU-", "30313233-3435-3637-3839-616263646566", "GPU-3031-é", "MIG-1"] {
            assert!(text.parse::<Uuid>().is_err(), "{text}");
        }
    }
}
