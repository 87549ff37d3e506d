//! Options of the just-in-time compiler: of the long list only the logs mean something here.

use crate::raw;
use shim_cuda_headers::{CUjit_option, CUresult};
use std::ffi::{c_char, c_int, c_uint, c_void};

const INFO_LOG_BYTES: CUjit_option = 4;
const ERROR_LOG: CUjit_option = 5;
const ERROR_LOG_BYTES: CUjit_option = 6;

/// Where the caller wants to read what went wrong.
#[derive(Debug, Default)]
pub(crate) struct Options {
    error_log: usize,
    error_log_bytes: usize,
}

impl Options {
    pub(crate) fn read(
        count: c_uint,
        names: *mut CUjit_option,
        values: *mut *mut c_void,
    ) -> Result<Self, CUresult> {
        let mut options = Self::default();
        for index in 0..count as usize {
            let value = raw::get_at(values, index)?;
            match raw::get_at(names, index)? {
                ERROR_LOG => options.error_log = value.expose_provenance(),
                ERROR_LOG_BYTES => options.error_log_bytes = value.addr() & 0xFFFF_FFFF,
                // How much was logged comes back in the size's place.
                INFO_LOG_BYTES => raw::put_at(values, index, std::ptr::null_mut())?,
                _ => {}
            }
        }
        Ok(options)
    }

    pub(crate) fn say_error(&self, text: &str) {
        let log = std::ptr::with_exposed_provenance_mut::<c_char>(self.error_log);
        // No room for a log is no error of its own.
        let _ = raw::put_text(log, c_int::try_from(self.error_log_bytes).unwrap_or(0), text);
    }
}
