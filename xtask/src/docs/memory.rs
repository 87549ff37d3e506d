//! The table of `docs/memory.md`: for each function that obtains or gives back memory of a card, when that
//! is charged and when released. From the table's columns; what a column means is said here once.

use std::fmt::Write as _;

use shim_cuda_headers::row::{Answer, Lifetime, Memory};
use shim_cuda_headers::{DriverFn, DriverRow};

const HEAD: &str = "| function | charged | released |\n|---|---|---|\n";

pub(super) fn charges() -> String {
    let mut text = String::from(HEAD);
    for row in DriverFn::ALL.iter().map(|f| f.row()) {
        if matches!(row.memory, Memory::Nothing) {
            continue;
        }
        let (charged, released) = said(row);
        let _ = writeln!(text, "| `{}` | {charged} | {released} |", row.symbol);
    }
    text
}

/// What a row charges and releases, in words.
fn said(row: &DriverRow) -> (&'static str, &'static str) {
    if row.memory == Memory::Host {
        return ("never: memory of the host", "");
    }
    if row.answer == Answer::Forward {
        return forwarded(row.memory);
    }
    match (row.memory, row.lifetime) {
        (Memory::Context, Lifetime::MakesContext) => (
            "before: an estimate for the process's first context on the card, then what NVML shows",
            "with the last context there",
        ),
        (Memory::Context, _) => ("", "the context's charge and all that was allocated in it"),
        (Memory::Linear, Lifetime::MakesMemory) => {
            ("before: as asked, in whole units", "when it is freed, or with its context")
        }
        (Memory::Linear, _) => ("", "what the address was charged; of a pool nothing by itself"),
        (Memory::Pitched, _) => {
            ("before: rows at 512 bytes, then at the pitch the driver chose", "as linear memory")
        }
        (Memory::Managed, _) => ("before: in pieces of 2 MiB, wherever its pages are", "as linear"),
        (Memory::Array, Lifetime::MakesArray) => (
            "before: what the driver says a twin without memory would take, else an estimate",
            "when it is destroyed, or with its context",
        ),
        (Memory::Array, _) => ("", "what the array was charged"),
        (Memory::Pool | Memory::GraphMemory, _) => by_reserve(row),
        (Memory::External, Lifetime::MakesExternal) => {
            ("before: the size that the program gives", "when it is destroyed, or with its context")
        }
        (Memory::External, _) => ("", "what the import was charged"),
        (Memory::Module, Lifetime::MakesModule | Lifetime::MakesLibrary) => (
            "before: variables, constants and code, as far as the image tells",
            "when it is unloaded, or with its context",
        ),
        (Memory::Module, _) => ("", "what it was charged"),
        (Memory::Vmm, Lifetime::MakesHandle) if row.symbol.contains("Create") => (
            "before: as asked, if it lies on a card",
            "with the last handle and mapping; an exported one with the process",
        ),
        (Memory::Vmm, Lifetime::MakesHandle) => {
            ("nothing: it is charged where it was made", "a reference of its own")
        }
        (Memory::Vmm, Lifetime::MakesMapping) => ("nothing", "a reference of its own"),
        (Memory::Vmm, _) => ("", "when nothing refers to the memory any more"),
        (Memory::Ipc, _) => forwarded(row.memory),
        (memory, lifetime) => {
            unreachable!("{}: a hook of {memory:?} and {lifetime:?} has no words", row.symbol)
        }
    }
}

/// Rows of memory that is charged by a reserve.
fn by_reserve(row: &DriverRow) -> (&'static str, &'static str) {
    match (row.memory, row.lifetime) {
        (Memory::Pool, Lifetime::MakesMemory) => (
            "before: the most the pool can grow by, then the pool's reserve",
            "where the pool shrinks: trim, synchronisation, destruction, the end of contexts",
        ),
        (Memory::Pool, Lifetime::MakesPool) => ("its reserve, as it grows", "with its reserve"),
        (Memory::Pool, _) => ("", "as far as the pool's reserve has shrunk"),
        (Memory::GraphMemory, Lifetime::MakesGraphExec) => {
            ("nothing; refused if a node can never fit the limit", "")
        }
        (Memory::GraphMemory, Lifetime::Nothing) if row.symbol.contains("Trim") => {
            ("", "as far as the reserve of graphs has shrunk")
        }
        (Memory::GraphMemory, Lifetime::Nothing) => (
            "before: what its nodes take, unless it has that; then the reserve of graphs",
            "when the reserve is trimmed, or the graph and its copies are gone",
        ),
        _ => ("", "as far as the reserve of graphs has shrunk"),
    }
}

/// Rows that the driver answers by itself.
fn forwarded(memory: Memory) -> (&'static str, &'static str) {
    match memory {
        Memory::Context => ("not by this call: a context is charged when it is first used", ""),
        Memory::External => ("nothing: its memory is another API's, or charged by its import", ""),
        Memory::Ipc => ("nothing: it is charged where it was made", ""),
        Memory::Multicast => ("nothing: it binds memory that is charged already", ""),
        Memory::GraphMemory => ("nothing: a graph takes memory when it is launched", ""),
        Memory::Pool => ("nothing: an imported pool's memory is charged where it was made", ""),
        Memory::Vmm => ("nothing: it maps memory that is charged already", ""),
        _ => ("nothing", ""),
    }
}
