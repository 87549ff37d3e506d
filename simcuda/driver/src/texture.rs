//! Texture and surface objects, as far as a program can ask for them: what was given is what is
//! said. Kernels that read through them do not run in this driver.

use crate::entry::{Done, Sim};
use crate::registry::Registry;
use crate::space::SPACE;
use crate::{array, context, mipmap, raw};
use shim_cuda_headers::*;
use std::sync::Arc;

static TEXTURES: Registry<Texture> = Registry::new(0x78);
static SURFACES: Registry<Resource> = Registry::new(0x79);

/// `CUDA_RESOURCE_DESC`: a kind, then what the kind has (its first word a handle or an address).
type Resource = [u64; 18];
/// `CUDA_TEXTURE_DESC` and `CUDA_RESOURCE_VIEW_DESC`.
type Reading = [u32; 26];
type View = [u64; 14];

const ARRAY: u64 = 0;
const MIPMAP: u64 = 1;
const LINEAR: u64 = 2;
const PITCHED: u64 = 3;

#[derive(Debug)]
struct Texture {
    resource: Resource,
    reading: Reading,
    view: Option<View>,
}

/// Reads a resource, if what it names is there.
fn resource(from: *const CUDA_RESOURCE_DESC_v1) -> Result<Resource, CUresult> {
    context::working()?;
    let words: Resource = raw::get(from.cast())?;
    let missing = CUresult::INVALID_VALUE;
    match words[0] & u64::from(u32::MAX) {
        ARRAY => array::find(CUarray(words[1] as usize)).map(drop).map_err(|_| missing)?,
        MIPMAP if mipmap::exists(words[1] as usize) => {}
        LINEAR | PITCHED if SPACE.find(words[1]).is_some() => {}
        _ => return Err(missing),
    }
    Ok(words)
}

fn texture(object: CUtexObject_v1) -> Result<Arc<Texture>, CUresult> {
    TEXTURES.get(object as usize).ok_or(CUresult::INVALID_VALUE)
}

impl Sim {
    /// Partial: kernels cannot read through it.
    pub(crate) fn cuTexObjectCreate(
        object: *mut CUtexObject_v1,
        from: *const CUDA_RESOURCE_DESC_v1,
        reading: *const CUDA_TEXTURE_DESC_v1,
        view: *const CUDA_RESOURCE_VIEW_DESC_v1,
    ) -> Done {
        let resource = resource(from)?;
        let reading: Reading = raw::get(reading.cast())?;
        if object.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let view = if view.is_null() { None } else { Some(raw::get(view.cast())?) };
        raw::put(object, TEXTURES.add(Texture { resource, reading, view }) as CUtexObject_v1)
    }

    /// Partial: kernels cannot read through it.
    pub(crate) fn cuTexObjectDestroy(object: CUtexObject_v1) -> Done {
        TEXTURES.remove(object as usize).map(drop).ok_or(CUresult::INVALID_VALUE)
    }

    /// Partial: says what was given.
    pub(crate) fn cuTexObjectGetResourceDesc(
        to: *mut CUDA_RESOURCE_DESC_v1,
        object: CUtexObject_v1,
    ) -> Done {
        raw::put(to.cast(), texture(object)?.resource)
    }

    /// Partial: says what was given.
    pub(crate) fn cuTexObjectGetTextureDesc(
        to: *mut CUDA_TEXTURE_DESC_v1,
        object: CUtexObject_v1,
    ) -> Done {
        raw::put(to.cast(), texture(object)?.reading)
    }

    /// Partial: says what was given.
    pub(crate) fn cuTexObjectGetResourceViewDesc(
        to: *mut CUDA_RESOURCE_VIEW_DESC_v1,
        object: CUtexObject_v1,
    ) -> Done {
        raw::put(to.cast(), texture(object)?.view.ok_or(CUresult::INVALID_VALUE)?)
    }

    /// Partial: kernels cannot write through it.
    pub(crate) fn cuSurfObjectCreate(
        object: *mut CUsurfObject_v1,
        from: *const CUDA_RESOURCE_DESC_v1,
    ) -> Done {
        let resource = resource(from)?;
        // A surface is on an array and on nothing else.
        if object.is_null() || resource[0] & u64::from(u32::MAX) != ARRAY {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(object, SURFACES.add(resource) as CUsurfObject_v1)
    }

    /// Partial: kernels cannot write through it.
    pub(crate) fn cuSurfObjectDestroy(object: CUsurfObject_v1) -> Done {
        SURFACES.remove(object as usize).map(drop).ok_or(CUresult::INVALID_VALUE)
    }

    /// Partial: says what was given.
    pub(crate) fn cuSurfObjectGetResourceDesc(
        to: *mut CUDA_RESOURCE_DESC_v1,
        object: CUsurfObject_v1,
    ) -> Done {
        let found = SURFACES.get(object as usize).ok_or(CUresult::INVALID_VALUE)?;
        raw::put(to.cast(), *found)
    }
}
