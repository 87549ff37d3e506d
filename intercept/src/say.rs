//! The one line the library may write: why this process has no GPU. Formatted on the stack, cut
//! rather than allocated, written in one call, at most once.

use std::{
    fmt::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use halfwarp_api::{version::Version, wire::Refusal};

use crate::sys;

static SAID: AtomicBool = AtomicBool::new(false);

struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // The last place is kept for the newline.
            if self.length + 1 < self.bytes.len()
                && let Some(place) = self.bytes.get_mut(self.length)
            {
                *place = byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}

/// Says once why the process is refused. `detail` is what was tried or found.
#[cold]
pub(crate) fn refused(why: Refusal, detail: &str) {
    if SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut line = Line { bytes: [0; 512], length: 0 };
    let dot = if detail.is_empty() { "" } else { ": " };
    // A line that does not fit is cut; there is nothing to report.
    let _ = write!(line, "halfwarp: no GPU for this process{dot}{detail}: {}", why.text());
    if let Some(place) = line.bytes.get_mut(line.length) {
        *place = b'\n';
    }
    sys::write_error(line.bytes.get(..=line.length).unwrap_or(&[]));
}

/// The detail of a refusal for its version.
pub(crate) fn versions(broker: Version) -> String {
    format!("the broker speaks {broker}, this library {}", halfwarp_api::version::CURRENT)
}
