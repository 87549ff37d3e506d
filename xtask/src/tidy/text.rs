//! Rules about words: nothing half done, one word an idea, nobody's machine, one sentence a line.

use super::Source;

/// Marks of work that is not finished. Written in halves, so that this list is not one.
const HALF_DONE: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
];
/// Hosts of package registries: which one serves a machine is the machine's configuration.
const REGISTRIES: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("proxy.golang", ".org"),
    concat!("repo1.maven", ".org"),
    concat!("deb.debian", ".org"),
];
/// Folders of somebody's machine.
const MACHINES: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
/// Files that say such things by their nature.
const GENERATED: &[&str] = &["Cargo.lock"];

pub(super) fn nothing_half_done(sources: &[Source]) -> Vec<String> {
    let kinds = ["rs", "c", "h", "py", "toml", "md", "yaml", "ptx"];
    let files = sources.iter().filter(|source| kinds.iter().any(|kind| source.is(kind)));
    found(files, HALF_DONE, "is unfinished work; finish it or leave it out")
}

pub(super) fn no_foreign_places(sources: &[Source]) -> Vec<String> {
    let files = || sources.iter().filter(|source| !GENERATED.contains(&source.path.as_str()));
    let mut complaints =
        found(files(), REGISTRIES, "names a registry's host; leave that to configuration");
    complaints.extend(found(files(), MACHINES, "is a path of one machine"));
    complaints
}

fn found<'a>(sources: impl Iterator<Item = &'a Source>, words: &[&str], why: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        for (number, line) in source.text.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                complaints.push(source.complaint(number, &format!("{word:?} {why}")));
            }
        }
    }
    complaints
}

/// The glossary's third column lists words that are not used for an idea.
pub(super) fn one_word_an_idea(sources: &[Source], glossary: &str) -> Vec<String> {
    let rejected = rejected_words(glossary);
    let mut complaints = Vec::new();
    if rejected.is_empty() {
        complaints.push("docs/glossary.md:1: lists no words that are not used".to_owned());
    }
    for source in sources.iter().filter(|source| source.is("rs") || source.is("md")) {
        if source.path == "docs/glossary.md" {
            continue;
        }
        for (number, line) in source.text.lines().enumerate() {
            let lower = line.to_lowercase();
            if let Some((word, ours)) = rejected.iter().find(|(word, _)| has_word(&lower, word)) {
                complaints
                    .push(source.complaint(number, &format!("{word:?} is called {ours:?} here")));
            }
        }
    }
    complaints
}

/// `| tenant | what it is | client, job |` as `(client, tenant)` and `(job, tenant)`.
fn rejected_words(glossary: &str) -> Vec<(String, String)> {
    let rows = glossary.lines().filter(|line| line.starts_with("| ") && !line.contains("---"));
    rows.skip(1)
        .filter_map(|row| {
            let columns: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [ours, _, rejected] = columns[..] else { return None };
            Some((ours, rejected))
        })
        .flat_map(|(ours, rejected)| {
            let words = rejected.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(|word| (word.to_lowercase(), ours.to_owned())).collect::<Vec<_>>()
        })
        .collect()
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// Prose in Markdown has one sentence a line, so that a change shows what it changes.
pub(super) fn one_sentence_a_line(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| source.is("md")) {
        let mut in_code = false;
        for (number, line) in source.text.lines().enumerate() {
            in_code ^= line.trim_start().starts_with("```");
            if !in_code && !line.starts_with('|') && has_two_sentences(line) {
                complaints.push(source.complaint(number, "has two sentences; give each a line"));
            }
        }
    }
    complaints
}

/// A word's end, a full stop, a space and a capital. `e.g. GPU` and `1. First` are not two sentences.
fn has_two_sentences(line: &str) -> bool {
    line.match_indices(". ").any(|(at, _)| {
        let word = line[..at].rsplit([' ', '(']).next().unwrap_or_default();
        let ends_word = word.len() > 1 && !word.contains('.') && word.parse::<u32>().is_err();
        let next = line[at + 2..].chars().next();
        ends_word && next.is_some_and(|c| c.is_uppercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sentences_on_a_line_are_seen_and_numbers_and_abbreviations_are_not() {
        assert!(has_two_sentences("One is here. Two is here."));
        assert!(!has_two_sentences("1. Add a row."));
        assert!(!has_two_sentences("On a card, e.g. H200, it works."));
        assert!(!has_two_sentences("See libcuda.so. and on"));
    }

    #[test]
    fn a_rejected_word_is_found_as_a_word_only() {
        let glossary = "| word | means | not |\n|---|---|---|\n| tenant | x | customer, v gpu |\n";
        let rejected = rejected_words(glossary);
        assert_eq!(rejected.len(), 2);
        assert!(has_word("a customer here", &rejected[0].0));
        assert!(!has_word("customers are fine", &rejected[0].0));
    }

    #[test]
    fn unfinished_work_is_a_complaint() {
        let text = concat!("// TO", "DO: later").to_owned();
        let sources = [Source { path: "a.rs".to_owned(), text }];
        assert_eq!(nothing_half_done(&sources).len(), 1);
    }
}
