//! Images of device code where the program has them: at an address without a length, or in a file. What
//! they hold is `simcuda-image`'s business.

use crate::entry::log;
use crate::{context, jit_options, process, raw};
use shim_cuda_headers::CUresult;
use simcuda_image::{
    Content, ELF_MAGIC, ENTRIES_AT, FATBIN_MAGIC, ImageError, MOST_BYTES, Target, WRAPPER_MAGIC,
};
use std::ffi::c_void;

/// What is read of a text at once; texts end with a null byte somewhere.
const TEXT_STEP_BYTES: usize = 4096;
/// ELF: the header, and each section's.
const ELF_HEADER_BYTES: usize = 64;

/// The device that images are chosen for: the current context's, or the first.
pub(crate) fn target() -> Target {
    let device = context::current().map_or(0, |context| context.device);
    let (major, minor) = process::card(device).map_or((7, 5), |card| card.device.capability);
    let machine_code = std::env::var_os("SIMCUDA_SASS").is_none_or(|word| word != "refuse");
    Target { capability: major * 10 + minor, machine_code }
}

/// The bytes of the image at this address.
pub(crate) fn bytes(image: *const c_void) -> Result<Vec<u8>, CUresult> {
    if image.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let word = |at: usize, length: usize| raw::bytes_if_there(image.wrapping_byte_add(at), length);
    let magic = word(0, 4)?;
    match u32::from_le_bytes([magic[0], magic[1], magic[2], magic[3]]) {
        WRAPPER_MAGIC => {
            let pointer = word(8, size_of::<usize>())?;
            let address = pointer.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            let inner = std::ptr::with_exposed_provenance::<c_void>(address);
            // A wrapper in a wrapper is none that any compiler makes.
            let magic = raw::bytes_if_there(inner, 4)?;
            if magic == WRAPPER_MAGIC.to_le_bytes() {
                return Err(CUresult::INVALID_IMAGE);
            }
            bytes(inner)
        }
        FATBIN_MAGIC => {
            let length = simcuda_image::fatbin_bytes(&word(0, ENTRIES_AT)?);
            word(0, length.map_err(code)?)
        }
        ELF_MAGIC => {
            let section = |at| word(at, ELF_HEADER_BYTES).map_err(|_| ImageError::Broken("cut"));
            let length = simcuda_image::elf_bytes(&word(0, ELF_HEADER_BYTES)?, section);
            word(0, length.map_err(code)?)
        }
        _ => text(image),
    }
}

/// A text up to its null byte.
fn text(image: *const c_void) -> Result<Vec<u8>, CUresult> {
    let mut text = Vec::new();
    while text.len() < MOST_BYTES {
        let at = image.wrapping_byte_add(text.len());
        // Up to the end of the page: what lies behind it may not be there.
        let step = TEXT_STEP_BYTES - at.addr() % TEXT_STEP_BYTES;
        let piece = raw::bytes_if_there(at, step)?;
        match piece.iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend_from_slice(&piece[..end]);
                return Ok(text);
            }
            None => text.extend_from_slice(&piece),
        }
    }
    Err(CUresult::INVALID_IMAGE)
}

/// The module of an image; what is wrong with it goes into the caller's error log.
pub(crate) fn module(
    image: &[u8],
    options: &jit_options::Options,
) -> Result<simcuda_ptx::Module, CUresult> {
    simcuda_image::module(image, target()).map_err(|error| {
        log(format_args!("an image was refused: {error}"));
        options.say_error(&error.to_string());
        code(error)
    })
}

/// The texts of an image that goes to the linker.
pub(crate) fn texts(image: &[u8]) -> Result<Vec<simcuda_image::Text>, CUresult> {
    match simcuda_image::content(image, target()).map_err(code)? {
        Content::Texts(texts) => Ok(texts),
        Content::Machine(_) => Err(CUresult::NO_BINARY_FOR_GPU),
    }
}

fn code(error: ImageError) -> CUresult {
    match error {
        ImageError::Broken(_) => CUresult::INVALID_IMAGE,
        ImageError::NotForThisDevice => CUresult::NO_BINARY_FOR_GPU,
        ImageError::Ptx(_) => CUresult::INVALID_PTX,
    }
}
