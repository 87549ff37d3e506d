//! What goes to stdout, and whether it may have colours. Messages go to stderr elsewhere.

use std::io::{self, IsTerminal, Write};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::failure::Failure;

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

/// A table without lines; the columns in `right` are numbers.
pub(crate) fn table(header: &[&str], right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for index in right {
        if let Some(column) = table.column_mut(*index) {
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
