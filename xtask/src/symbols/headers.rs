//! The names in NVIDIA's headers against the names in the table and in the list of refusals.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use shim_cuda_headers::refused::REFUSED;
use shim_cuda_headers::{DriverFn, NvmlFn};

/// Every `PFN_name_vN` of the typedef headers and every NVML function has a row or a refusal.
pub(crate) fn names_are_covered(include: &Path) -> Result<()> {
    let mut missing = Vec::new();
    let rows: BTreeSet<(String, String)> = DriverFn::ALL
        .iter()
        .map(|f| f.row())
        .map(|row| (row.asked.to_owned(), row.version.to_string()))
        .collect();
    for header in ["", "GL", "EGL", "VDPAU", "Profiler"] {
        for (name, version) in typed_names(&read(include, &format!("cuda{header}Typedefs.h"))?) {
            if !rows.contains(&(name.clone(), version.clone())) && !is_refused(&name) {
                missing.push(format!("{name} v{version}"));
            }
        }
    }
    let nvml: BTreeSet<&str> = NvmlFn::ALL.iter().map(|f| f.symbol()).collect();
    let declared = nvml_names(&read(include, "nvml.h")?);
    ensure!(declared.len() > 200, "only {} functions were found in nvml.h", declared.len());
    missing.extend(
        declared.into_iter().filter(|name| !nvml.contains(name.as_str()) && !is_refused(name)),
    );
    ensure!(missing.is_empty(), "in NVIDIA's headers, but neither a row nor refused: {missing:?}");
    Ok(())
}

fn read(include: &Path, name: &str) -> Result<String> {
    let file = include.join(name);
    fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))
}

fn is_refused(name: &str) -> bool {
    REFUSED.iter().any(|(refused, _)| *refused == name)
}

/// `(asked name, version)` of each `*PFN_name_vN[_ptsz|_ptds]` in a typedef header.
fn typed_names(header: &str) -> BTreeSet<(String, String)> {
    let declared = header.split("*PFN_").skip(1).filter_map(|rest| rest.split_once(')'));
    declared
        .filter_map(|(declared, _)| {
            let plain = declared.trim_end_matches("_ptsz").trim_end_matches("_ptds");
            let (name, version) = plain.rsplit_once("_v")?;
            Some((name.to_owned(), version.to_owned()))
        })
        .collect()
}

/// Names declared as `nvmlReturn_t DECLDIR name(…)`, without the ones only named in comments.
fn nvml_names(header: &str) -> BTreeSet<String> {
    header
        .lines()
        .filter_map(|line| {
            let (before, after) = line.split_once("DECLDIR ")?;
            let name = after.split('(').next()?.trim();
            let is_name = name.starts_with("nvml") && !before.contains("define");
            is_name.then(|| name.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_declaration_gives_name_and_version() {
        let header = "typedef CUresult (CUDAAPI *PFN_cuMemcpy_v7000_ptds)(CUdeviceptr dst);";
        let names = typed_names(header);
        assert_eq!(names.into_iter().next(), Some(("cuMemcpy".into(), "7000".into())));
    }

    #[test]
    fn an_nvml_declaration_gives_its_name() {
        let header = "nvmlReturn_t DECLDIR nvmlInit_v2(void);\n#define DECLDIR nvmlNot";
        assert_eq!(nvml_names(header).into_iter().collect::<Vec<_>>(), ["nvmlInit_v2"]);
    }
}
