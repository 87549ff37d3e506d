//! Finds the real library beneath ours: which file, and why that one. Ours has the same SONAME, so
//! asking the loader by name would find ourselves.
//!
//! In this order, skipping every file that is ours: a file of that name which the program has
//! already opened; `LD_LIBRARY_PATH`; `/etc/ld.so.cache` (read, not guessed: it is how compat
//! packages, WSL, GKE and Nix say which driver is meant); the loader's default directories.

use std::{
    ffi::{OsStr, c_void},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::{real::dlsym_in, sys};

/// Directories that the loader searches last, in its order, with the names distributions give them.
const DEFAULT_DIRECTORIES: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// Opens the real library `soname`. `probe` is a function it must have.
pub(crate) fn open_real(soname: &str, probe: &std::ffi::CStr) -> Option<*mut c_void> {
    candidates(soname).into_iter().find_map(|path| {
        if !path.is_absolute() || sys::identity(&path).is_none() {
            return None;
        }
        let handle = sys::open_library(&path)?;
        let ours = dlsym_in(handle, halfwarp_gate::stage::MARK_SYMBOL).is_some();
        (!ours && dlsym_in(handle, probe).is_some()).then_some(handle)
    })
}

/// Every place where the library may be, best first.
fn candidates(soname: &str) -> Vec<PathBuf> {
    let stem = soname.trim_end_matches(".1");
    let loaded = sys::loaded_objects();
    let opened = loaded
        .iter()
        .map(|p| PathBuf::from(OsStr::from_bytes(p)))
        .filter(|p| p.file_name().is_some_and(|f| f.as_bytes().starts_with(stem.as_bytes())));
    // As the loader has it: a change since the start does not concern it.
    let by_path = sys::variable_in(&sys::variables_at_start(), c"LD_LIBRARY_PATH")
        .or_else(|| sys::variable(c"LD_LIBRARY_PATH"))
        .unwrap_or_default();
    let by_path = by_path
        .split(|b| *b == b':' || *b == b';')
        .filter(|d| !d.is_empty())
        .map(|d| Path::new(OsStr::from_bytes(d)).join(soname))
        .collect::<Vec<_>>();
    let cached = fs::read("/etc/ld.so.cache").map(|c| in_cache(&c, soname)).unwrap_or_default();
    let defaults = DEFAULT_DIRECTORIES.iter().map(|d| Path::new(d).join(soname));
    opened.chain(by_path).chain(cached).chain(defaults).collect()
}

/// Paths that the loader's cache has for `soname` on x86-64.
///
/// Format (glibc's `dl-cache`, "new" form, alone or behind the old one): a 20-byte magic, number of
/// entries, bytes of text, 20 bytes unused; entries of 24 bytes: flags, key, value (offsets from the
/// magic), OS version, hardware capabilities.
fn in_cache(cache: &[u8], soname: &str) -> Vec<PathBuf> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const X86_64_LIBC6: u32 = 0x0303;
    let Some(start) = cache.windows(MAGIC.len()).position(|w| w == MAGIC) else {
        return Vec::new();
    };
    let cache = cache.get(start..).unwrap_or_default();
    let word = |at: usize| {
        let bytes = cache.get(at..at + 4)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    };
    let text = |at: u32| {
        let from = cache.get(at as usize..)?;
        from.split(|b| *b == 0).next()
    };
    let entries = word(20).unwrap_or(0) as usize;
    let entry = |i: usize| {
        let at = 48 + i.checked_mul(24)?;
        let (flags, key, value) = (word(at)?, text(word(at + 4)?)?, text(word(at + 8)?)?);
        (flags == X86_64_LIBC6 && key == soname.as_bytes())
            .then(|| PathBuf::from(OsStr::from_bytes(value)))
    };
    (0..entries.min(1 << 20)).filter_map(entry).collect()
}
