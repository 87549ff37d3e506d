//! Images of device code as programs hand them over: PTX text, a fat binary of several images packed or
//! plain, machine code in an ELF file, or what our own linker gave out. Bytes in, a module out; no
//! input makes it panic, run long, or take more memory than `MOST_BYTES` a few times over.
//!
//! Machine code cannot be run here: of it only the names and shapes of its kernels are read.

#![forbid(unsafe_code)]

mod bytes;
mod cubin;
mod fatbin;
mod linked;

pub use cubin::{ELF_MAGIC, elf_bytes};
pub use fatbin::{ENTRIES_AT, FATBIN_MAGIC, WRAPPER_MAGIC, fatbin_bytes};
pub use linked::{MAGIC as LINKED_MAGIC, join};

use simcuda_ptx::{LinkError, Module};

/// The largest image, and the most that one unpacks to.
pub const MOST_BYTES: usize = 256 << 20;

/// Why an image is no module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// It is cut short, contradicts itself, or is of no known kind.
    Broken(&'static str),
    /// It has nothing for this device.
    NotForThisDevice,
    /// Its PTX is refused.
    Ptx(LinkError),
}

impl std::fmt::Display for ImageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Broken(why) => write!(f, "the image of device code is broken: {why}"),
            Self::NotForThisDevice => f.write_str("the image has no code for this device"),
            Self::Ptx(LinkError::Text { unit, error }) if unit.is_empty() => error.fmt(f),
            Self::Ptx(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImageError {}

/// What an image is chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Compute capability times ten: 75 for 7.5.
    pub capability: u32,
    /// Whether machine code is taken as kernels that do nothing.
    pub machine_code: bool,
}

/// A text of the program's, with a name for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub name: String,
    pub text: String,
}

/// What an image turned out to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Texts(Vec<Text>),
    /// An ELF file.
    Machine(Vec<u8>),
}

/// What the bytes of an image hold for the target.
pub fn content(image: &[u8], target: Target) -> Result<Content, ImageError> {
    let magic = image.first_chunk().map(|magic| u32::from_le_bytes(*magic));
    match magic {
        Some(FATBIN_MAGIC) => fatbin::choose(image, target),
        Some(ELF_MAGIC) if target.machine_code => Ok(Content::Machine(image.to_vec())),
        Some(ELF_MAGIC) => Err(ImageError::NotForThisDevice),
        _ => text(image),
    }
}

/// A text or several, terminated or not.
fn text(image: &[u8]) -> Result<Content, ImageError> {
    let bytes = image.split(|byte| *byte == 0).next().unwrap_or(image);
    if bytes.len() > MOST_BYTES {
        return Err(ImageError::Broken("the text is too long"));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| ImageError::Broken("it is neither code nor text"))?;
    Ok(Content::Texts(linked::split(text)?))
}

/// The module of an image.
pub fn module(image: &[u8], target: Target) -> Result<Module, ImageError> {
    match content(image, target)? {
        Content::Texts(texts) => link(&texts).map_err(ImageError::Ptx),
        Content::Machine(elf) => cubin::module(&elf),
    }
}

/// The module that texts make up together.
pub fn link(texts: &[Text]) -> Result<Module, LinkError> {
    let texts: Vec<(&str, &str)> =
        texts.iter().map(|text| (text.name.as_str(), text.text.as_str())).collect();
    Module::link(&texts)
}
