//! What goes to stdout, and whether it may have colours. Messages go to stderr elsewhere.

use std::io::{self, IsTerminal, Write};

use comfy_table::{CellAlignment, Table, presets};
use halfwarp_rest::Bytes;
use serde::Serialize;

use crate::failure::Failure;

const MIB: u64 = 1 << 20;

/// Prints `text` as it is and flushes it.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::ReaderGone
        } else {
            Failure::io("writing to standard output", &error, "")
        }
    })
}

/// Prints `data` as JSON.
pub(crate) fn print_json(data: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(data)
        .map_err(|error| Failure::new("writing JSON", error.to_string(), ""))?;
    print(&format!("{text}\n"))
}

/// Memory that is held or used, for people: in MiB as `nvidia-smi` writes it, the last one perhaps
/// only begun. JSON has the bytes.
pub(crate) fn held(bytes: Bytes) -> String {
    format!("{}MiB", bytes.0.div_ceil(MIB))
}

/// Memory that was asked for or promised, for people: in MiB too, but never another amount than meant.
pub(crate) fn exact(bytes: Bytes) -> String {
    if bytes.0.is_multiple_of(MIB) { held(bytes) } else { bytes.to_string() }
}

/// The first `most` characters, the last of them a sign that there were more.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept = text.chars().take(most.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// A table without lines; columns that are not in `texts` are numbers.
pub(crate) fn table(header: &[&str], texts: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    for (column, name) in table.column_iter_mut().zip(header) {
        column.set_padding((0, 2));
        if !texts.contains(name) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The table's lines, with no blanks at their ends.
pub(crate) fn lines(table: &Table) -> String {
    table.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// Whether stdout takes colours: a terminal, and nobody asked for none.
pub(crate) fn colours() -> bool {
    let asked_for_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    io::stdout().is_terminal() && !asked_for_none && !dumb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_mib_rounded_up_where_it_is_held_and_exact_where_it_is_promised() {
        let text = |bytes| (held(Bytes(bytes)), exact(Bytes(bytes)));
        assert_eq!(text(0), ("0MiB".to_owned(), "0MiB".to_owned()));
        assert_eq!(text(8 << 30), ("8192MiB".to_owned(), "8192MiB".to_owned()));
        assert_eq!(text(470_362_624), ("449MiB".to_owned(), "470362624B".to_owned()));
        assert_eq!(text((4 << 30) + 512), ("4097MiB".to_owned(), "4294967808B".to_owned()));
        assert_eq!(held(Bytes(u64::MAX)), "17592186044416MiB");
    }

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(shortened("python3", 7), "python3");
        assert_eq!(shortened("python3.12", 7), "python…");
        assert_eq!(shortened("ééééé", 3), "éé…");
    }
}
