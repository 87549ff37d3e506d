//! The `halfwarp` binary against brokers that are none.

mod fake;
mod private;
mod run;
mod views;
mod words;
mod wrong_brokers;
