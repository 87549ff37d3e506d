//! Quantities as people write them (`8GiB`, `8G`, `8192MiB`, `0.5`, `50%`, `4GiB..16GiB`) and as we
//! print them: memory in the largest binary unit that loses nothing, shares as whole percent.
//!
//! Parsing is strict: no sign, no inner space, no NaN, no overflow; each error says what was found
//! and what would be accepted.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(pub u64);

/// A share of something, in whole percent, 0 to 100.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Percent(pub u8);

/// Memory as asked for: an amount, or a part of the card it will land on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    Bytes(Bytes),
    Percent(Percent),
}

/// `--memory`: request and limit, `M` or `M..M`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryWish {
    pub request: Amount,
    pub limit: Amount,
}

/// `--compute`: share and compute limit, `P%` or `P%..P%`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareWish {
    pub share: Percent,
    pub limit: Percent,
}

/// A quantity that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot read {found:?} as {wanted}; write {example}")]
pub struct QuantityError {
    pub found: String,
    pub wanted: &'static str,
    pub example: &'static str,
}

const MEMORY: (&str, &str) = ("an amount of memory", "for example 8GiB, 8192MiB, 8G, 25% or 0.25");
const RANGE: (&str, &str) =
    ("a memory range", "request..limit with request no larger, for example 4GiB..16GiB");
const SHARE: (&str, &str) = ("a share of compute", "whole percent, for example 25% or 25%..60%");

fn error(found: &str, (wanted, example): (&'static str, &'static str)) -> QuantityError {
    QuantityError { found: found.to_owned(), wanted, example }
}

/// Units and their bytes. `G` and `Gi` alone mean what Kubernetes means by them.
const UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1_000),
    ("B", 1),
];

/// Reads `digits[.digits]` times `unit`, exactly; the result is rounded down to a whole byte.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 12 {
        return None;
    }
    if number.contains('.') && fraction.is_empty() {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let part = part * u128::from(unit) / 10u128.pow(u32::try_from(fraction.len()).ok()?);
    whole.checked_add(u64::try_from(part).ok()?)
}

impl FromStr for Bytes {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let bad = || error(text, MEMORY);
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, bytes)| Some((text.strip_suffix(name)?, *bytes)))
            .unwrap_or((text, 1));
        let bytes = scaled(number, unit).ok_or_else(bad)?;
        if bytes == 0 && number.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
            return Err(bad());
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        for (name, shift) in units {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return f.pad(&format!("{}{name}", self.0 >> shift));
            }
        }
        f.pad(&format!("{}B", self.0))
    }
}

impl FromStr for Percent {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let number = text.strip_suffix('%').filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
        match number.and_then(|n| n.parse::<u8>().ok()) {
            Some(percent) if percent <= 100 => Ok(Self(percent)),
            _ => Err(error(text, SHARE)),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl FromStr for Amount {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.ends_with('%') {
            return text.parse().map(Self::Percent).map_err(|_| error(text, MEMORY));
        }
        // A bare fraction between 0 and 1 is a part of the card, as in Run:ai's `gpu-fraction`.
        if let Some(digits) = text.strip_prefix("0.") {
            let hundredths =
                scaled(text, 100).filter(|n| (1..100).contains(n) && digits.len() <= 2);
            return match hundredths {
                Some(n) => Ok(Self::Percent(Percent(n as u8))),
                None => Err(error(text, MEMORY)),
            };
        }
        text.parse().map(Self::Bytes)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Percent(percent) => percent.fmt(f),
        }
    }
}

impl Amount {
    /// Bytes of this amount on a card of `card` bytes; a percentage is rounded **down** to a whole
    /// MiB, so that what is granted never exceeds the card.
    #[must_use]
    pub fn on_card(self, card: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(Percent(p)) => {
                let exact = u128::from(card.0) * u128::from(p) / 100;
                Bytes((exact as u64) >> 20 << 20)
            }
        }
    }
}

/// Splits `a..b`; without dots both ends are the same.
fn ends(text: &str) -> (&str, &str) {
    text.split_once("..").unwrap_or((text, text))
}

impl FromStr for MemoryWish {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (request, limit) = ends(text);
        let wish = Self { request: request.parse()?, limit: limit.parse()? };
        let in_order = match (wish.request, wish.limit) {
            (Amount::Bytes(r), Amount::Bytes(l)) => r <= l,
            (Amount::Percent(r), Amount::Percent(l)) => r <= l,
            // Only the card can tell; the broker compares after resolving.
            _ => true,
        };
        if in_order { Ok(wish) } else { Err(error(text, RANGE)) }
    }
}

impl fmt::Display for MemoryWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.request == self.limit {
            return self.limit.fmt(f);
        }
        write!(f, "{}..{}", self.request, self.limit)
    }
}

impl FromStr for ShareWish {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (share, limit) = ends(text);
        let wish = Self { share: share.parse()?, limit: limit.parse()? };
        // A plain `25%` is a guarantee; what is idle may be used beyond it.
        let wish = if text.contains("..") { wish } else { Self { limit: Percent(100), ..wish } };
        if wish.share <= wish.limit { Ok(wish) } else { Err(error(text, SHARE)) }
    }
}

impl fmt::Display for ShareWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.limit == Percent(100) {
            return self.share.fmt(f);
        }
        write!(f, "{}..{}", self.share, self.limit)
    }
}

macro_rules! as_text {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}
as_text!(MemoryWish, ShareWish, Percent);

/// Bytes are numbers in JSON; their field names end in `_bytes`.
impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        u64::deserialize(from).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_are_read_as_people_write_them() {
        let read = |t: &str| t.parse::<Amount>().unwrap_or_else(|e| panic!("{e}"));
        let bytes = |n| Amount::Bytes(Bytes(n));
        assert_eq!(read("8GiB"), bytes(8 << 30));
        assert_eq!(read("8192MiB"), bytes(8 << 30));
        assert_eq!(read("8Gi"), bytes(8 << 30));
        assert_eq!(read("8G"), bytes(8_000_000_000));
        assert_eq!(read("1.5GiB"), bytes(3 << 29));
        assert_eq!(read("512"), bytes(512));
        assert_eq!(read("0.5"), Amount::Percent(Percent(50)));
        assert_eq!(read("0.25"), Amount::Percent(Percent(25)));
        assert_eq!(read("50%"), Amount::Percent(Percent(50)));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_an_example() {
        for text in [
            "",
            "-1",
            "+1GiB",
            "1 GiB",
            "NaN",
            "inf",
            "1e9",
            "8GIB",
            "GiB",
            "101%",
            "1.5%",
            "0.",
            "0.001",
            "0.00",
            "0.250",
            ".5",
            "1.",
            "99999999999TiB",
            "8GiB..",
            "..8GiB",
            "16GiB..4GiB",
            "1..2..3",
            "0x10",
            "１GiB",
        ] {
            let refused = text.parse::<MemoryWish>();
            assert!(refused.is_err(), "{text:?} was read as {refused:?}");
            let said = refused.expect_err("just checked").to_string();
            assert!(said.contains("example"), "{said}");
        }
    }

    #[test]
    fn percentages_are_rounded_down_to_a_whole_mib() {
        let quarter = Amount::Percent(Percent(25));
        assert_eq!(quarter.on_card(Bytes(16 << 30)), Bytes(4 << 30));
        assert_eq!(Amount::Percent(Percent(33)).on_card(Bytes(10 << 20)), Bytes(3 << 20));
    }

    #[test]
    fn shares_are_whole_percent_and_a_plain_one_may_use_what_is_idle() {
        let wish: ShareWish = "25%".parse().expect("a share");
        assert_eq!((wish.share, wish.limit), (Percent(25), Percent(100)));
        let wish: ShareWish = "25%..60%".parse().expect("a range");
        assert_eq!((wish.share, wish.limit), (Percent(25), Percent(60)));
        assert!("25".parse::<ShareWish>().is_err());
        assert!("60%..25%".parse::<ShareWish>().is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(bytes in any::<u64>()) {
            prop_assert_eq!(Bytes(bytes).to_string().parse::<Bytes>(), Ok(Bytes(bytes)));
        }

        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = text.parse::<MemoryWish>();
            let _ = text.parse::<ShareWish>();
        }
    }
}
