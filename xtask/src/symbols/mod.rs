//! `cargo xtask symbols`: what the built libraries export and need, and the table against NVIDIA's
//! own headers.
//!
//! The exports must be the table's rows, neither fewer nor more; a library that is preloaded must
//! load on the oldest host that we promise.

mod elf;
mod headers;
pub(crate) mod prototypes;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use shim_cuda_headers::{DriverFn, NvmlFn};

use crate::artefacts;
use crate::outcome::{Count, SkipKind};
use crate::tools::{Purpose, Venv};

/// The oldest glibc that must be able to load both stages.
const GLIBC_FLOOR: (u32, u32) = (2, 17);
/// Stage one is loaded into every process of a container: it stays small.
const STAGE_ONE_BYTES_MAX: u64 = 256 * 1024;
const LIBC_FAMILY: &[&str] =
    &["libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"];
/// What a library exports beside its rows: look-ups that stage one answers, and names by which our
/// own parts find each other.
const LOOK_UPS: &[&str] = &["dlsym", "dlvsym"];
/// The one NVML function that is no row: it returns a text, not a code, so it can be no slot.
const RETURNS_TEXT: &[&str] = &["nvmlErrorString"];
const OWN_PREFIXES: &[&str] = &["halfwarp_", "simcuda_"];

pub(crate) fn check(count: &mut Count) -> Result<()> {
    let hw = artefacts::folder();
    let driver: BTreeSet<&str> = DriverFn::ALL.iter().map(|f| f.row().symbol).collect();
    let nvml: BTreeSet<&str> = NvmlFn::ALL.iter().map(|f| f.symbol()).collect();
    let both: BTreeSet<&str> = driver.union(&nvml).copied().collect();
    let library = |name: &str| hw.join(name);

    count.check("symbols: stage one exports the table", || {
        exports_are(&library("libhalfwarp.so"), &both, LOOK_UPS)
    });
    count.check("symbols: stage one answers to the driver's name", || {
        soname_is(&library("libhalfwarp.so"), "libcuda.so.1")
    });
    count.check("symbols: stage one is small", || is_small(&library("libhalfwarp.so")));
    for stage in ["libhalfwarp.so", "libhalfwarp-core.so"] {
        count.check(&format!("symbols: {stage} loads on glibc 2.17"), || {
            loads_anywhere(&library(stage))
        });
    }
    count.check("symbols: stage two exports nothing of the driver's", || {
        exports_are(&library("libhalfwarp-core.so"), &BTreeSet::new(), &[])
    });
    count.check("symbols: the simulated driver exports every driver row", || {
        exports_are(&library("sim/libcuda.so.1"), &driver, &[])?;
        soname_is(&library("sim/libcuda.so.1"), "libcuda.so.1")
    });
    count.check("symbols: the simulated NVML exports every NVML row", || {
        exports_are(&library("sim/libnvidia-ml.so.1"), &nvml, RETURNS_TEXT)?;
        soname_is(&library("sim/libnvidia-ml.so.1"), "libnvidia-ml.so.1")
    });
    check_headers(count)
}

/// The table against NVIDIA's headers, where pip can bring them.
fn check_headers(count: &mut Count) -> Result<()> {
    let venv = match Venv::for_purpose(Purpose::Test) {
        Ok(venv) => venv,
        Err(error) => {
            let reason = format!("NVIDIA's headers could not be fetched: {error:#}");
            count.skip("symbols: the table equals NVIDIA's headers", SkipKind::Registry, &reason);
            return Ok(());
        }
    };
    let include = venv.site_packages()?.join("nvidia/cu13/include");
    count.check("symbols: each row's prototype is the header's", || prototypes::compare(&include));
    count.check("symbols: every function of the headers is a row or refused", || {
        headers::names_are_covered(&include)
    });
    Ok(())
}

fn exports_are(file: &Path, rows: &BTreeSet<&str>, also: &[&str]) -> Result<()> {
    let face = elf::face(file)?;
    let exported: BTreeSet<&str> = face.exports.iter().map(String::as_str).collect();
    let missing: Vec<_> = rows.difference(&exported).collect();
    let extra: Vec<_> = exported
        .difference(rows)
        .filter(|name| !also.contains(name))
        .filter(|name| !OWN_PREFIXES.iter().any(|own| name.starts_with(own)))
        .collect();
    anyhow::ensure!(
        missing.is_empty() && extra.is_empty(),
        "{}: {} rows of the table are not exported: {}; {} exports are not in the table: {}",
        file.display(),
        missing.len(),
        few(&missing),
        extra.len(),
        few(&extra)
    );
    Ok(())
}

fn few(names: &[&&str]) -> String {
    let shown: Vec<&str> = names.iter().take(8).map(|name| **name).collect();
    if shown.len() < names.len() { format!("{}, …", shown.join(", ")) } else { shown.join(", ") }
}

fn soname_is(file: &Path, wanted: &str) -> Result<()> {
    let soname = elf::face(file)?.soname;
    anyhow::ensure!(
        soname.as_deref() == Some(wanted),
        "{} has the SONAME {soname:?}, wanted {wanted}",
        file.display()
    );
    Ok(())
}

fn is_small(file: &Path) -> Result<()> {
    let bytes = loaded_bytes(file)?;
    anyhow::ensure!(
        bytes <= STAGE_ONE_BYTES_MAX,
        "{} loads {bytes} bytes, at most {STAGE_ONE_BYTES_MAX} are allowed",
        file.display()
    );
    Ok(())
}

/// Text, data and bss as `size` counts them: debug information is not loaded.
fn loaded_bytes(file: &Path) -> Result<u64> {
    let table = crate::command::output(std::process::Command::new("size").arg(file))?;
    let columns: Vec<u64> = table
        .lines()
        .nth(1)
        .unwrap_or_default()
        .split_whitespace()
        .take(3)
        .map_while(|column| column.parse().ok())
        .collect();
    anyhow::ensure!(columns.len() == 3, "size printed something unexpected: {table}");
    Ok(columns.iter().sum())
}

fn loads_anywhere(file: &Path) -> Result<()> {
    let face = elf::face(file)?;
    let above = face.versions_above(GLIBC_FLOOR);
    anyhow::ensure!(above.is_empty(), "{} needs {above:?}, above glibc 2.17", file.display());
    let foreign: Vec<_> =
        face.needed.iter().filter(|name| !LIBC_FAMILY.contains(&name.as_str())).collect();
    anyhow::ensure!(foreign.is_empty(), "{} needs {foreign:?}, not of libc", file.display());
    Ok(())
}
