//! Names and codes as people write them, against the table; and what is nearest to a wrong one.

use shim_cuda_headers::{CUresult, DriverFn, NvmlFn};
use simcuda_protocol::control::Function;
use std::collections::BTreeSet;

/// What NVML calls an error that nobody expected.
const NVML_UNKNOWN: u32 = 999;
const NVML_CODES: [(&str, u32); 14] = [
    ("UNINITIALIZED", 1),
    ("INVALID_ARGUMENT", 2),
    ("NOT_SUPPORTED", 3),
    ("NO_PERMISSION", 4),
    ("NOT_FOUND", 6),
    ("INSUFFICIENT_SIZE", 7),
    ("DRIVER_NOT_LOADED", 9),
    ("TIMEOUT", 10),
    ("IRQ_ISSUE", 11),
    ("GPU_IS_LOST", 15),
    ("RESET_REQUIRED", 16),
    ("OPERATING_SYSTEM", 17),
    ("IN_USE", 19),
    ("UNKNOWN", NVML_UNKNOWN),
];

/// The rows that the name means.
pub(super) fn functions(name: &str) -> Result<BTreeSet<Function>, String> {
    let driver = DriverFn::named(name).map(|row| Function::Driver(row as u16));
    let nvml = NvmlFn::named(name).map(|row| Function::Nvml(row as u16));
    let found: BTreeSet<Function> = driver.chain(nvml).collect();
    if !found.is_empty() && !["*", "cu*", "nvml*"].contains(&name) {
        return Ok(found);
    }
    if !found.is_empty() {
        return Err(format!("{name} means every function; name a group, for example cuMem*"));
    }
    let all = DriverFn::ALL.iter().map(|row| row.row().symbol);
    let all = all.chain(NvmlFn::ALL.iter().map(|row| row.symbol()));
    Err(format!("no function is called {name}; nearest are {}", nearest(name, all).join(", ")))
}

/// Rows of the driver alone.
pub(super) fn driver_rows(name: &str) -> Result<BTreeSet<u16>, String> {
    let rows: BTreeSet<u16> = functions(name)?
        .into_iter()
        .filter_map(|function| match function {
            Function::Driver(row) => Some(row),
            Function::Nvml(_) => None,
        })
        .collect();
    if rows.is_empty() { Err(format!("{name} is no function of the driver")) } else { Ok(rows) }
}

/// The code that calls of these functions fail with.
pub(super) fn code(text: Option<&str>, nvml: bool) -> Result<u32, String> {
    match (text, nvml) {
        (None, false) => Ok(CUresult::OUT_OF_MEMORY.0),
        (None, true) => Ok(NVML_UNKNOWN),
        (Some(text), false) => match CUresult::named(text) {
            Some(code) if code.is_ok() => Err("code 0 is success".to_owned()),
            Some(code) if code.name().is_some() => Ok(code.0),
            Some(code) => Err(format!("the driver has no code {}", code.0)),
            None => Err(unknown_code(text, (1..=999).filter_map(|code| CUresult(code).name()))),
        },
        (Some(text), true) => {
            let plain = text.trim_start_matches("NVML_ERROR_");
            let known =
                NVML_CODES.iter().find(|(name, code)| *name == plain || text.parse() == Ok(*code));
            match known {
                Some((_, code)) => Ok(*code),
                None => Err(unknown_code(text, NVML_CODES.iter().map(|(name, _)| *name))),
            }
        }
    }
}

fn unknown_code<'a>(text: &str, all: impl Iterator<Item = &'a str>) -> String {
    let short = |name: &'a str| name.strip_prefix("CUDA_ERROR_").unwrap_or(name);
    format!("no code is called {text}; nearest are {}", nearest(text, all.map(short)).join(", "))
}

/// The three that differ least.
fn nearest<'a>(word: &str, among: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all: Vec<(usize, &str)> = among.map(|other| (distance(word, other), other)).collect();
    all.sort_unstable();
    all.truncate(3);
    all.into_iter().map(|(_, name)| name).collect()
}

/// How many letters must be put in, taken out or exchanged.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, a) in one.to_lowercase().chars().enumerate() {
        let mut corner = row[0];
        row[0] = above + 1;
        for (left, b) in other.iter().enumerate() {
            let changed = corner + usize::from(a != *b);
            corner = row[left + 1];
            row[left + 1] = changed.min(corner + 1).min(row[left] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_told_the_nearest() {
        let why = functions("cuMemAloc").expect_err("no such function");
        assert!(why.contains("cuMemAlloc"), "{why}");
        let why = code(Some("OUT_OF_MEMRY"), false).expect_err("no such code");
        assert!(why.contains("OUT_OF_MEMORY"), "{why}");
        let why = code(Some("GPU_LOST"), true).expect_err("no such code");
        assert!(why.contains("GPU_IS_LOST"), "{why}");
    }

    #[test]
    fn a_name_may_mean_functions_of_both_libraries_or_a_group_but_not_all() {
        assert_eq!(functions("cuMemAlloc").expect("two forms").len(), 2);
        assert_eq!(functions("nvmlDeviceGetMemoryInfo").expect("one").len(), 1);
        assert!(functions("cu*").is_err());
        assert!(driver_rows("nvmlInit_v2").is_err());
    }

    #[test]
    fn success_is_no_failure_and_numbers_are_known_ones() {
        assert!(code(Some("0"), false).is_err());
        assert!(code(Some("12345"), false).is_err());
        assert_eq!(code(Some("700"), false), Ok(700));
        assert_eq!(code(Some("15"), true), Ok(15));
        assert_eq!(code(None, false), Ok(2));
    }
}
