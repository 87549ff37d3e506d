//! The `halfwarp` binary against brokers that are none.

mod fake;
mod private;
mod run;
mod wrong_brokers;
