//! Descriptors that the server was born with. The only file here with unsafe code: closing a
//! descriptor by number is what the language cannot check.
#![allow(unsafe_code, reason = "closing descriptors that nobody in this process owns")]

use std::fs::OpenOptions;
use std::io::{self, Write};

/// What a detached server writes to standard error, as its last words there, once it listens.
pub(crate) const READY: &str = "ready";

/// Closes all but the standard three. Called before anything else was opened.
pub(crate) fn close_inherited() {
    // SAFETY: no descriptor above 2 is owned by anything in this process yet: `main` has only
    // parsed its arguments. A kernel without the call leaves them open, which harms nobody here.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
}

/// Tells the starter that the socket is there, and lets go of standard error.
pub(crate) fn say_ready() -> io::Result<()> {
    io::stderr().write_all(READY.as_bytes())?;
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
