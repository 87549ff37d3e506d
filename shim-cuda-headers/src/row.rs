//! What a row of the table says: the types of its columns, the enumerations of all rows, and the
//! rule by which `cuGetProcAddress` chooses among the forms of one name.

use core::cmp::Ordering;

/// Which default stream the form works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamVariant {
    /// There is only one form.
    Any,
    /// The form for the legacy default stream; a `PerThread` twin exists.
    Legacy,
    /// `_ptsz` or `_ptds`: the per-thread default stream.
    PerThread,
}

/// The kind of device memory that a call obtains or gives back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    Nothing,
    Linear,
    Pitched,
    Managed,
    Pool,
    Vmm,
    Array,
    GraphMemory,
    External,
    Ipc,
    Multicast,
    Module,
    Context,
    /// Host memory: never charged.
    Host,
}

/// The gate a call passes before the driver is asked (`architecture` 2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// None: answers at once, also while swapped or suspended.
    Open,
    /// Touches device memory or submits work.
    Residency,
    /// Submits compute; implies `Residency`.
    Lease,
}

/// What the driver makes of the call while a stream is captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capture {
    /// Allowed, not recorded.
    Free,
    /// Recorded as a node when its stream captures.
    Node,
    /// Refused or invalidating while a capture of global mode is open.
    Unsafe,
    Begin,
    End,
}

/// What the call makes or frees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    Nothing,
    MakesContext,
    FreesContext,
    MakesMemory,
    FreesMemory,
    MakesHostMemory,
    FreesHostMemory,
    MakesHandle,
    FreesHandle,
    MakesRange,
    FreesRange,
    MakesMapping,
    FreesMapping,
    MakesArray,
    FreesArray,
    MakesPool,
    FreesPool,
    MakesModule,
    FreesModule,
    MakesLibrary,
    FreesLibrary,
    MakesStream,
    FreesStream,
    MakesEvent,
    FreesEvent,
    MakesGraph,
    FreesGraph,
    MakesGraphExec,
    FreesGraphExec,
    MakesLink,
    FreesLink,
    MakesExternal,
    FreesExternal,
}

/// Whether the call may come before `cuInit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    Early,
    AfterInit,
}

/// Who answers the call in a process with an entitlement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A function of the library, in `intercept/src/hooks/`.
    Hook,
    /// The driver: reached by one jump, or behind the row's gate where it has one.
    Forward,
}

/// One row of the driver table.
#[derive(Clone, Copy, Debug)]
pub struct DriverRow {
    /// As the driver exports it.
    pub symbol: &'static str,
    /// What a program passes to `cuGetProcAddress`.
    pub asked: &'static str,
    /// CUDA version that introduced this form: major * 1000 + minor * 10.
    pub version: u32,
    pub stream: StreamVariant,
    pub memory: Memory,
    pub gate: Gate,
    pub capture: Capture,
    pub lifetime: Lifetime,
    pub start: Start,
    pub answer: Answer,
    /// Types of the parameters as Rust spells them, in order.
    pub params: &'static [&'static str],
}

macro_rules! driver_rows {
    ($($symbol:ident $asked:literal $version:literal $stream:ident $memory:ident $gate:ident
       $capture:ident $lifetime:ident $start:ident $answer:ident
       ($($arg:ident: $ty:ty),*);)*) => {
        /// Every driver function of the table, in the table's order.
        #[allow(non_camel_case_types, reason = "the vendor's own names")]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        pub enum DriverFn {
            $($symbol,)*
        }

        impl DriverFn {
            /// All rows, in order: `ALL[i] as usize == i`.
            pub const ALL: &'static [Self] = &[$(Self::$symbol,)*];

            const ROWS: &'static [DriverRow] = &[$(
                DriverRow {
                    symbol: stringify!($symbol),
                    asked: $asked,
                    version: $version,
                    stream: StreamVariant::$stream,
                    memory: Memory::$memory,
                    gate: Gate::$gate,
                    capture: Capture::$capture,
                    lifetime: Lifetime::$lifetime,
                    start: Start::$start,
                    answer: Answer::$answer,
                    params: &[$(stringify!($ty)),*],
                },
            )*];
        }
    };
}
crate::driver_table!(driver_rows);

impl DriverFn {
    /// How many rows the table has.
    pub const COUNT: usize = Self::ALL.len();

    /// The row of this function.
    #[must_use]
    pub const fn row(self) -> &'static DriverRow {
        &Self::ROWS[self as usize]
    }

    /// The row with this index, as stored in slots and counters.
    #[must_use]
    pub fn at(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }

    /// The row whose exported symbol is `symbol`.
    #[must_use]
    pub fn by_symbol(symbol: &[u8]) -> Option<Self> {
        Self::ALL.iter().copied().find(|f| f.row().symbol.as_bytes() == symbol)
    }

    /// What `cuGetProcAddress` answers for `asked` at CUDA version `version` (1000 times major plus
    /// 10 times minor): the newest form that is not newer than `version`; with `per_thread` the form for the
    /// per-thread default stream where there is one. `None` if no form is that old.
    ///
    /// Source: the rule holds for all 573 pairs of the vendor's typed declarations and for the 504
    /// recorded look-ups of `data/cudart-getprocaddress.tsv`.
    #[must_use]
    pub fn answering(asked: &[u8], version: u32, per_thread: bool) -> Option<Self> {
        let before = |f: &Self| order(f.row().asked.as_bytes(), asked) == Ordering::Less;
        let first = Self::ALL.partition_point(before);
        let forms = || {
            let same = |f: &&Self| order(f.row().asked.as_bytes(), asked) == Ordering::Equal;
            let rest = Self::ALL.get(first..).unwrap_or_default().iter();
            rest.take_while(same).copied().filter(|f| f.row().version <= version)
        };
        let newest = |wanted: fn(StreamVariant) -> bool| {
            forms().filter(|f| wanted(f.row().stream)).max_by_key(|f| f.row().version)
        };
        let plain = newest(|s| s != StreamVariant::PerThread);
        let twin = newest(|s| s == StreamVariant::PerThread).filter(|_| per_thread);
        match (plain, twin) {
            // A twin that came later than the form it belongs to does not lift the form's version.
            (Some(p), Some(t)) if p.row().version > t.row().version => Some(p),
            (_, Some(t)) => Some(t),
            (p, None) => p,
        }
    }
}

/// The order of the table by asked name: without case first, so that it reads as a list for people,
/// then exactly.
fn order(a: &[u8], b: &[u8]) -> Ordering {
    let lower = a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase));
    lower.then_with(|| a.cmp(b))
}

/// What an NVML function is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topic {
    Memory,
    Processes,
    Utilisation,
    Mig,
    Identity,
    Other,
}

macro_rules! nvml_rows {
    ($($symbol:ident $topic:ident;)*) => {
        /// Every NVML function of the table, in the table's order.
        #[allow(non_camel_case_types, reason = "the vendor's own names")]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        pub enum NvmlFn {
            $($symbol,)*
        }

        impl NvmlFn {
            /// All rows, in order: `ALL[i] as usize == i`.
            pub const ALL: &'static [Self] = &[$(Self::$symbol,)*];
            const ROWS: &'static [(&'static str, Topic)] = &[$((stringify!($symbol), Topic::$topic),)*];
        }
    };
}
crate::nvml_table!(nvml_rows);

impl NvmlFn {
    /// How many rows the table has.
    pub const COUNT: usize = Self::ALL.len();

    /// As NVML exports it.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        Self::ROWS[self as usize].0
    }

    /// What the function is about.
    #[must_use]
    pub const fn topic(self) -> Topic {
        Self::ROWS[self as usize].1
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::{HashMap, HashSet};
    use std::vec::Vec;

    const API: &str = include_str!("../data/cuda-api.tsv");
    const RECORDED: &str = include_str!("../data/cudart-getprocaddress.tsv");

    fn version(text: &str) -> u32 {
        let (major, minor) = text.split_once('.').expect("a version is major.minor");
        major.parse::<u32>().expect("major") * 1000 + minor.parse::<u32>().expect("minor") * 10
    }

    #[test]
    fn every_function_of_the_vendors_list_is_a_row_or_refused() {
        let mut listed: HashMap<&str, (&str, u32)> = HashMap::new();
        let mut nvml: HashSet<&str> = HashSet::new();
        for line in API.lines().skip(1) {
            let columns: Vec<&str> = line.split('\t').collect();
            for form in columns[3].split(';') {
                match form.split_once('@') {
                    Some((symbol, since)) if symbol.starts_with("cu") => {
                        listed.insert(symbol, (columns[0], version(since)));
                    }
                    _ => {
                        nvml.insert(form.split('@').next().expect("a symbol"));
                    }
                }
            }
        }
        let newer: Vec<&str> = DriverFn::ALL
            .iter()
            .map(|f| f.row())
            .filter(|row| match listed.remove(row.symbol) {
                Some((asked, since)) => {
                    assert_eq!((row.asked, row.version), (asked, since), "{}", row.symbol);
                    false
                }
                None => true,
            })
            .map(|row| row.symbol)
            .collect();
        assert_eq!(
            newer,
            [
                "cuFabricCpyBatchAsync",
                "cuFabricCpyBatchAsync_ptsz",
                "cuTensorMapSetAllocationClass"
            ],
            "rows that the list of header 13.4 does not have"
        );
        let left: Vec<_> = listed
            .keys()
            .filter(|s| !crate::refused::REFUSED.iter().any(|(refused, _)| refused == *s))
            .collect();
        assert!(left.is_empty(), "neither a row nor refused: {left:?}");
        let newer = NvmlFn::ALL.iter().filter(|f| !nvml.remove(f.symbol())).count();
        assert_eq!(newer, 8, "NVML rows that the list of header 13.4 does not have");
        assert!(nvml.is_empty(), "NVML functions without a row: {nvml:?}");
    }

    #[test]
    fn every_recorded_look_up_is_answered_by_the_rule() {
        let mut seen = 0;
        for line in RECORDED.lines().skip(1) {
            let c: Vec<&str> = line.split('\t').collect();
            if c[3] == "NOTFOUND" || c[0].is_empty() {
                continue;
            }
            let answer =
                DriverFn::answering(c[0].as_bytes(), c[1].parse().expect("version"), c[2] == "2");
            assert_eq!(answer.map(|f| f.row().symbol), Some(c[3]), "{line}");
            seen += 1;
        }
        assert!(seen > 400, "only {seen} look-ups were compared");
    }

    #[test]
    fn rows_are_in_order_so_that_a_look_up_need_not_read_them_all() {
        let names = || DriverFn::ALL.iter().map(|f| f.row().asked.as_bytes());
        assert!(names().is_sorted_by(|a, b| order(a, b) != Ordering::Greater));
    }

    #[test]
    fn symbols_are_unique() {
        let symbols: HashSet<_> = DriverFn::ALL.iter().map(|f| f.row().symbol).collect();
        assert_eq!(symbols.len(), DriverFn::COUNT);
    }
}
