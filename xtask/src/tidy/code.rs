//! Rules about Rust and C files: how they open, how long they are, where they say unsafe.

use std::collections::BTreeMap;

use super::Source;

const LINES_MAX: usize = 600;
/// Data, one row a line: as long as the vendor's interface.
const LONG_ON_PURPOSE: &[&str] = &["shim-cuda-headers/src/table.rs"];
/// Where `ARCHITECTURE.md` lists the files that may say unsafe.
const UNSAFE_HEADING: &str = "## Files that may say unsafe";

pub(super) fn opens_with_what_it_is(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| source.is("rs") && !source.text.starts_with("//!"))
        .map(|source| source.complaint(0, "opens without `//!`; say what it is and is not"))
        .collect()
}

pub(super) fn files_are_short(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| source.is("rs") || source.is("c") || source.is("py"))
        .filter(|source| !LONG_ON_PURPOSE.contains(&source.path.as_str()))
        .filter(|source| source.text.lines().count() > LINES_MAX)
        .map(|source| source.complaint(LINES_MAX, "is longer than 600 lines; split it by subject"))
        .collect()
}

pub(super) fn unsafe_only_where_listed(sources: &[Source], architecture: &str) -> Vec<String> {
    let listed = listed_paths(architecture);
    let mut complaints = Vec::new();
    if listed.is_empty() {
        complaints.push(format!("ARCHITECTURE.md:1: has no list under {UNSAFE_HEADING:?}"));
    }
    for source in sources.iter().filter(|source| source.is("rs")) {
        let allowed = listed.iter().any(|listed| {
            source.path == *listed || (listed.ends_with('/') && source.path.starts_with(listed))
        });
        let said = source.text.lines().position(says_unsafe);
        if let (false, Some(line)) = (allowed, said) {
            complaints.push(source.complaint(
                line,
                "says unsafe, but ARCHITECTURE.md does not list it; move the operation to a file that is listed",
            ));
        }
    }
    complaints
}

/// Paths between backquotes in the list under the heading; one that ends in `/` is a folder.
fn listed_paths(architecture: &str) -> Vec<&str> {
    let Some((_, section)) = architecture.split_once(UNSAFE_HEADING) else {
        return Vec::new();
    };
    let section = section.split("\n## ").next().unwrap_or_default();
    section
        .lines()
        .filter_map(|line| line.trim().strip_prefix("* `"))
        .filter_map(|item| Some(item.split_once('`')?.0))
        .collect()
}

/// Whether a line of Rust uses the keyword, outside comments and texts.
fn says_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let outside_texts = code.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    outside_texts
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .any(|word| word == "unsafe")
}

pub(super) fn pairs_have_both_ends(sources: &[Source]) -> Vec<String> {
    let label = concat!("PAIRS", "(");
    let mut ends: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is("rs")) {
        for (number, line) in source.text.lines().enumerate() {
            for rest in line.split(label).skip(1) {
                let name = rest.split(')').next().unwrap_or_default();
                ends.entry(name).or_default().push(source.complaint(number, name));
            }
        }
    }
    ends.into_iter()
        .filter(|(_, places)| places.len() < 2)
        .map(|(_, places)| format!("{}: this ordering label has no other end", places.join("")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn unsafe_in_a_comment_or_a_text_is_no_unsafe() {
        assert!(says_unsafe("    unsafe { *p }"));
        assert!(says_unsafe("#[unsafe(no_mangle)]"));
        assert!(!says_unsafe("// unsafe"));
        assert!(!says_unsafe(concat!("let a = \"un", "safe\";")));
        assert!(!says_unsafe("#![forbid(unsafe_code)]"));
    }

    #[test]
    fn unsafe_outside_the_list_is_a_complaint() {
        let list = format!("{UNSAFE_HEADING}\n\n* `a/b.rs`: why\n* `c/`\n\n## Next\n* `d.rs`\n");
        let sources = [
            source("a/b.rs", "unsafe {"),
            source("c/d.rs", "unsafe {"),
            source("d.rs", "unsafe {"),
        ];
        let complaints = unsafe_only_where_listed(&sources, &list);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("d.rs:1:"), "{complaints:?}");
    }

    #[test]
    fn a_label_that_stands_once_is_a_complaint() {
        let once = [source("a.rs", concat!("// PAIRS", "(turn): acquires"))];
        assert_eq!(pairs_have_both_ends(&once).len(), 1);
        let twice = [
            source("a.rs", concat!("// PAIRS", "(turn): acquires")),
            source("b.rs", concat!("// PAIRS", "(turn): releases")),
        ];
        assert!(pairs_have_both_ends(&twice).is_empty());
    }
}
