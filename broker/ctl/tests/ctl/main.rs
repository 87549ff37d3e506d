//! The `halfwarp` binary against brokers that are none.

mod fake;
mod private;
mod run;
mod views;
mod wrong_brokers;
