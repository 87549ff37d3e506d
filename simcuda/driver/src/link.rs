//! The linker: images with PTX in, one image out that a load call takes.
//!
//! There is no machine code to make, so the result of linking is PTX. Each text is read when it is
//! added, as the driver compiles it then; what the texts lack or have twice shows when all are there.

use crate::entry::{Done, Sim, log};
use crate::jit_options::Options;
use crate::registry::Registry;
use crate::{context, image, raw};
use shim_cuda_headers::*;
use simcuda_image::{Text, join, link};
use simcuda_ptx::{LinkError, Module};
use std::ffi::{c_char, c_uint, c_void};
use std::sync::{Arc, Mutex, PoisonError};

static LINKS: Registry<Link> = Registry::new(0x64);

const CUBIN: CUjitInputType = 0;
const PTX: CUjitInputType = 1;
const FATBIN: CUjitInputType = 2;
const OBJECT: CUjitInputType = 3;
const LIBRARY: CUjitInputType = 4;
/// Texts of one link; GCC's offloading hands over 25.
const MOST_TEXTS: usize = 4096;

#[derive(Debug, Default)]
struct Link {
    texts: Mutex<Vec<Text>>,
    /// Where the program wants to read about errors, from its creation on.
    options: Options,
    /// Programs read it until they destroy the linker.
    linked: Mutex<Option<Box<[u8]>>>,
}

fn find(state: CUlinkState) -> Result<Arc<Link>, CUresult> {
    LINKS.get(state.0).ok_or(CUresult::INVALID_HANDLE)
}

fn add(state: CUlinkState, kind: CUjitInputType, bytes: &[u8], name: &str) -> Done {
    let state = find(state)?;
    match kind {
        PTX | FATBIN => {}
        // Machine code, and archives of it: there is nothing in them that could be run here.
        CUBIN | OBJECT | LIBRARY => return Err(CUresult::NO_BINARY_FOR_GPU),
        _ => return Err(CUresult::INVALID_VALUE),
    }
    let refuse = |error: &dyn std::fmt::Display| {
        log(format_args!("linking: {error}"));
        state.options.say_error(&error.to_string());
    };
    let mut new = image::texts(bytes).inspect_err(|_| refuse(&format!("`{name}` is no PTX")))?;
    let mut texts = state.texts.lock().unwrap_or_else(PoisonError::into_inner);
    for text in &mut new {
        if text.name.is_empty() {
            text.name = if name.is_empty() {
                format!("input {}", texts.len() + 1)
            } else {
                name.to_owned()
            };
        }
        // Whether it can be read at all; what it needs of others is asked at the end.
        if let Err(error @ LinkError::Text { .. }) = Module::link(&[(&text.name, &text.text)]) {
            refuse(&error);
            return Err(CUresult::INVALID_PTX);
        }
    }
    if texts.len() + new.len() > MOST_TEXTS {
        return Err(CUresult::OUT_OF_MEMORY);
    }
    texts.append(&mut new);
    Ok(())
}

impl Sim {
    pub(crate) fn cuLinkCreate_v2(
        count: c_uint,
        names: *mut CUjit_option,
        values: *mut *mut c_void,
        state: *mut CUlinkState,
    ) -> Done {
        context::working()?;
        let options = Options::read(count, names, values)?;
        raw::put(state, CUlinkState(LINKS.add(Link { options, ..Link::default() })))
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
        name: *const c_char,
        _: c_uint,
        _: *mut CUjit_option,
        _: *mut *mut c_void,
    ) -> Done {
        find(state)?;
        if data.is_null() || bytes == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let name = if name.is_null() { String::new() } else { raw::text(name)? };
        add(state, kind, &raw::bytes_if_there(data, bytes)?, &name)
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
        _: c_uint,
        _: *mut CUjit_option,
        _: *mut *mut c_void,
    ) -> Done {
        find(state)?;
        let path = raw::text(path)?;
        let bytes = std::fs::read(&path).map_err(|_| CUresult::FILE_NOT_FOUND)?;
        add(state, kind, &bytes, &path)
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
        let state = find(state)?;
        let texts = state.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = link(&texts) {
            log(format_args!("linking: {error}"));
            state.options.say_error(&error.to_string());
            // What drivers answer to an undefined or a doubled name.
            return Err(CUresult::UNKNOWN);
        }
        let mut linked = state.linked.lock().unwrap_or_else(PoisonError::into_inner);
        let terminated: Box<[u8]> = join(&texts).bytes().chain([0]).collect();
        let held = linked.insert(terminated);
        raw::put(image, held.as_mut_ptr().cast())?;
        raw::put_if_wanted(bytes, held.len());
        Ok(())
    }

    pub(crate) fn cuLinkDestroy(state: CUlinkState) -> Done {
        LINKS.remove(state.0).map(drop).ok_or(CUresult::INVALID_HANDLE)
    }
}
