//! Arrays: device memory without an address, laid out in rows here.
//!
//! They are charged and copied like other memory. Textures and surfaces, which read them, are not
//! in this driver.

use crate::command::{Copy, Side, SideKind};
use crate::context;
use crate::entry::{Done, Sim};
use crate::freeing;
use crate::registry::Registry;
use crate::space::Kind;
use crate::{copy, linear, mipmap, raw, stream};
use shim_cuda_headers::*;
use simcuda_protocol::Charge;
use std::ffi::c_void;
use std::sync::Arc;

pub(crate) static ARRAYS: Registry<Array> = Registry::new(0x70);

/// Rows begin at multiples of this.
const ROW_BYTES: u64 = 512;
/// The largest side of an array.
const MOST: usize = 131_072;

/// `CUDA_ARRAY3D_SPARSE`, which this driver does not have.
const SPARSE: u32 = 0x40;
/// `CUDA_ARRAY3D_DEFERRED_MAPPING`: an array without memory.
const DEFERRED: u32 = 0x80;

/// How the texels of an array lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) row_bytes: u64,
    pub(crate) pitch: u64,
    pub(crate) bytes: u64,
}

impl Layout {
    pub(crate) fn of(descriptor: &CUDA_ARRAY3D_DESCRIPTOR_v2) -> Result<Self, CUresult> {
        let CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, depth, num_channels, .. } = *descriptor;
        if descriptor.flags & SPARSE != 0 {
            return Err(CUresult::NOT_SUPPORTED);
        }
        let too_large = [width, height, depth].iter().any(|side| *side > MOST);
        if width == 0 || too_large || ![1, 2, 4].contains(&num_channels) {
            return Err(CUresult::INVALID_VALUE);
        }
        let channel = channel_bytes(descriptor.format).ok_or(CUresult::INVALID_VALUE)?;
        let row_bytes = width as u64 * channel * u64::from(num_channels);
        let pitch = row_bytes.next_multiple_of(ROW_BYTES);
        let bytes = pitch
            .checked_mul(height.max(1) as u64)
            .and_then(|layer| layer.checked_mul(depth.max(1) as u64))
            .ok_or(CUresult::OUT_OF_MEMORY)?;
        Ok(Self { row_bytes, pitch, bytes })
    }
}

#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) context: usize,
    /// Where it lies; `None` if nothing is behind it.
    pub(crate) base: Option<u64>,
    pub(crate) layout: Layout,
    /// It is a level of a mipmapped array, and goes with that.
    pub(crate) is_level: bool,
    pub(crate) descriptor: CUDA_ARRAY3D_DESCRIPTOR_v2,
}

impl Array {
    /// The array as one end of a copy that begins at this byte of this row.
    pub(crate) fn side(
        &self,
        x_bytes: u64,
        row: u64,
        width: u64,
        height: u64,
    ) -> Result<Side, CUresult> {
        let rows = self.rows() * self.descriptor.depth.max(1) as u64;
        let fits = x_bytes.checked_add(width).is_some_and(|end| end <= self.layout.row_bytes)
            && row.checked_add(height).is_some_and(|end| end <= rows);
        let base = self.base.filter(|_| fits).ok_or(CUresult::INVALID_VALUE)?;
        let base = base + row * self.layout.pitch + x_bytes;
        Ok(Side { base, pitch: self.layout.pitch, layer: 0, kind: SideKind::Known })
    }

    pub(crate) fn element_bytes(&self) -> u64 {
        let channel = channel_bytes(self.descriptor.format).unwrap_or(0);
        channel * u64::from(self.descriptor.num_channels)
    }

    /// Rows of one slice.
    pub(crate) fn rows(&self) -> u64 {
        self.descriptor.height.max(1) as u64
    }
}

/// Bytes of one channel of the format.
pub(crate) fn channel_bytes(format: CUarray_format) -> Option<u64> {
    match format {
        0x01 | 0x08 => Some(1),
        0x02 | 0x09 | 0x10 => Some(2),
        0x03 | 0x0A | 0x20 => Some(4),
        _ => None,
    }
}

pub(crate) fn find(array: CUarray) -> Result<Arc<Array>, CUresult> {
    ARRAYS.get(array.0).ok_or(CUresult::INVALID_HANDLE)
}

fn create(to: *mut CUarray, descriptor: CUDA_ARRAY3D_DESCRIPTOR_v2) -> Done {
    let context = context::working()?;
    if to.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let layout = Layout::of(&descriptor)?;
    let base = allocate(&context, &descriptor, layout.bytes)?;
    let array = Array { context: context.handle, base, layout, is_level: false, descriptor };
    raw::put(to, CUarray(ARRAYS.add(array)))
}

/// Memory for what is described, unless it is to be without.
pub(crate) fn allocate(
    context: &context::Context,
    descriptor: &CUDA_ARRAY3D_DESCRIPTOR_v2,
    bytes: u64,
) -> Result<Option<u64>, CUresult> {
    if descriptor.flags & DEFERRED != 0 {
        return Ok(None);
    }
    linear::allocate(context, bytes, Kind::Array, Charge::Memory).map(Some)
}

/// Frees the memory of an array that is known no more, after all work that may use it.
pub(crate) fn release(context: usize, base: Option<u64>) {
    if let Some(context) = context::CONTEXTS.get(context) {
        context.engine.wait_idle();
    }
    if let Some(base) = base {
        freeing::free_array(base);
    }
}

/// The context ends, and its arrays with it; their memory goes with the context's.
pub(crate) fn forget_all(context: usize) {
    ARRAYS.remove_all(|array| array.context == context);
    mipmap::forget_all(context);
}

/// A copy between a stretch of an array's first row and flat memory.
fn flat(
    array: CUarray,
    offset: usize,
    other: (u64, copy::Must),
    bytes: usize,
    into: bool,
    at: Option<CUstream>,
) -> Done {
    let stream = match at {
        Some(stream) => stream::resolve(stream)?,
        None => stream::default()?,
    };
    stream.context.engine.check()?;
    let width = bytes as u64;
    if width == 0 {
        return Ok(());
    }
    let array = find(array)?.side(offset as u64, 0, width, 1)?;
    let other = copy::side(other.0, width, other.1, stream.is_capturing())?;
    let (to, from) = if into { (array, other) } else { (other, array) };
    copy::submit(&stream, Copy { to, from, width, height: 1, depth: 1 }, at.is_none())
}

fn at<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

impl Sim {
    pub(crate) fn cuArrayCreate(
        array: *mut CUarray,
        descriptor: *const CUDA_ARRAY_DESCRIPTOR_v1,
    ) -> Done {
        let CUDA_ARRAY_DESCRIPTOR_v1 { width, height, format, num_channels } =
            raw::get(descriptor)?;
        let (width, height) = (width as usize, height as usize);
        let depth = 0;
        create(
            array,
            CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, depth, format, num_channels, flags: 0 },
        )
    }

    pub(crate) fn cuArray3DCreate(
        array: *mut CUarray,
        descriptor: *const CUDA_ARRAY3D_DESCRIPTOR_v1,
    ) -> Done {
        let CUDA_ARRAY3D_DESCRIPTOR_v1 { width, height, depth, format, num_channels, flags } =
            raw::get(descriptor)?;
        let [width, height, depth] = [width, height, depth].map(|side| side as usize);
        create(
            array,
            CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, depth, format, num_channels, flags },
        )
    }

    pub(crate) fn cuArrayCreate_v2(
        array: *mut CUarray,
        descriptor: *const CUDA_ARRAY_DESCRIPTOR_v2,
    ) -> Done {
        let CUDA_ARRAY_DESCRIPTOR_v2 { width, height, format, num_channels } =
            raw::get(descriptor)?;
        create(
            array,
            CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, depth: 0, format, num_channels, flags: 0 },
        )
    }

    pub(crate) fn cuArray3DCreate_v2(
        array: *mut CUarray,
        descriptor: *const CUDA_ARRAY3D_DESCRIPTOR_v2,
    ) -> Done {
        create(array, raw::get(descriptor)?)
    }

    pub(crate) fn cuArrayDestroy(array: CUarray) -> Done {
        if find(array)?.is_level {
            return Err(CUresult::INVALID_HANDLE);
        }
        let gone = ARRAYS.remove(array.0).ok_or(CUresult::INVALID_HANDLE)?;
        release(gone.context, gone.base);
        Ok(())
    }

    pub(crate) fn cuArrayGetDescriptor_v2(
        descriptor: *mut CUDA_ARRAY_DESCRIPTOR_v2,
        array: CUarray,
    ) -> Done {
        let CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, format, num_channels, .. } =
            find(array)?.descriptor;
        raw::put(descriptor, CUDA_ARRAY_DESCRIPTOR_v2 { width, height, format, num_channels })
    }

    pub(crate) fn cuArray3DGetDescriptor_v2(
        descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR_v2,
        array: CUarray,
    ) -> Done {
        raw::put(descriptor, find(array)?.descriptor)
    }

    pub(crate) fn cuMemcpyHtoA_v2(
        array: CUarray,
        offset: usize,
        from: *const c_void,
        bytes: usize,
    ) -> Done {
        flat(array, offset, (at(from), copy::Must::Host), bytes, true, None)
    }

    pub(crate) fn cuMemcpyHtoAAsync_v2(
        array: CUarray,
        offset: usize,
        from: *const c_void,
        bytes: usize,
        stream: CUstream,
    ) -> Done {
        flat(array, offset, (at(from), copy::Must::Host), bytes, true, Some(stream))
    }

    pub(crate) fn cuMemcpyAtoH_v2(
        to: *mut c_void,
        array: CUarray,
        offset: usize,
        bytes: usize,
    ) -> Done {
        flat(array, offset, (at(to), copy::Must::Host), bytes, false, None)
    }

    pub(crate) fn cuMemcpyAtoHAsync_v2(
        to: *mut c_void,
        array: CUarray,
        offset: usize,
        bytes: usize,
        stream: CUstream,
    ) -> Done {
        flat(array, offset, (at(to), copy::Must::Host), bytes, false, Some(stream))
    }

    pub(crate) fn cuMemcpyDtoA_v2(
        array: CUarray,
        offset: usize,
        from: CUdeviceptr,
        bytes: usize,
    ) -> Done {
        flat(array, offset, (from, copy::Must::Device), bytes, true, None)
    }

    pub(crate) fn cuMemcpyAtoD_v2(
        to: CUdeviceptr,
        array: CUarray,
        offset: usize,
        bytes: usize,
    ) -> Done {
        flat(array, offset, (to, copy::Must::Device), bytes, false, None)
    }
}
