//! Stage two of the library: what happens to a tenant's CUDA calls. Opened by stage one at the first
//! of them; a process that makes none never maps it.
//!
//! A call comes from stage one's slot either to a function in [`hooks`] or straight to the driver.
//! The files, in the order one wants to read them: `open` (stage one's question answered), `real`
//! (the driver beneath), `rule` (whether this driver answers look-ups as the table says), `life`
//! (what a fork leaves of us), `attach` (joining the broker), `process` (what we know once joined),
//! `line` (the connection), `mail` (questions to the broker), `look` (one without having joined), `hooks` (the rows we answer), `gates`
//! (may this call go on now?), `thread` (what each thread has at hand for that), `contexts` and
//! `capture` (where calls of ours are allowed), `metering` (what is in flight), `attendant` and `mark`
//! (our thread's part: draining, idleness), `swap` (memory that can be moved), `backing` (made and freed),
//! `reaper`, `chunks`, `mover`, `copies` and `staging` (our thread's part in that), `sys` and `wait` (every libc call), `say` (the one line we
//! may write).
//!
//! We are a guest: no exit, no panic across the boundary, no lock held while the driver is called or
//! at a fork, errno and signal state left as they were.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod attach;
mod attendant;
mod backing;
mod capture;
mod chunks;
mod contexts;
mod copies;
mod facts;
mod gates;
mod hooks;
mod life;
mod line;
mod look;
mod mail;
mod mark;
mod metering;
mod mover;
mod open;
mod pages;
mod process;
mod real;
mod reaper;
mod rule;
mod say;
mod search;
mod staging;
mod swap;
mod sys;
mod thread;
mod wait;
