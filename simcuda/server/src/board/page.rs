//! The page that drivers look at. Written here by descriptor; others get one that can only read.

use crate::pattern::memory_file;
use simcuda_protocol::control::Word;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const PAGE_BYTES: u64 = 4096;

/// Made when first wanted.
#[derive(Debug, Default)]
pub(super) struct Page {
    file: Option<OwnedFd>,
    word: Word,
}

impl Page {
    fn file(&mut self) -> io::Result<&OwnedFd> {
        if self.file.is_none() {
            let file = memory_file("simcuda-board", PAGE_BYTES)?;
            rustix::io::pwrite(&file, &self.word.0.to_ne_bytes(), 0)?;
            self.file = Some(file);
        }
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// A descriptor by which the page can be mapped and not written.
    pub(super) fn reader(&mut self) -> io::Result<OwnedFd> {
        let own = format!("/proc/self/fd/{}", self.file()?.as_raw_fd());
        Ok(File::open(own)?.into())
    }

    pub(super) fn change(&mut self, bits: u32) -> io::Result<()> {
        let next = self.word.next(bits);
        // Four aligned bytes; a reader that saw them half written would only ask, and see the rest.
        rustix::io::pwrite(self.file()?, &next.0.to_ne_bytes(), 0)?;
        self.word = next;
        Ok(())
    }
}
