//! The forms of before CUDA 3.2 that have no 32-bit address in them: sizes are 32 bits wide, all
//! else is as in the later forms. Those with such an address cannot mean any memory here and are
//! not supported.

use crate::entry::{Done, Sim};
use crate::{array, raw};
use shim_cuda_headers::*;
use std::ffi::{c_uint, c_void};

/// A size as far as 32 bits can say it.
fn narrow(size: usize) -> c_uint {
    c_uint::try_from(size).unwrap_or(c_uint::MAX)
}

impl Sim {
    pub(crate) fn cuMemGetInfo(free: *mut c_uint, total: *mut c_uint) -> Done {
        let (mut free_bytes, mut total_bytes) = (0, 0);
        Self::cuMemGetInfo_v2(&raw mut free_bytes, &raw mut total_bytes)?;
        raw::put(free, narrow(free_bytes))?;
        raw::put(total, narrow(total_bytes))
    }

    pub(crate) fn cuDeviceTotalMem(bytes: *mut c_uint, device: CUdevice) -> Done {
        let mut total = 0;
        Self::cuDeviceTotalMem_v2(&raw mut total, device)?;
        raw::put(bytes, narrow(total))
    }

    pub(crate) fn cuMemAllocHost(pointer: *mut *mut c_void, bytes: c_uint) -> Done {
        Self::cuMemAllocHost_v2(pointer, bytes as usize)
    }

    pub(crate) fn cuArrayGetDescriptor(
        descriptor: *mut CUDA_ARRAY_DESCRIPTOR_v1,
        array: CUarray,
    ) -> Done {
        let CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, format, num_channels, .. } =
            array::find(array)?.descriptor;
        let (width, height) = (narrow(width), narrow(height));
        raw::put(descriptor, CUDA_ARRAY_DESCRIPTOR_v1 { width, height, format, num_channels })
    }

    pub(crate) fn cuArray3DGetDescriptor(
        descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR_v1,
        array: CUarray,
    ) -> Done {
        let CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, depth, format, num_channels, flags } =
            array::find(array)?.descriptor;
        let [width, height, depth] = [width, height, depth].map(narrow);
        let answer =
            CUDA_ARRAY3D_DESCRIPTOR_v1 { width, height, depth, format, num_channels, flags };
        raw::put(descriptor, answer)
    }

    pub(crate) fn cuMemcpyAtoA(
        to: CUarray,
        to_offset: c_uint,
        from: CUarray,
        from_offset: c_uint,
        bytes: c_uint,
    ) -> Done {
        Self::cuMemcpyAtoA_v2(to, to_offset as usize, from, from_offset as usize, bytes as usize)
    }

    pub(crate) fn cuMemcpyAtoH(
        to: *mut c_void,
        array: CUarray,
        offset: c_uint,
        bytes: c_uint,
    ) -> Done {
        Self::cuMemcpyAtoH_v2(to, array, offset as usize, bytes as usize)
    }

    pub(crate) fn cuMemcpyAtoHAsync(
        to: *mut c_void,
        array: CUarray,
        offset: c_uint,
        bytes: c_uint,
        stream: CUstream,
    ) -> Done {
        Self::cuMemcpyAtoHAsync_v2(to, array, offset as usize, bytes as usize, stream)
    }

    pub(crate) fn cuMemcpyHtoA(
        array: CUarray,
        offset: c_uint,
        from: *const c_void,
        bytes: c_uint,
    ) -> Done {
        Self::cuMemcpyHtoA_v2(array, offset as usize, from, bytes as usize)
    }

    pub(crate) fn cuMemcpyHtoAAsync(
        array: CUarray,
        offset: c_uint,
        from: *const c_void,
        bytes: c_uint,
        stream: CUstream,
    ) -> Done {
        Self::cuMemcpyHtoAAsync_v2(array, offset as usize, from, bytes as usize, stream)
    }
}
