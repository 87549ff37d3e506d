//! What a shared library promises and needs, as `readelf` shows it. It parses text; it checks nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::output;

/// The dynamic face of one library.
#[derive(Default, Debug)]
pub(crate) struct Face {
    pub(crate) exports: BTreeSet<String>,
    pub(crate) needed: BTreeSet<String>,
    pub(crate) soname: Option<String>,
    /// Versions of libc symbols it asks for, `GLIBC_2.2.5` and so on.
    pub(crate) versions: BTreeSet<String>,
}

pub(crate) fn face(file: &Path) -> Result<Face> {
    let readelf = |options: &[&str]| {
        output(Command::new("readelf").args(options).arg(file))
            .context("readelf is needed (Debian: binutils)")
    };
    let mut face = Face::default();
    for line in readelf(&["--dyn-syms", "--wide"])?.lines() {
        face.note_symbol(line);
    }
    for line in readelf(&["--dynamic", "--wide"])?.lines() {
        let bracketed = || Some(line.split_once('[')?.1.split_once(']')?.0.to_owned());
        if line.contains("(NEEDED)") {
            face.needed.extend(bracketed());
        } else if line.contains("(SONAME)") {
            face.soname = bracketed();
        }
    }
    Ok(face)
}

impl Face {
    /// `   12: 0000000000001234  56 FUNC    GLOBAL DEFAULT   10 name@@VERSION`
    fn note_symbol(&mut self, line: &str) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, _kind, bind, visibility, section, name, ..] = columns[..] else {
            return;
        };
        if !matches!(bind, "GLOBAL" | "WEAK") {
            return;
        }
        let (name, version) = name.split_once('@').unwrap_or((name, ""));
        if section == "UND" {
            let version = version.trim_start_matches('@');
            if version.starts_with("GLIBC_") {
                self.versions.insert(version.to_owned());
            }
        } else if matches!(visibility, "DEFAULT" | "PROTECTED") {
            self.exports.insert(name.to_owned());
        }
    }

    /// Versions of libc symbols above `floor`, and private ones, which no version promises.
    pub(crate) fn versions_above(&self, floor: (u32, u32)) -> Vec<&str> {
        self.versions
            .iter()
            .map(String::as_str)
            .filter(|version| parsed(version).is_none_or(|parsed| parsed > floor))
            .collect()
    }
}

/// `GLIBC_2.17` as (2, 17); `None` for `GLIBC_PRIVATE`.
fn parsed(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix("GLIBC_")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_that_is_defined_is_an_export_and_one_that_is_not_names_a_version() {
        let mut face = Face::default();
        face.note_symbol(
            "   5: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND open@GLIBC_2.2.5 (3)",
        );
        face.note_symbol(
            "   6: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND f@GLIBC_2.34 (4)",
        );
        face.note_symbol("   7: 0000000000001480    33 FUNC    GLOBAL DEFAULT   11 cuInit");
        face.note_symbol("   8: 0000000000001480    33 FUNC    GLOBAL HIDDEN    11 hidden");
        assert_eq!(face.exports.iter().collect::<Vec<_>>(), ["cuInit"]);
        assert_eq!(face.versions_above((2, 17)), ["GLIBC_2.34"]);
    }

    #[test]
    fn a_private_symbol_of_libc_is_above_every_floor() {
        let mut face = Face::default();
        face.versions.insert("GLIBC_PRIVATE".to_owned());
        assert_eq!(face.versions_above((2, 17)), ["GLIBC_PRIVATE"]);
    }
}
