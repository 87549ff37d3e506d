//! Bodies of the broker's HTTP API and the quantities people write, shared by `halfwarpd`, which
//! serves them, and `halfwarp`, which is a client. Field names are the API's; the CLI prints the same.
//!
//! No I/O here, and no decision: a body is parsed, checked for form, and handed on.
#![forbid(unsafe_code)]

pub mod body;
pub mod quantity;

pub use body::*;
pub use quantity::{Amount, Bytes, MemoryWish, Percent, QuantityError, ShareWish};
