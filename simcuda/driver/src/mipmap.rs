//! Mipmapped arrays: one memory for all levels, each of which is an array of its own; and what must
//! be mapped behind arrays that are made without memory.

use crate::array::{self, ARRAYS, Array, Layout};
use crate::entry::{Done, Sim};
use crate::registry::Registry;
use crate::{blocks, context, linear, process, raw};
use shim_cuda_headers::*;
use std::ffi::c_uint;

/// `CUDA_ARRAY3D_LAYERED` and `CUDA_ARRAY3D_CUBEMAP`: the depth counts layers or faces.
const FLAT: u32 = 0x01 | 0x04;

static MIPMAPS: Registry<Mipmap> = Registry::new(0x71);

#[derive(Debug)]
struct Mipmap {
    context: usize,
    base: Option<u64>,
    bytes: u64,
    /// Handles of the levels, the largest first.
    levels: Vec<usize>,
}

/// Each level's descriptor: half of every side of the one before, as many as asked for or there are.
fn levels(
    whole: CUDA_ARRAY3D_DESCRIPTOR_v2,
    asked: c_uint,
) -> impl Iterator<Item = CUDA_ARRAY3D_DESCRIPTOR_v2> {
    let halves_depth = whole.flags & FLAT == 0;
    let longest = whole.width.max(whole.height).max(if halves_depth { whole.depth } else { 0 });
    let most = longest.max(1).ilog2() + 1;
    (0..asked.clamp(1, most)).map(move |n| {
        // A dimension that is not there stays so.
        let half = |side: usize| if side == 0 { 0 } else { (side >> n).max(1) };
        let depth = if halves_depth { half(whole.depth) } else { whole.depth };
        let (width, height) = (half(whole.width), half(whole.height));
        CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, depth, ..whole }
    })
}

/// Whether the handle is one of these.
pub(crate) fn exists(mipmap: usize) -> bool {
    MIPMAPS.get(mipmap).is_some()
}

fn create(to: *mut CUmipmappedArray, whole: CUDA_ARRAY3D_DESCRIPTOR_v2, asked: c_uint) -> Done {
    let context = context::working()?;
    if to.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    Layout::of(&whole)?;
    let mut parts = Vec::new();
    let mut bytes = 0_u64;
    for descriptor in levels(whole, asked) {
        let layout = Layout::of(&descriptor)?;
        parts.push((bytes, layout, descriptor));
        bytes = bytes.checked_add(layout.bytes).ok_or(CUresult::OUT_OF_MEMORY)?;
    }
    let base = array::allocate(&context, &whole, bytes)?;
    let level = |(offset, layout, descriptor)| {
        let base = base.map(|base| base + offset);
        let context = context.handle;
        ARRAYS.add(Array { context, base, layout, is_level: true, descriptor })
    };
    let levels = parts.into_iter().map(level).collect();
    let mipmap = Mipmap { context: context.handle, base, bytes, levels };
    raw::put(to, CUmipmappedArray(MIPMAPS.add(mipmap)))
}

/// The context ends, and its mipmapped arrays with it; levels and memory go with the context's.
pub(crate) fn forget_all(context: usize) {
    MIPMAPS.remove_all(|mipmap| mipmap.context == context);
}

/// What must be mapped behind an array of so many bytes; one that has memory does not say.
fn requirements(
    to: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS_v1,
    base: Option<u64>,
    bytes: u64,
    device: CUdevice,
) -> Done {
    process::card(device).map_err(|_| CUresult::INVALID_VALUE)?;
    let bytes = linear::span(bytes).filter(|_| base.is_none()).ok_or(CUresult::INVALID_VALUE)?;
    let (size, alignment) = (bytes as usize, blocks::BLOCK_BYTES as usize);
    raw::put(to, CUDA_ARRAY_MEMORY_REQUIREMENTS_v1 { size, alignment, reserved: [0; 4] })
}

impl Sim {
    pub(crate) fn cuMipmappedArrayCreate(
        mipmap: *mut CUmipmappedArray,
        descriptor: *const CUDA_ARRAY3D_DESCRIPTOR_v2,
        levels: c_uint,
    ) -> Done {
        create(mipmap, raw::get(descriptor)?, levels)
    }

    pub(crate) fn cuMipmappedArrayGetLevel(
        array: *mut CUarray,
        mipmap: CUmipmappedArray,
        level: c_uint,
    ) -> Done {
        let mipmap = MIPMAPS.get(mipmap.0).ok_or(CUresult::INVALID_HANDLE)?;
        let handle = mipmap.levels.get(level as usize).ok_or(CUresult::INVALID_VALUE)?;
        raw::put(array, CUarray(*handle))
    }

    pub(crate) fn cuMipmappedArrayDestroy(mipmap: CUmipmappedArray) -> Done {
        let gone = MIPMAPS.remove(mipmap.0).ok_or(CUresult::INVALID_HANDLE)?;
        for level in &gone.levels {
            ARRAYS.remove(*level);
        }
        array::release(gone.context, gone.base);
        Ok(())
    }

    pub(crate) fn cuArrayGetMemoryRequirements(
        to: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS_v1,
        array: CUarray,
        device: CUdevice,
    ) -> Done {
        let array = ARRAYS.get(array.0).ok_or(CUresult::INVALID_VALUE)?;
        requirements(to, array.base, array.layout.bytes, device)
    }

    pub(crate) fn cuMipmappedArrayGetMemoryRequirements(
        to: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS_v1,
        mipmap: CUmipmappedArray,
        device: CUdevice,
    ) -> Done {
        let mipmap = MIPMAPS.get(mipmap.0).ok_or(CUresult::INVALID_VALUE)?;
        requirements(to, mipmap.base, mipmap.bytes, device)
    }
}
