//! The linker: PTX texts in, one text out that a load call takes.
//!
//! There is no machine code to make, so the result of linking is PTX. A single text is handed back
//! as it came; of several, the ones after the first lose their head.

use crate::entry::{Done, Sim};
use crate::registry::Registry;
use crate::{context, image, raw};
use shim_cuda_headers::*;
use std::ffi::{c_char, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

static LINKS: Registry<Link> = Registry::new(0x64);

const PTX: CUjitInputType = 1;
const FATBIN: CUjitInputType = 2;

#[derive(Debug, Default)]
struct Link {
    texts: Mutex<Vec<String>>,
    /// Programs read it until they destroy the linker.
    linked: Mutex<Option<Box<[u8]>>>,
}

/// Directives that a text may have once, at its beginning.
const HEAD: [&str; 3] = [".version", ".target", ".address_size"];

fn join(texts: &[String]) -> String {
    let mut joined = texts.first().cloned().unwrap_or_default();
    for text in texts.iter().skip(1) {
        let body = text
            .lines()
            .filter(|line| !HEAD.iter().any(|word| line.trim_start().starts_with(word)));
        for line in body {
            joined.push_str(line);
            joined.push('\n');
        }
    }
    joined
}

impl Sim {
    pub(crate) fn cuLinkCreate_v2(
        _: c_uint,
        _: *mut CUjit_option,
        _: *mut *mut c_void,
        state: *mut CUlinkState,
    ) -> Done {
        context::working()?;
        raw::put(state, CUlinkState(LINKS.add(Link::default())))
    }

    pub(crate) fn cuLinkCreate(
        count: c_uint,
        names: *mut CUjit_option,
        values: *mut *mut c_void,
        state: *mut CUlinkState,
    ) -> Done {
        Self::cuLinkCreate_v2(count, names, values, state)
    }

    #[allow(clippy::too_many_arguments, reason = "the vendor's own signature")]
    pub(crate) fn cuLinkAddData_v2(
        state: CUlinkState,
        kind: CUjitInputType,
        data: *mut c_void,
        bytes: usize,
        _name: *const c_char,
        _: c_uint,
        _: *mut CUjit_option,
        _: *mut *mut c_void,
    ) -> Done {
        let link = LINKS.get(state.0).ok_or(CUresult::INVALID_HANDLE)?;
        if kind != PTX && kind != FATBIN {
            return Err(CUresult::INVALID_IMAGE);
        }
        let text = image::ptx_in(&raw::bytes_at(data, bytes)?)?;
        link.texts.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "the vendor's own signature")]
    pub(crate) fn cuLinkAddData(
        state: CUlinkState,
        kind: CUjitInputType,
        data: *mut c_void,
        bytes: usize,
        name: *const c_char,
        count: c_uint,
        names: *mut CUjit_option,
        values: *mut *mut c_void,
    ) -> Done {
        Self::cuLinkAddData_v2(state, kind, data, bytes, name, count, names, values)
    }

    pub(crate) fn cuLinkAddFile_v2(
        state: CUlinkState,
        kind: CUjitInputType,
        path: *const c_char,
        count: c_uint,
        names: *mut CUjit_option,
        values: *mut *mut c_void,
    ) -> Done {
        let mut bytes = std::fs::read(raw::text(path)?).map_err(|_| CUresult::FILE_NOT_FOUND)?;
        let data = bytes.as_mut_ptr().cast();
        let length = bytes.len();
        Self::cuLinkAddData_v2(state, kind, data, length, path, count, names, values)
    }

    pub(crate) fn cuLinkAddFile(
        state: CUlinkState,
        kind: CUjitInputType,
        path: *const c_char,
        count: c_uint,
        names: *mut CUjit_option,
        values: *mut *mut c_void,
    ) -> Done {
        Self::cuLinkAddFile_v2(state, kind, path, count, names, values)
    }

    pub(crate) fn cuLinkComplete(
        state: CUlinkState,
        image: *mut *mut c_void,
        bytes: *mut usize,
    ) -> Done {
        let link = LINKS.get(state.0).ok_or(CUresult::INVALID_HANDLE)?;
        let text = join(&link.texts.lock().unwrap_or_else(PoisonError::into_inner));
        let mut linked = link.linked.lock().unwrap_or_else(PoisonError::into_inner);
        let terminated: Box<[u8]> = text.bytes().chain([0]).collect();
        let held = linked.insert(terminated);
        raw::put(image, held.as_mut_ptr().cast())?;
        raw::put_if_wanted(bytes, held.len());
        Ok(())
    }

    pub(crate) fn cuLinkDestroy(state: CUlinkState) -> Done {
        LINKS.remove(state.0).map(drop).ok_or(CUresult::INVALID_HANDLE)
    }
}
