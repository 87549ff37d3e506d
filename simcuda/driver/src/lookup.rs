//! Finding functions by name, and naming result codes.

use crate::entry::{Done, Sim};
use crate::{exports, fault, newer, raw};
use shim_cuda_headers::*;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;

/// Version of the driver API that is reported: major * 1000 + minor * 10.
pub(crate) const VERSION: c_int = 13000;

const FOUND: u32 = 0;
const NOT_FOUND: u32 = 1;
const TOO_NEW: u32 = 2;
const PER_THREAD_STREAM: u64 = 2;

impl Sim {
    pub(crate) fn cuDriverGetVersion(version: *mut c_int) -> Done {
        raw::put(version, fault::driver_version().map_or(VERSION, u32::cast_signed))
    }

    pub(crate) fn cuGetProcAddress(
        name: *const c_char,
        function: *mut *mut c_void,
        version: c_int,
        flags: u64,
    ) -> Done {
        Self::cuGetProcAddress_v2(name, function, version, flags, std::ptr::null_mut())
    }

    pub(crate) fn cuGetProcAddress_v2(
        name: *const c_char,
        function: *mut *mut c_void,
        version: c_int,
        flags: u64,
        status: *mut CUdriverProcAddressQueryResult,
    ) -> Done {
        let name = raw::text(name)?;
        let version = u32::try_from(version).map_err(|_| CUresult::INVALID_VALUE)?;
        if function.is_null() || flags > PER_THREAD_STREAM {
            return Err(CUresult::INVALID_VALUE);
        }
        let per_thread = flags == PER_THREAD_STREAM;
        if let Some(found) = answering(name.as_bytes(), version, per_thread) {
            raw::put_if_wanted(status, FOUND);
            let is_newest = version >= VERSION.cast_unsigned() && fault::has_newer_form(found);
            let newer = is_newest.then(|| newer::address(found)).flatten();
            return raw::put(function, newer.unwrap_or_else(|| exports::address(found)));
        }
        let exists = answering(name.as_bytes(), u32::MAX, per_thread).is_some();
        raw::put_if_wanted(status, if exists { TOO_NEW } else { NOT_FOUND });
        raw::put(function, std::ptr::null_mut())?;
        Err(CUresult::NOT_FOUND)
    }

    /// There are no tables here beside the functions: none that this driver could honestly answer.
    ///
    /// Refused: there are no tables beside the functions.
    pub(crate) fn cuGetExportTable(table: *mut *const c_void, name: *const CUuuid) -> Done {
        if table.is_null() || name.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        Err(CUresult::NOT_FOUND)
    }

    pub(crate) fn cuGetErrorName(code: CUresult, name: *mut *const c_char) -> Done {
        text_of(code, name, |texts| &texts.name)
    }

    pub(crate) fn cuGetErrorString(code: CUresult, text: *mut *const c_char) -> Done {
        text_of(code, text, |texts| &texts.sentence)
    }
}

/// The newest form that is not newer than the version asked for, and that this driver has.
fn answering(name: &[u8], version: u32, per_thread: bool) -> Option<DriverFn> {
    let found = DriverFn::answering(name, version, per_thread)?;
    if !fault::is_hidden(found) {
        return Some(found);
    }
    answering(name, found.row().version.checked_sub(1)?, per_thread)
}

/// What a code is called, for programs and for people.
#[derive(Debug)]
struct Texts {
    code: CUresult,
    name: CString,
    sentence: CString,
}

fn text_of(code: CUresult, to: *mut *const c_char, which: fn(&Texts) -> &CString) -> Done {
    if to.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    match all_texts().iter().find(|texts| texts.code == code) {
        Some(texts) => raw::put(to, which(texts).as_ptr()),
        None => {
            raw::put(to, std::ptr::null())?;
            Err(CUresult::INVALID_VALUE)
        }
    }
}

/// Made once: programs keep the pointers.
fn all_texts() -> &'static [Texts] {
    static TEXTS: OnceLock<Vec<Texts>> = OnceLock::new();
    TEXTS.get_or_init(|| (0..1000).filter_map(|code| texts(CUresult(code))).collect())
}

fn texts(code: CUresult) -> Option<Texts> {
    let name = code.name()?;
    let plain = name.trim_start_matches("CUDA_ERROR_").trim_start_matches("CUDA_");
    let sentence = match code {
        CUresult::SUCCESS => "no error".to_owned(),
        _ => plain.to_lowercase().replace('_', " "),
    };
    Some(Texts { code, name: CString::new(name).ok()?, sentence: CString::new(sentence).ok()? })
}
