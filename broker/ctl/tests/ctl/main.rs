//! The `halfwarp` binary against brokers that are none.

mod fake;
mod run;
mod wrong_brokers;
