//! `cargo xtask tidy`: the rules about the tree that a compiler does not check.
//!
//! Each rule is a function from the files to a list of complaints, and each complaint names the file
//! and says what to do. It reads text, not syntax: good enough to catch what people do by accident.

mod code;
mod crates;
mod text;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{output, root};

/// A text file of the checkout.
pub(crate) struct Source {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }

    /// `path:line: why`, as editors read it.
    fn complaint(&self, line: usize, why: &str) -> String {
        format!("{}:{}: {why}", self.path, line + 1)
    }
}

pub(crate) fn check() -> Result<()> {
    let sources = sources()?;
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md"))
        .context("reading ARCHITECTURE.md, which lists the files that may say unsafe")?;
    let glossary = fs::read_to_string(root().join("docs/glossary.md"))
        .context("reading docs/glossary.md, which lists the words not used")?;

    let mut complaints = Vec::new();
    complaints.extend(code::opens_with_what_it_is(&sources));
    complaints.extend(code::unsafe_only_where_listed(&sources, &architecture));
    complaints.extend(code::pairs_have_both_ends(&sources));
    complaints.extend(code::files_are_short(&sources));
    complaints.extend(text::nothing_half_done(&sources));
    complaints.extend(text::one_word_an_idea(&sources, &glossary));
    complaints.extend(text::no_foreign_places(&sources));
    complaints.extend(text::one_sentence_a_line(&sources));
    complaints.extend(crates::depend_as_drawn()?);
    if complaints.is_empty() {
        return Ok(());
    }
    complaints.sort();
    bail!("{} complaints\n{}", complaints.len(), complaints.join("\n"))
}

/// Every file that is tracked or could be, if it is text.
fn sources() -> Result<Vec<Source>> {
    let listed = output(
        Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(root()),
    )?;
    let mut sources = Vec::new();
    for path in listed.lines() {
        // A file that is listed may just have been deleted; a binary one is nobody's prose.
        let Ok(bytes) = fs::read(root().join(PathBuf::from(path))) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            sources.push(Source { path: path.to_owned(), text });
        }
    }
    Ok(sources)
}
