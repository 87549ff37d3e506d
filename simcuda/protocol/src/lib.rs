//! What the simulated driver, the simulated NVML and the simulated machine say to each other.
//!
//! What it is: the messages ([`message`], [`engines`], [`control`]), how they travel ([`wire`]), where a
//! machine's socket lies ([`place`]), the client that finds or starts the machine's server
//! ([`client`]), and faults as people write them ([`fault_text`]).
//! What it is not: a decision. Who may have how much memory is the server's business, and error
//! codes of CUDA are the driver's.
//!
//! The client is a guest in other people's processes: it opens one close-on-exec descriptor, writes
//! nothing to standard error, changes no signal, and leaves no child behind.
#![forbid(unsafe_code)]

pub mod client;
pub mod control;
pub mod engines;
pub mod fault;
pub mod fault_text;
pub mod message;
pub mod place;
pub mod share;
pub mod wire;

pub use client::{Client, ConnectError, Start};
pub use control::{Control, Told};
pub use fault::Fault;
pub use message::{Charge, Device, Process, Refusal, Reply, Request, Usage};
pub use share::Share;

/// Both sides must speak the same version: library and server are built and shipped together.
pub const VERSION: u32 = 2;

/// What memory reads as before anybody wrote to it: never zero, and as a float not a number.
pub const PATTERN: [u8; 4] = 0x7FBA_DBAD_u32.to_le_bytes();

/// Size of the file that holds the pattern, mapped copy-on-write as often as needed.
pub const PATTERN_FILE_BYTES: u64 = 64 << 20;
