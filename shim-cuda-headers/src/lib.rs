//! CUDA as data: types of the driver's ABI, result codes, and **one** table of driver and NVML
//! functions from which everything else that lists functions is derived.
//!
//! It holds no behaviour, allocates nothing and depends on nothing. Start with [`table`], whose
//! head explains the columns; [`row`] has the types of the columns and the look-up rule.
#![no_std]
#![forbid(unsafe_code)]

pub mod codes;
pub mod named;
pub mod refused;
pub mod row;
pub mod table;
pub mod types;

pub use row::{DriverFn, DriverRow, NvmlFn};
pub use types::*;
