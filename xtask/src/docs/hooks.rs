//! `docs/hooks.md` from the table: which function is ours, and how each is treated.

use std::fmt::Write as _;

use shim_cuda_headers::refused::REFUSED;
use shim_cuda_headers::row::{Answer, Topic};
use shim_cuda_headers::{DriverFn, DriverRow, NvmlFn};

pub(super) fn answered_by_us() -> String {
    let mut text = String::from(
        "| function | since | memory | gate | while capturing | makes or frees |\n|---|---|---|---|---|---|\n",
    );
    for row in rows(Answer::Hook) {
        let _ = writeln!(
            text,
            "| `{}` | {} | {:?} | {:?} | {:?} | {:?} |",
            row.symbol,
            since(row),
            row.memory,
            row.gate,
            row.capture,
            row.lifetime
        );
    }
    text
}

pub(super) fn forwarded() -> String {
    let mut text = String::from(
        "| function | since | memory | gate | while capturing |\n|---|---|---|---|---|\n",
    );
    for row in rows(Answer::Forward) {
        let _ = writeln!(
            text,
            "| `{}` | {} | {:?} | {:?} | {:?} |",
            row.symbol,
            since(row),
            row.memory,
            row.gate,
            row.capture
        );
    }
    text
}

pub(super) fn refused() -> String {
    let mut text = String::from("| function | reason |\n|---|---|\n");
    for (symbol, reason) in REFUSED {
        let _ = writeln!(text, "| `{symbol}` | {reason} |");
    }
    text
}

/// Only the functions that concern a tenant; the rest are counted.
pub(super) fn nvml() -> String {
    let mut text = String::from("| function | about |\n|---|---|\n");
    let (other, named): (Vec<NvmlFn>, Vec<NvmlFn>) =
        NvmlFn::ALL.iter().copied().partition(|f: &NvmlFn| f.topic() == Topic::Other);
    for f in named {
        let _ = writeln!(text, "| `{}` | {:?} |", f.symbol(), f.topic());
    }
    let _ = writeln!(text, "\n{} more are passed through.", other.len());
    text
}

fn rows(answer: Answer) -> impl Iterator<Item = &'static DriverRow> {
    DriverFn::ALL.iter().map(|f| f.row()).filter(move |row| row.answer == answer)
}

/// 12020 is CUDA 12.2.
fn since(row: &DriverRow) -> String {
    format!("{}.{}", row.version / 1000, row.version % 1000 / 10)
}
