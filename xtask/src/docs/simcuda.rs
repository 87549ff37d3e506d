//! `docs/simcuda.md` from the simulated driver's own source: which function it has, which only
//! remembers, which it refuses, and by which rule a group's function is held to what it says.
//!
//! A function is there if `Sim` has one of its name: then, and only then, is that what the library
//! exports. `Partial:` or `Refused:` in the words above it says what it lacks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use shim_cuda_headers::DriverFn;

use crate::command::root;

#[derive(Clone, PartialEq, Eq)]
enum Support {
    Implemented,
    Partial(String),
    Refused(String),
}

/// Groups whose functions must each have a rule.
const RULED: [&str; 10] =
    ["alloc", "submit", "sync", "ctx", "stream", "event", "vmm", "pool", "graph", "ipc"];

pub(super) fn table() -> String {
    let (support, rules, groups) = (support(), rules(), groups());
    let mut text = String::from("| function | groups | state | rule |\n|---|---|---|---|\n");
    for row in DriverFn::ALL.iter().map(|f| f.row()) {
        let state = match support.get(row.symbol) {
            Some(Support::Implemented) => "implemented".to_owned(),
            Some(Support::Partial(why)) => format!("partial: {why}"),
            Some(Support::Refused(why)) => format!("refused: {why}"),
            None => "refused".to_owned(),
        };
        let groups = groups.get(row.symbol).map_or("", String::as_str).replace(',', ", ");
        let rule = rules.get(row.symbol).map_or(String::new(), |rule| rule.replace('_', " "));
        let _ = writeln!(text, "| `{}` | {groups} | {state} | {rule} |", row.symbol);
    }
    text
}

pub(super) fn counts() -> String {
    let (support, rules, groups) = (support(), rules(), groups());
    let of = |wanted: fn(Option<&Support>) -> bool| {
        DriverFn::ALL.iter().filter(|f| wanted(support.get(f.row().symbol))).count()
    };
    let implemented = of(|s| matches!(s, Some(Support::Implemented)));
    let partial = of(|s| matches!(s, Some(Support::Partial(_))));
    let refused = of(|s| matches!(s, Some(Support::Refused(_)) | None));
    let mut text = format!(
        "{} functions: {implemented} implemented, {partial} partial, {refused} refused.\n\n\
         | group | functions | implemented | partial | refused | with a rule |\n\
         |---|---|---|---|---|---|\n",
        DriverFn::ALL.len()
    );
    for group in RULED {
        let of_it: Vec<&str> = DriverFn::ALL
            .iter()
            .map(|f| f.row().symbol)
            .filter(|symbol| groups.get(*symbol).is_some_and(|g| g.split(',').any(|g| g == group)))
            .collect();
        let count = |wanted: fn(Option<&Support>) -> bool| {
            of_it.iter().filter(|symbol| wanted(support.get(**symbol))).count()
        };
        let _ = writeln!(
            text,
            "| {group} | {} | {} | {} | {} | {} |",
            of_it.len(),
            count(|s| matches!(s, Some(Support::Implemented))),
            count(|s| matches!(s, Some(Support::Partial(_)))),
            count(|s| matches!(s, Some(Support::Refused(_)) | None)),
            of_it.iter().filter(|symbol| rules.contains_key(**symbol)).count(),
        );
    }
    text
}

/// What the driver's source has, by symbol.
fn support() -> BTreeMap<String, Support> {
    let mut found = BTreeMap::new();
    let mut twins = Vec::new();
    for text in texts(&root().join("simcuda/driver/src")) {
        let mut said = Support::Implemented;
        for line in text.lines().map(str::trim) {
            if let Some(words) = line.strip_prefix("///") {
                said = said_in(words.trim()).unwrap_or(said);
            } else if let Some(name) = function_in(line) {
                found.insert(name, said);
                said = Support::Implemented;
            } else if let Some((twin, base)) = twin_in(line) {
                twins.push((twin, base));
            } else if !line.starts_with("#[") {
                said = Support::Implemented;
            }
        }
    }
    for (twin, base) in twins {
        if let Some(support) = found.get(&base).cloned() {
            found.insert(twin, support);
        }
    }
    found
}

fn said_in(words: &str) -> Option<Support> {
    let sentence = |text: &str| text.trim().trim_end_matches('.').to_owned();
    if let Some(why) = words.strip_prefix("Partial:") {
        return Some(Support::Partial(sentence(why)));
    }
    words.strip_prefix("Refused:").map(|why| Support::Refused(sentence(why)))
}

/// `pub(crate) fn cuX(…`, and not a function of ours whose name only begins alike.
fn function_in(line: &str) -> Option<String> {
    let name = line.strip_prefix("pub(crate) fn cu")?.split('(').next()?;
    name.starts_with(char::is_uppercase).then(|| format!("cu{name}"))
}

/// `cuX_ptsz = cuX(…);`
fn twin_in(line: &str) -> Option<(String, String)> {
    let (twin, base) = line.split_once(" = cu")?;
    let base = base.split('(').next()?;
    twin.starts_with("cu").then(|| (twin.to_owned(), format!("cu{base}")))
}

/// Which rule a function is held to: `fn name(turn) covers [cuX, cuY]`.
fn rules() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for text in texts(&root().join("simcuda/driver/tests/conformance")) {
        for part in text.split("\n    fn ").skip(1) {
            let Some((head, rest)) = part.split_once(" covers [") else { continue };
            let Some((name, turn)) = head.split_once("(") else { continue };
            if !turn.ends_with("turn)") {
                continue;
            }
            let list = rest.split(']').next().unwrap_or("");
            for symbol in list.split(',').map(str::trim).filter(|s| !s.is_empty()) {
                found.entry(symbol.to_owned()).or_insert_with(|| name.to_owned());
            }
        }
    }
    found
}

/// The groups of each symbol, from the list of the driver's functions.
fn groups() -> BTreeMap<String, String> {
    let list = fs::read_to_string(root().join("shim-cuda-headers/data/cuda-api.tsv"));
    let mut found = BTreeMap::new();
    for line in list.unwrap_or_default().lines().filter(|line| line.starts_with("cu")) {
        let mut columns = line.split('\t');
        let (Some(_), Some(groups), Some(_), Some(forms)) =
            (columns.next(), columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        for form in forms.split(';').filter_map(|form| form.split('@').next()) {
            found.insert(form.to_owned(), groups.to_owned());
        }
    }
    found
}

/// The texts of a folder's Rust files, in the order of their names.
fn texts(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    paths.sort();
    paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_source_has_is_what_the_table_says() {
        let support = support();
        assert!(support.get("cuMemAlloc_v2") == Some(&Support::Implemented));
        assert!(support.get("cuMemcpyAsync_ptsz") == Some(&Support::Implemented));
        assert!(matches!(support.get("cuCtxSetLimit"), Some(Support::Partial(_))));
        assert!(!support.contains_key("cuEGLStreamConsumerConnect"));
        for symbol in support.keys() {
            assert!(
                DriverFn::ALL.iter().any(|f| f.row().symbol == symbol),
                "{symbol} is no row of the table"
            );
        }
    }
}
