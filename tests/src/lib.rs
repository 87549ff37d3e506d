//! The kit of the tests that need more than one crate: built artefacts, an isolated simulated machine
//! with a private broker of its own, programs run as tenants, the broker's figures read back.
//!
//! Nothing here waits without a deadline, and what a test starts ends with it.

mod artefact;
mod busy;
mod command;
mod fault;
mod known;
mod machine;
pub mod movable;
pub mod pretend;
pub mod roads;
mod skip;
mod steps;
pub mod trace;

pub use artefact::{artefact, guest, on_a_device, python};
pub use busy::{Busy, Received};
pub use command::{Ended, Running, finish, start, until};
pub use fault::Faults;
pub use known::{expect, known_failing};
pub use machine::{Machine, Tenancy};
pub use skip::{SkipKind, skip};

/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;
