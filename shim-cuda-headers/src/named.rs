//! Functions as people name them: by symbol, by the name that programs ask for, or by a beginning.

use crate::row::{DriverFn, NvmlFn};
use crate::types::CUresult;

/// `cuMemAlloc_v2` is one symbol, `cuMemAlloc` every form that a program gets by that name, `cuMem*`
/// all that begin so.
fn means(pattern: &str, symbol: &str, asked: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => symbol.starts_with(beginning),
        None => symbol == pattern || asked == pattern,
    }
}

impl DriverFn {
    /// The rows that the name means; a symbol that is also a name to ask for means all its forms.
    pub fn named(pattern: &str) -> impl Iterator<Item = Self> {
        Self::ALL
            .iter()
            .copied()
            .filter(move |row| means(pattern, row.row().symbol, row.row().asked))
    }
}

impl NvmlFn {
    /// The rows that the name means.
    pub fn named(pattern: &str) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |row| means(pattern, row.symbol(), row.symbol()))
    }
}

impl CUresult {
    /// A code by number, by the vendor's name, or by that without its beginning.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse() {
            return Some(Self(number));
        }
        let wanted = |name: &str| {
            name == text
                || ["CUDA_ERROR_", "CUDA_"].iter().any(|head| name.strip_prefix(head) == Some(text))
        };
        (0..=999).map(Self).find(|code| code.name().is_some_and(wanted))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_name_means_one_symbol_or_all_forms_of_what_is_asked_for() {
        let symbols = |name| DriverFn::named(name).map(|row| row.row().symbol).collect::<Vec<_>>();
        assert_eq!(symbols("cuMemAlloc_v2"), ["cuMemAlloc_v2"]);
        assert_eq!(symbols("cuMemAlloc"), ["cuMemAlloc", "cuMemAlloc_v2"]);
        assert!(symbols("cuMemAddress*").contains(&"cuMemAddressReserve"));
        assert_eq!(symbols("cuNothing"), [""; 0]);
        assert_eq!(NvmlFn::named("nvmlDeviceGetMemoryInfo*").count(), 2);
    }

    #[test]
    fn a_code_has_a_number_and_two_names() {
        for text in ["2", "OUT_OF_MEMORY", "CUDA_ERROR_OUT_OF_MEMORY"] {
            assert_eq!(CUresult::named(text), Some(CUresult::OUT_OF_MEMORY), "{text}");
        }
        assert_eq!(CUresult::named("OUT_OF_MIND"), None);
    }
}
