//! A second opinion on PTX, for tests: random programs in a structured form, their text, and what the
//! ISA says they compute. It knows neither the interpreter nor its decoder and shares no code with
//! them; it is slow and simple on purpose. It does not know all of PTX, only what `forms` lists.

#![forbid(unsafe_code)]

mod bits;
mod calls;
mod compare;
mod convert;
mod evaluate;
mod exact;
mod floats;
mod form;
mod generate;
mod ints;
mod memory;
mod program;
mod render;
mod warp;

pub use evaluate::evaluate;
pub use form::{Form, Kind, forms};
pub use generate::{Random, generate, input, names};
pub use program::Program;
pub use render::render;

/// Threads of the one block that a program runs in.
pub const THREADS: usize = 64;
/// Bytes that each thread gets, and leaves behind.
pub const THREAD_BYTES: usize = 512;
