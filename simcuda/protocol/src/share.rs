//! What processes hand each other through the machine: descriptors, by a number that can be
//! written into a handle of the driver's.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Share {
    /// Plain memory that the process holds becomes a chunk, without passing through free memory.
    /// Answered by `Chunk`, with the memory's descriptor.
    Convert { device: u32, bytes: u64 },
    /// Comes with a descriptor, which is kept until it is withdrawn or the process is gone.
    /// Answered by `Token`.
    Deposit,
    /// Answered by `Done`, with a copy of the descriptor.
    Collect { token: u64 },
    /// Answered by `Done`, also if there is nothing to withdraw.
    Withdraw { token: u64 },
}
