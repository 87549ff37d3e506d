//! The simulated `libnvidia-ml.so.1`: NVML over the cards of a simulated machine.
//!
//! What it is: the management library as `nvml-wrapper`, `nvidia-ml-py` and programs like
//! `nvidia-smi` use it. Memory figures and processes are the machine's own, the same to the byte
//! that the simulated driver reports. Clocks, temperatures and power are constants.
//! What it is not: a way to change anything. What has no function here answers "not supported".
//!
//! Unsafe code is in `exports` and `raw` only.
#![deny(unsafe_code)]
#![allow(non_snake_case, reason = "functions bear the vendor's names")]

mod accounting;
mod constants;
mod entry;
mod events;
mod exports;
mod faults;
mod health;
mod identity;
mod memory;
mod processes;
mod raw;
mod system;
mod topology;
mod utilisation;
