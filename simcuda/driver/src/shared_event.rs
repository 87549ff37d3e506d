//! Events that several processes use: two numbers in memory that they share, how often the event
//! was recorded and how many of these recordings have been passed.

use crate::entry::Done;
use crate::{pages, shared_blocks};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::MemfdFlags;
use shim_cuda_headers::CUresult;
use std::sync::{Arc, Mutex, PoisonError};

const PAGE_BYTES: u64 = 4096;
const RECORDED: u64 = 0;
const PASSED: u64 = 8;

#[derive(Debug)]
pub(crate) struct SharedEvent {
    base: u64,
    file: OwnedFd,
    /// Number by which others find it, if it was exported.
    token: Mutex<Option<u64>>,
}

impl SharedEvent {
    pub(crate) fn new() -> Result<Arc<Self>, CUresult> {
        let none = |_| CUresult::OUT_OF_MEMORY;
        let file = rustix::fs::memfd_create("simcuda-event", MemfdFlags::CLOEXEC).map_err(none)?;
        rustix::fs::ftruncate(&file, PAGE_BYTES).map_err(none)?;
        Self::map(file)
    }

    /// The event that another process left at the machine.
    pub(crate) fn collect(token: u64) -> Result<Arc<Self>, CUresult> {
        let gone = |_| CUresult::INVALID_HANDLE;
        Self::map(shared_blocks::collect(token).map_err(gone)?)
    }

    fn map(file: OwnedFd) -> Result<Arc<Self>, CUresult> {
        let failed = |_| CUresult::MAP_FAILED;
        let base = pages::reserve(PAGE_BYTES, PAGE_BYTES, 0).map_err(failed)?;
        pages::fill_shared(base, PAGE_BYTES, file.as_fd()).map_err(failed)?;
        Ok(Arc::new(Self { base, file, token: Mutex::default() }))
    }

    pub(crate) fn export(&self) -> Result<u64, CUresult> {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = *token {
            return Ok(token);
        }
        Ok(*token.insert(shared_blocks::deposit(&self.file)?))
    }

    /// One more recording: its number.
    pub(crate) fn record(&self) -> u64 {
        pages::update(self.base + RECORDED, 8, &mut |count| count + 1) + 1
    }

    /// The stream has passed that recording, and so all before it.
    pub(crate) fn pass(&self, number: u64) {
        pages::update(self.base + PASSED, 8, &mut |passed| passed.max(number));
    }

    /// The latest recording's number.
    pub(crate) fn latest(&self) -> u64 {
        pages::load(self.base + RECORDED, 8)
    }

    pub(crate) fn has_passed(&self, number: u64) -> bool {
        pages::load(self.base + PASSED, 8) >= number
    }

    /// Waits for a recording, of whatever process, as long as `check` sees no reason to give up.
    pub(crate) fn wait(&self, number: u64, check: impl Fn() -> Done) -> Done {
        while !self.has_passed(number) {
            check()?;
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        check()
    }
}

impl Drop for SharedEvent {
    fn drop(&mut self) {
        let _ = pages::release(self.base, PAGE_BYTES);
        if let Some(token) = self.token.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            shared_blocks::withdraw(token);
        }
    }
}
