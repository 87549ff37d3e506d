//! Compiles the programs, libraries and odd drivers of `tests/roads`, as `tests/roads.toml` lists them,
//! into `target/hw/tests/roads`.
//!
//! What runs them and what they must show is `tests/tests/roads.rs`'s business.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use shim_cuda_headers::DriverFn;

use crate::artefacts::{compiler, folder};
use crate::command::{root, run};

#[derive(Deserialize)]
struct Table {
    library: Vec<Library>,
    road: Vec<Road>,
}

#[derive(Deserialize)]
struct Library {
    name: String,
    sources: Vec<String>,
    #[serde(default)]
    options: Vec<String>,
    /// A second name, beside it.
    link: Option<String>,
    /// It is a program that goes no road.
    #[serde(default)]
    program: bool,
}

#[derive(Deserialize)]
struct Road {
    program: String,
    built: Option<String>,
    #[serde(default)]
    options: Vec<String>,
}

/// Builds what has changed since it was last built.
pub(crate) fn build() -> Result<()> {
    let table = root().join("tests/roads.toml");
    let text = fs::read_to_string(&table).with_context(|| format!("{}", table.display()))?;
    let listed: Table = toml::from_str(&text).with_context(|| format!("{}", table.display()))?;
    let out = folder().join("tests/roads");
    let current = changed_at(&out.join("complete"));
    if current.is_some() && current >= newest_source()? {
        return Ok(());
    }
    fs::create_dir_all(&out)?;
    fs::write(out.join("driver_rows.h"), driver_rows())?;
    fs::write(out.join("driver_kinds.h"), driver_kinds())?;
    for library in &listed.library {
        let shared: &[&str] = if library.program { &[] } else { &["-shared", "-fPIC"] };
        let options = shared.iter().chain(&["-O1"]).map(|option| (*option).to_owned());
        let options: Vec<String> = options.chain(library.options.clone()).collect();
        compile(&library.sources, &options, &out.join(&library.name))?;
        if let Some(link) = &library.link {
            let link = out.join(link);
            let file = Path::new(&library.name).file_name().context("a library has a name")?;
            let _ = fs::remove_file(&link);
            symlink(file, &link).with_context(|| format!("linking {}", link.display()))?;
        }
    }
    for (built, (program, options)) in programs(&listed.road)? {
        compile(&[format!("{program}.c")], options, &out.join(built))?;
    }
    fs::write(out.join("complete"), "")?;
    println!(
        "{:>10} new  {}",
        listed.road.len(),
        out.strip_prefix(root()).unwrap_or(&out).display()
    );
    Ok(())
}

/// Each program once, by the name it is built under.
fn programs(roads: &[Road]) -> Result<BTreeMap<&str, (&str, &[String])>> {
    let mut programs: BTreeMap<&str, (&str, &[String])> = BTreeMap::new();
    for road in roads {
        let built = road.built.as_deref().unwrap_or(&road.program);
        let asked = (road.program.as_str(), road.options.as_slice());
        if programs.insert(built, asked).is_some_and(|before| before != asked) {
            bail!("tests/roads.toml builds {built} in two ways: give one of them a `built` name");
        }
    }
    Ok(programs)
}

/// The rows of the table for C: `ROW(cuInit) …`. The odd drivers answer `cuGetProcAddress` themselves.
fn driver_rows() -> String {
    let forwarded = DriverFn::ALL.iter().filter(|f| f.row().asked != "cuGetProcAddress");
    forwarded.map(|f| format!("ROW({})\n", f.row().symbol)).collect()
}

/// Symbol, class of memory and parameter types of each row: `KINDS(cuInit, Nothing, "c_uint")`. Rows that
/// take a structure on the stack or a floating-point number are left out: their arguments lie elsewhere.
fn driver_kinds() -> String {
    let elsewhere = |ty: &&&str| ty.starts_with("CUipc") || **ty == "f32" || **ty == "f64";
    let simple = DriverFn::ALL.iter().filter(|f| !f.row().params.iter().any(|ty| elsewhere(&ty)));
    simple
        .map(|f| {
            let row = f.row();
            let types: Vec<String> = row.params.iter().map(|ty| ty.replace(' ', "")).collect();
            format!("KINDS({}, \"{:?}\", \"{}\")\n", row.symbol, row.memory, types.join(" "))
        })
        .collect()
}

fn compile(sources: &[String], options: &[String], to: &Path) -> Result<()> {
    let roads = folder().join("tests/roads");
    let here = root().join("tests/roads");
    let name = to.file_name().unwrap_or_default().to_string_lossy().into_owned();
    fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
    let fresh = to.with_file_name(format!(".{name}.new"));
    let mut cc = compiler();
    // Relative names of sources and version scripts are those of the table.
    cc.current_dir(&here).args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(&roads).args(sources);
    cc.args(options.iter().map(|option| option.replace("@ROADS", &roads.to_string_lossy())));
    cc.arg("-L").arg(folder().join("sim")).arg("-o").arg(&fresh).arg("-ldl");
    run(&mut cc)?;
    fs::rename(&fresh, to).with_context(|| format!("replacing {}", to.display()))
}

fn changed_at(file: &Path) -> Option<std::time::SystemTime> {
    fs::metadata(file).and_then(|data| data.modified()).ok()
}

fn newest_source() -> Result<Option<std::time::SystemTime>> {
    let mut folders: Vec<PathBuf> = vec![root().join("tests/roads")];
    let mut newest = changed_at(&root().join("tests/roads.toml"))
        .max(changed_at(&root().join("shim-cuda-headers/src/table.rs")))
        .max(changed_at(&root().join("xtask/src/roads.rs")));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            newest = newest.max(changed_at(&path));
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(newest)
}
